//! Arrays of texels, and the surfaces through which kernels write them (PTX ISA, section 9.7.11).

use super::cuda::CudaArray;
use super::extent::Extent;
use super::object::Object;
#[cfg(feature = "cpu")]
use super::on_cpu;
use super::{Source, Texel, TexelFormat, TextureBuilder};
use crate::buffer::Bound;
use crate::buffer::{Buffer, ViewMut};
use crate::device::Device;
use crate::error::{Error, ErrorKind, Result};
use crate::param::zeros;
use crate::stream::{AsStream, StreamKind, StreamRef};
use std::marker::PhantomData;
use std::sync::Arc;

/// An array of texels of one, two or three dimensions, of layers or of cubes, in the driver's own layout: what kernels read as a
/// [`Texture`](crate::Texture) and write as a [`Surface`].
///
/// ```
/// # use ptx_launch::prelude::*;
/// # use ptx_launch::{Extent, Surface, TexelArray, Texture};
/// /// The same image, upside down.
/// #[ptx_kernel(arch = "sm_80", block = (8, 4), grid = 1, unsafe(requires(rows == 4)))]
/// fn flip(from: Texture, to: Surface, rows: u32) {
///     let (x, y): (f32, f32) = (tid.x as f32, (rows - 1 - tid.y) as f32);
///     let color: [f32; 4];
///     ptx! { tex.2d.v4.f32.f32 {color[..]}, [from, {x, y}]; }
///     let at: u32 = tid.x * 4;
///     ptx! { sust.b.2d.b32.trap [to, {at, tid.y}], color[0]; }
/// }
///
/// # fn main() -> ptx_launch::Result<()> {
/// let device = Device::cpu();
/// let extent = Extent::of(&[4, 8]);
/// let image = TexelArray::upload(&device, &extent, &(0..32).map(|i| i as f32).collect::<Vec<_>>())?;
/// let mut flipped = TexelArray::<f32>::zeros(&device, &extent)?;
/// flip(&device, &image.texture().build()?, &mut flipped.surface()?, 4)?;
/// assert_eq!(flipped.download()?[..2], [24.0, 25.0]);
/// # Ok(())
/// # }
/// ```
pub struct TexelArray<T> {
    extent: Extent,
    /// The texels of the CPU device; on a CUDA device a byte that stands for them wherever streams are put in order.
    memory: Buffer<u8>,
    /// The driver's, if it has one.
    array: Option<Arc<CudaArray>>,
    texel: PhantomData<T>,
}

impl<T: Texel> TexelArray<T> {
    /// An array whose bytes are all zero.
    ///
    /// # Errors
    /// [`ErrorKind::BadOption`] for an extent that no array has, [`ErrorKind::OutOfMemory`], or an error of the driver.
    pub fn zeros(device: &Device, extent: &Extent) -> Result<TexelArray<T>> {
        extent.check()?;
        let bytes = extent.texels().checked_mul(size_of::<T>()).filter(|bytes| isize::try_from(*bytes).is_ok());
        let too_large = || Error::new(ErrorKind::OutOfMemory, format!("{extent:?} of {} bytes each", size_of::<T>()));
        let bytes = bytes.ok_or_else(too_large)?;
        let memory = device.zeros::<u8>(if device.as_stream().is_cpu() { bytes } else { 1 })?;
        let array = match device.as_stream().kind {
            StreamKind::Cuda(stream) => Some(Arc::new(CudaArray::new(stream, extent, (T::FORMAT, T::CHANNELS))?)),
            StreamKind::Cpu(_) => None,
        };
        let on_cuda = array.is_some();
        let mut made = TexelArray { extent: extent.clone(), memory, array, texel: PhantomData };
        if on_cuda {
            made.write_bytes(&zeros(bytes).ok_or_else(too_large)?)?;
        }
        Ok(made)
    }

