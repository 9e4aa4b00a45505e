//! Result of a tensor core for a row of A, a column of B and an element of C, bit for bit as on Hopper (measured on
//! an H200).
//!
//! The cores do not add one product after another. All products of an instruction and C are aligned to the largest
//! exponent among them (of the operands as they are written: products are not normalized first), cut to a few bits below
//! it, and added exactly; the sum is cut to `f32`, or rounded to nearest to `f16`. Nothing here depends on instructions or
//! fragments.

use super::field::{Field, Number};
use super::soft::{self, Format, Num, Round, mask};

/// Bits of fraction that every significand here has.
const FRACTION: u32 = 10;
/// The exponents of zeros (one less where it has a sign), and of infinities and NaN (significand 0).
const ZERO: i32 = -0x4000;
const SPECIAL: i32 = 0x4000;

/// Rows of A or columns of B, unpacked: significands with [`FRACTION`] bits of fraction, and exponents.
#[derive(Debug, Default)]
pub(super) struct Lines {
    depth: usize,
    sig: Vec<i32>,
    exp: Vec<i32>,
    /// Which lines hold infinities or NaNs.
    special: Vec<bool>,
}

/// One of them.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    sig: &'a [i32],
    exp: &'a [i32],
    special: bool,
    /// Every element counts with the other sign.
    negated: bool,
}

/// Element type of [`Lines`].
#[derive(Clone, Copy, Debug)]
pub(super) enum Element {
    Float(&'static Format),
    Int {
        bits: u32,
        signed: bool,
    },
    /// A real number.
    Real {
        field: Field,
        bits: u32,
    },
}

impl Element {
    /// The element type of a name, if tensor cores have it.
    pub(super) fn named(name: &str) -> Option<Element> {
        let digits = |class: char| name.strip_prefix(class).and_then(|bits| bits.parse().ok());
        match (soft::format(name), digits('s'), digits('u').or(digits('b'))) {
            (Some(format), ..) => Some(Element::Float(format)),
            (_, Some(bits), _) => Some(Element::Int { bits, signed: true }),
            (_, _, Some(bits)) => Some(Element::Int { bits, signed: false }),
            _ => None,
        }
    }

    /// Bits in a register or in shared memory: a `tf32` fills 32.
    pub(super) fn bits(self) -> u32 {
        match self {
            Element::Float(format) => format.bits + format.padding,
            Element::Int { bits, .. } | Element::Real { bits, .. } => bits,
        }
    }

    /// Significand and exponent; integers have an exponent of no meaning.
    fn read(self, bits: u64) -> (i32, i32) {
        match self {
            Element::Int { bits: width, signed: true } => (((bits << (64 - width)) as i64 >> (64 - width)) as i32, 0),
            Element::Int { bits: width, .. } => ((bits & mask(width)) as i32, 0),
            Element::Float(format) => read_float(bits >> format.padding, format),
            // A residue, or no number.
            Element::Real { field, bits: width } => {
                field.decode(bits, width).residue().map_or((0, SPECIAL), |residue| (residue as i32, 0))
            }
        }
    }
}

fn read_float(bits: u64, format: &Format) -> (i32, i32) {
    let neg = format.signed && bits >> (format.bits - 1) & 1 == 1;
    let magnitude = bits & mask(format.bits - u32::from(format.signed));
    let fraction = (magnitude & mask(format.fraction)) as i32;
    let exponent = (magnitude >> format.fraction) as i32;
    let sign = |value: i32| if neg { -value } else { value };
    if Some(magnitude) == format.infinity {
        return (sign(1), SPECIAL);
    }
    if magnitude > format.max {
        return (0, SPECIAL);
    }
    let sig = (fraction | i32::from(exponent != 0) << format.fraction) << (FRACTION - format.fraction);
    (sign(sig), if sig == 0 { ZERO - i32::from(neg) } else { exponent.max(1) - format.bias })
}

impl Lines {
    /// `count` lines of `depth` elements, each read from its bits.
    pub(super) fn new(count: usize, depth: usize, element: Element, bits: impl Fn(usize, usize) -> u64) -> Lines {
        let mut lines = Lines { depth, ..Lines::default() };
        lines.sig.reserve_exact(count * depth);
        lines.exp.reserve_exact(count * depth);
        for line in 0..count {
            let mut special = false;
            for at in 0..depth {
                let (sig, exp) = element.read(bits(line, at));
                special |= exp == SPECIAL;
                lines.sig.push(sig);
                lines.exp.push(exp);
            }
            lines.special.push(special);
        }
        lines
    }

