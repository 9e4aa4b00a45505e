//! Tensor maps on a real GPU of compute capability 9.0, and on the CPU device: every mode moves a box, which is compared byte
//! by byte with a model on the host, and the rules of the builder are compared with the driver's verdicts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, unsafe_code, unreachable_pub, reason = "tests")]

mod kernels;
mod model;
mod moves;
mod rules;

use libtest_mimic::{Arguments, Failed, Trial};
use model::{Pixels, Tensor, Tile};
use moves::{Options, PLAIN, device, im2col, load, store};
use ptx_launch::prelude::*;
use ptx_launch::{ElementType, Fill, Interleave, Promotion, Swizzle, TensorElement};
use std::process::ExitCode;

const TESTS: &[(&str, fn())] = &[
    ("rank_1", rank::<1>),
    ("rank_2", rank::<2>),
    ("rank_3", rank::<3>),
    ("rank_4", rank::<4>),
    ("rank_5", rank::<5>),
    ("every_type", every_type),
    ("tf32_is_rounded_to_even", tf32_is_rounded_to_even),
    ("typed_buffers", typed_buffers),
    ("strides_and_steps", strides_and_steps),
    ("swizzles", swizzles),
    ("swizzles_with_short_rows", swizzles_with_short_rows),
    ("swizzle_atoms", swizzle_atoms),
    ("promotions", promotions),
    ("fills", fills),
    ("interleaves", interleaves),
    ("im2col_3_to_5_dimensions", im2col_3_to_5_dimensions),
    ("im2col_steps_and_swizzles", im2col_steps_and_swizzles),
    ("another_address", another_address),
    ("a_map_made_by_the_launch", a_map_made_by_the_launch),
];

/// Those that ask the driver.
const OF_THE_DRIVER: &[(&str, fn())] = &[
    ("the_driver_agrees_with_every_rule", rules::the_driver_agrees_with_every_rule),
    ("the_driver_agrees_on_random_maps", rules::the_driver_agrees_on_random_maps),
];

fn main() -> ExitCode {
    let missing = moves_missing();
    let on_gpu = TESTS.iter().chain(OF_THE_DRIVER).map(|(name, test)| {
        let trial = Trial::test(format!("gpu::{name}"), move || run(Device::cuda(0).unwrap(), *test));
        trial.with_ignored_flag(missing).with_kind(if missing { "needs a GPU of compute capability 9.0" } else { "" })
    });
    libtest_mimic::run(&Arguments::from_args(), on_gpu.chain(on_cpu()).collect()).exit_code()
}

#[cfg(feature = "cpu")]
fn on_cpu() -> impl Iterator<Item = Trial> {
    TESTS.iter().map(|(name, test)| Trial::test(format!("cpu::{name}"), move || run(Device::cpu(), *test)))
}

#[cfg(not(feature = "cpu"))]
fn on_cpu() -> impl Iterator<Item = Trial> {
    std::iter::empty()
}

/// Returns true if the kernels cannot be loaded on this machine.
fn moves_missing() -> bool {
    Device::cuda(0).map_or(true, |device| kernels::moves::load_tile::KERNEL.load(&device).is_err())
}

fn run(device: Device, test: fn()) -> Result<(), Failed> {
    moves::run_on(device);
    std::panic::catch_unwind(test).map_err(|_| Failed::without_message())
}

fn tile(extents: &[usize], at: &[i32]) -> Tile {
    Tile { extents: extents.to_vec(), step: vec![1; at.len()], at: at.to_vec() }
}

fn element(element: ElementType) -> Options {
    Options { element, ..PLAIN }
}

fn swizzle(swizzle: Swizzle) -> Options {
    Options { swizzle, ..PLAIN }
}

/// Inside, and over every edge. The innermost coordinate is a multiple of 16 bytes, and a store starts inside.
fn rank<const RANK: usize>() {
    let (shape, extents) = ([3, 4, 5, 6, 20], [2, 3, 2, 3, 12]);
    let (from, to) = (5 - RANK, 5);
    let tensor = Tensor::new(4, &shape[from..to], None);
    for at in [[0, 0, 0, 0, 0], [1, 1, 2, 3, 4], [2, 3, 4, 5, 16], [-1, -2, 4, -1, -4], [2, 3, -1, 5, 16]] {
        let tile = tile(&extents[from..to], &at[from..to]);
        load(&format!("load, rank {RANK} at {:?}", tile.at), &tensor, &tile, PLAIN);
        if tile.at.iter().all(|at| *at >= 0) {
            store(&format!("store, rank {RANK} at {:?}", tile.at), &tensor, &tile, PLAIN);
        }
    }
}

