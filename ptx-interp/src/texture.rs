//! Textures and surfaces of the CPU device: what an object is, which texels a coordinate means, and how they are filtered
//! (9.7.10–11, and "Texture Fetching" of CUDA's guide). Texels lie in global memory, row after row. The instructions are in
//! `ops::texture`.

use super::soft::{self, F16, F32, F64, Round};

/// Type of a texel's channel.
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

/// Reading of a channel's bits.
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

    /// Value of the bits.
    pub(super) fn read(self, bits: u64) -> Value {
        let (width, reading, _) = self.row();
        let signed = (bits << (64 - width)) as i64 >> (64 - width);
        let most = |bits: u32| soft::mask(bits) as f64;
        match reading {
            Reading::Unsigned => Value::Int(bits as i64),
            Reading::Signed => Value::Int(signed),
            Reading::Unorm => Value::Float(bits as f64 / most(width)),
            Reading::Snorm => Value::Float((signed as f64 / most(width - 1)).max(-1.0)),
            Reading::Float if width == 32 => Value::Single(bits as u32),
            // A NaN keeps its payload, and whether it signals.
            Reading::Float if bits & 0x7c00 == 0x7c00 => {
                Value::Single((bits as u32 & 0x8000) << 16 | 0x7f80_0000 | (bits as u32 & 0x3ff) << 13)
            }
            Reading::Float => {
                Value::Float(f64::from_bits(soft::pack(soft::unpack(bits, &F16), &F64, Round::Nearest, false)))
            }
        }
    }

    /// The bits that say a 32-bit word, or the nearest value that there is.
    pub(super) fn write(self, word: u32) -> u64 {
        let (width, reading, _) = self.row();
        let scaled = |least: f32, most: f32| (f32::from_bits(word).clamp(least, 1.0) * most).round_ties_even() as i64;
        let bits = match reading {
            Reading::Unsigned => i64::from(word).min(soft::mask(width) as i64),
            Reading::Signed => {
                let most = soft::mask(width - 1) as i64;
                i64::from(word as i32).clamp(-most - 1, most)
            }
            Reading::Unorm => scaled(0.0, soft::mask(width) as f32),
            Reading::Snorm => scaled(-1.0, soft::mask(width - 1) as f32),
            Reading::Float if width == 32 => word.into(),
            Reading::Float => soft::pack(soft::unpack(word.into(), &F32), &F16, Round::Nearest, false) as i64,
        };
        bits as u64 & soft::mask(width)
    }

    /// Returns true if it is a signed integer.
    pub(super) fn is_signed(self) -> bool {
        self.row().1 == Reading::Signed
    }

    /// Value of a channel that the texel does not have, and of a texel outside: zero, alpha too, as on GPUs.
    pub(super) fn missing(self) -> Value {
        if self.is_float() { Value::Float(0.0) } else { Value::Int(0) }
    }

    /// Into how many steps filters divide what means 0 to 1; the value itself is what they take of floats.
    fn steps(self) -> Option<f64> {
        match self.row().1 {
            Reading::Unorm => Some(65535.0),
            Reading::Snorm => Some(32767.0),
            _ => None,
        }
    }

    /// Value of a gather: the nearest step, no subnormal `f32`, and one NaN for all.
    pub(super) fn gathered(self, value: Value) -> Value {
        if let Some(steps) = self.steps() {
            return Value::Float(self.part(value) / steps);
        }
        match value {
            Value::Single(bits) if f32::from_bits(bits).is_nan() => Value::Single(0x7fff_ffff),
            Value::Single(bits) if f32::from_bits(bits).is_subnormal() => Value::Single(bits & 0x8000_0000),
            value => value,
        }
    }

    /// Value that a filter adds.
    pub(super) fn part(self, value: Value) -> f64 {
        self.steps().map_or(value.float(), |steps| (value.float() * steps).round())
    }

    /// A filter's sum of parts in 256ths. Sums of floats have the texel's precision, and are rounded away from zero in the middle.
    pub(super) fn filtered(self, sum: f64) -> Value {
        let sum = sum / 256.0;
        if let Some(steps) = self.steps() {
            return Value::Float((sum + 0.5).floor() / steps);
        }
        let (near, width) = match self {
            Channel::F16 => (soft::pack(soft::unpack(sum.to_bits(), &F64), &F16, Round::Nearest, false), 16),
            _ => (u64::from((sum as f32).to_bits()), 32),
        };
        let value = |bits: u64| self.read(bits & soft::mask(width)).float();
        let away = value(near + 1) - sum == sum - value(near) && sum != 0.0;
        self.read(near + u64::from(away))
    }

    /// Returns true if it is read as a float.
    pub(super) fn is_float(self) -> bool {
        !matches!(self.row().1, Reading::Unsigned | Reading::Signed)
    }
}

/// A channel's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    Int(i64),
    Float(f64),
    /// The bits of an `f32`, as they are.
    Single(u32),
}

impl Value {
    pub(super) fn float(self) -> f64 {
        match self {
            Value::Int(value) => value as f64,
            Value::Float(value) => value,
            Value::Single(bits) => f32::from_bits(bits).into(),
        }
    }
}

