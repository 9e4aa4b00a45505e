//! Runs the kernels and compares with the model.

use crate::kernels::moves;
use crate::model::{Pixels, Tensor, Tile, noise, outside};
use ptx_launch::prelude::*;
use ptx_launch::{ElementType, Fill, Promotion, Swizzle, TensorMapBuilder};
use std::cell::RefCell;

/// Options of a map besides its shape.
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
        self.element.bits() as usize / 8
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

/// As the kernels want them: in the other order, and as many for every rank.
fn innermost_first<T: Copy + Default, const MOST: usize>(all: &[T]) -> [T; MOST] {
    std::array::from_fn(|i| all.iter().rev().nth(i).copied().unwrap_or_default())
}

fn coordinates(at: &[i32]) -> [u32; 5] {
    innermost_first(at).map(|at: i32| at as u32)
}

/// Shared memory after a load, which the barrier must have seen.
pub fn loaded(device: &Device, map: &TensorMap, at: &[i32], size: usize, expected: usize) -> Vec<u8> {
    let mut to = device.zeros::<u32>(size / 4 + 1).unwrap();
    let (words, bytes, stream) = ((size / 4) as u32, expected as u32, device.stream());
    let (rank, [x, y, z, w, v]) = (at.len(), coordinates(at));
    // SAFETY: the map's tensor outlives the kernel, and `to` has a word behind those that it writes.
    unsafe {
        match rank {
            1 => moves::load::<1, false>(&stream, map, &mut to, words, bytes, x, y, z, w, v, 0, 0, 0),
            2 => moves::load::<2, false>(&stream, map, &mut to, words, bytes, x, y, z, w, v, 0, 0, 0),
            3 => moves::load::<3, false>(&stream, map, &mut to, words, bytes, x, y, z, w, v, 0, 0, 0),
            4 => moves::load::<4, false>(&stream, map, &mut to, words, bytes, x, y, z, w, v, 0, 0, 0),
            5 => moves::load::<5, false>(&stream, map, &mut to, words, bytes, x, y, z, w, v, 0, 0, 0),
            _ => panic!("rank {rank}"),
        }
    }
    .unwrap();
    delivered(&to)
}

/// The bytes that a kernel has delivered.
pub fn delivered(to: &Buffer<u32>) -> Vec<u8> {
    let mut words = to.download().unwrap();
    assert_eq!(words.pop(), Some(1), "the barrier does not count as many bytes as expected; shared memory: {words:x?}");
    bytes(&words)
}

fn stored(device: &Device, map: &TensorMap, at: &[i32], smem: &[u8]) {
    let from = device.upload(&words(smem)).unwrap();
    let (words, stream) = ((smem.len() / 4) as u32, device.stream());
    let (rank, [x, y, z, w, v]) = (at.len(), coordinates(at));
    // SAFETY: the map's tensor and `from` outlive the kernel, which reads `words` words.
    unsafe {
        match rank {
            1 => moves::store::<1>(&stream, map, &from, words, x, y, z, w, v),
            2 => moves::store::<2>(&stream, map, &from, words, x, y, z, w, v),
            3 => moves::store::<3>(&stream, map, &from, words, x, y, z, w, v),
            4 => moves::store::<4>(&stream, map, &from, words, x, y, z, w, v),
            5 => moves::store::<5>(&stream, map, &from, words, x, y, z, w, v),
            _ => panic!("rank {rank}"),
        }
    }
    .unwrap();
    stream.synchronize().unwrap();
}

fn walked(device: &Device, map: &TensorMap, pixels: &Pixels, size: usize, expected: usize) -> Vec<u8> {
    let mut to = device.zeros::<u32>(size / 4 + 1).unwrap();
    let (words, bytes, stream) = ((size / 4) as u32, expected as u32, device.stream());
    let (rank, [x, y, z, w, v]) = (pixels.at.len(), coordinates(&pixels.at));
    let [right, down, deep] = innermost_first(&pixels.offsets);
    assert_eq!(pixels.offsets.len() + 2, rank);
    // SAFETY: the map's tensor outlives the kernel, and `to` has a word behind those that it writes.
    unsafe {
        match rank {
            3 => moves::load::<3, true>(&stream, map, &mut to, words, bytes, x, y, z, w, v, right, down, deep),
            4 => moves::load::<4, true>(&stream, map, &mut to, words, bytes, x, y, z, w, v, right, down, deep),
            5 => moves::load::<5, true>(&stream, map, &mut to, words, bytes, x, y, z, w, v, right, down, deep),
            _ => panic!("rank {rank}"),
        }
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
