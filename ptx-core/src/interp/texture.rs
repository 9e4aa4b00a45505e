//! Textures and surfaces of the CPU device: what an object is, which texels a coordinate means, and how they are filtered
//! (9.7.10–11, and "Texture Fetching" of CUDA's guide). Texels lie in global memory, row after row. The instructions are in
//! `ops::texture`.

use super::soft::{self, F16, F64, Round};

/// What a channel of a texel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Channel {
    /// Unsigned integer of 8 bits.
    U8,
    /// Unsigned integer of 16 bits.
    U16,
    /// Unsigned integer of 32 bits.
    U32,
    /// Signed integer of 8 bits.
    S8,
    /// Signed integer of 16 bits.
    S16,
    /// Signed integer of 32 bits.
    S32,
    /// 8 bits that mean 0 to 1.
    Unorm8,
    /// 16 bits that mean 0 to 1.
    Unorm16,
    /// 8 bits that mean -1 to 1.
    Snorm8,
    /// 16 bits that mean -1 to 1.
    Snorm16,
    /// Half precision.
    F16,
    /// Single precision.
    F32,
}

/// How the bits of a channel are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    Unsigned,
    Signed,
    Unorm,
    Snorm,
    Float,
}

impl Channel {
    /// Bits, reading, and OpenCL's number (5.3.3).
    const fn row(self) -> (u32, Reading, u32) {
        match self {
            Channel::U8 => (8, Reading::Unsigned, 0x10da),
            Channel::U16 => (16, Reading::Unsigned, 0x10db),
            Channel::U32 => (32, Reading::Unsigned, 0x10dc),
            Channel::S8 => (8, Reading::Signed, 0x10d7),
            Channel::S16 => (16, Reading::Signed, 0x10d8),
            Channel::S32 => (32, Reading::Signed, 0x10d9),
            Channel::Unorm8 => (8, Reading::Unorm, 0x10d2),
            Channel::Unorm16 => (16, Reading::Unorm, 0x10d3),
            Channel::Snorm8 => (8, Reading::Snorm, 0x10d0),
            Channel::Snorm16 => (16, Reading::Snorm, 0x10d1),
            Channel::F16 => (16, Reading::Float, 0x10dd),
            Channel::F32 => (32, Reading::Float, 0x10de),
        }
    }

    /// Bytes of one channel.
    pub fn bytes(self) -> u32 {
        self.row().0 / 8
    }

    /// The number by which `txq.channel_data_type` calls it.
    pub(super) fn number(self) -> u32 {
        self.row().2
    }

    /// What the bits mean.
    pub(super) fn read(self, bits: u64) -> Value {
        let (width, reading, _) = self.row();
        let signed = (bits << (64 - width)) as i64 >> (64 - width);
        let most = |bits: u32| soft::mask(bits) as f64;
        match reading {
            Reading::Unsigned => Value::Int(bits as i64),
            Reading::Signed => Value::Int(signed),
            Reading::Unorm => Value::Float(bits as f64 / most(width)),
            Reading::Snorm => Value::Float((signed as f64 / most(width - 1)).max(-1.0)),
            Reading::Float if width == 32 => Value::Float(f32::from_bits(bits as u32).into()),
            Reading::Float => {
                Value::Float(f64::from_bits(soft::pack(soft::unpack(bits, &F16), &F64, Round::Nearest, false)))
            }
        }
    }

    /// What a channel that the texel does not have reads as.
    pub(super) fn missing(self, alpha: bool) -> Value {
        match self.row().1 {
            Reading::Unsigned | Reading::Signed => Value::Int(alpha.into()),
            _ => Value::Float(f64::from(u8::from(alpha))),
        }
    }
}

/// A channel's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    Int(i64),
    Float(f64),
}

impl Value {
    pub(super) fn float(self) -> f64 {
        match self {
            Value::Int(value) => value as f64,
            Value::Float(value) => value,
        }
    }
}

/// What a coordinate outside of the texture means, in the order of `txq.addr_mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Outside {
    /// The texture repeats; with coordinates in texels, as [`Outside::Clamp`].
    Wrap,
    /// The texture repeats, every other time mirrored; with coordinates in texels, as [`Outside::Clamp`].
    Mirror,
    /// The nearest texel.
    #[default]
    Clamp,
    /// Zero.
    Border,
}

/// Which texels count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Filter {
    /// The one that the coordinates are in.
    #[default]
    Nearest,
    /// Those around, by their distance; only what is read as floats.
    Linear,
}

/// A texture or surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Texture {
    /// Where its first texel lies in global memory.
    pub address: u64,
    /// What a channel is.
    pub channel: Channel,
    /// Channels of a texel: 1, 2 or 4.
    pub channels: u32,
    /// Texels in x, rows, and slices in z; 1 for what it does not have.
    pub size: [u32; 3],
    /// Layers of an array, six for each cube; 0 if it is none.
    pub layers: u32,
    /// Bytes from row to row; 0 if they follow each other without a gap.
    pub pitch: u32,
    /// For x, y and z.
    pub outside: [Outside; 3],
    /// Which texels count.
    pub filter: Filter,
    /// Whether coordinates go from 0 to 1; else they count texels.
    pub normalized: bool,
}

