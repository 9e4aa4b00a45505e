//! Arrays, texture and surface objects of the driver. Their descriptions are structs of ours: cudarc's are unions that bindgen
//! numbered, without defaults, and their enumerations cannot be made from numbers.
#![allow(unsafe_code, reason = "calls of the driver")]

use super::extent::Extent;
use super::object::Object;
use super::texel::TexelFormat;
use super::{Source, TextureBuilder, rows};
use crate::buffer::{View, ViewMut};
use crate::context::{self, bound, note, within};
use crate::driver::{Code, Driver, cudarc_error};
use crate::error::Result;
use crate::stream::{StreamRef, after_captures};
use cudarc::driver::{CudaContext, CudaStream, result};
use std::ffi::c_void;
use std::sync::Arc;

/// `CU_TRSF_READ_AS_INTEGER` and `CU_TRSF_NORMALIZED_COORDINATES`.
const READ_AS_INTEGER: u32 = 1;
const NORMALIZED_COORDINATES: u32 = 2;

/// `CUDA_RESOURCE_DESC` of arrays, of linear memory and of rows: `resType`, then a union of 128 bytes, then flags.
#[repr(C)]
#[derive(Default)]
struct Resource {
    kind: u32,
    /// Of the memory, or the array's handle, behind which nothing is read.
    address: u64,
    format: u32,
    channels: u32,
    /// Bytes of linear memory; else width, height, and bytes from row to row.
    sizes: [usize; 3],
    reserved: [u64; 11],
    flags: u32,
}

const _: () = assert!(size_of::<Resource>() == 144);

/// `CU_RESOURCE_TYPE_ARRAY`, `CU_RESOURCE_TYPE_LINEAR` and `CU_RESOURCE_TYPE_PITCH2D`.
const ARRAY: u32 = 0;
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
        let resource = self.resource(address);
        let flags =
            if self.floats { 0 } else { READ_AS_INTEGER } | if self.normalized { NORMALIZED_COORDINATES } else { 0 };
        let sampling = Sampling {
            address: self.address.map(|mode| mode as u32),
            filter: self.filter as u32,
            flags,
            ..Sampling::default()
        };
        let driver = Driver::get()?;
        let create = driver.cuTexObjectCreate()?;
        bound(context)?;
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
        driver.check(code, &format!("a texture of {} of {:?}", self.source, self.format))?;
        Ok(handle)
    }

    fn resource(&self, address: u64) -> Resource {
        let texel = self.texel();
        let (format, channels) = (self.format as u32, self.channels);
        match &self.source {
            Source::Array { array, .. } => {
                let address = array.as_ref().map_or(0, |array| array.handle());
                Resource { kind: ARRAY, address, ..Resource::default() }
            }
            Source::Rows { shape, pitch } => {
                let [width, height] = rows(shape);
                let (kind, sizes) = match shape.len() {
                    1 => (LINEAR, [width * texel, 0, 0]),
                    _ => (PITCHED, [width, height, pitch * texel]),
                };
                Resource { kind, address, format, channels, sizes, ..Resource::default() }
            }
        }
    }
}

/// Kind of an object, for its destruction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Texture,
    Surface,
}

/// Destroys something that work of the context may use, when no capture forbids the wait for that work.
fn after_all_work(context: &Arc<CudaContext>, destroy: impl FnOnce() -> Code + Send + 'static) {
    let context = context.clone();
    after_captures(move || {
        let ended = within(&context, || {
            result::ctx::synchronize()?;
            Ok(destroy())
        });
        note(&context, ended);
    });
}

/// Gives an object back, when nothing can use it any more.
pub(super) fn destroy(context: &Arc<CudaContext>, kind: Kind, handle: u64) {
    let Ok(driver) = Driver::get() else { return };
    let destroy = match kind {
        Kind::Texture => driver.cuTexObjectDestroy(),
        Kind::Surface => driver.cuSurfObjectDestroy(),
    };
    let Ok(destroy) = destroy else { return };
    // SAFETY: the object is ours, and all work of the context has ended.
    after_all_work(context, move || unsafe { destroy(handle) });
}

impl Object {
    /// A surface of an array.
    pub(super) fn surface(context: &Arc<CudaContext>, array: &Arc<CudaArray>) -> Result<Object> {
        let resource = Resource { kind: ARRAY, address: array.handle(), ..Resource::default() };
        let driver = Driver::get()?;
        let create = driver.cuSurfObjectCreate()?;
        bound(context)?;
        let mut handle = 0;
        // SAFETY: the description is laid out as the driver's, and lives through the call.
        driver.check(unsafe { create(&raw mut handle, (&raw const resource).cast()) }, "a surface of an array")?;
        Ok(Object::of_cuda(context, Kind::Surface, handle, Some(array.clone())))
    }
}

/// `CUDA_ARRAY3D_LAYERED`, `CUDA_ARRAY3D_SURFACE_LDST` and `CUDA_ARRAY3D_CUBEMAP`.
const LAYERED: u32 = 1;
const SURFACE: u32 = 2;
const CUBEMAP: u32 = 4;

