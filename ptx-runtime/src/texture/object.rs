//! Handles of textures and surfaces, and who takes them back.

use super::cuda::{self, CudaArray};
#[cfg(feature = "cpu")]
use crate::device::cpu::{CpuDevice, fault_error};
use crate::error::Result;
use crate::graph;
use crate::stream::{StreamKind, StreamRef};
use cudarc::driver::CudaContext;
#[cfg(feature = "cpu")]
use ptx_interp::texture as cpu;
use std::any::Any;
use std::sync::Arc;

/// A texture or surface object, which graphs may hold, too.
pub(super) struct Object {
    handle: u64,
    held: Arc<dyn Any + Send + Sync>,
}

/// Returns the handle when nobody has it any more. Dropping this waits for the work of its device, which may still use it.
struct Held {
    handle: u64,
    owner: Owner,
    /// The array that it reads or writes, returned after it.
    _array: Option<Arc<CudaArray>>,
}

/// Who gave the handle.
enum Owner {
    Cuda(Arc<CudaContext>, cuda::Kind),
    #[cfg(feature = "cpu")]
    Cpu(CpuDevice),
}

impl Object {
    fn new(handle: u64, owner: Owner, array: Option<Arc<CudaArray>>) -> Object {
        Object { handle, held: Arc::new(Held { handle, owner, _array: array }) }
    }

    /// An object of the driver, of an array or of memory that a [`View`](crate::View) holds.
    pub(super) fn of_cuda(
        context: &Arc<CudaContext>,
        kind: cuda::Kind,
        handle: u64,
        array: Option<Arc<CudaArray>>,
    ) -> Object {
        Object::new(handle, Owner::Cuda(context.clone(), kind), array)
    }

    #[cfg(feature = "cpu")]
    pub(super) fn of_cpu(device: &CpuDevice, texture: cpu::Texture) -> Result<Object> {
        let handle = device.machine().texture(texture).map_err(|fault| fault_error(&fault))?;
        Ok(Object::new(handle, Owner::Cpu(device.clone()), None))
    }

    pub(super) fn handle(&self) -> u64 {
        self.handle
    }

    /// Work on `stream` gets the handle: a graph that is being recorded keeps the object.
    ///
    /// # Errors
    /// Those of the driver.
    pub(super) fn note(&self, stream: StreamRef<'_>) -> Result<()> {
        let StreamKind::Cuda(on) = stream.kind else { return Ok(()) };
        stream.capture(on)?.map_or(Ok(()), |capture| graph::keep(on, &capture, &self.held))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        match &self.owner {
            Owner::Cuda(context, kind) => cuda::destroy(context, *kind, self.handle),
            #[cfg(feature = "cpu")]
            Owner::Cpu(device) => device.machine().forget_texture(self.handle),
        }
    }
}