    /// An array with these texels: x fastest, then y, then z or the layer.
    ///
    /// # Errors
    /// As [`TexelArray::zeros`] and [`TexelArray::write`].
    pub fn upload(device: &Device, extent: &Extent, texels: &[T]) -> Result<TexelArray<T>> {
        let mut array = TexelArray::zeros(device, extent)?;
        array.write(texels)?;
        Ok(array)
    }

    /// Overwrites all texels; waits until it is done.
    ///
    /// # Errors
    /// [`ErrorKind::Condition`] if there are not so many, or an error of the driver.
    pub fn write(&mut self, texels: &[T]) -> Result<()> {
        if texels.len() != self.extent.texels() {
            let asked = format!("{} texels are written to an array of {}", texels.len(), self.extent.texels());
            return Err(Error::new(ErrorKind::Condition, asked).possible("as many as it has"));
        }
        self.write_bytes(crate::param::bytes(texels))
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(array) = &self.array else { return self.memory.write(bytes) };
        array.write(&mut self.memory.view_mut(), bytes)
    }

    /// All texels, when the work that writes them has ended.
    ///
    /// # Errors
    /// The error of a kernel that failed while it ran ([`ErrorKind::Fault`]), or of the driver.
    pub fn download(&self) -> Result<Vec<T>> {
        let mut texels = vec![crate::param::zero(); self.extent.texels()];
        let bytes = crate::param::bytes_mut(&mut texels);
        match &self.array {
            Some(array) => array.read(self.memory.view(), bytes)?,
            None => bytes.copy_from_slice(&self.memory.download()?),
        }
        Ok(texels)
    }

    /// Starts a texture of it. Surfaces and textures of one array cannot be used by one launch, since a kernel's fetches need
    /// not see what it wrote.
    pub fn texture(&self) -> TextureBuilder<'_> {
        let source = Source::Array { extent: self.extent.clone(), array: self.array.clone() };
        TextureBuilder::new(self.memory.view(), (T::FORMAT, T::CHANNELS), source)
    }

    /// A surface, through which kernels read and write it.
    ///
    /// # Errors
    /// An error of the driver.
    pub fn surface(&mut self) -> Result<Surface<'_>> {
        let object = match (self.memory.home().kind, &self.array) {
            (StreamKind::Cuda(stream), Some(array)) => Object::surface(stream.context(), array)?,
            #[cfg(feature = "cpu")]
            (StreamKind::Cpu(device), _) => {
                let format = (T::FORMAT.channel(false), T::CHANNELS);
                Object::of_cpu(device, on_cpu::array(&self.extent, self.memory.address(), format))?
            }
            _ => return Err(Error::new(ErrorKind::Unsupported, "a surface without an array")),
        };
        Ok(Surface { object, memory: self.memory.view_mut() })
    }

    /// Its shape.
    pub fn extent(&self) -> &Extent {
        &self.extent
    }

    /// Type of a texel's channel.
    pub fn format(&self) -> TexelFormat {
        T::FORMAT
    }
}

impl<T> std::fmt::Debug for TexelArray<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TexelArray<{}>({:?})", std::any::type_name::<T>(), self.extent)
    }
}

/// A surface object: what a kernel takes as a `Surface`, and reads and writes through `suld`, `sust` and `sured`.
///
/// It borrows the array alone, so that nobody reads what a kernel may be writing. Dropping it waits for the work of its device.
pub struct Surface<'a> {
    object: Object,
    memory: ViewMut<'a, u8>,
}

impl Surface<'_> {
    /// The handle, for kernels that take it as a `.u64`. Nothing orders such a launch after the work of other streams.
    pub fn handle(&self) -> u64 {
        self.object.handle()
    }

    /// The surface, made ready to be written by work on `stream`.
    ///
    /// # Errors
    /// [`ErrorKind::WrongDevice`] when surface and stream belong to different devices.
    pub fn bind<'s>(&'s mut self, stream: StreamRef<'s>) -> Result<Bound<'s>> {
        let bound = self.memory.bind_write(stream)?;
        self.object.note(stream)?;
        Ok(bound.called(self.object.handle()))
    }
}

impl std::fmt::Debug for Surface<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Surface({:#x})", self.object.handle())
    }
}