/// Where one texel is: x, y, z; `None` is outside and zero.
pub(super) type Place = Option<[u32; 3]>;

impl Texture {
    /// Bytes of a texel.
    pub fn texel(&self) -> u64 {
        u64::from(self.channel.bytes()) * u64::from(self.channels)
    }

    fn row(&self) -> u64 {
        if self.pitch == 0 { u64::from(self.size[0]) * self.texel() } else { self.pitch.into() }
    }

    /// Bytes of all texels.
    pub fn bytes(&self) -> u64 {
        let [_, rows, slices] = self.size.map(u64::from);
        self.row() * rows * slices * u64::from(self.layers.max(1))
    }

    /// The address of a byte of a row.
    pub(super) fn address_of(&self, layer: u32, [byte, y, z]: [u64; 3]) -> u64 {
        let [_, rows, slices] = self.size.map(u64::from);
        self.address + ((u64::from(layer) * slices + z) * rows + y) * self.row() + byte
    }

    /// The bytes of a row that hold texels.
    pub(super) fn width(&self) -> u64 {
        u64::from(self.size[0]) * self.texel()
    }

    /// The texel of an index that may lie outside.
    fn inside(&self, dim: usize, index: i64) -> Option<u32> {
        let size = i64::from(self.size[dim].max(1));
        let found = match self.outside[dim] {
            Outside::Border => (0..size).contains(&index).then_some(index)?,
            Outside::Wrap if self.normalized => index.rem_euclid(size),
            Outside::Mirror if self.normalized => {
                let at = index.rem_euclid(2 * size);
                at.min(2 * size - 1 - at)
            }
            _ => index.clamp(0, size - 1),
        };
        u32::try_from(found).ok()
    }

    /// A coordinate in texels.
    fn scaled(&self, dim: usize, at: f32) -> f64 {
        f64::from(at) * if self.normalized { f64::from(self.size[dim]) } else { 1.0 }
    }

    /// The texel that coordinates are in.
    pub(super) fn nearest(&self, at: [f32; 3], dims: usize, offset: [i64; 3]) -> Place {
        let mut place = [0; 3];
        for dim in 0..dims {
            place[dim] = self.inside(dim, (self.scaled(dim, at[dim]).floor() as i64).saturating_add(offset[dim]))?;
        }
        Some(place)
    }

    /// The texel of whole coordinates.
    pub(super) fn indexed(&self, at: [i32; 3], dims: usize, offset: [i64; 3]) -> Place {
        let mut place = [0; 3];
        for dim in 0..dims {
            let index = i64::from(at[dim]) + offset[dim];
            // Of one dimension it is plain memory, of which nothing is outside.
            let within = dims > 1 || (0..i64::from(self.size[dim])).contains(&index);
            place[dim] = self.inside(dim, index).filter(|_| within)?;
        }
        Some(place)
    }

    /// The texels around coordinates, x fastest, each with its weight: 8 bits of fraction a dimension.
    pub(super) fn around(&self, at: [f32; 3], dims: usize, offset: [i64; 3]) -> Vec<(Place, f64)> {
        let lower: [(f64, f64); 3] = std::array::from_fn(|dim| {
            let from = self.scaled(dim, at[dim]) - 0.5;
            (from.floor(), ((from - from.floor()) * 256.0).round() / 256.0)
        });
        let corner = |bits: usize| {
            let (mut place, mut weight) = (Some([0; 3]), 1.0);
            for dim in 0..dims {
                let (first, fraction) = lower[dim];
                let upper = bits >> dim & 1;
                weight *= if upper == 1 { fraction } else { 1.0 - fraction };
                let index = self.inside(dim, (first as i64).saturating_add(upper as i64 + offset[dim]));
                place = place.zip(index).map(|(mut place, index)| {
                    place[dim] = index;
                    place
                });
            }
            (place, weight)
        };
        (0..1 << dims).map(corner).collect()
    }
}

/// The face of a cube that a direction meets, and where, from 0 to 1.
pub(super) fn face([x, y, z]: [f32; 3]) -> (u32, [f32; 3]) {
    let (face, major, s, t) = match () {
        () if x.abs() >= y.abs() && x.abs() >= z.abs() => {
            if x >= 0.0 {
                (0, x, -z, -y)
            } else {
                (1, -x, z, -y)
            }
        }
        () if y.abs() >= z.abs() => {
            if y >= 0.0 {
                (2, y, x, z)
            } else {
                (3, -y, x, -z)
            }
        }
        () if z >= 0.0 => (4, z, x, -y),
        () => (5, -z, -x, -y),
    };
    (face, [s / major / 2.0 + 0.5, t / major / 2.0 + 0.5, 0.0])
}