    /// Number of elements of a line.
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// A line.
    pub(super) fn line(&self, at: usize) -> Line<'_> {
        let range = at * self.depth..(at + 1) * self.depth;
        let special = self.special.get(at).copied().unwrap_or(false);
        Line {
            sig: self.sig.get(range.clone()).unwrap_or_default(),
            exp: self.exp.get(range).unwrap_or_default(),
            special,
            negated: false,
        }
    }

    /// The elements of a line that a sparse row of A names, in `room`.
    pub(super) fn picked<'a>(&self, at: usize, picks: &[usize], room: &'a mut Lines) -> Line<'a> {
        let from = self.line(at);
        let of = |list: &[i32], zero: i32, pick: &usize| list.get(*pick).copied().unwrap_or(zero);
        room.depth = picks.len();
        room.sig.clear();
        room.exp.clear();
        room.sig.extend(picks.iter().map(|pick| of(from.sig, 0, pick)));
        room.exp.extend(picks.iter().map(|pick| of(from.exp, ZERO, pick)));
        room.special.clear();
        room.special.push(room.exp.contains(&SPECIAL));
        room.line(0)
    }

    /// Multiplies the elements `at` of a line, from `first` on, by a scale.
    pub(super) fn scale(&mut self, line: usize, elements: std::ops::Range<usize>, scale: Num) {
        let range = line * self.depth + elements.start..line * self.depth + elements.end;
        let (factor, shift) = match scale {
            Num::Finite { sig, exp, .. } => (sig as i32, exp),
            _ => (0, SPECIAL),
        };
        for at in range {
            let (Some(sig), Some(exp)) = (self.sig.get_mut(at), self.exp.get_mut(at)) else { continue };
            *sig *= factor;
            *exp = match (shift, *exp) {
                (SPECIAL, _) | (_, SPECIAL) => SPECIAL,
                _ if *sig == 0 => ZERO,
                (shift, old) => old + shift,
            };
            if let (SPECIAL, Some(special)) = (*exp, self.special.get_mut(line)) {
                *special = true;
            }
        }
    }
}

impl<'a> Line<'a> {
    /// With the other sign, if so.
    pub(super) fn negated(self, negate: bool) -> Line<'a> {
        Line { negated: self.negated ^ negate, ..self }
    }

    /// Its first half and the other.
    fn halves(self) -> [Line<'a>; 2] {
        let at = self.sig.len() / 2;
        let ((sig, sig_rest), (exp, exp_rest)) = (self.sig.split_at(at), self.exp.split_at(at));
        let part = |sig, exp: &'a [i32]| Line { sig, exp, special: self.special && exp.contains(&SPECIAL), ..self };
        [part(sig, exp), part(sig_rest, exp_rest)]
    }

    /// The values as `f32`; of finite numbers.
    fn value(self, at: usize) -> f32 {
        match (self.sig.get(at), self.exp.get(at)) {
            (Some(0), Some(&SPECIAL)) => f32::NAN,
            (Some(sig), Some(&SPECIAL)) => *sig as f32 * f32::INFINITY,
            (Some(0), Some(exp)) if *exp < ZERO => -0.0,
            (Some(sig), Some(exp)) => *sig as f32 * 2f32.powi(exp - FRACTION as i32),
            _ => 0.0,
        }
    }
}

/// Destination of a sum of products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// `f32`, cut to so many bits of fraction.
    Single(u32),
    /// `f16`, rounded to nearest.
    Half,
}

/// The sum of an instruction, from a row, a column and C to D.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Sum {
    /// All at once.
    Fused(Fused),
    /// `f32`, which then becomes `f16`.
    Narrowed(Fused),
    /// C and the first half of the elements, then the other: `wmma` of `tf32`.
    Twice(Fused),
    /// The first half of the elements, then the other, then C is added as numbers are: what Hopper makes of `mma` on
    /// 8 bits, by conversion to `f16`.
    Halves(Fused),
    /// One product after another by `fma` from zero, then C: Volta's `mma.m8n8k4` into `f32`, as ptxas writes it out for later
    /// chips. Whether C is `f16`.
    Chain { c: bool },
    /// C and two products, then two more, in `f32`: the same into `f16`.
    Pairs,
    /// Integers of 32 bits that wrap, or are clamped.
    Int { clamp: bool },
    /// The numbers of bits differ.
    Differ,
    /// Real numbers; the bits of C and D.
    Reals { field: Field, bits: [u32; 2] },
}

