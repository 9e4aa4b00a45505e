//! The arithmetic on integers against an independent implementation (LLVM's, as `rustc_apfloat`).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use super::*;
use rustc_apfloat::ieee::{BFloat, Double, Half, Single};
use rustc_apfloat::{Float, FloatConvert, Round as Mode};

const MODES: [(Round, Mode); 5] = [
    (Round::Nearest, Mode::NearestTiesToEven),
    (Round::Away, Mode::NearestTiesToAway),
    (Round::Zero, Mode::TowardZero),
    (Round::Down, Mode::TowardNegative),
    (Round::Up, Mode::TowardPositive),
];

/// Random patterns of a format: uniform bits, the edges of exponents, values near each other.
fn samples(bits: u32, count: usize) -> Vec<u64> {
    let mut state = 0x1234_5678_9abc_def1u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let edge = |r: u64| match r % 5 {
        0 => 0,
        1 => 1,
        2 => mask(bits - 1) >> 1,
        3 => 1 << (bits - 2),
        _ => mask(bits - 1),
    };
    (0..count)
        .map(|i| {
            (if i % 3 == 0 { edge(next()) ^ (next() % 4) ^ (next() % 2) << (bits - 1) } else { next() }) & mask(bits)
        })
        .collect()
}

/// Equal, where every NaN is the same.
fn same<F: Float>(ours: u64, theirs: F, format: &Format) -> bool {
    if theirs.is_nan() { unpack(ours, format) == Nan } else { u128::from(ours) == theirs.to_bits() }
}

fn operations<F: Float>(format: &Format) {
    let values = samples(format.bits, 3000);
    for triple in values.windows(3) {
        let [a, b, c] = [triple[0], triple[1], triple[2]];
        let [x, y, z] = [a, b, c].map(|v| unpack(v, format));
        let [p, q, r] = [a, b, c].map(|v| F::from_bits(v.into()));
        for (ours, theirs) in MODES {
            let give = |n: Num| pack(n, format, ours, false);
            let said = |what: &str| format!("{what} {a:#x} {b:#x} {c:#x} {ours:?}");
            assert!(same(give(add(x, y, ours)), p.add_r(q, theirs).value, format), "{}", said("add"));
            assert!(same(give(mul(x, y)), p.mul_r(q, theirs).value, format), "{}", said("mul"));
            assert!(same(give(div(x, y)), p.div_r(q, theirs).value, format), "{}", said("div"));
            assert!(same(give(fma(x, y, z, ours)), p.mul_add_r(q, r, theirs).value, format), "{}", said("fma"));
        }
    }
}

#[test]
fn numbers_are_encoded_in_the_types_of_ptx() {
    let cases = [
        ("f16", 1.0, 0x3c00),
        ("f16", 65520.0, 0x7c00),
        ("f16", 5.9e-8, 1),
        ("bf16", -1.5, 0xbfc0),
        ("e4m3", 448.0, 0x7e),
    ];
    for (ty, value, bits) in cases {
        assert_eq!(encode_float(ty, value), Some(bits), "{value} as {ty}");
    }
    assert_eq!(encode_float("u32", 1.0), None);
}

#[test]
fn operations_of_f16() {
    operations::<Half>(&F16);
}

#[test]
fn operations_of_bf16() {
    operations::<BFloat>(&BF16);
}

#[test]
fn operations_of_f32() {
    operations::<Single>(&F32);
}

#[test]
fn operations_of_f64() {
    operations::<Double>(&F64);
}

#[test]
fn square_roots() {
    for bits in samples(64, 20000) {
        let value = f64::from_bits(bits);
        let ours = pack(sqrt(unpack(bits, &F64)), &F64, Round::Nearest, false);
        assert!(same(ours, Double::from_bits(value.sqrt().to_bits().into()), &F64), "{bits:#x}");
        // Rounded down and up, the squares bracket the value.
        if value.is_finite() && value > 0.0 {
            let [down, up] =
                [Round::Down, Round::Up].map(|r| unpack(pack(sqrt(unpack(bits, &F64)), &F64, r, false), &F64));
            let below = |n: Num| add(mul(n, n), unpack(bits, &F64).negate(), Round::Nearest);
            assert!(below(down).negative() || below(down).is_zero());
            assert!(!below(up).negative());
        }
    }
}

#[test]
fn conversions_between_formats() {
    for bits in samples(64, 20000)
        .into_iter()
        .chain(samples(32, 20000).into_iter().map(|b| f64::from(f32::from_bits(b as u32)).to_bits()))
    {
        let double = Double::from_bits(bits.into());
        let number = unpack(bits, &F64);
        for (ours, theirs) in MODES {
            let mut lost = false;
            let single: Single = double.convert_r(theirs, &mut lost).value;
            let half: Half = double.convert_r(theirs, &mut lost).value;
            let brain: BFloat = double.convert_r(theirs, &mut lost).value;
            assert!(same(pack(number, &F32, ours, false), single, &F32), "{bits:#x} {ours:?}");
            assert!(same(pack(number, &F16, ours, false), half, &F16), "{bits:#x} {ours:?}");
            assert!(same(pack(number, &BF16, ours, false), brain, &BF16), "{bits:#x} {ours:?}");
        }
    }
}

#[test]
fn small_formats_go_there_and_back() {
    for format in [&E5M2, &E4M3, &E3M2, &E2M3, &E2M1, &TF32, &F16, &BF16] {
        for bits in 0..1u64 << format.bits {
            let padded = bits << format.padding;
            let number = unpack(padded, format);
            if number != Nan {
                assert_eq!(pack(number, format, Round::Nearest, false), padded, "{format:?}");
            }
        }
    }
}

#[test]
fn small_formats_saturate() {
    let from = |v: f64| unpack(v.to_bits(), &F64);
    assert_eq!(pack(from(1e9), &E4M3, Round::Nearest, true), 0x7e);
    assert_eq!(pack(from(-1e9), &E5M2, Round::Nearest, true), 0xfb);
    assert_eq!(pack(from(5.1), &E2M1, Round::Nearest, true), 0x7);
    assert_eq!(pack(from(2.5), &E2M1, Round::Nearest, true), 0x4);
    assert_eq!(pack(from(464.0), &E4M3, Round::Nearest, true), 0x7e);
    assert_eq!(pack(Nan, &E4M3, Round::Nearest, true), 0x7f);
}
