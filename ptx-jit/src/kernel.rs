//! A kernel on a device.

use crate::maps::Maps;
use ptx_expand::program::Kernel;
use ptx_runtime::RuntimeKernel;
use std::sync::Arc;

/// A kernel of a [`JitModule`](crate::JitModule), or an instance of one.
#[derive(Clone, Debug)]
pub struct JitKernel {
    pub(crate) described: Arc<Kernel>,
    pub(crate) runtime: RuntimeKernel,
    /// The tensor maps of its latest launches.
    pub(crate) maps: Arc<Maps>,
    /// Its source is trusted.
    pub(crate) is_trusted: bool,
}

impl JitKernel {
    /// Its parameters, dimensions and the host's half of its attribute.
    pub fn description(&self) -> &Kernel {
        &self.described
    }

    /// The loaded kernel: its figures, its occupancy.
    pub fn runtime(&self) -> RuntimeKernel {
        self.runtime
    }
}