impl Sum {
    /// D.
    pub(super) fn run(&self, a: Line, b: Line, c: u64) -> u64 {
        match self {
            Sum::Fused(fused) => fused.run(a, b, c),
            Sum::Narrowed(fused) => {
                let wide = fused.run(a, b, c);
                soft::pack(soft::unpack(wide, &soft::F32), &soft::F16, Round::Nearest, false)
            }
            Sum::Twice(fused) => {
                let ([a, a_rest], [b, b_rest]) = (a.halves(), b.halves());
                fused.run(a_rest, b_rest, fused.run(a, b, c))
            }
            Sum::Halves(fused) => {
                let ([a, a_rest], [b, b_rest]) = (a.halves(), b.halves());
                let format = if fused.half { &soft::F16 } else { &soft::F32 };
                add(fused.run(a_rest, b_rest, fused.run(a, b, 0)), c, format)
            }
            Sum::Chain { c: half } => {
                let total = (0..a.sig.len()).fold(0.0, |total: f32, k| a.value(k).mul_add(b.value(k), total));
                add(total.to_bits().into(), if *half { widened(c) } else { c }, &soft::F32)
            }
            Sum::Pairs => {
                let pair = |k: usize| a.value(k + 1).mul_add(b.value(k + 1), a.value(k) * b.value(k));
                let total = (0..a.sig.len())
                    .step_by(2)
                    .fold(widened(c), |total, k| add(total, pair(k).to_bits().into(), &soft::F32));
                soft::pack(soft::unpack(total, &soft::F32), &soft::F16, Round::Nearest, false)
            }
            Sum::Int { clamp } => {
                let total: i64 = a.sig.iter().zip(b.sig).map(|(x, y)| i64::from(*x) * i64::from(*y)).sum();
                let total = total + i64::from(c as u32 as i32);
                let total = if *clamp { total.clamp(i32::MIN.into(), i32::MAX.into()) } else { total };
                total as u64 & mask(32)
            }
            Sum::Reals { field, bits: [c_bits, d_bits] } => {
                let products = a.sig.iter().zip(b.sig).map(|(x, y)| i128::from(*x) * i128::from(*y));
                let sum = if a.special || b.special { Number::NONE } else { field.integer(products.sum()) };
                let sum = if a.negated != b.negated { field.sub(field.integer(0), sum) } else { sum };
                field.encode(field.add(sum, field.decode(c, *c_bits)), *d_bits)
            }
            Sum::Differ => {
                let count = a.sig.iter().zip(b.sig).filter(|(x, y)| x != y).count();
                (c as u32).wrapping_add(count as u32).into()
            }
        }
    }
}

/// An `f16` as `f32`.
fn widened(half: u64) -> u64 {
    soft::pack(soft::unpack(half, &soft::F16), &soft::F32, Round::Nearest, false)
}

/// A sum rounded to nearest.
fn add(a: u64, b: u64, format: &Format) -> u64 {
    soft::pack(
        soft::add(soft::unpack(a, format), soft::unpack(b, format), Round::Nearest),
        format,
        Round::Nearest,
        false,
    )
}

/// The sum of a row, a column and C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fused {
    /// Number of bits kept below the largest exponent.
    pub align: u32,
    /// Type of C.
    pub half: bool,
    pub target: Target,
}

/// Room below the significands' fractions, so that every alignment is a shift to the right.
const ROOM: u32 = 14;

