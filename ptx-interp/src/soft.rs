//! Binary floating point on integers: every format and every rounding mode, exact by construction.
//!
//! A number is unpacked to `±sig · 2^exp` with 128 bits of significand, calculated with a sticky low bit, and packed
//! once. Nothing here depends on instructions, `.ftz` or `.sat`. The quick paths for `f32` and `f64` are in `ops::float`.

#[cfg(test)]
#[path = "soft/tests.rs"] // also where `tests/units` includes this file
mod tests;

/// Rounding of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Round {
    /// `.rn`: to nearest, ties to even.
    Nearest,
    /// `.rna`: to nearest, ties away from zero.
    Away,
    /// `.rz`
    Zero,
    /// `.rm`
    Down,
    /// `.rp`
    Up,
}

/// A binary format of at most 64 bits.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Format {
    /// Bits of a value in memory.
    pub bits: u32,
    /// Bits of the fraction.
    pub fraction: u32,
    /// The exponent's bias.
    pub bias: i32,
    /// The largest finite magnitude.
    pub max: u64,
    /// The bits of infinity, if it has one.
    pub infinity: Option<u64>,
    /// The NaN that instructions give, if it has any.
    pub nan: Option<u64>,
    /// True if the top bit is a sign.
    pub signed: bool,
    /// Low bits that a register holds beside the value (13 for `tf32`).
    pub padding: u32,
}

const fn ieee(bits: u32, fraction: u32, nan: u64) -> Format {
    let exponent = bits - 1 - fraction;
    let infinity = ((1 << exponent) - 1) << fraction;
    let bias = (1 << (exponent - 1)) - 1;
    Format {
        bits,
        fraction,
        bias,
        max: infinity - 1,
        infinity: Some(infinity),
        nan: Some(nan),
        signed: true,
        padding: 0,
    }
}

const fn small(bits: u32, fraction: u32, bias: i32, max: u64, nan: Option<u64>) -> Format {
    Format { bits, fraction, bias, max, infinity: None, nan, signed: true, padding: 0 }
}

pub(super) static F16: Format = ieee(16, 10, 0x7fff);
pub(super) static BF16: Format = ieee(16, 7, 0x7fff);
pub(super) static F32: Format = ieee(32, 23, 0x7fff_ffff);
pub(super) static F64: Format = ieee(64, 52, 0xfff8_0000_0000_0000);
pub(super) static TF32: Format = Format { padding: 13, ..ieee(19, 10, 0x3_ffff) };
pub(super) static E5M2: Format = ieee(8, 2, 0x7f);
pub(super) static E4M3: Format = small(8, 3, 7, 0x7e, Some(0x7f));
pub(super) static UE4M3: Format = Format { signed: false, ..small(7, 3, 7, 0x7e, Some(0x7f)) };
pub(super) static E3M2: Format = small(6, 2, 3, 0x1f, None);
pub(super) static E2M3: Format = small(6, 3, 1, 0x1f, None);
pub(super) static E2M1: Format = small(4, 1, 1, 0x7, None);

/// The format of a type's name.
pub(super) fn format(name: &str) -> Option<&'static Format> {
    const NAMES: [(&str, &Format); 10] = [
        ("f16", &F16),
        ("bf16", &BF16),
        ("f32", &F32),
        ("f64", &F64),
        ("tf32", &TF32),
        ("e5m2", &E5M2),
        ("e4m3", &E4M3),
        ("e3m2", &E3M2),
        ("e2m3", &E2M3),
        ("e2m1", &E2M1),
    ];
    NAMES.iter().find(|(n, _)| *n == name).map(|(_, f)| *f)
}

/// The bits of a number in a floating-point type of PTX (`f16`, `bf16`, `e4m3` …), rounded to nearest; `None` for any other
/// type.
pub fn encode_float(ty: &str, value: f64) -> Option<u64> {
    format(ty).map(|to| pack(unpack(value.to_bits(), &F64), to, Round::Nearest, false))
}

/// The number that the bits of a floating-point type of PTX are; `None` for any other type.
pub fn decode_float(ty: &str, bits: u64) -> Option<f64> {
    format(ty).map(|from| unpack(bits, from).value())
}

/// An unpacked number. A significand of zero is a zero with a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Num {
    Nan,
    Inf { neg: bool },
    Finite { neg: bool, sig: u128, exp: i32 },
}

use Num::{Finite, Inf, Nan};

impl Num {
    /// The number as a double, to nearest.
    pub(super) fn value(self) -> f64 {
        f64::from_bits(pack(self, &F64, Round::Nearest, false))
    }

    /// An integer's value.
    pub(super) fn int(value: i128) -> Num {
        Finite { neg: value < 0, sig: value.unsigned_abs(), exp: 0 }
    }