const TYPES: [ElementType; 11] = [
    ElementType::F32Ftz,
    ElementType::U8,
    ElementType::U16,
    ElementType::U32,
    ElementType::I32,
    ElementType::U64,
    ElementType::I64,
    ElementType::F16,
    ElementType::F32,
    ElementType::F64,
    ElementType::Bf16,
];

fn every_type() {
    for ty in TYPES {
        let options = element(ty);
        let tensor = Tensor::new(options.bytes(), &[10, 48], None);
        load(&format!("load {ty:?}"), &tensor, &tile(&[6, 32], &[-2, 32]), options);
        store(&format!("store {ty:?}"), &tensor, &tile(&[6, 32], &[5, 32]), options);
    }
}

/// Below, between and above numbers of 10 bits of fraction, and special ones.
const NUMBERS: [(u32, u32); 16] = [
    (0x3f80_0fff, 0x3f80_0000),
    (0x3f80_1000, 0x3f80_0000),
    (0x3f80_1001, 0x3f80_2000),
    (0x3f80_1fff, 0x3f80_2000),
    (0x3f80_2fff, 0x3f80_2000),
    (0x3f80_3000, 0x3f80_4000),
    (0x7f7f_ffff, 0x7f80_0000),
    (0x7f80_0000, 0x7f80_0000),
    (0xff80_0000, 0xff80_0000),
    (0x7fc0_1234, 0x7fff_e000),
    (0x7f80_0001, 0x7fff_e000),
    (0x0080_0000, 0x0080_0000),
    (0x0040_0000, 0x0040_0000),
    (0x0000_0001, 0x0000_0000),
    (0x8000_0123, 0x8000_0000),
    (0x807f_ffff, 0x8080_0000),
];

fn tf32_is_rounded_to_even() {
    let device = device();
    let memory = device.upload(&NUMBERS.map(|(number, _)| number)).unwrap();
    let wanted: Vec<u8> = NUMBERS.iter().flat_map(|(_, rounded)| rounded.to_le_bytes()).collect();
    for ty in [ElementType::Tf32, ElementType::Tf32Ftz] {
        let map = TensorMap::of(&device, &memory, &[16]).unwrap().element(ty).build().unwrap();
        moves::compare(&format!("{ty:?}"), &moves::loaded(&device, &map, &[0], 64, 64), &wanted);
    }
}

/// The value with these bytes.
fn value<T: TensorElement>(bytes: &[u8]) -> T {
    assert_eq!(bytes.len(), size_of::<T>());
    // SAFETY: as many bytes, and any of them are a value.
    unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }
}

/// A buffer of `T`, whose map has the type of its elements.
fn typed<T: TensorElement + PartialEq + std::fmt::Debug>() {
    let device = device();
    let bytes = model::noise(64 * size_of::<T>(), 3);
    let values: Vec<T> = bytes.chunks(size_of::<T>()).map(value).collect();
    let memory = device.upload(&values).unwrap();
    let map = TensorMap::of(&device, &memory, &[4, 16]).unwrap().tile(&[2, 16]).build().unwrap();
    let moved = 32 * size_of::<T>();
    let got = moves::loaded(&device, &map, &[1, 0], moved, moved);
    moves::compare(std::any::type_name::<T>(), &got, &bytes[16 * size_of::<T>()..][..moved]);
}

fn typed_buffers() {
    let types: [fn(); 12] = [
        typed::<u8>,
        typed::<i8>,
        typed::<u16>,
        typed::<i16>,
        typed::<u32>,
        typed::<i32>,
        typed::<u64>,
        typed::<i64>,
        typed::<f16>,
        typed::<bf16>,
        typed::<f32>,
        typed::<f64>,
    ];
    types.iter().for_each(|check| check());
}

