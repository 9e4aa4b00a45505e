//! Maps survive their bytes; bad bytes are refused.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

fn sample() -> TensorMap {
    let map = TensorMap::tiled(0x7f00_0000_0100, ElementType::F16, &[64, 9, 1 << 32], &[64, 3, 2]).unwrap();
    TensorMap { steps: [1, 2, 8, 1, 1], swizzle: Swizzle::B128, fill: Fill::Nan, promotion: Promotion::B256, ..map }
}

#[test]
fn maps_survive_their_bytes() {
    let lower = [-1, -128, 3];
    let modes = [
        sample().mode,
        Mode::Im2col { lower, upper: [0, 127, -4], channels: 64, pixels: 1024 },
        Mode::Im2colW { lower: -32768, upper: 32767, channels: 32, pixels: 8 },
    ];
    for mode in modes {
        let map = TensorMap { mode, ..sample() };
        assert_eq!(TensorMap::decode(&map.encode()), Ok(map));
    }
    for element in ElementType::ALL {
        let map = TensorMap { element, fill: Fill::Zero, ..sample() };
        assert_eq!(TensorMap::read(&map.encode()), Ok(map));
    }
}

#[test]
fn packed_strides() {
    assert_eq!(sample().strides[..2], [128, 1152]);
    let nibbles = TensorMap::tiled(0, ElementType::U4Align16, &[128, 2], &[32, 1]).unwrap();
    assert_eq!((nibbles.strides[0], nibbles.row_bytes()), (64, 32));
}

#[test]
fn garbage_is_refused() {
    assert!(TensorMap::decode(&[0; BYTES]).unwrap_err().to_string().contains("no tensor map"));
    assert!(TensorMap::decode(&[0xff; BYTES]).is_err());
    // Every byte changed alone: refused, or another map, never a panic.
    for (at, value) in (0..BYTES).flat_map(|at| [0, 1, 0x7f, 0xff].map(|value| (at, value))) {
        let mut bytes = sample().encode();
        bytes[at] = value;
        let _ = TensorMap::decode(&bytes);
    }
}

#[test]
fn rules() {
    let broken = |map: TensorMap| TensorMap::decode(&map.encode()).unwrap_err().to_string();
    let good = sample();
    assert!(broken(TensorMap { rank: 0, ..good }).contains("0 dimensions"));
    assert!(broken(TensorMap { rank: 6, ..good }).contains("6 dimensions"));
    assert!(broken(TensorMap { address: 8, ..good }).contains("multiple of 16"));
    assert!(broken(TensorMap { strides: [24, 0, 0, 0], ..good }).contains("stride of 24"));
    assert!(broken(TensorMap { steps: [1, 9, 1, 1, 1], ..good }).contains("step of 9"));
    assert!(broken(TensorMap { swizzle: Swizzle::B64, ..good }).contains("swizzled within 64"));
    assert!(broken(TensorMap { element: ElementType::U16, ..good }).contains("NaN"));
    assert!(broken(TensorMap { mode: Mode::Tiled { tile: [64, 257, 1, 1, 1] }, ..good }).contains("257"));
    assert!(broken(TensorMap { mode: Mode::Tiled { tile: [4, 1, 1, 1, 1] }, ..good }).contains("8 bytes"));
    let im2col = Mode::Im2col { lower: [0; 3], upper: [0; 3], channels: 64, pixels: 1025 };
    assert!(broken(TensorMap { mode: im2col, ..good }).contains("1025"));
    assert!(broken(TensorMap { mode: im2col, rank: 2, ..good }).contains("im2col of 2"));
    assert!(TensorMap::tiled(0, ElementType::F32, &[16], &[16, 1]).is_err());
}
