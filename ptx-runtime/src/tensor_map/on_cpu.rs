//! The map of the CPU device: the same numbers in the interpreter's own encoding. The GPU's is the driver's secret, so that
//! a map of one device is refused by the other.

use super::{Mode, TensorMap, TensorMapBuilder};
use crate::error::{Error, ErrorKind, Result};
use ptx_interp::tensor_map as cpu;

impl TensorMapBuilder {
    /// The map in the interpreter's encoding. The rules hold.
    pub(super) fn encode_on_cpu(&self) -> Result<TensorMap> {
        let map = cpu::TensorMap {
            address: self.address,
            rank: self.shape.len() as u32,
            dims: innermost_first(&self.shape, 1),
            strides: self.outer_strides(),
            steps: innermost_first(&self.steps(), 1),
            mode: self.mode.on_cpu(),
            element: self.element,
            interleave: self.interleave,
            swizzle: self.swizzle,
            promotion: self.promotion,
            fill: self.fill,
        };
        map.check().map_err(|broken| Error::new(ErrorKind::TensorMap, broken.to_string()))?;
        Ok(from_bytes(&map.encode()))
    }

    /// Bytes between neighbors of the second dimension and those behind it.
    fn outer_strides(&self) -> [u64; cpu::RANK - 1] {
        let mut strides = self.element_strides();
        strides.pop();
        let bytes: Vec<usize> = strides.into_iter().map(|stride| self.bytes(stride)).collect();
        innermost_first(&bytes, 0)
    }
}

#[cfg(test)]
impl TensorMap {
    fn bytes(&self) -> [u8; cpu::BYTES] {
        let mut bytes = [0; cpu::BYTES];
        let words = self.0.iter().flat_map(|word| word.to_le_bytes());
        bytes.iter_mut().zip(words).for_each(|(to, byte)| *to = byte);
        bytes
    }
}

fn from_bytes(bytes: &[u8; cpu::BYTES]) -> TensorMap {
    let mut words = [0; 16];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    TensorMap(words)
}

/// The list the other way round, and `rest` behind it; the values fit by the rules.
fn innermost_first<U: Copy + TryFrom<usize>, const N: usize>(list: &[usize], rest: U) -> [U; N] {
    let mut all = [rest; N];
    for (to, from) in all.iter_mut().zip(list.iter().rev()) {
        *to = U::try_from(*from).unwrap_or(rest);
    }
    all
}

impl Mode {
    fn on_cpu(&self) -> cpu::Mode {
        match self {
            Mode::Tiled { tile } => cpu::Mode::Tiled { tile: innermost_first(tile, 1) },
            Mode::Im2col { lower, upper, channels, pixels } => cpu::Mode::Im2col {
                lower: corner(lower),
                upper: corner(upper),
                channels: *channels as u32,
                pixels: *pixels as u32,
            },
            Mode::Im2colWide { lower, upper, channels, pixels } => cpu::Mode::Im2colW {
                lower: i16::try_from(*lower).unwrap_or(0),
                upper: i16::try_from(*upper).unwrap_or(0),
                channels: *channels as u32,
                pixels: pixels.unwrap_or(128) as u32,
            },
        }
    }
}

/// Width, height, depth, as far as there are.
fn corner(offsets: &[i32]) -> [i16; 3] {
    let mut all = [0; 3];
    for (to, from) in all.iter_mut().zip(offsets.iter().rev()) {
        *to = i16::try_from(*from).unwrap_or(0);
    }
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::Device;
    use crate::tensor_map::{ElementType, Fill, Swizzle};
    use half::bf16;

    #[test]
    fn the_interpreter_reads_what_was_built() {
        let device = Device::cpu();
        let memory = device.zeros::<bf16>(4096).unwrap();
        let of = |shape: &[usize]| TensorMap::of(&device, &memory, shape).unwrap();
        let builder = of(&[16, 128]).tile(&[16, 64]).swizzle(Swizzle::B128).fill(Fill::Nan);
        let map = builder.build().unwrap();
        let read = cpu::TensorMap::decode(&map.bytes()).unwrap();
        assert_eq!((read.address, read.rank, read.element), (memory.address(), 2, ElementType::Bf16));
        assert_eq!((read.dims[..2].to_vec(), read.strides[0], read.steps), (vec![128, 16], 256, [1; 5]));
        assert_eq!(read.mode, cpu::Mode::Tiled { tile: [64, 16, 1, 1, 1] });
        assert_eq!((read.swizzle, read.fill), (Swizzle::B128, Fill::Nan));

        let part = memory.slice(1024..).unwrap();
        let moved = builder.clone().moved_to(&device, &part).unwrap().build().unwrap();
        assert_eq!(cpu::TensorMap::decode(&moved.bytes()).unwrap().address, memory.address() + 2048);

        let map = of(&[2, 4, 4, 64]).im2col(&[-1, -2], &[1, 2], 16, 32).build().unwrap();
        let mode = cpu::TensorMap::decode(&map.bytes()).unwrap().mode;
        assert_eq!(mode, cpu::Mode::Im2col { lower: [-2, -1, 0], upper: [2, 1, 0], channels: 16, pixels: 32 });
        let wide = of(&[2, 4, 4, 32]).im2col_wide_128(-1, 2, 32).swizzle(Swizzle::B64).build().unwrap();
        let mode = cpu::TensorMap::decode(&wide.bytes()).unwrap().mode;
        assert_eq!(mode, cpu::Mode::Im2colW { lower: -1, upper: 2, channels: 32, pixels: 128 });
        let small = memory.slice(2056..).unwrap();
        let error = builder.moved_to(&device, &small).unwrap().build().unwrap_err();
        assert!(error.to_string().contains("inside the 4080 bytes of its buffer"), "{error}");
    }
}
