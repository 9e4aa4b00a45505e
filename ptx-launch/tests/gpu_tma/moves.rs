//! Runs the kernels and compares with the model.

use crate::kernels::moves;
use crate::model::{Pixels, Tensor, Tile, noise, outside};
use ptx_launch::prelude::*;
use ptx_launch::{ElementType, Fill, Promotion, Swizzle, TensorMapBuilder};
use std::cell::RefCell;

/// How a map is made besides its shape.
#[derive(Clone, Copy)]
pub struct Options {
    pub element: ElementType,
    pub swizzle: Swizzle,
    pub promotion: Promotion,
    pub fill: Fill,
}

/// 32-bit words of whole elements, with nothing special.
pub const PLAIN: Options =
    Options { element: ElementType::U32, swizzle: Swizzle::None, promotion: Promotion::None, fill: Fill::Zero };

thread_local!(static DEVICE: RefCell<Option<Device>> = const { RefCell::new(None) });

/// The test of this thread runs on that device.
pub fn run_on(device: Device) {
    DEVICE.set(Some(device));
}

/// The device of this thread's test.
pub fn device() -> Device {
    DEVICE.with_borrow(Clone::clone).unwrap()
}

impl Options {
    pub fn bytes(self) -> usize {
        self.element.bits() / 8
    }

    fn outside(self) -> Vec<u8> {
        outside(self.fill, self.bytes())
    }

    /// A map of the tensor in `memory`.
    pub fn map(self, device: &Device, memory: &Buffer<u8>, tensor: &Tensor) -> TensorMapBuilder {
        let map = TensorMap::of(device, memory, &tensor.shape).unwrap();
        map.element(self.element)
            .strides(&tensor.strides)
            .swizzle(self.swizzle)
            .promotion(self.promotion)
            .fill(self.fill)
    }
}

/// Loads a box and compares every byte of shared memory.
pub fn load(what: &str, tensor: &Tensor, tile: &Tile, options: Options) {
    let device = device();
    let memory = device.upload(&tensor.memory).unwrap();
    let map = options.map(&device, &memory, tensor).tile(&tile.extents).step(&tile.step).build().unwrap();
    let wanted = tile.load(tensor, options.swizzle, &options.outside());
    compare(what, &loaded(&device, &map, &tile.at, wanted.len(), moved(tile, options)), &wanted);
}

/// Bytes that the barrier counts.
fn moved(tile: &Tile, options: Options) -> usize {
    let rank = tile.extents.len();
    let count = |d: usize| if d + 1 == rank { tile.extents[d] } else { tile.extents[d].div_ceil(tile.step[d]) };
    (0..rank).map(count).product::<usize>() * options.bytes()
}

/// Stores a box, and compares every byte of the tensor's memory.
pub fn store(what: &str, tensor: &Tensor, tile: &Tile, options: Options) {
    let device = device();
    let memory = device.upload(&tensor.memory).unwrap();
    let map = options.map(&device, &memory, tensor).tile(&tile.extents).step(&tile.step).build().unwrap();
    let smem = noise(moved(tile, options).next_multiple_of(1024), 7);
    stored(&device, &map, &tile.at, &smem);
    let mut wanted = tensor.clone();
    tile.store(&mut wanted, options.swizzle, &smem);
    assert!(wanted.memory != tensor.memory, "{what}: nothing is stored");
    compare(what, &memory.download().unwrap(), &wanted.memory);
}