fn strides_and_steps() {
    let tensor = Tensor::new(2, &[5, 7, 9, 32], Some(&[8192, 960, 96, 1]));
    load("strides", &tensor, &tile(&[2, 3, 2, 32], &[1, 2, 8, 8]), element(ElementType::U16));
    store("strides", &tensor, &tile(&[2, 3, 2, 32], &[1, 2, 8, 8]), element(ElementType::U16));
    for step in [[1, 1, 2, 1], [2, 3, 1, 1], [4, 8, 5, 1], [1, 1, 1, 4]] {
        let tile = Tile { step: step.to_vec(), ..tile(&[4, 8, 9, 16], &[-1, 1, 0, 8]) };
        load(&format!("step {step:?}"), &tensor, &tile, element(ElementType::F16));
        let inside = Tile { at: vec![0, 1, 0, 8], ..tile };
        store(&format!("step {step:?}"), &tensor, &inside, element(ElementType::F16));
    }
}

fn swizzles() {
    for (mode, row) in [(Swizzle::None, 48), (Swizzle::B32, 8), (Swizzle::B64, 16), (Swizzle::B128, 32)] {
        let tensor = Tensor::new(4, &[40, 64], None);
        let tile = tile(&[32, row], &[3, 8]);
        load(&format!("load {mode:?}"), &tensor, &tile, swizzle(mode));
        store(&format!("store {mode:?}"), &tensor, &tile, swizzle(mode));
    }
}

/// Rows that are shorter than the swizzle lie as far apart as it is long.
fn swizzles_with_short_rows() {
    let rows = [(Swizzle::B32, 4), (Swizzle::B64, 4), (Swizzle::B64, 8), (Swizzle::B128, 8), (Swizzle::B128, 16)];
    for (mode, row) in rows {
        let tensor = Tensor::new(4, &[40, 64], None);
        load(&format!("load {row} in {mode:?}"), &tensor, &tile(&[16, row], &[3, 8]), swizzle(mode));
    }
}

/// For compute capability 10.0; before, it is an error.
fn swizzle_atoms() {
    let major = device().as_cuda().map_or(10, |cuda| cuda.compute_capability().unwrap().0);
    for mode in [Swizzle::B128Atom32, Swizzle::B128Atom32Flip8, Swizzle::B128Atom64] {
        let tensor = Tensor::new(4, &[40, 64], None);
        let tile = tile(&[16, 32], &[3, 8]);
        if major >= 10 {
            load(&format!("load {mode:?}"), &tensor, &tile, swizzle(mode));
            store(&format!("store {mode:?}"), &tensor, &tile, swizzle(mode));
        } else {
            let (device, memory) = (device(), device().upload(&tensor.memory).unwrap());
            let error = swizzle(mode).map(&device, &memory, &tensor).tile(&tile.extents).build().unwrap_err();
            assert!(error.to_string().contains("compute capability 10.0 and later"), "{error}");
        }
    }
}

fn promotions() {
    for promotion in Promotion::ALL {
        let tensor = Tensor::new(4, &[40, 64], None);
        load(&format!("{promotion:?}"), &tensor, &tile(&[16, 32], &[3, 8]), Options { promotion, ..PLAIN });
    }
}

fn fills() {
    for ty in [ElementType::F16, ElementType::Bf16, ElementType::F32, ElementType::F64] {
        for fill in Fill::ALL {
            let options = Options { fill, ..element(ty) };
            let tensor = Tensor::new(options.bytes(), &[10, 48], None);
            load(&format!("{fill:?} {ty:?}"), &tensor, &tile(&[6, 32], &[-2, 32]), options);
        }
    }
}

/// Slices of 16 and 32 bytes: the innermost dimension counts them, and the next one is that of the channels.
fn interleaves() {
    for (slice, mode, swizzle) in [
        (16, Interleave::B16, Swizzle::None),
        (32, Interleave::B32, Swizzle::None),
        (32, Interleave::B32, Swizzle::B32),
    ] {
        // 4 × 2 × 16 slices of 2-byte elements.
        let (slices, per) = ([4, 2, 16], slice / 2);
        let tensor = Tensor::new(slice, &slices, None);
        let tile = tile(&[2, 1, 8], &[1, 1, 8]);
        let device = device();
        let memory = device.upload(&tensor.memory).unwrap();
        let map = TensorMap::of(&device, &memory, &slices).unwrap().element(ElementType::U16);
        let map = map.strides(&[32 * per, 16 * per, 1]).tile(&tile.extents).interleave(mode).swizzle(swizzle);
        let wanted = tile.load(&tensor, swizzle, &vec![0; slice]);
        let got = moves::loaded(&device, &map.build().unwrap(), &tile.at, wanted.len(), 16 * slice);
        moves::compare(&format!("{mode:?} {swizzle:?}"), &got, &wanted);
    }
}

