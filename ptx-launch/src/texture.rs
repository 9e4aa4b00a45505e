//! Textures: memory that kernels read through `tex` (PTX ISA, section 9.7.10), by coordinates that may be filtered, and with a rule
//! for what lies outside.
//!
//! Texels of a buffer in one row, or in rows. What needs an array of the driver's own (three dimensions, layers, cubes, surfaces) is
//! not here.

mod cuda;
mod texel;

pub use texel::{Texel, TexelFormat};

use crate::buffer::View;
use crate::device::cpu::{CpuDevice, fault_error};
use crate::error::{Error, ErrorKind, Result};
use crate::param::Bound;
use crate::stream::{StreamKind, StreamRef};
use cudarc::driver::CudaContext;
use ptx_core::interp::texture as cpu;
use std::sync::Arc;

/// A texture object: what a kernel takes as a `Texture`, and reads through `tex`.
///
/// It borrows the memory that it reads. Dropping it waits for the work of its device, which may still use it.
///
/// ```
/// # use ptx_launch::prelude::*;
/// # use ptx_launch::{FilterMode, Texture};
/// /// Between texels.
/// #[ptx_kernel(arch = "sm_80", block = 32, grid = 1, safe(out.len() >= 32))]
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
    handle: u64,
    memory: View<'a, u8>,
    owner: Owner,
}

/// Who gave the handle.
enum Owner {
    Cuda(Arc<CudaContext>),
    Cpu(CpuDevice),
}

/// What a coordinate outside of the texture means, in the order of `CUaddress_mode`.
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
    shape: Vec<usize>,
    /// Texels from row to row.
    pitch: usize,
    address: AddressMode,
    filter: FilterMode,
    normalized: bool,
    floats: bool,
}

impl<'a> Texture<'a> {
    /// Starts a texture of `memory`: `[width]` texels, which `tex.1d` reads by whole coordinates, or rows of them, `[height, width]`.
    pub fn of<T: Texel>(memory: View<'a, T>, shape: &[usize]) -> TextureBuilder<'a> {
        TextureBuilder {
            memory: memory.bytes(),
            format: T::FORMAT,
            channels: T::CHANNELS,
            shape: shape.to_vec(),
            pitch: shape.last().copied().unwrap_or(0),
            address: AddressMode::Clamp,
            filter: FilterMode::Point,
            normalized: false,
            floats: false,
        }
    }

    /// The handle, for kernels that take it as a `.u64`. Nothing orders such a launch after the work of other streams.
    pub fn handle(&self) -> u64 {
        self.handle
    }

    /// The texture, made ready to be read by work on `stream`.
    ///
    /// # Errors
    /// [`ErrorKind::WrongDevice`] when texture and stream belong to different devices.
    pub fn bind<'s>(&'s self, stream: StreamRef<'s>) -> Result<Bound<'s>> {
        Ok(self.memory.bind_read(stream)?.called(self.handle))
    }
}

impl std::fmt::Debug for Texture<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Texture({:#x})", self.handle)
    }
}

impl std::fmt::Debug for TextureBuilder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TextureBuilder({:?} texels of {} {:?})", self.shape, self.channels, self.format)
    }
}

impl Drop for Texture<'_> {
    fn drop(&mut self) {
        match &self.owner {
            Owner::Cuda(context) => cuda::destroy(context, self.handle),
            Owner::Cpu(device) => device.machine().forget_texture(self.handle),
        }
    }
}

impl<'a> TextureBuilder<'a> {
    /// What a coordinate outside means.
    pub fn address_mode(self, address: AddressMode) -> Self {
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

    /// Texels from one row to the next; at first as many as a row has.
    pub fn pitch(self, pitch: usize) -> Self {
        TextureBuilder { pitch, ..self }
    }

    /// The texture.
    ///
    /// # Errors
    /// [`ErrorKind::BadOption`] with what does not go together, or what the driver says.
    pub fn build(&self) -> Result<Texture<'a>> {
        self.check()?;
        let home = self.memory.home();
        let address = self.memory.bind_read(home)?.address();
        let (handle, owner) = match home.kind {
            StreamKind::Cuda(stream, _) => {
                (self.encode(stream.context(), address)?, Owner::Cuda(stream.context().clone()))
            }
            StreamKind::Cpu(device) => (self.on_cpu(device, address)?, Owner::Cpu(device.clone())),
        };
        Ok(Texture { handle, memory: self.memory, owner })
    }

    /// Width and height in texels.
    fn size(&self) -> [usize; 2] {
        match self.shape[..] {
            [height, width] => [width, height],
            _ => [self.shape.first().copied().unwrap_or(0), 1],
        }
    }

    /// Bytes of a texel.
    fn texel(&self) -> usize {
        self.format.bytes() * self.channels as usize
    }

    /// Whether it is one row.
    fn is_linear(&self) -> bool {
        self.shape.len() == 1
    }

    /// The rules of the driver, which says only "invalid value".
    fn check(&self) -> Result<()> {
        let refuse = |asked: String, possible: &str| Err(Error::new(ErrorKind::BadOption, asked).possible(possible));
        let ([width, height], texel) = (self.size(), self.texel());
        if !matches!(self.shape.len(), 1 | 2) || self.shape.contains(&0) {
            return refuse(
                format!("a texture of {:?} texels", self.shape),
                "`[width]` or `[height, width]`, none of them zero",
            );
        }
        let needed = (height - 1).saturating_mul(self.pitch).saturating_add(width).saturating_mul(texel);
        if self.pitch < width || needed > self.memory.len() {
            let asked = format!(
                "a texture of {:?} texels, {} from row to row, in {} bytes",
                self.shape,
                self.pitch,
                self.memory.len()
            );
            return refuse(asked, "rows that lie in the buffer, one behind the other");
        }
        let apart = self.pitch.saturating_mul(texel);
        if !self.is_linear() && !apart.is_multiple_of(PITCH) {
            let asked = format!("a texture with rows that are {apart} bytes apart");
            return refuse(asked, "multiples of 32 bytes: give the rows a `pitch`");
        }
        if self.is_linear() && (self.normalized || self.filter == FilterMode::Linear) {
            return refuse(
                "a texture of one row with filtered or normalized coordinates".into(),
                "`[1, width]` has them",
            );
        }
        if self.filter == FilterMode::Linear && !self.reads_floats() {
            return refuse(format!("a linear filter of {:?} texels", self.format), "floats, or integers `as_floats`");
        }
        Ok(())
    }

    fn reads_floats(&self) -> bool {
        self.format.is_float() || self.floats && self.format.bytes() < 4
    }

    fn on_cpu(&self, device: &CpuDevice, address: u64) -> Result<u64> {
        let [width, height] = self.size().map(|size| u32::try_from(size).unwrap_or(u32::MAX));
        let outside = [cpu::Outside::Wrap, cpu::Outside::Clamp, cpu::Outside::Mirror, cpu::Outside::Border];
        let pitch = u32::try_from(self.pitch * self.texel()).unwrap_or(u32::MAX);
        let texture = cpu::Texture {
            address,
            channel: self.format.channel(self.floats),
            channels: self.channels,
            size: [width, height, 1],
            layers: 0,
            // The last row ends with its last texel.
            pitch: if height == 1 { 0 } else { pitch },
            outside: [outside[self.address as usize]; 3],
            filter: [cpu::Filter::Nearest, cpu::Filter::Linear][self.filter as usize],
            normalized: self.normalized,
        };
        device.machine().texture(texture).map_err(|fault| fault_error(&fault))
    }
}

/// Rows begin at multiples of so many bytes: `CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT` of every chip.
const PITCH: usize = 32;