impl Fused {
    /// `d = Σ a·b + c`.
    pub(super) fn run(&self, a: Line, b: Line, c: u64) -> u64 {
        let (c_sig, c_exp) = self.read_c(c);
        if a.special || b.special || c_exp == SPECIAL {
            return self.special(a, b, c_sig, c_exp);
        }
        let most = a.exp.iter().zip(b.exp).fold(c_exp, |most, (x, y)| most.max(x + y));
        if most < ZERO / 2 {
            return 0;
        }
        let align = |magnitude: u64, fraction: u32, exp: i32| {
            let by = fraction + ROOM - self.align + (most - exp).min(63) as u32;
            (magnitude << ROOM).checked_shr(by).unwrap_or(0) as i64
        };
        let mut total = 0;
        for ((p, q), (x, y)) in a.sig.iter().zip(b.sig).zip(a.exp.iter().zip(b.exp)) {
            let product = i64::from(*p) * i64::from(*q);
            let aligned = align(product.unsigned_abs(), 2 * FRACTION, x + y);
            total += if product < 0 { -aligned } else { aligned };
        }
        let total = if a.negated != b.negated { -total } else { total };
        let start = align(c_sig.unsigned_abs().into(), 23, c_exp) * i64::from(c_sig.signum());
        self.round(total + start, most - self.align as i32)
    }

    /// C with 23 bits of fraction.
    fn read_c(&self, c: u64) -> (i32, i32) {
        let (format, fraction): (&Format, u32) = if self.half { (&soft::F16, 10) } else { (&soft::F32, 23) };
        let magnitude = c & mask(format.bits - 1);
        let exponent = (magnitude >> fraction) as i32;
        let sign = if c >> (format.bits - 1) & 1 == 1 { -1 } else { 1 };
        match format.infinity {
            Some(infinity) if magnitude == infinity => return (sign, SPECIAL),
            Some(infinity) if magnitude > infinity => return (0, SPECIAL),
            _ => {}
        }
        let sig = (magnitude & mask(fraction)) as i32 | i32::from(exponent != 0) << fraction;
        if sig == 0 { (0, ZERO) } else { (sign * (sig << (23 - fraction)), exponent.max(1) - format.bias) }
    }

    /// A sum with infinities or NaNs in it.
    fn special(&self, a: Line, b: Line, c_sig: i32, c_exp: i32) -> u64 {
        let (mut nan, mut up, mut down) = (c_exp == SPECIAL && c_sig == 0, false, false);
        let mut infinite = |sign: i32| {
            up |= sign > 0;
            down |= sign < 0;
        };
        if c_exp == SPECIAL {
            infinite(c_sig);
        }
        for ((p, q), (x, y)) in a.sig.iter().zip(b.sig).zip(a.exp.iter().zip(b.exp)) {
            if *x == SPECIAL || *y == SPECIAL {
                // A NaN and a zero both have the significand 0.
                nan |= *p == 0 || *q == 0;
                infinite(p.signum() * q.signum() * if a.negated != b.negated { -1 } else { 1 });
            }
        }
        let format = if self.target == Target::Half { &soft::F16 } else { &soft::F32 };
        match (nan || up && down, up, down) {
            (true, ..) => format.nan.unwrap_or(0),
            (_, _, true) => format.infinity.unwrap_or(0) | 1 << (format.bits - 1),
            (_, true, _) => format.infinity.unwrap_or(0),
            _ => 0,
        }
    }

    /// `total · 2^unit`, rounded.
    fn round(&self, total: i64, unit: i32) -> u64 {
        let (neg, magnitude) = (total < 0, total.unsigned_abs());
        if magnitude == 0 {
            return 0;
        }
        match self.target {
            Target::Half => {
                let num = Num::Finite { neg: false, sig: magnitude.into(), exp: unit };
                let bits = soft::pack(num, &soft::F16, Round::Nearest, false);
                if bits == 0 { 0 } else { bits | u64::from(neg) << 15 }
            }
            Target::Single(fraction) => {
                let bits = cut(magnitude, unit, fraction);
                if bits == 0 { 0 } else { bits | u64::from(neg) << 31 }
            }
        }
    }
}

/// `magnitude · 2^unit` as `f32` with so many bits of fraction; what is below is cut.
fn cut(magnitude: u64, unit: i32, fraction: u32) -> u64 {
    const LOWEST: i32 = -126;
    let leading = (63 - magnitude.leading_zeros() as i32 + unit).max(LOWEST);
    if leading > 127 {
        return 0x7f80_0000;
    }
    let quantum = leading - fraction as i32;
    let kept = match quantum - unit {
        down @ 1.. => magnitude.checked_shr(down.unsigned_abs()).unwrap_or(0),
        up => magnitude << up.unsigned_abs(),
    };
    (((leading - LOWEST) as u64) << 23) + (kept << (23 - fraction))
}
