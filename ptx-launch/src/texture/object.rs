//! Handles of textures and surfaces, and who takes them back.

use super::cuda;
#[cfg(feature = "cpu")]
use crate::device::cpu::{CpuDevice, fault_error};
#[cfg(feature = "cpu")]
use crate::error::Result;
use cudarc::driver::CudaContext;
#[cfg(feature = "cpu")]
use ptx_interp::texture as cpu;
use std::sync::Arc;

/// A texture or surface object. Dropping it waits for the work of its device, which may still use it.
pub(super) struct Object {
    handle: u64,
    owner: Owner,
}

/// Who gave the handle.
enum Owner {
    Cuda(Arc<CudaContext>, cuda::Kind),
    #[cfg(feature = "cpu")]
    Cpu(CpuDevice),
}

impl Object {
    pub(super) fn of_cuda(context: &Arc<CudaContext>, kind: cuda::Kind, handle: u64) -> Object {
        Object { handle, owner: Owner::Cuda(context.clone(), kind) }
    }

    #[cfg(feature = "cpu")]
    pub(super) fn of_cpu(device: &CpuDevice, texture: cpu::Texture) -> Result<Object> {
        let handle = device.machine().texture(texture).map_err(|fault| fault_error(&fault))?;
        Ok(Object { handle, owner: Owner::Cpu(device.clone()) })
    }

    pub(super) fn handle(&self) -> u64 {
        self.handle
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        match &self.owner {
            Owner::Cuda(context, kind) => cuda::destroy(context, *kind, self.handle),
            #[cfg(feature = "cpu")]
            Owner::Cpu(device) => device.machine().forget_texture(self.handle),
        }
    }
}
