//! Texture objects of the driver.
#![allow(unsafe_code, reason = "calls of the driver")]

use super::TextureBuilder;
use crate::driver::Driver;
use crate::driver::cudarc_error;
use crate::error::Result;
use cudarc::driver::CudaContext;
use std::ffi::c_void;

/// `CU_TRSF_READ_AS_INTEGER` and `CU_TRSF_NORMALIZED_COORDINATES`.
const READ_AS_INTEGER: u32 = 1;
const NORMALIZED_COORDINATES: u32 = 2;

/// `CUDA_RESOURCE_DESC` of linear memory and of rows: `resType`, then a union of 128 bytes, then flags.
#[repr(C)]
struct Resource {
    kind: u32,
    address: u64,
    format: u32,
    channels: u32,
    /// Bytes of linear memory; else width, height, and bytes from row to row.
    sizes: [usize; 3],
    reserved: [u64; 11],
    flags: u32,
}

const _: () = assert!(size_of::<Resource>() == 144);

/// `CU_RESOURCE_TYPE_LINEAR` and `CU_RESOURCE_TYPE_PITCH2D`.
const LINEAR: u32 = 2;
const PITCHED: u32 = 3;

/// `CUDA_TEXTURE_DESC`.
#[repr(C)]
#[derive(Default)]
struct Sampling {
    address: [u32; 3],
    filter: u32,
    flags: u32,
    max_anisotropy: u32,
    mipmap_filter: u32,
    mipmap: [f32; 3],
    border: [f32; 4],
    reserved: [i32; 12],
}

const _: () = assert!(size_of::<Sampling>() == 104);

impl TextureBuilder<'_> {
    /// The handle of a new object.
    pub(super) fn encode(&self, context: &CudaContext, address: u64) -> Result<u64> {
        let ([width, height], texel) = (self.size(), self.texel());
        let resource = Resource {
            kind: if self.is_linear() { LINEAR } else { PITCHED },
            address,
            format: self.format as u32,
            channels: self.channels,
            sizes: if self.is_linear() { [width * texel, 0, 0] } else { [width, height, self.pitch * texel] },
            reserved: [0; 11],
            flags: 0,
        };
        let flags =
            if self.floats { 0 } else { READ_AS_INTEGER } | if self.normalized { NORMALIZED_COORDINATES } else { 0 };
        let sampling =
            Sampling { address: [self.address as u32; 3], filter: self.filter as u32, flags, ..Sampling::default() };
        let driver = Driver::get()?;
        let create = driver.cuTexObjectCreate()?;
        context.bind_to_thread().map_err(|e| cudarc_error("an earlier call left an error", e))?;
        let mut handle = 0;
        // SAFETY: both descriptions are laid out as the driver's, and live through the call.
        let code = unsafe {
            create(
                &raw mut handle,
                (&raw const resource).cast(),
                (&raw const sampling).cast(),
                std::ptr::null::<c_void>(),
            )
        };
        driver.check(code, &format!("a texture of {:?} texels {:?} at {address:#x}", self.shape, self.format))?;
        Ok(handle)
    }
}

/// Gives an object back, when nothing can use it any more.
pub(super) fn destroy(context: &CudaContext, handle: u64) {
    let Ok(destroy) = Driver::get().and_then(Driver::cuTexObjectDestroy) else { return };
    if context.bind_to_thread().is_ok() && context.synchronize().is_ok() {
        // SAFETY: the object is ours, and all work of the context has ended.
        let _ = unsafe { destroy(handle) };
    }
}