/// Loads pixels and compares every byte of shared memory.
pub fn im2col(what: &str, tensor: &Tensor, pixels: &Pixels, options: Options) {
    let device = device();
    let memory = device.upload(&tensor.memory).unwrap();
    let map = options.map(&device, &memory, tensor).step(&pixels.step);
    let map = map.im2col(&pixels.lower, &pixels.upper, pixels.channels, pixels.pixels).build().unwrap();
    let wanted = pixels.load(tensor, options.swizzle, &options.outside());
    let bytes = pixels.pixels * pixels.channels * options.bytes();
    compare(what, &walked(&device, &map, pixels, wanted.len(), bytes), &wanted);
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Shared memory after a load, which the barrier must have seen.
pub fn loaded(device: &Device, map: &TensorMap, at: &[i32], size: usize, expected: usize) -> Vec<u8> {
    let mut to = device.zeros::<u32>(size / 4 + 1).unwrap();
    let (words, bytes, stream) = ((size / 4) as u32, expected as u32, device.stream());
    let at: Vec<u32> = at.iter().rev().map(|at| *at as u32).collect();
    match *at {
        [x] => moves::load_1d(&stream, map, &mut to, words, bytes, x),
        [x, y] => moves::load_2d(&stream, map, &mut to, words, bytes, x, y),
        [x, y, z] => moves::load_3d(&stream, map, &mut to, words, bytes, x, y, z),
        [x, y, z, w] => moves::load_4d(&stream, map, &mut to, words, bytes, x, y, z, w),
        [x, y, z, w, v] => moves::load_5d(&stream, map, &mut to, words, bytes, x, y, z, w, v),
        _ => panic!("rank {}", at.len()),
    }
    .unwrap();
    delivered(&to)
}

/// What a kernel has delivered.
pub fn delivered(to: &Buffer<u32>) -> Vec<u8> {
    let mut words = to.download().unwrap();
    assert_eq!(words.pop(), Some(1), "the barrier does not count as many bytes as expected; shared memory: {words:x?}");
    bytes(&words)
}

fn stored(device: &Device, map: &TensorMap, at: &[i32], smem: &[u8]) {
    let from = device.upload(&words(smem)).unwrap();
    let (words, stream) = ((smem.len() / 4) as u32, device.stream());
    let at: Vec<u32> = at.iter().rev().map(|at| *at as u32).collect();
    // SAFETY: the map's tensor and `from` outlive the kernel, which reads `words` words.
    unsafe {
        match *at {
            [x] => moves::store_1d(&stream, map, &from, words, x),
            [x, y] => moves::store_2d(&stream, map, &from, words, x, y),
            [x, y, z] => moves::store_3d(&stream, map, &from, words, x, y, z),
            [x, y, z, w] => moves::store_4d(&stream, map, &from, words, x, y, z, w),
            [x, y, z, w, v] => moves::store_5d(&stream, map, &from, words, x, y, z, w, v),
            _ => panic!("rank {}", at.len()),
        }
    }
    .unwrap();
    stream.synchronize().unwrap();
}

fn walked(device: &Device, map: &TensorMap, pixels: &Pixels, size: usize, expected: usize) -> Vec<u8> {
    let mut to = device.zeros::<u32>(size / 4 + 1).unwrap();
    let (words, bytes, stream) = ((size / 4) as u32, expected as u32, device.stream());
    let at: Vec<u32> = pixels.at.iter().rev().map(|at| *at as u32).collect();
    let by: Vec<u16> = pixels.offsets.iter().rev().copied().collect();
    match (&*at, &*by) {
        (&[c, w, n], &[x]) => moves::im2col_3d(&stream, map, &mut to, words, bytes, c, w, n, x),
        (&[c, w, h, n], &[x, y]) => moves::im2col_4d(&stream, map, &mut to, words, bytes, c, w, h, n, x, y),
        (&[c, w, h, d, n], &[x, y, z]) => moves::im2col_5d(&stream, map, &mut to, words, bytes, c, w, h, d, n, x, y, z),
        _ => panic!("rank {}", at.len()),
    }
    .unwrap();
    delivered(&to)
}

/// Every byte, with the first difference told.
pub fn compare(what: &str, got: &[u8], wanted: &[u8]) {
    assert_eq!(got.len(), wanted.len(), "{what}");
    if let Some(at) = (0..got.len()).find(|at| got[*at] != wanted[*at]) {
        let from = at / 16 * 16;
        let to = (from + 32).min(got.len());
        let count = got.iter().zip(wanted).filter(|(got, wanted)| got != wanted).count();
        panic!(
            "{what}: byte {at} is the first of {count} that differ\n{:02x?}\n{:02x?}",
            &got[from..to],
            &wanted[from..to]
        );
    }
}