/// Meaning of a coordinate outside of the texture, in the order of `txq.addr_mode`.
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
    /// Address of its first texel in global memory.
    pub address: u64,
    /// Type of a channel.
    pub channel: Channel,
    /// Channels of a texel: 1, 2 or 4.
    pub channels: u32,
    /// Texels in x, rows, and slices in z; 1 for what it does not have.
    pub size: [u32; 3],
    /// Layers of an array, six for each cube; 0 if it is none.
    pub layers: u32,
    /// True for an array of the driver, in a layout of its own; else linear memory.
    pub array: bool,
    /// Bytes from row to row; 0 if they follow each other without a gap.
    pub pitch: u32,
    /// For x, y and z.
    pub outside: [Outside; 3],
    /// Which texels count.
    pub filter: Filter,
    /// True if coordinates go from 0 to 1; else they count texels.
    pub normalized: bool,
}

/// 2 to the bits behind the point of coordinates from 0 to 1.
const NORMAL: f64 = (1 << 21) as f64;

/// Position of one texel: x, y, z; `None` is outside and zero.
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

    /// A coordinate in texels. Subnormal ones and NaN are zero; those from 0 to 1 have 21 bits behind the point, of which a texture that
    /// repeats looks at two turns.
    fn scaled(&self, dim: usize, at: f32) -> f64 {
        let at = if at.is_subnormal() || at.is_nan() { 0.0 } else { f64::from(at) };
        if !self.normalized {
            return at;
        }
        let steps = (at * NORMAL).floor();
        let turned = match self.outside[dim] {
            Outside::Wrap | Outside::Mirror if steps.is_finite() => steps.rem_euclid(2.0 * NORMAL),
            Outside::Wrap | Outside::Mirror => 0.0,
            _ => steps,
        };
        turned / NORMAL * f64::from(self.size[dim])
    }

    /// The texel that coordinates are in.
    pub(super) fn nearest(&self, at: [f32; 3], dims: usize, offset: [i64; 3]) -> Place {
        let mut place = [0; 3];
        for dim in 0..dims {
            place[dim] = self.inside(dim, (self.scaled(dim, at[dim]).floor() as i64).saturating_add(offset[dim]))?;
        }
        Some(place)
    }

    /// The texel of whole coordinates, which has no modes: what lies outside is zero.
    pub(super) fn indexed(&self, at: [i32; 3], dims: usize, offset: [i64; 3]) -> Place {
        let mut place = [0; 3];
        for dim in 0..dims {
            let index = u32::try_from(i64::from(at[dim]) + offset[dim]).ok();
            place[dim] = index.filter(|index| *index < self.size[dim])?;
        }
        Some(place)
    }

    /// The texels around coordinates, x fastest, each with its weight in 256ths, which together are 256.
    pub(super) fn around(&self, at: [f32; 3], dims: usize, offset: [i64; 3]) -> Vec<(Place, f64)> {
        // The place is rounded to 8 bits behind the point before texels and weights are taken from it.
        let places: [i64; 3] = std::array::from_fn(|dim| {
            if dim < dims { ((self.scaled(dim, at[dim]) - 0.5) * 256.0 + 0.5).floor() as i64 } else { 0 }
        });
        // One dimension has a second of one row, of which the place is the edge: half of what is read lies beyond it.
        let edge = if dims == 1 && self.layers == 0 && self.outside[1] == Outside::Border { 2 } else { 0 };
        let [x, y, z] = places.map(|place| place & 255);
        let weights = weights([x, if edge > 0 { 128 } else { y }, z]);
        let corner = |bits: usize| {
            let mut place = Some([0; 3]);
            for dim in 0..dims {
                let index = (places[dim] >> 8).saturating_add((bits >> dim & 1) as i64 + offset[dim]);
                let inside = self.inside(dim, index);
                place = place.zip(inside).map(|(mut place, index)| {
                    place[dim] = index;
                    place
                });
            }
            (place, weights[bits + edge] as f64)
        };
        (0..1 << dims).map(corner).collect()
    }
}

/// The weights of eight corners in 256ths, by the fractions of a place. Products are rounded to 8 bits, and each corner has what
/// the others leave of its edge, so that all are 256. So H200s do it for one and two dimensions, and nearly so for three.
fn weights([x, y, z]: [i64; 3]) -> [i64; 8] {
    let product = |a: i64, b: i64| (a * b + 128) >> 8;
    let (xy, xz, yz, all) = (product(x, y), product(x, z), product(y, z), (x * y * z + (1 << 15)) >> 16);
    let upper = [z - xz - yz + all, xz - all, yz - all, all];
    let both = [256 - x - y + xy, x - xy, y - xy, xy];
    std::array::from_fn(|i| if i < 4 { both[i] - upper[i] } else { upper[i - 4] })
}

/// The face of a cube that a direction meets, and where, from 0 to 1.
pub(super) fn face([x, y, z]: [f32; 3]) -> (u32, [f32; 3]) {
    let (face, major, s, t) = match () {
        () if z.abs() >= y.abs() && z.abs() >= x.abs() => {
            if z >= 0.0 {
                (4, z, x, -y)
            } else {
                (5, -z, -x, -y)
            }
        }
        () if y.abs() >= x.abs() => {
            if y >= 0.0 {
                (2, y, x, z)
            } else {
                (3, -y, x, -z)
            }
        }
        () if x >= 0.0 => (0, x, -z, -y),
        () => (1, -x, z, -y),
    };
    // No direction at all meets the middle.
    let at = |along: f32| if major == 0.0 { 0.5 } else { along / major / 2.0 + 0.5 };
    (face, [at(s), at(t), 0.0])
}
