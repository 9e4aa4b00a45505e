//! The driver's rules for tensor maps, each with its explanation: the driver itself returns only "invalid value".

use super::{ElementType, Fill, Interleave, Mode, Swizzle, TensorMapBuilder as Map};
use crate::error::{Error, ErrorKind, Result};

/// A rule: nothing when it holds, else what is asked, what is possible, and what to do.
type Rule = fn(&Map) -> Option<Broken>;
type Broken = (String, String, &'static str);

/// Every rule, in an order in which each may rely on those before it.
const RULES: &[Rule] = &[
    rank, lists, extents, steps, inside, alignment, strides, tile, swizzle, inner, wide, packed, fill, corners, area,
    pixels, size,
];

/// The shared memory of a multiprocessor.
const MOST_BYTES: usize = 228 << 10;

impl Map {
    /// The rules alone, without a driver.
    ///
    /// # Errors
    /// [`ErrorKind::TensorMap`] with the first rule that is broken.
    pub fn check(&self) -> Result<()> {
        match RULES.iter().find_map(|rule| rule(self)) {
            None => Ok(()),
            Some((asked, possible, help)) => {
                Err(Error::new(ErrorKind::TensorMap, format!("a tensor map with {asked}"))
                    .possible(possible)
                    .help(help))
            }
        }
    }

    fn rank(&self) -> usize {
        self.shape.len()
    }

    fn is_interleaved(&self) -> bool {
        self.interleave != Interleave::None
    }

    /// Elements of a row in shared memory.
    fn row(&self) -> usize {
        match &self.mode {
            Mode::Tiled { tile } => tile.last().copied().unwrap_or(0),
            Mode::Im2col { channels, .. } | Mode::Im2colWide { channels, .. } => *channels,
        }
    }

    /// Pixels of an image that are moved at a time.
    fn pixels(&self) -> Option<usize> {
        match &self.mode {
            Mode::Tiled { .. } => None,
            Mode::Im2col { pixels, .. } => Some(*pixels),
            Mode::Im2colWide { pixels, .. } => Some(pixels.unwrap_or(128)),
        }
    }

    /// The corners of the bounding box, outermost first, and the number of the dimension that they begin with: behind the
    /// batch, and slices of channels; or the width alone.
    fn corners(&self) -> Option<(&[i32], &[i32], usize)> {
        match &self.mode {
            Mode::Tiled { .. } => None,
            Mode::Im2col { lower, upper, .. } => Some((lower, upper, if self.is_interleaved() { 2 } else { 1 })),
            Mode::Im2colWide { lower, upper, .. } => {
                Some((std::slice::from_ref(lower), std::slice::from_ref(upper), self.rank().saturating_sub(2)))
            }
        }
    }
}

fn broken(bad: bool, asked: impl Fn() -> String, possible: impl Into<String>, help: &'static str) -> Option<Broken> {
    bad.then(|| (asked(), possible.into(), help))
}

fn rank(map: &Map) -> Option<Broken> {
    let least = if map.is_interleaved() || map.pixels().is_some() { 3 } else { 1 };
    let help = "merge dimensions that lie behind each other, or add dimensions of extent 1";
    let bad = !(least..=5).contains(&map.rank());
    broken(bad, || format!("{} dimensions", map.rank()), format!("{least} to 5 dimensions"), help)
}

fn lists(map: &Map) -> Option<Broken> {
    let rank = map.rank();
    let lengths = [
        ("strides", map.strides.as_ref().map_or(rank, Vec::len), rank),
        ("steps", map.step.as_ref().map_or(rank, Vec::len), rank),
        match &map.mode {
            Mode::Tiled { tile } => ("tile extents", tile.len(), rank),
            Mode::Im2col { lower, upper, .. } if lower.len() == upper.len() => {
                ("corner offsets", lower.len(), rank - 2)
            }
            Mode::Im2col { lower, upper, .. } => ("offsets in the upper corner", upper.len(), lower.len()),
            Mode::Im2colWide { .. } => ("corner offsets", 1, 1),
        },
    ];
    let (what, given, wanted) = lengths.into_iter().find(|(_, given, wanted)| given != wanted)?;
    Some((format!("{given} {what} for {rank} dimensions"), format!("{wanted} of them"), "give one for each dimension"))
}

fn extents(map: &Map) -> Option<Broken> {
    let bad = map.shape.iter().any(|extent| *extent == 0 || *extent > 1 << 32);
    let help = "do not make a map of an empty tensor; split a larger one";
    broken(bad, || format!("the shape {:?}", map.shape), "extents of 1 to 2^32", help)
}

fn steps(map: &Map) -> Option<Broken> {
    let bad = map.steps().iter().any(|step| !(1..=8).contains(step));
    broken(bad, || format!("the steps {:?}", map.steps()), "steps of 1 to 8", "use strides for larger distances")
}

/// Not the driver's, but ours: the tensor lies in the buffer.
fn inside(map: &Map) -> Option<Broken> {
    let mut strides = map.element_strides();
    if let Some(inner) = strides.last_mut() {
        *inner = inner.saturating_mul(map.per_step());
    }
    let reach = map.shape.iter().zip(strides);
    let last =
        reach.fold(map.per_step() - 1, |sum, (extent, stride)| sum.saturating_add((extent - 1).saturating_mul(stride)));
    let asked = || format!("the shape {:?}, of which the last element is number {last}", map.shape);
    let help = "check the shape and the strides, or pass a larger buffer";
    let needed = map.bytes(last.saturating_add(1));
    broken(needed > map.capacity, asked, format!("a tensor inside the {} bytes of its buffer", map.capacity), help)
}

fn alignment(map: &Map) -> Option<Broken> {
    let align = if map.interleave == Interleave::B32 || map.element.has_gaps() { 32 } else { 16 };
    let help = "start the view at a multiple of it; buffers themselves start at multiples of 256 bytes";
    let asked = || format!("the address {:#x}", map.address);
    broken(!map.address.is_multiple_of(align), asked, format!("an address that is a multiple of {align} bytes"), help)
}

fn strides(map: &Map) -> Option<Broken> {
    let align = if map.interleave == Interleave::B32 || map.element.has_gaps() { 32 } else { 16 };
    let strides = map.element_strides();
    let (inner, outer) = strides.split_last()?;
    let wrong = |stride: &usize| !map.bytes(*stride).is_multiple_of(align) || map.bytes(*stride) >= 1 << 40;
    let asked = || format!("strides of {:?} bytes", strides.iter().map(|s| map.bytes(*s)).collect::<Vec<_>>());
    let possible = format!("an innermost stride of one element, the others multiples of {align} bytes below 2^40");
    broken(*inner != 1 || outer.iter().any(wrong), asked, possible, "pad the rows of the tensor")
}

fn tile(map: &Map) -> Option<Broken> {
    let Mode::Tiled { tile } = &map.mode else { return None };
    let bad = tile.iter().any(|extent| !(1..=256).contains(extent));
    broken(bad, || format!("the tile {tile:?}"), "tile extents of 1 to 256", "move it in several boxes")
}

/// The driver's encoder has all swizzles but one.
fn swizzle(map: &Map) -> Option<Broken> {
    let asked = || format!("the swizzle `{:?}`", map.swizzle);
    let help = "write `.swizzle(Swizzle::B128)`; a kernel can set another one with `tensormap.replace`";
    broken(map.swizzle == Swizzle::B96, asked, "the other swizzles", help)
}

/// The row in shared memory: whole 16-byte pieces, no longer than the swizzle.
fn inner(map: &Map) -> Option<Broken> {
    let bytes = map.bytes(map.row());
    let most = match map.swizzle {
        _ if map.is_interleaved() => usize::MAX,
        Swizzle::None => usize::MAX,
        Swizzle::B32 => 32,
        Swizzle::B64 => 64,
        _ => 128,
    };
    if map.element.has_gaps() || (bytes.is_multiple_of(16) && bytes <= most) {
        return None;
    }
    let possible = match most {
        usize::MAX => "rows of a multiple of 16 bytes".to_owned(),
        most => format!("rows of a multiple of 16 bytes, at most {most} with this swizzle"),
    };
    let help = "split the innermost dimension into several boxes, or choose another swizzle";
    Some((format!("rows of {} elements = {bytes} bytes in shared memory", map.row()), possible, help))
}

/// Which swizzles the instructions of one row have.
fn wide(map: &Map) -> Option<Broken> {
    let known = matches!(map.swizzle, Swizzle::B64 | Swizzle::B128 | Swizzle::B128Atom32);
    let bad = matches!(map.mode, Mode::Im2colWide { .. }) && !known;
    let asked = || format!("wide im2col and the swizzle `{:?}`", map.swizzle);
    let help = "write `.swizzle(Swizzle::B128)`";
    broken(bad, asked, "the swizzles `B64`, `B128` and `B128Atom32` with wide im2col", help)
}

fn packed(map: &Map) -> Option<Broken> {
    let extent = map.shape.last().copied().unwrap_or(0);
    let bad = match map.element {
        ElementType::U4Align8 => !extent.is_multiple_of(2),
        ElementType::U4Align16 | ElementType::U6Align16 => !extent.is_multiple_of(128) || map.row() != 128,
        _ => return None,
    };
    let asked = || format!("{extent} packed elements in a row, and {} of them in the tile", map.row());
    let possible = match map.element {
        ElementType::U4Align8 => "an even innermost extent",
        _ => "an innermost extent that is a multiple of 128, and 128 in the tile",
    };
    broken(bad, asked, possible, "pad the rows of the tensor")
}

fn fill(map: &Map) -> Option<Broken> {
    let bad = map.fill == Fill::Nan && !map.element.is_float();
    let asked = || format!("NaN outside of a tensor of {:?}", map.element);
    broken(bad, asked, "NaN in floating-point tensors", "write `.fill(Fill::Zero)`")
}

fn corners(map: &Map) -> Option<Broken> {
    let (lower, upper, _) = map.corners()?;
    let (least, most) = match lower.len() {
        0 | 1 => (-32_768, 32_767),
        2 => (-128, 127),
        _ => (-16, 15),
    };
    let bad = lower.iter().chain(upper).any(|offset| !(least..=most).contains(offset));
    let asked = || format!("the corners {lower:?} and {upper:?}");
    let possible = format!("offsets of {least} to {most} in a box of {} dimensions", lower.len());
    broken(bad, asked, possible, "use fewer dimensions, or a smaller filter")
}

/// The bounding box.
fn area(map: &Map) -> Option<Broken> {
    let (lower, upper, before) = map.corners()?;
    // In 32 bits that wrap around, as the driver computes it.
    let end = |(extent, upper): (&usize, &i32)| (*extent as i32).wrapping_add(*upper);
    let mut pixels = map.shape.iter().skip(before).zip(upper).map(end).zip(lower);
    let asked = || format!("the corners {lower:?} and {upper:?} of the shape {:?}", map.shape);
    let possible = "a bounding box of at least one pixel, which ends below 2^31";
    broken(pixels.any(|(end, lower)| end <= *lower), asked, possible, "the upper corner is relative to the last pixel")
}

fn pixels(map: &Map) -> Option<Broken> {
    let (channels, pixels) = (map.row(), map.pixels()?);
    let bad = !(1..=256).contains(&channels) || !(1..=1024).contains(&pixels);
    let asked = || format!("{pixels} pixels of {channels} channels at a time");
    broken(bad, asked, "1 to 1024 pixels of 1 to 256 channels", "move them in several steps")
}

/// Data that one instruction moves, as the driver counts: with the innermost step, and rounded down.
fn size(map: &Map) -> Option<Broken> {
    let elements = match &map.mode {
        Mode::Tiled { tile } => {
            let taken = tile.iter().zip(map.steps()).map(|(extent, step)| extent / step);
            taken.fold(1, usize::saturating_mul)
        }
        _ => map.row().saturating_mul(map.pixels().unwrap_or(1)),
    };
    let bytes = map.bytes(elements);
    broken(bytes > MOST_BYTES, || format!("{bytes} bytes at a time"), "at most 228 KB", "move them in several steps")
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::{Device, TensorMap};

    fn map(shape: &[usize]) -> Map {
        let device = Device::cpu();
        let memory = device.zeros::<f32>(1 << 16).unwrap();
        TensorMap::of(&device, &memory, shape).unwrap()
    }

    #[test]
    fn what_is_allowed() {
        map(&[256, 256]).tile(&[64, 32]).swizzle(Swizzle::B128).check().unwrap();
        map(&[64, 4]).tile(&[64, 4]).check().unwrap();
        map(&[64]).check().unwrap();
        map(&[16, 16, 8]).strides(&[512, 16, 1]).tile(&[2, 2, 8]).step(&[2, 1, 1]).fill(Fill::Nan).check().unwrap();
        map(&[2, 14, 14, 64]).im2col(&[-1, -1], &[-1, -1], 32, 128).swizzle(Swizzle::B128).check().unwrap();
        map(&[2, 4, 8, 14, 64]).im2col_wide(-300, 300, 32, 96).swizzle(Swizzle::B128).check().unwrap();
        map(&[8, 256]).element(ElementType::Tf32).tile(&[8, 8]).swizzle(Swizzle::B32).check().unwrap();
    }

    #[test]
    fn every_rule_is_told() {
        let wrong: [(Map, &str); 22] = [
            (map(&[]), "0 dimensions"),
            (map(&[1; 6]), "1 to 5 dimensions"),
            (map(&[4, 4]).interleave(Interleave::B16), "3 to 5 dimensions"),
            (map(&[4, 4]).tile(&[4]), "1 tile extents for 2 dimensions"),
            (map(&[4, 4, 4]).im2col(&[0], &[0, 0], 4, 4), "2 offsets in the upper corner"),
            (map(&[4, 0]), "extents of 1 to 2^32"),
            (map(&[4, 4]).step(&[1, 9]), "steps of 1 to 8"),
            (map(&[1024, 1024]), "inside the 262144 bytes of its buffer"),
            (map(&[4, 6]).tile(&[4, 4]), "strides of [24, 4] bytes"),
            (map(&[4, 8]).strides(&[8, 2]).tile(&[4, 8]), "an innermost stride of one element"),
            (map(&[4, 4, 4]).im2col(&[0], &[-4], 4, 4), "the corners [0] and [-4] of the shape"),
            (map(&[4, 512]), "tile extents of 1 to 256"),
            (map(&[4, 8]).tile(&[4, 3]), "rows of 3 elements = 12 bytes"),
            (map(&[4, 16]).swizzle(Swizzle::B96), "the swizzle `B96`"),
            (map(&[4, 64]).swizzle(Swizzle::B128), "at most 128 with this swizzle"),
            (map(&[4, 8]).element(ElementType::U32).fill(Fill::Nan), "NaN in floating-point tensors"),
            (
                map(&[4, 4, 4, 4, 4]).im2col(&[0, 0, -17], &[0; 3], 4, 4),
                "offsets of -16 to 15 in a box of 3 dimensions",
            ),
            (map(&[4, 4, 4]).im2col(&[0], &[0], 4, 1025), "1 to 1024 pixels"),
            (map(&[256, 256]), "262144 bytes at a time"),
            (map(&[4, 4, 16]).im2col_wide(0, 0, 16, 4), "the swizzles `B64`, `B128` and `B128Atom32`"),
            (map(&[4, 4, 16]).im2col_wide(0, -4, 16, 4).swizzle(Swizzle::B64), "a bounding box of at least one pixel"),
            (map(&[4, 16]).im2col_wide_128(0, 0, 16).swizzle(Swizzle::B64), "3 to 5 dimensions"),
        ];
        for (map, text) in wrong {
            let error = map.check().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TensorMap);
            assert!(error.to_string().contains(text), "{error}\nlacks: {text}");
        }
    }

    #[test]
    fn views_may_start_in_between() {
        let device = Device::cpu();
        let memory = device.zeros::<f32>(64).unwrap();
        let view = memory.slice(1..).unwrap();
        let error = TensorMap::of(&device, &view, &[4, 4]).unwrap().check().unwrap_err();
        assert!(error.to_string().contains("an address that is a multiple of 16 bytes"), "{error}");
    }
}
