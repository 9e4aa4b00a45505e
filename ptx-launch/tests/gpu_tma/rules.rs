//! The rules of the builder against the driver's verdicts.

use crate::moves::device;
use ptx_launch::prelude::*;
use ptx_launch::{ElementType, Fill, Interleave, Promotion, ReadSlice, Swizzle, TensorMapBuilder};

const SWIZZLES: [Swizzle; 7] = [
    Swizzle::None,
    Swizzle::B32,
    Swizzle::B64,
    Swizzle::B128,
    Swizzle::B128Atom32,
    Swizzle::B128Atom32Flip8,
    Swizzle::B128Atom64,
];

/// A map of memory that is as large as any, so that only the driver's rules can be broken.
fn map(memory: &Buffer<u8>, device: &Device, offset: usize, shape: &[usize]) -> TensorMapBuilder {
    let view = memory.slice(offset..).unwrap();
    let stream = device.as_stream();
    let view = &view;
    let bound = ReadSlice::<u8>::bind(&view, stream).unwrap();
    TensorMap::of_bound::<u8>(&bound, stream, usize::MAX, shape)
}

/// Ours, with an explanation if it is no, and the driver's.
fn verdicts(map: &TensorMapBuilder) -> (bool, bool) {
    let explained = |error: ptx_launch::Error| error.kind() == ptx_launch::ErrorKind::TensorMap;
    (!map.build().is_err_and(explained), map.encode().is_ok())
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n
    }

    fn of<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }

    /// The first one mostly.
    fn mostly<T: Clone>(&mut self, list: &[T]) -> T {
        if self.below(4) > 0 { list[0].clone() } else { self.of(list) }
    }
}

fn random(memory: &Buffer<u8>, device: &Device, dice: &mut Random) -> TensorMapBuilder {
    let rank = dice.of(&[1, 2, 2, 3, 3, 4, 5, 6]);
    let offset = dice.mostly(&[0, 16, 8, 32, 4]);
    let shape = random_shape(rank, dice);
    let strides = random_strides(&shape, dice);
    let map = random_options(map(memory, device, offset, &shape).strides(&strides), rank, dice);
    if rank >= 3 && dice.below(3) == 0 {
        return random_pixels(map, rank, dice);
    }
    let mut tile: Vec<usize> = (0..rank).map(|_| dice.mostly(&[4, 8, 1, 16, 256, 257, 0])).collect();
    if let Some(last) = tile.last_mut() {
        *last = dice.of(&[16, 128, 4, 8, 32, 64, 256, 257, 3]);
    }
    map.tile(&tile)
}

fn random_shape(rank: usize, dice: &mut Random) -> Vec<usize> {
    let extents = [16, 1, 7, 64, (1 << 31) - 1, 1 << 31, (1 << 31) + 1, 1 << 32, (1 << 32) + 1];
    let mut shape: Vec<usize> = (0..rank).map(|_| dice.mostly(&extents)).collect();
    if let Some(last) = shape.last_mut() {
        *last = dice.mostly(&[128, 16, 32, 64, 256, 100, 3]);
    }
    shape
}

fn random_strides(shape: &[usize], dice: &mut Random) -> Vec<usize> {
    let mut strides = vec![1];
    let mut last: usize = 1;
    for extent in shape.iter().skip(1).rev() {
        let next = last.saturating_mul(*extent).min(1 << 39);
        last = dice.mostly(&[next, next + 16, next + 8, 16, 32, next + 4, 1 << 39, 0]);
        strides.push(last);
    }
    strides.reverse();
    strides
}

fn random_options(map: TensorMapBuilder, rank: usize, dice: &mut Random) -> TensorMapBuilder {
    let map = map.interleave(dice.mostly(&Interleave::ALL));
    let map = map.swizzle(dice.mostly(&SWIZZLES)).fill(dice.mostly(&Fill::ALL));
    let map = map.promotion(dice.of(&Promotion::ALL));
    let step: Vec<usize> = (0..rank).map(|_| dice.mostly(&[1, 2, 8, 9, 0])).collect();
    map.element(dice.of(&ElementType::ALL)).step(&step)
}

fn random_pixels(map: TensorMapBuilder, rank: usize, dice: &mut Random) -> TensorMapBuilder {
    let corners = [0, -1, 1, -16, 15, 16, -17, -128, 127, 128, 32767, -32769];
    let [lower, upper] = [(); 2].map(|()| (2..rank).map(|_| dice.mostly(&corners)).collect::<Vec<i32>>());
    let (channels, pixels) = (dice.mostly(&[16, 128, 4, 256, 257, 0, 32]), dice.mostly(&[64, 1024, 1025, 0, 1, 256]));
    map.im2col(&lower, &upper, channels, pixels)
}