    /// Returns true if it is negative, zeros and infinities included.
    pub(super) fn negative(self) -> bool {
        matches!(self, Inf { neg: true } | Finite { neg: true, .. })
    }

    /// Returns true if it is a zero.
    pub(super) fn is_zero(self) -> bool {
        matches!(self, Finite { sig: 0, .. })
    }

    /// With the other sign.
    pub(super) fn negate(self) -> Num {
        match self {
            Nan => Nan,
            Inf { neg } => Inf { neg: !neg },
            Finite { neg, sig, exp } => Finite { neg: !neg, sig, exp },
        }
    }

    /// Rounded to an integer, which is exact; infinities and NaN stay.
    pub(super) fn to_integral(self, round: Round) -> Num {
        match self {
            Finite { neg, sig, exp } if exp < 0 => {
                Finite { neg, sig: shift(sig, exp.unsigned_abs(), neg, round), exp: 0 }
            }
            other => other,
        }
    }
}

/// Bits to a number.
pub(super) fn unpack(bits: u64, format: &Format) -> Num {
    let bits = bits >> format.padding;
    let sign = if format.signed { 1u64 << (format.bits - 1) } else { 0 };
    let neg = bits & sign != 0;
    let magnitude = bits & (sign.wrapping_sub(1) & mask(format.bits));
    match format.infinity {
        Some(infinity) if magnitude == infinity => return Inf { neg },
        _ if magnitude > format.max => return Nan,
        _ => {}
    }
    let fraction = magnitude & mask(format.fraction);
    let exponent = (magnitude >> format.fraction) as i32;
    let hidden = u64::from(exponent != 0) << format.fraction;
    let exp = exponent.max(1) - format.bias - format.fraction as i32;
    Finite { neg, sig: u128::from(fraction | hidden), exp }
}

/// A number to bits, rounded once. Beyond the largest finite value it becomes infinity as the mode defines; with
/// `saturate`, or in a format without infinity, the largest finite value.
pub(super) fn pack(num: Num, format: &Format, round: Round, saturate: bool) -> u64 {
    let sign = if format.signed { 1u64 << (format.bits - 1) } else { 0 };
    let (neg, magnitude) = match num {
        Nan => return format.nan.unwrap_or(format.max) << format.padding,
        Inf { neg } => (neg, beyond(format, saturate)),
        Finite { neg, sig: 0, .. } => (neg, 0),
        Finite { neg, sig, exp } => (neg, pack_magnitude(neg, sig, exp, format, round, saturate)),
    };
    if neg && !format.signed {
        return 0;
    }
    (if neg { magnitude | sign } else { magnitude }) << format.padding
}

/// Result for an infinite value.
fn beyond(format: &Format, saturate: bool) -> u64 {
    match format.infinity {
        Some(infinity) if !saturate => infinity,
        _ => format.max,
    }
}

fn pack_magnitude(neg: bool, sig: u128, exp: i32, format: &Format, round: Round, saturate: bool) -> u64 {
    let top = 127 - sig.leading_zeros() as i32;
    let lowest = 1 - format.bias;
    let leading = (top + exp).max(lowest);
    if leading > format.bias + 2 {
        return overflow(neg, format, round, saturate);
    }
    let quantum = leading - format.fraction as i32;
    let kept = if quantum <= exp { sig << (exp - quantum) } else { shift(sig, (quantum - exp) as u32, neg, round) };
    let magnitude = (((leading - lowest) as u64) << format.fraction) + kept as u64;
    if magnitude > format.max { overflow(neg, format, round, saturate) } else { magnitude }
}

fn overflow(neg: bool, format: &Format, round: Round, saturate: bool) -> u64 {
    let inward = match round {
        Round::Nearest | Round::Away => false,
        Round::Zero => true,
        Round::Down => !neg,
        Round::Up => neg,
    };
    beyond(format, saturate || inward)
}

/// `sig >> by`, rounded.
fn shift(sig: u128, by: u32, neg: bool, round: Round) -> u128 {
    let kept = sig.checked_shr(by).unwrap_or(0);
    let rest = if by >= 128 { sig } else { sig & ((1 << by) - 1) };
    let half = if (1..=128).contains(&by) { 1u128 << (by - 1) } else { 0 };
    let up = match round {
        Round::Nearest => by <= 128 && (rest > half || (rest == half && kept & 1 == 1)),
        Round::Away => by <= 128 && rest >= half,
        Round::Zero => false,
        Round::Down => neg && rest != 0,
        Round::Up => !neg && rest != 0,
    };
    kept + u128::from(up && by != 0)
}