fn pixels(at: &[i32], offsets: &[u16], lower: &[i32], upper: &[i32]) -> Pixels {
    let step = vec![1; at.len()];
    Pixels {
        lower: lower.to_vec(),
        upper: upper.to_vec(),
        step,
        channels: 8,
        pixels: 40,
        at: at.to_vec(),
        offsets: offsets.to_vec(),
    }
}

fn im2col_3_to_5_dimensions() {
    let tensor = Tensor::new(4, &[4, 9, 16], None);
    im2col("NWC", &tensor, &pixels(&[1, 4, 8], &[0], &[-1], &[-1]), PLAIN);
    im2col("NWC", &tensor, &pixels(&[0, 0, 12], &[2], &[0], &[-2]), PLAIN);
    let tensor = Tensor::new(4, &[3, 14, 9, 16], None);
    im2col("NHWC", &tensor, &pixels(&[1, 4, 7, 0], &[0, 0], &[-1, -1], &[-1, -1]), PLAIN);
    im2col("NHWC", &tensor, &pixels(&[1, -1, -1, 8], &[1, 2], &[-1, -1], &[-1, -1]), PLAIN);
    im2col("NHWC", &tensor, &pixels(&[2, 11, 3, 12], &[2, 1], &[0, 0], &[-2, -2]), PLAIN);
    let tensor = Tensor::new(4, &[3, 4, 5, 6, 16], None);
    im2col("NDHWC", &tensor, &pixels(&[1, 1, 2, 3, 4], &[0, 1, 2], &[-1, -1, -1], &[-1, -1, -1]), PLAIN);
    im2col("NDHWC", &tensor, &pixels(&[1, 2, 3, 4, 0], &[1, 1, 1], &[0, 0, 0], &[-1, -1, -1]), PLAIN);
}

fn im2col_steps_and_swizzles() {
    let tensor = Tensor::new(4, &[3, 14, 9, 64], None);
    let at = pixels(&[1, -1, -1, 0], &[1, 2], &[-1, -1], &[-1, -1]);
    let every_other = Pixels { step: vec![1, 2, 2, 1], ..at.clone() };
    im2col("step 2", &tensor, &every_other, PLAIN);
    let uneven = Pixels { step: vec![1, 3, 2, 1], channels: 16, ..at.clone() };
    im2col("step 3, 2", &tensor, &uneven, PLAIN);
    for (mode, channels) in [(Swizzle::B32, 8), (Swizzle::B64, 16), (Swizzle::B128, 32)] {
        im2col(&format!("{mode:?}"), &tensor, &Pixels { channels, ..at.clone() }, swizzle(mode));
    }
    let nan = Options { fill: Fill::Nan, ..element(ElementType::F32) };
    im2col("NaN", &tensor, &at, nan);
}

fn another_address() {
    let (device, tensor) = (device(), Tensor::new(4, &[16, 16], None));
    let (first, second) = (device.zeros::<u8>(1024).unwrap(), device.upload(&tensor.memory).unwrap());
    let map = PLAIN.map(&device, &first, &tensor).tile(&[8, 16]);
    let map = map.moved_to(&device, &second).unwrap().build().unwrap();
    let wanted = tile(&[8, 16], &[4, 0]).load(&tensor, Swizzle::None, &[0; 4]);
    moves::compare("another address", &moves::loaded(&device, &map, &[4, 0], wanted.len(), 512), &wanted);
}

fn a_map_made_by_the_launch() {
    let (device, tensor) = (device(), Tensor::new(4, &[20, 40], None));
    let values: Vec<f32> = tensor.memory.chunks(4).map(value).collect();
    let a = device.upload(&values).unwrap();
    let mut to = device.zeros::<u32>(513).unwrap();
    kernels::moves::load_tile(&device, a.tile([20, 40]).unwrap(), &mut to, 16, 8).unwrap();
    let wanted = tile(&[16, 32], &[8, 16]).load(&tensor, Swizzle::B128, &model::outside(Fill::Nan, 4));
    moves::compare("a tile", &moves::delivered(&to), &wanted);
}
