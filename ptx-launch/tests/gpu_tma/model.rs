//! The manual's model of tensor copies (PTX ISA, sections 5.5.3 to 5.5.7), byte by byte on the host.

use ptx_launch::{Fill, Swizzle};

/// A tensor in memory; dimensions innermost last.
#[derive(Clone)]
pub struct Tensor {
    pub memory: Vec<u8>,
    /// Bytes of an element.
    pub element: usize,
    pub shape: Vec<usize>,
    /// In elements.
    pub strides: Vec<usize>,
}

/// Position of a box in it.
#[derive(Clone)]
pub struct Tile {
    pub extents: Vec<usize>,
    /// Every how many elements one is taken; of the innermost dimension all are.
    pub step: Vec<usize>,
    pub at: Vec<i32>,
}

/// A walk over pixels.
#[derive(Clone)]
pub struct Pixels {
    pub lower: Vec<i32>,
    pub upper: Vec<i32>,
    pub step: Vec<usize>,
    pub channels: usize,
    pub pixels: usize,
    /// Batch, depth…, channel.
    pub at: Vec<i32>,
    /// Of the filter, for depth, height and width.
    pub offsets: Vec<u16>,
}

impl Tensor {
    /// A tensor whose every byte differs from its neighbors'.
    pub fn new(element: usize, shape: &[usize], strides: Option<&[usize]>) -> Tensor {
        let packed = packed(shape);
        let strides = strides.map_or(packed, <[usize]>::to_vec);
        let last: usize = shape.iter().zip(&strides).map(|(extent, stride)| (extent - 1) * stride).sum();
        let bytes = ((last + 1) * element).next_multiple_of(16);
        Tensor { memory: noise(bytes, 1), element, shape: shape.to_vec(), strides }
    }

    /// Start of an element, if it is inside.
    fn place(&self, at: &[i64]) -> Option<usize> {
        let inside = at.iter().zip(&self.shape).all(|(at, extent)| (0..*extent as i64).contains(at));
        let offset: i64 = at.iter().zip(&self.strides).map(|(at, stride)| at * *stride as i64).sum();
        inside.then(|| offset as usize * self.element)
    }

    fn value(&self, at: &[i64], fill: &[u8]) -> Vec<u8> {
        self.place(at).map_or(fill.to_vec(), |place| self.memory[place..place + self.element].to_vec())
    }
}

impl Tile {
    /// The elements of the box in the order of shared memory.
    fn places(&self) -> Vec<Vec<i64>> {
        let rank = self.extents.len();
        let step = |d: usize| if d + 1 == rank { 1 } else { self.step[d] };
        let mut places = vec![vec![]];
        for d in 0..rank {
            let count = self.extents[d].div_ceil(step(d));
            let along = |place: &Vec<i64>| -> Vec<Vec<i64>> {
                let to = |i: usize| [place.as_slice(), &[i64::from(self.at[d]) + (i * step(d)) as i64]].concat();
                (0..count).map(to).collect()
            };
            places = places.iter().flat_map(along).collect();
        }
        places
    }

    /// Shared memory after a copy to it.
    pub fn load(&self, tensor: &Tensor, swizzle: Swizzle, fill: &[u8]) -> Vec<u8> {
        let packed: Vec<u8> = self.places().iter().flat_map(|at| tensor.value(at, fill)).collect();
        swizzled(&packed, self.extents.last().unwrap() * tensor.element, swizzle)
    }

    /// The tensor after a copy of `smem`.
    pub fn store(&self, tensor: &mut Tensor, swizzle: Swizzle, smem: &[u8]) {
        let (places, element) = (self.places(), tensor.element);
        let packed: Vec<u8> = (0..places.len() * element).map(|i| smem[swizzle_of(i, swizzle)]).collect();
        for (at, value) in places.iter().zip(packed.chunks(element)) {
            if let Some(place) = tensor.place(at) {
                tensor.memory[place..place + element].copy_from_slice(value);
            }
        }
    }
}

impl Pixels {
    /// Shared memory after a copy to it.
    pub fn load(&self, tensor: &Tensor, swizzle: Swizzle, fill: &[u8]) -> Vec<u8> {
        let mut at: Vec<i64> = self.at.iter().copied().map(i64::from).collect();
        let channel = at.pop().unwrap();
        let mut smem = Vec::new();
        for _ in 0..self.pixels {
            let mut pixel = at.clone();
            for (d, offset) in self.offsets.iter().enumerate() {
                pixel[d + 1] += i64::from(*offset);
            }
            for c in 0..self.channels as i64 {
                let at = [pixel.as_slice(), &[channel + c]].concat();
                smem.extend(tensor.value(&at, fill));
            }
            self.advance(&mut at, tensor);
        }
        swizzled(&smem, self.channels * tensor.element, swizzle)
    }

    /// The next pixel of the bounding box: along the width first, then the height, the depth, the batch.
    fn advance(&self, at: &mut [i64], tensor: &Tensor) {
        for d in (1..at.len()).rev() {
            at[d] += self.step[d] as i64;
            if at[d] < tensor.shape[d] as i64 + i64::from(self.upper[d - 1]) {
                return;
            }
            at[d] = self.lower[d - 1].into();
        }
        at[0] += 1;
    }
}

/// Distances between the elements of a tensor without gaps.
fn packed(shape: &[usize]) -> Vec<usize> {
    (1..=shape.len()).map(|d| shape[d..].iter().product()).collect()
}

/// Bytes that look random.
pub fn noise(bytes: usize, seed: u32) -> Vec<u8> {
    let next = |state: &mut u32, _| {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Some((*state >> 24) as u8)
    };
    (0..bytes).scan(seed, next).collect()
}

/// Rows of so many bytes, apart as the swizzle requires.
fn swizzled(packed: &[u8], row: usize, swizzle: Swizzle) -> Vec<u8> {
    let span = match swizzle {
        Swizzle::None => row,
        Swizzle::B32 => 32,
        Swizzle::B64 => 64,
        _ => 128,
    };
    let pitch = row.max(span);
    let mut smem = vec![0xab; (packed.len() / row * pitch).next_multiple_of(1024)];
    for (i, byte) in packed.iter().enumerate() {
        smem[swizzle_of(i / row * pitch + i % row, swizzle)] = *byte;
    }
    smem
}

/// Position of a byte of shared memory after swizzling.
fn swizzle_of(i: usize, swizzle: Swizzle) -> usize {
    match swizzle {
        Swizzle::None => i,
        Swizzle::B32 => i ^ ((i >> 3) & 0x10),
        Swizzle::B64 => i ^ ((i >> 3) & 0x30),
        Swizzle::B128 => i ^ ((i >> 3) & 0x70),
        Swizzle::B128Atom32 => i ^ ((i >> 2) & 0x60),
        Swizzle::B128Atom32Flip8 => i ^ ((i >> 2) & 0x60) ^ ((i >> 4) & 0x08),
        Swizzle::B128Atom64 => i ^ ((i >> 1) & 0x40),
        Swizzle::B96 => panic!("the driver makes no map with it"),
    }
}

/// An element outside: zeros, or the special NaN, which is made of 16-bit ones.
pub fn outside(fill: Fill, element: usize) -> Vec<u8> {
    let pattern = if fill == Fill::Nan { [0xf7, 0x7f] } else { [0, 0] };
    pattern.iter().copied().cycle().take(element).collect()
}