/// `a + b`. The rounding mode only decides the sign of an exact zero.
pub(super) fn add(a: Num, b: Num, round: Round) -> Num {
    match (a, b) {
        (Nan, _) | (_, Nan) => Nan,
        (Inf { neg: x }, Inf { neg: y }) if x != y => Nan,
        (Inf { .. }, _) => a,
        (_, Inf { .. }) => b,
        (Finite { neg: x, sig: 0, .. }, Finite { neg: y, sig: 0, .. }) if x == y => a,
        (Finite { sig: 0, .. }, Finite { sig: 0, .. }) => zero(round),
        (Finite { sig: 0, .. }, _) => b,
        (_, Finite { sig: 0, .. }) => a,
        (Finite { neg: x, sig: p, exp: i }, Finite { neg: y, sig: q, exp: j }) => sum((x, p, i), (y, q, j), round),
    }
}

fn zero(round: Round) -> Num {
    Finite { neg: round == Round::Down, sig: 0, exp: 0 }
}

type Parts = (bool, u128, i32);

/// The sum of two numbers that are not zero: the larger is aligned to bit 124, the smaller gets a sticky bit.
fn sum(a: Parts, b: Parts, round: Round) -> Num {
    let leading = |p: Parts| 127 - p.1.leading_zeros() as i32 + p.2;
    let (big, small) = if leading(a) >= leading(b) { (a, b) } else { (b, a) };
    let (sig, exp) = aligned(big.1, big.2);
    let distance = small.2 - exp;
    let other = if distance >= 0 { small.1 << distance } else { sticky(small.1, distance.unsigned_abs()) };
    let signed = |neg: bool, sig: u128| if neg { -(sig as i128) } else { sig as i128 };
    let total = signed(big.0, sig) + signed(small.0, other);
    match total {
        0 => zero(round),
        _ => Finite { neg: total < 0, sig: total.unsigned_abs(), exp },
    }
}

/// The same value with its leading bit at 124.
fn aligned(sig: u128, exp: i32) -> (u128, i32) {
    let up = sig.leading_zeros() as i32 - 3;
    if up >= 0 { (sig << up, exp - up) } else { (sticky(sig, up.unsigned_abs()), exp - up) }
}

/// `sig >> by`, with the lowest bit set if anything was lost.
fn sticky(sig: u128, by: u32) -> u128 {
    let kept = sig.checked_shr(by).unwrap_or(0);
    kept | u128::from(kept.checked_shl(by).unwrap_or(0) != sig)
}

/// `a · b`, exact for significands of up to 64 bits.
pub(super) fn mul(a: Num, b: Num) -> Num {
    let neg = a.negative() != b.negative();
    match (a, b) {
        (Nan, _) | (_, Nan) => Nan,
        (Inf { .. }, other) | (other, Inf { .. }) => {
            if other.is_zero() {
                Nan
            } else {
                Inf { neg }
            }
        }
        (Finite { sig: p, exp: i, .. }, Finite { sig: q, exp: j, .. }) => Finite { neg, sig: p * q, exp: i + j },
    }
}

/// `a · b + c`, rounded once when packed.
pub(super) fn fma(a: Num, b: Num, c: Num, round: Round) -> Num {
    add(mul(a, b), c, round)
}

/// `a / b`, to at least 60 bits and a sticky one.
pub(super) fn div(a: Num, b: Num) -> Num {
    let neg = a.negative() != b.negative();
    match (a, b) {
        (Nan, _) | (_, Nan) | (Inf { .. }, Inf { .. }) => Nan,
        (Inf { .. }, _) => Inf { neg },
        (_, Inf { .. }) => Finite { neg, sig: 0, exp: 0 },
        (Finite { sig: 0, .. }, Finite { sig: 0, .. }) => Nan,
        (Finite { sig: 0, .. }, _) => Finite { neg, sig: 0, exp: 0 },
        (_, Finite { sig: 0, .. }) => Inf { neg },
        (Finite { sig: p, exp: i, .. }, Finite { sig: q, exp: j, .. }) => {
            let (p, i) = aligned(p, i);
            let (quotient, rest) = (p / q, p % q);
            Finite { neg, sig: quotient << 1 | u128::from(rest != 0), exp: i - j - 1 }
        }
    }
}

/// The square root, to 62 bits and a sticky one.
pub(super) fn sqrt(a: Num) -> Num {
    match a {
        Nan => Nan,
        Finite { sig: 0, .. } | Inf { neg: false } => a,
        Inf { neg: true } | Finite { neg: true, .. } => Nan,
        Finite { sig, exp, .. } => {
            let (sig, exp) = aligned(sig, exp);
            let (sig, exp) = if exp % 2 == 0 { (sig, exp) } else { (sig << 1, exp - 1) };
            let root = sig.isqrt();
            Finite { neg: false, sig: root << 1 | u128::from(root * root != sig), exp: exp / 2 - 1 }
        }
    }
}

/// The low `bits` bits set.
pub(super) const fn mask(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}