/// A matrix, an image, interleaved slices: each is valid, and each change of it breaks one rule or stays valid.
pub fn the_driver_agrees_with_every_rule() {
    let device = device();
    let memory = device.zeros::<u8>(4096).unwrap();
    let wide = |shape: &[usize]| map(&memory, &device, 0, shape).element(ElementType::U32);
    let matrix = || wide(&[256, 256]).tile(&[16, 16]);
    let image = || wide(&[8, 16, 16, 64]).im2col(&[-1, -1], &[-1, -1], 16, 64);
    let slices = || wide(&[8, 16, 64]).tile(&[4, 4, 16]).interleave(Interleave::B16);
    let packed = |element| wide(&[16, 256]).element(element).tile(&[16, 128]);
    let cases = [
        (true, "a matrix", matrix()),
        (true, "an image", image()),
        (true, "slices", slices()),
        (false, "rank 6", wide(&[4; 6])),
        (false, "interleaved rank 2", matrix().interleave(Interleave::B16)),
        (false, "im2col of rank 2", matrix().im2col(&[], &[], 16, 64)),
        (true, "an extent of 2^32", wide(&[1 << 32, 16]).tile(&[16, 16])),
        (false, "an extent above 2^32", wide(&[(1 << 32) + 1, 16]).tile(&[16, 16])),
        (true, "step 8", matrix().step(&[8, 1])),
        (false, "step 9", matrix().step(&[9, 1])),
        (false, "step 0", matrix().step(&[0, 1])),
        (false, "an address of 8", map(&memory, &device, 8, &[16, 16]).element(ElementType::U32)),
        (true, "an address of 16", map(&memory, &device, 16, &[16, 16]).element(ElementType::U32)),
        (
            false,
            "slices of 32 bytes at 16",
            map(&memory, &device, 16, &[8, 16, 64]).tile(&[4, 4, 16]).interleave(Interleave::B32),
        ),
        (false, "a stride of 8 bytes", matrix().strides(&[2, 1])),
        (true, "a stride of 0 bytes", matrix().strides(&[0, 1])),
        (false, "a stride of 2^40 bytes", matrix().strides(&[1 << 38, 1])),
        (true, "a stride below 2^40 bytes", matrix().strides(&[(1 << 38) - 4, 1])),
        (true, "strides of 48 bytes in slices of 16", slices().strides(&[1024, 12, 1])),
        (false, "strides of 48 bytes in slices of 32", slices().strides(&[1024, 12, 1]).interleave(Interleave::B32)),
        (true, "slices of 32 bytes without a swizzle", slices().interleave(Interleave::B32)),
        (true, "a tile of 256", matrix().tile(&[256, 16])),
        (false, "a tile of 257", matrix().tile(&[257, 16])),
        (false, "a tile of 0", matrix().tile(&[0, 16])),
        (false, "rows of 12 bytes", matrix().tile(&[16, 3])),
        (false, "rows of 12 bytes in slices", slices().tile(&[4, 4, 3])),
        (true, "rows as long as the swizzle", matrix().swizzle(Swizzle::B64)),
        (false, "rows longer than the swizzle", matrix().swizzle(Swizzle::B32)),
        (true, "rows longer than the swizzle, of slices", slices().swizzle(Swizzle::B32)),
        (false, "NaN in integers", matrix().fill(Fill::Nan)),
        (true, "NaN in floats", matrix().element(ElementType::F32).fill(Fill::Nan)),
        (true, "the lowest corner", image().im2col(&[-128, -128], &[-1, -1], 16, 64)),
        (false, "below the lowest corner", image().im2col(&[-129, 0], &[-1, -1], 16, 64)),
        (false, "above the highest corner", image().im2col(&[0, 0], &[128, 0], 16, 64)),
        (true, "one pixel between the corners", image().im2col(&[0, 0], &[-15, 0], 16, 64)),
        (false, "nothing between the corners", image().im2col(&[0, 0], &[-16, 0], 16, 64)),
        (false, "1025 pixels", image().im2col(&[0, 0], &[0, 0], 16, 1025)),
        (false, "0 pixels", image().im2col(&[0, 0], &[0, 0], 16, 0)),
        (false, "257 channels", image().im2col(&[0, 0], &[0, 0], 260, 64)),
        (true, "228 KB", matrix().tile(&[228, 256])),
        (false, "256 KB", matrix().tile(&[256, 256])),
        (true, "256 KB, of which every other row is taken", matrix().tile(&[256, 256]).step(&[2, 1])),
        (false, "packed elements before compute capability 10.0", packed(ElementType::U4Align8)),
        (false, "large swizzle atoms before compute capability 10.0", matrix().swizzle(Swizzle::B128Atom32)),
    ];
    let (major, _) = device.as_cuda().unwrap().compute_capability().unwrap();
    let wrong = cases.iter().filter(|(valid, what, map)| {
        let (ours, driver) = verdicts(map);
        let valid = *valid || (major >= 10 && what.contains("before compute capability"));
        let agree = ours == valid && driver == valid;
        if !agree {
            println!("{what}: valid {valid}, we say {ours}, the driver {driver}");
        }
        !agree
    });
    assert_eq!(wrong.count(), 0);
}

/// Maps with values at the borders of the rules, most of them right.
pub fn the_driver_agrees_on_random_maps() {
    let device = device();
    let memory = device.zeros::<u8>(4096).unwrap();
    let mut dice = Random(42);
    let (mut valid, mut wrong) = (0, 0);
    for _ in 0..200_000 {
        let map = random(&memory, &device, &mut dice);
        let (ours, driver) = verdicts(&map);
        valid += usize::from(driver);
        wrong += usize::from(ours != driver);
        if ours != driver {
            println!("we say {ours}, the driver {driver}: {map:?}");
        }
    }
    assert!(valid > 20_000, "{valid} valid maps test nothing");
    assert_eq!(wrong, 0);
}
