//! Textures: memory that kernels read through `tex` (PTX ISA, section 9.7.10), by coordinates that may be filtered, and with a rule
//! for what lies outside.
//!
//! Texels lie in a buffer, in one row or in several, or in an array of the driver's own (`array`), which has three dimensions, layers
//! or cubes, and can be a surface.

mod array;
mod cuda;
mod extent;
mod object;
#[cfg(feature = "cpu")]
mod on_cpu;
mod texel;

pub use array::{Surface, TexelArray};
pub use extent::Extent;
pub use texel::{Texel, TexelFormat};

use crate::buffer::Bound;
use crate::buffer::View;
use crate::error::{Error, ErrorKind, Result};
use crate::stream::{StreamKind, StreamRef};
use cuda::CudaArray;
use object::Object;
use std::sync::Arc;

/// A texture object: what a kernel takes as a `Texture`, and reads through `tex`.
///
/// It borrows the memory that it reads. Dropping it waits for the work of its device, which may still use it.
///
/// ```
/// # use ptx_launch::prelude::*;
/// # use ptx_launch::{FilterMode, Texture};
/// /// Between texels.
/// #[ptx_kernel(arch = "sm_80", block = 32, grid = 1, unsafe(requires(out.len() >= 32)))]
/// fn sample(image: Texture, out: &mut [f32]) {
///     let x: f32 = tid.x as f32 * 0.5 + 0.5;
///     let color: [f32; 4];
///     ptx! { tex.2d.v4.f32.f32 {color[..]}, [image, {x, 0.5}]; }
///     let to: u64 = out + wide(tid.x) * 4;
///     ptx! { st.global.f32 [to], color[0]; }
/// }
///
/// # fn main() -> ptx_launch::Result<()> {
/// let device = Device::cpu();
/// let texels = device.upload(&(0..16).map(|x| x as f32).collect::<Vec<_>>())?;
/// let image = Texture::of(texels.view(), &[1, 16]).filter_mode(FilterMode::Linear).build()?;
/// let mut out = device.zeros::<f32>(32)?;
/// sample(&device, &image, &mut out)?;
/// assert_eq!(out.download()?[..4], [0.0, 0.5, 1.0, 1.5]);
/// # Ok(())
/// # }
/// ```
pub struct Texture<'a> {
    object: Object,
    memory: View<'a, u8>,
}

/// Meaning of a coordinate outside of the texture, in the order of `CUaddress_mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressMode {
    /// The texture repeats; with coordinates in texels, as [`AddressMode::Clamp`].
    Wrap,
    /// The nearest texel.
    #[default]
    Clamp,
    /// The texture repeats, every other time mirrored; with coordinates in texels, as [`AddressMode::Clamp`].
    Mirror,
    /// Zero.
    Border,
}

/// Which texels count, in the order of `CUfilter_mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FilterMode {
    /// The one that the coordinates are in.
    #[default]
    Point,
    /// Those around, by their distance. For texels that are read as floats.
    Linear,
}

/// A texture in the making.
#[derive(Clone)]
#[must_use]
pub struct TextureBuilder<'a> {
    memory: View<'a, u8>,
    format: TexelFormat,
    channels: u32,
    source: Source,
    /// For x, y and z.
    address: [AddressMode; 3],
    filter: FilterMode,
    normalized: bool,
    floats: bool,
}

/// Storage of texels.
#[derive(Clone)]
enum Source {
    /// In a buffer, so many from row to row.
    Rows { shape: Vec<usize>, pitch: usize },
    /// In an array, with the driver's.
    Array { extent: Extent, array: Option<Arc<CudaArray>> },
}

impl Source {
    fn array(&self) -> Option<Arc<CudaArray>> {
        match self {
            Source::Rows { .. } => None,
            Source::Array { array, .. } => array.clone(),
        }
    }
}

impl<'a> Texture<'a> {
    /// Starts a texture of `memory`: `[width]` texels, which `tex.1d` reads by whole coordinates, or rows of them, `[height, width]`.
    pub fn of<T: Texel>(memory: View<'a, T>, shape: &[usize]) -> TextureBuilder<'a> {
        let source = Source::Rows { shape: shape.to_vec(), pitch: shape.last().copied().unwrap_or(0) };
        TextureBuilder::new(memory.bytes(), (T::FORMAT, T::CHANNELS), source)
    }

    /// The handle, for kernels that take it as a `.u64`. Nothing orders such a launch after the work of other streams.
    pub fn handle(&self) -> u64 {
        self.object.handle()
    }

    /// The texture, made ready to be read by work on `stream`.
    ///
    /// # Errors
    /// [`ErrorKind::WrongDevice`] when texture and stream belong to different devices.
    pub fn bind<'s>(&'s self, stream: StreamRef<'s>) -> Result<Bound<'s>> {
        let bound = self.memory.bind_read(stream)?;
        self.object.note(stream)?;
        Ok(bound.called(self.object.handle()))
    }
}

impl std::fmt::Debug for Texture<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Texture({:#x})", self.object.handle())
    }
}

impl std::fmt::Debug for TextureBuilder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TextureBuilder({} of {} {:?})", self.source, self.channels, self.format)
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::Rows { shape, .. } => write!(f, "{shape:?} texels"),
            Source::Array { extent, .. } => write!(f, "{extent:?}"),
        }
    }
}