/// `CUDA_ARRAY3D_DESCRIPTOR`.
#[repr(C)]
struct Description {
    /// Width, height and depth; zero for what it does not have. Layers are a depth.
    sizes: [usize; 3],
    format: u32,
    channels: u32,
    flags: u32,
}

const _: () = assert!(size_of::<Description>() == 40);

/// One side of a `CUDA_MEMCPY3D`: where the first byte is, and what it is in.
#[repr(C)]
#[derive(Default)]
struct Side {
    x_y_z: [usize; 3],
    level: usize,
    kind: u32,
    host: usize,
    device: u64,
    array: u64,
    reserved: u64,
    pitch: usize,
    height: usize,
}

/// `CUDA_MEMCPY3D`.
#[repr(C)]
struct Copy3d {
    from: Side,
    to: Side,
    /// Bytes of a row, rows, and slices.
    sizes: [usize; 3],
}

const _: () = assert!(size_of::<Copy3d>() == 200);

/// `CU_MEMORYTYPE_HOST` and `CU_MEMORYTYPE_ARRAY`.
const HOST: u32 = 1;
const IN_ARRAY: u32 = 3;

/// An array of the driver. Dropping it waits for the work of its device.
pub(super) struct CudaArray {
    handle: u64,
    /// On which it is filled and read.
    stream: Arc<CudaStream>,
    /// Bytes of a row, rows, and slices or layers.
    sizes: [usize; 3],
}

impl CudaArray {
    /// An array without defined contents, which can be a surface.
    pub(super) fn new(
        stream: &Arc<CudaStream>,
        extent: &Extent,
        (format, channels): (TexelFormat, u32),
    ) -> Result<CudaArray> {
        let [width, height, depth] = extent.size();
        let layers = extent.layer_count();
        let there = |size: usize, least: usize| if extent.dims() < least { 0 } else { size };
        let flag = |condition: bool, flag: u32| if condition { flag } else { 0 };
        let description = Description {
            sizes: [width, there(height, 2), layers.unwrap_or(there(depth, 3))],
            format: format as u32,
            channels,
            flags: SURFACE | flag(extent.is_layered(), LAYERED) | flag(extent.is_cube(), CUBEMAP),
        };
        let driver = Driver::get()?;
        let create = driver.cuArray3DCreate_v2()?;
        bound(stream.context())?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the description is laid out as the driver's, and lives through the call.
        let code = unsafe { create(&raw mut handle, (&raw const description).cast()) };
        driver.check(code, &format!("an array, {extent:?} of {channels} {format:?}"))?;
        let sizes = [width * format.bytes() * channels as usize, height, depth * layers.unwrap_or(1)];
        Ok(CudaArray { handle: handle as u64, stream: stream.clone(), sizes })
    }

    pub(super) fn handle(&self) -> u64 {
        self.handle
    }

    /// Overwrites it from the host, when those who use it are done. `order` stands for it wherever streams are put in order.
    pub(super) fn write(&self, order: &mut ViewMut<'_, u8>, from: &[u8]) -> Result<()> {
        let bound = order.bind_write(StreamRef::cuda(&self.stream))?;
        let copied = self.copy(self.on_host(from.as_ptr() as usize, from.len()), self.side());
        drop(bound);
        copied
    }

    /// Copies it to the host, when those who write it are done.
    pub(super) fn read(&self, order: View<'_, u8>, into: &mut [u8]) -> Result<()> {
        let bound = order.bind_read(StreamRef::cuda(&self.stream))?;
        let copied = self.copy(self.side(), self.on_host(into.as_mut_ptr() as usize, into.len()));
        drop(bound);
        copied
    }

    fn side(&self) -> Side {
        Side { kind: IN_ARRAY, array: self.handle, ..Side::default() }
    }

    /// The same bytes on the host, `len` of them.
    fn on_host(&self, host: usize, len: usize) -> Side {
        debug_assert_eq!(len, self.sizes.iter().product::<usize>(), "all bytes of the array");
        Side { kind: HOST, host, pitch: self.sizes[0], height: self.sizes[1], ..Side::default() }
    }

    /// Copies all of it on its stream, and waits.
    fn copy(&self, from: Side, to: Side) -> Result<()> {
        let (copy, driver) = (Copy3d { from, to, sizes: self.sizes }, Driver::get()?);
        let submit = driver.cuMemcpy3DAsync_v2()?;
        let failed = |e| cudarc_error("a copy of an array failed", e);
        bound(self.stream.context())?;
        // SAFETY: the description is laid out as the driver's; as many bytes as it has are borrowed from the host until the
        // stream was waited for.
        driver.check(unsafe { submit((&raw const copy).cast(), self.stream.cu_stream()) }, "a copy of an array")?;
        context::synchronize(&self.stream).map_err(failed)
    }
}

impl Drop for CudaArray {
    fn drop(&mut self) {
        let Ok(destroy) = Driver::get().and_then(Driver::cuArrayDestroy) else { return };
        let handle = self.handle;
        // SAFETY: the array is ours, and all work of the context has ended.
        after_all_work(self.stream.context(), move || unsafe { destroy(handle as *mut c_void) });
    }
}
