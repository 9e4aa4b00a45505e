//! Which bytes of a tensor one instruction moves, and where they stand in shared memory (5.5.3–5.5.7): rows of a box, of
//! four rows, or of pixels. Only arithmetic: what is done with the bytes is in `ops::tensor`.

use super::tensor_map::{Interleave, Mode, RANK, TensorMap};

/// Coordinates, innermost first.
pub(super) type At = [i64; RANK];

/// Traversal of a tensor by an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Walk {
    /// `.tile`
    Tile,
    /// `.tile::gather4` and `.tile::scatter4`: four rows of two dimensions.
    Rows([i64; 4]),
    /// `.im2col` and `.im2col_no_offs`, with the offsets of width, height, depth.
    Pixels([i64; 3]),
    /// `.im2col::w` and `.im2col::w::128`: halo and offset along the width.
    Row { halo: i64, offset: i64, wide: bool },
}

/// The rows that an instruction moves.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rows {
    /// Address of the innermost coordinate 0 of each row in global memory; `None` outside of the tensor.
    pub starts: Vec<Option<u64>>,
    /// The innermost coordinate at which all begin, how many units they have, and how many the tensor has.
    pub first: i64,
    pub count: i64,
    pub limit: i64,
    /// Bytes of a unit in global and in shared memory: of an element, of 16 small ones, or of a slice of channels.
    pub global: u64,
    pub shared: u64,
    /// Bytes from one row to the next in shared memory.
    pub pitch: u64,
}

impl Rows {
    /// Bytes that an mbarrier counts.
    pub(super) fn bytes(&self) -> u64 {
        self.starts.len() as u64 * self.count as u64 * self.shared
    }

    /// Of a row: the units that lie in the tensor, counted from its first.
    pub(super) fn inside(&self) -> std::ops::Range<i64> {
        let from = (-self.first).clamp(0, self.count);
        from..(self.limit - self.first).clamp(from, self.count)
    }
}

/// The rows of an instruction that starts at these coordinates; or why there are none.
pub(super) fn rows(map: &TensorMap, at: At, walk: Walk) -> Result<Rows, String> {
    let slice = match map.interleave {
        Interleave::None => None,
        Interleave::B16 => Some(16),
        Interleave::B32 => Some(32),
    };
    let element = map.element;
    let group = if slice.is_some() { 1 } else { element.group() as i64 };
    let (global, shared) = slice.map_or((element.global_bytes(), element.shared_bytes()), |bytes| (bytes, bytes));
    if at[0] % group != 0 || slice.is_none() && (at[0] / group * global as i64) % 16 != 0 {
        return Err(format!("innermost coordinate {}; it must be a multiple of 16 bytes", at[0]));
    }
    let places = match (walk, map.mode) {
        (Walk::Tile, Mode::Tiled { tile }) => tiled(map, at, tile),
        (Walk::Rows(lines), Mode::Tiled { .. }) if map.rank == 2 => lines.map(|line| [at[0], line, 0, 0, 0]).to_vec(),
        (Walk::Pixels(offsets), Mode::Im2col { lower, upper, pixels, .. }) => {
            let first = first_of_pixels(map);
            let ends = |d: usize| (lower[d - first].into(), map.dims[d] as i64 + i64::from(upper[d - first]));
            let outside = |d: &usize| !(ends(*d).0..ends(*d).1).contains(&at[*d]);
            if let Some(d) = pixel_dims(map).find(outside) {
                return Err(format!("a first pixel outside of the bounding box: coordinate {} is {}", d, at[d]));
            }
            let places = pixels_of(map, at, pixels, ends).map(|at| moved(at, first, offsets)).collect();
            if slice.is_some() {
                return Ok(slices(map, places, global));
            }
            places
        }
        (Walk::Row { halo, offset, wide }, Mode::Im2colW { lower, upper, pixels, .. }) => {
            let ends = (i64::from(lower) + offset, map.dims[1] as i64 + i64::from(upper) + offset);
            row_of(map, moved(at, 1, [offset, 0, 0]), ends, (pixels, halo, wide))
        }
        (walk, mode) => return Err(format!("{walk:?} of a map that was made for {mode:?}")),
    };
    let count = i64::from(map.row()) / group;
    Ok(Rows {
        starts: places.into_iter().map(|at| start(map, at)).collect(),
        first: at[0] / group,
        count,
        limit: map.dims[0] as i64 / group,
        global,
        shared,
        // Rows of slices lie close together, however they are swizzled.
        pitch: (count as u64 * shared).next_multiple_of(if slice.is_some() { 1 } else { map.swizzle.span() }),
    })
}