impl<'a> TextureBuilder<'a> {
    fn new(memory: View<'a, u8>, (format, channels): (TexelFormat, u32), source: Source) -> TextureBuilder<'a> {
        let (address, filter) = Default::default();
        TextureBuilder { memory, format, channels, source, address, filter, normalized: false, floats: false }
    }

    /// Sets the meaning of a coordinate outside.
    pub fn address_mode(self, address: AddressMode) -> Self {
        self.address_modes([address; 3])
    }

    /// The same for x, y and z.
    pub fn address_modes(self, address: [AddressMode; 3]) -> Self {
        TextureBuilder { address, ..self }
    }

    /// Which texels count.
    pub fn filter_mode(self, filter: FilterMode) -> Self {
        TextureBuilder { filter, ..self }
    }

    /// Coordinates go from 0 to 1 instead of counting texels.
    pub fn normalized_coordinates(self) -> Self {
        TextureBuilder { normalized: true, ..self }
    }

    /// Integers of 8 and 16 bits are read as floats from 0 to 1, or from -1 to 1.
    pub fn as_floats(self) -> Self {
        TextureBuilder { floats: true, ..self }
    }

    /// Texels from one row of a buffer to the next; at first as many as a row has. An array has a layout of its own.
    pub fn pitch(self, pitch: usize) -> Self {
        let source = match self.source {
            Source::Rows { shape, .. } => Source::Rows { shape, pitch },
            array @ Source::Array { .. } => array,
        };
        TextureBuilder { source, ..self }
    }

    /// The texture.
    ///
    /// # Errors
    /// [`ErrorKind::BadOption`] with what does not go together, or an error of the driver.
    pub fn build(&self) -> Result<Texture<'a>> {
        self.check()?;
        let home = self.memory.home();
        let address = self.memory.bind_read(home)?.address();
        let object = match home.kind {
            StreamKind::Cuda(stream) => {
                let handle = self.encode(stream.context(), address)?;
                Object::of_cuda(stream.context(), cuda::Kind::Texture, handle, self.source.array())
            }
            #[cfg(feature = "cpu")]
            StreamKind::Cpu(device) => Object::of_cpu(device, self.on_cpu(address))?,
            #[cfg(not(feature = "cpu"))]
            StreamKind::Cpu(device) => device.never(),
        };
        Ok(Texture { object, memory: self.memory })
    }

    /// Bytes of a texel.
    fn texel(&self) -> usize {
        self.format.bytes() * self.channels as usize
    }

    /// The rules of the driver, which returns only "invalid value".
    fn check(&self) -> Result<()> {
        if let Source::Rows { shape, pitch } = &self.source {
            self.check_rows(shape, *pitch)?;
        }
        if self.filter == FilterMode::Linear && !self.reads_floats() {
            return refuse(format!("a linear filter of {:?} texels", self.format), "floats, or integers `as_floats`");
        }
        Ok(())
    }

    fn check_rows(&self, shape: &[usize], pitch: usize) -> Result<()> {
        if !matches!(shape.len(), 1 | 2) || shape.contains(&0) {
            return refuse(
                format!("a texture of {shape:?} texels"),
                "`[width]` or `[height, width]`, none of them zero; an array has more",
            );
        }
        let ([width, height], texel) = (rows(shape), self.texel());
        let needed = (height - 1).saturating_mul(pitch).saturating_add(width).saturating_mul(texel);
        if pitch < width || needed > self.memory.len() {
            let asked =
                format!("a texture of {shape:?} texels, {pitch} from row to row, in {} bytes", self.memory.len());
            return refuse(asked, "rows that lie in the buffer, one behind the other");
        }
        let apart = pitch.saturating_mul(texel);
        if shape.len() > 1 && !apart.is_multiple_of(PITCH) {
            let asked = format!("a texture with rows that are {apart} bytes apart");
            return refuse(asked, "multiples of 32 bytes: give the rows a `pitch`");
        }
        if shape.len() == 1 && (self.normalized || self.filter == FilterMode::Linear) {
            return refuse(
                "a texture of one row with filtered or normalized coordinates".into(),
                "`[1, width]` has them",
            );
        }
        Ok(())
    }

    fn reads_floats(&self) -> bool {
        self.format.is_float() || self.floats && self.format.bytes() < 4
    }
}

/// Width and height in texels.
fn rows(shape: &[usize]) -> [usize; 2] {
    match shape[..] {
        [height, width] => [width, height],
        _ => [shape.first().copied().unwrap_or(0), 1],
    }
}

fn refuse<T>(asked: String, possible: &str) -> Result<T> {
    Err(Error::new(ErrorKind::BadOption, asked).possible(possible))
}

/// Rows begin at multiples of so many bytes: `CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT` of every chip.
const PITCH: usize = 32;
