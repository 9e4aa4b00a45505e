//! Textures as the CPU device describes them.

use super::extent::Extent;
use super::{Source, TexelFormat, TextureBuilder, rows};
use ptx_interp::texture as cpu;
use ptx_interp::texture::Channel;

impl TextureBuilder<'_> {
    /// The texture in the interpreter's terms.
    pub(super) fn on_cpu(&self, address: u64) -> cpu::Texture {
        let format = (self.format.channel(self.floats), self.channels);
        let place = match &self.source {
            Source::Array { extent, .. } => array(extent, address, format),
            Source::Rows { shape, pitch } => {
                let [width, height] = rows(shape);
                // The last row ends with its last texel.
                let pitch = if height == 1 { 0 } else { small(pitch * self.texel()) };
                cpu::Texture { array: false, pitch, ..array(&Extent::of(&[height, width]), address, format) }
            }
        };
        let outside = [cpu::Outside::Wrap, cpu::Outside::Clamp, cpu::Outside::Mirror, cpu::Outside::Border];
        cpu::Texture {
            outside: self.address.map(|mode| outside[mode as usize]),
            filter: [cpu::Filter::Nearest, cpu::Filter::Linear][self.filter as usize],
            normalized: self.normalized,
            ..place
        }
    }
}

impl TexelFormat {
    /// The interpreter's name for it, read as it is or as a float.
    pub(super) fn channel(self, floats: bool) -> Channel {
        match (self, floats) {
            (TexelFormat::U8, false) => Channel::U8,
            (TexelFormat::U8, true) => Channel::Unorm8,
            (TexelFormat::U16, false) => Channel::U16,
            (TexelFormat::U16, true) => Channel::Unorm16,
            (TexelFormat::U32, _) => Channel::U32,
            (TexelFormat::I8, false) => Channel::S8,
            (TexelFormat::I8, true) => Channel::Snorm8,
            (TexelFormat::I16, false) => Channel::S16,
            (TexelFormat::I16, true) => Channel::Snorm16,
            (TexelFormat::I32, _) => Channel::S32,
            (TexelFormat::F16, _) => Channel::F16,
            (TexelFormat::F32, _) => Channel::F32,
        }
    }
}

fn small(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}

/// Texels of the CPU device at an address, without a gap between them.
pub(super) fn array(extent: &Extent, address: u64, (channel, channels): (Channel, u32)) -> cpu::Texture {
    let (size, layers) = (extent.size().map(small), extent.layer_count().map_or(0, small));
    let (outside, filter) = Default::default();
    cpu::Texture { address, channel, channels, size, layers, array: true, pitch: 0, outside, filter, normalized: false }
}