/// The first dimension that pixels lie in: behind the channels, unless these are interleaved.
fn first_of_pixels(map: &TensorMap) -> usize {
    usize::from(map.interleave == Interleave::None)
}

/// Width, height and depth, as far as there are; behind them stand the slices of interleaved channels, and the batch.
fn pixel_dims(map: &TensorMap) -> std::ops::Range<usize> {
    let first = first_of_pixels(map);
    first..map.rank as usize - 2 + first
}

/// Pixels of one slice of channels each.
fn slices(map: &TensorMap, places: Vec<At>, bytes: u64) -> Rows {
    let inside = |at: &At| (0..map.dims[0] as i64).contains(&at[0]);
    let address = |at: At| start(map, at).filter(|_| inside(&at)).map(|row| row.wrapping_add(at[0] as u64 * bytes));
    let starts = places.into_iter().map(address).collect();
    Rows { starts, first: 0, count: 1, limit: 1, global: bytes, shared: bytes, pitch: bytes }
}

/// Address of the innermost coordinate 0 of a row.
fn start(map: &TensorMap, at: At) -> Option<u64> {
    let outer = 1..map.rank as usize;
    let inside = outer.clone().all(|d| (0..map.dims[d] as i64).contains(&at[d]));
    let offset = outer.fold(0u64, |sum, d| sum.wrapping_add((at[d] as u64).wrapping_mul(map.strides[d - 1])));
    inside.then(|| map.address.wrapping_add(offset))
}

/// The rows of a box. The innermost dimension has no steps. Of interleaved channels one slice is moved: that of the
/// coordinate before the last, whatever the box is.
fn tiled(map: &TensorMap, at: At, tile: [u32; RANK]) -> Vec<At> {
    let mut places = vec![at];
    let slices = (map.interleave != Interleave::None).then(|| map.rank as usize - 2);
    for d in (1..map.rank as usize).rev().filter(|d| Some(*d) != slices) {
        let step = i64::from(map.steps[d]);
        let count = i64::from(tile[d].div_ceil(map.steps[d]));
        let mut along = Vec::new();
        for place in places {
            for i in 0..count {
                let mut next = place;
                next[d] += i * step;
                along.push(next);
            }
        }
        places = along;
    }
    places
}

/// Coordinates moved along width, height, depth, of which the first is this dimension.
fn moved(mut at: At, first: usize, offsets: [i64; 3]) -> At {
    for (coordinate, offset) in at[first..].iter_mut().zip(offsets) {
        *coordinate += offset;
    }
    at
}

/// Pixels of a bounding box: along the width first, then the height, the depth, the batch. `ends` has where the box begins
/// and ends in a dimension.
fn pixels_of(map: &TensorMap, at: At, pixels: u32, ends: impl Fn(usize) -> (i64, i64)) -> impl Iterator<Item = At> {
    let batch = map.rank as usize - 1;
    let mut next = at;
    (0..pixels).map(move |_| {
        let now = next;
        for d in pixel_dims(map).chain([batch]) {
            next[d] += if d == batch { 1 } else { i64::from(map.steps[d]) };
            if d == batch || next[d] < ends(d).1 {
                break;
            }
            next[d] = ends(d).0;
        }
        now
    })
}

/// Pixels along the width, row after row, with a halo behind them, or behind every 32.
fn row_of(map: &TensorMap, at: At, ends: (i64, i64), (pixels, halo, wide): (u32, i64, bool)) -> Vec<At> {
    let (pixels, part) = if wide { (128, 32) } else { (pixels, pixels) };
    let others = |d: usize| if d == 1 { ends } else { (0, map.dims[d] as i64) };
    let stepped = TensorMap { steps: [1, map.steps[1], 1, 1, 1], ..*map };
    let mut places = Vec::new();
    for (i, place) in pixels_of(&stepped, at, pixels, others).enumerate() {
        places.push(place);
        if (i + 1) % part.max(1) as usize == 0 {
            places.extend((1..=halo).map(|h| moved(place, 1, [h * i64::from(map.steps[1]), 0, 0])));
        }
    }
    places
}
