//! Floating point of single and double precision, and of two singles in one register (9.7.3).
//!
//! To nearest, the host's arithmetic is exact; every other mode goes through `soft`. Approximations are calculated in
//! double precision and rounded, which is well inside the manual's bounds.

use super::{Op, op};
use crate::site::{Decoded, Site};
use crate::soft::{self, F32, F64, Format, Num, Round, mask};
use ptx_core::ir::Operand;
use std::f64::consts::FRAC_PI_2;

const FLOATS: &str = "f32 f64 f32x2";

#[rustfmt::skip]
pub(super) const OPS: &[Op] = &[
    op("add", FLOATS, |s| arithmetic(s, |[a, b]| a + b, |[a, b]| a + b, |[a, b], r| soft::add(a, b, r))),
    op("sub", FLOATS, |s| arithmetic(s, |[a, b]| a - b, |[a, b]| a - b, |[a, b], r| soft::add(a, b.negate(), r))),
    op("mul", FLOATS, |s| arithmetic(s, |[a, b]| a * b, |[a, b]| a * b, |[a, b], _| soft::mul(a, b))),
    op("fma", FLOATS, fma),
    op("mad", FLOATS, fma),
    op("div", "f32 f64", div),
    op("rcp", "f32 f64", |s| arithmetic(s, |[a]| 1.0 / a, |[a]| 1.0 / a, |[a], _| soft::div(Num::int(1), a))),
    op("sqrt", "f32 f64", |s| arithmetic(s, |[a]| a.sqrt(), |[a]| a.sqrt(), |[a], _| soft::sqrt(a))),
    op("div.full", "f32", |s| approximate(s, |[a, b]| a / b)),
    op("div.approx", "f32", |s| approximate(s, divide_approximately)),
    op("rcp.approx", "f32", |s| approximate(s, |[a]| 1.0 / a)),
    op("sqrt.approx", "f32", |s| approximate(s, |[a]| a.sqrt())),
    op("rsqrt.approx", "f32", |s| approximate(s, |[a]| 1.0 / a.sqrt())),
    op("sin.approx", "f32", |s| approximate(s, |[a]| sine(a))),
    op("cos.approx", "f32", |s| approximate(s, |[a]| cosine(a))),
    op("lg2.approx", "f32", |s| approximate(s, |[a]| a.log2())),
    op("ex2.approx", "f32", |s| approximate(s, |[a]| a.exp2())),
    op("tanh.approx", "f32", |s| approximate(s, |[a]| a.tanh())),
    op("rcp.approx", "f64", |s| upper_half(s, |a| 1.0 / a)),
    op("rsqrt.approx", "f64", |s| if s.is("ftz") { upper_half(s, |a| 1.0 / a.sqrt()) } else { plain64(s, |a| 1.0 / a.sqrt()) }),
    op("abs", "f32 f64", |s| sign(s, |a, sign| a & !sign)),
    op("neg", "f32 f64", |s| sign(s, |a, sign| a ^ sign)),
    op("copysign", "", |s| { let sign = sign_bit(s)?; s.map(move |[a, b]| a & sign | b & (sign - 1)) }),
    op("min", "f32 f64", |s| extreme(s, false)),
    op("max", "f32 f64", |s| extreme(s, true)),
    op("testp", "", testp),
];

/// Effect of `.ftz` and `.sat` around an operation, for one format.
#[derive(Clone, Copy)]
pub(super) struct Finish {
    pub format: &'static Format,
    pub ftz: bool,
    pub sat: bool,
}

impl Finish {
    pub(super) fn new(site: &Site, format: &'static Format) -> Finish {
        Finish { format, ftz: site.is("ftz"), sat: site.is("sat") }
    }

    /// An input: a subnormal becomes zero.
    pub(super) fn input(self, bits: u64) -> u64 {
        if self.ftz { flush(bits, self.format) } else { bits }
    }

    /// A result: flushed, clamped to [0, 1] (NaN to 0).
    pub(super) fn output(self, bits: u64) -> u64 {
        let bits = if self.ftz { flush(bits, self.format) } else { bits };
        if self.sat { saturate(bits, self.format) } else { bits }
    }
}

fn flush(bits: u64, format: &Format) -> u64 {
    let sign = 1 << (format.bits - 1);
    if bits & (sign - 1) < 1 << format.fraction { bits & sign } else { bits }
}

fn saturate(bits: u64, format: &Format) -> u64 {
    let one = (format.bias as u64) << format.fraction;
    match () {
        () if bits >> (format.bits - 1) & 1 == 1 || is_nan(bits, format) => 0,
        () => bits.min(one),
    }
}

/// Returns true if the bits are a NaN of a format with infinities.
pub(super) fn is_nan(bits: u64, format: &Format) -> bool {
    bits & mask(format.bits - 1) > format.infinity.unwrap_or(u64::MAX)
}

/// An `f32` as the GPU gives it: there is one NaN.
fn bits32(value: f32) -> u64 {
    if value.is_nan() { 0x7fff_ffff } else { value.to_bits().into() }
}

fn single(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

/// An `f64` result: a NaN is an input's, made quiet, or the default one. Of two inputs the second counts, then the first; of
/// three the second, the third, the first.
pub(super) fn bits64<const N: usize>(value: f64, mut inputs: [u64; N]) -> u64 {
    if !value.is_nan() {
        return value.to_bits();
    }
    if let [_, second, third] = inputs.as_mut_slice() {
        std::mem::swap(second, third);
    }
    inputs.into_iter().rev().find(|b| is_nan(*b, &F64)).map_or(0xfff8_0000_0000_0000, |b| b | 1 << 51)
}

/// An operation in every format of this section and every rounding mode.
fn arithmetic<const N: usize>(
    site: &Site,
    on32: impl Fn([f32; N]) -> f32 + Copy + Send + Sync + 'static,
    on64: impl Fn([f64; N]) -> f64 + Copy + Send + Sync + 'static,
    exact: fn([Num; N], Round) -> Num,
) -> Decoded {
    let (round, ty) = (site.round(), site.ty(1)?);
    let format = if ty.name() == "f64" { &F64 } else { &F32 };
    let mut finish = Finish::new(site, format);
    finish.ftz &= format.bits == 32;
    let quick = round == Round::Nearest;
    if ty.name() == "f32" && quick && !finish.ftz && !finish.sat {
        return site.map(move |x: [u64; N]| bits32(on32(x.map(single))));
    }
    if ty.name() == "f64" && (is_literal(site, 1) || is_literal(site, 2)) {
        let nan = Placed::new(site);
        return site.map(move |x: [u64; N]| {
            let result = if quick { on64(x.map(f64::from_bits)).to_bits() } else { directed(x, format, round, exact) };
            if is_nan(result, &F64) { bits64(f64::NAN, nan.place(x)) } else { result }
        });
    }
    if ty.name() == "f64" && quick {
        return site.map(move |x: [u64; N]| bits64(on64(x.map(f64::from_bits)), x));
    }
    let one = move |x: [u64; N]| {
        let x = x.map(|b| finish.input(b));
        finish.output(match quick {
            true => bits32(on32(x.map(single))),
            false => directed(x, format, round, exact),
        })
    };
    if ty.name() == "f32x2" { pairs(site, 32, one) } else { site.map(one) }
}

/// The operand order that ptxas gives `add`, `sub`, `mul` and `fma` of `f64` with a literal; it decides which NaN is the result.
/// A literal in the first place moves to the second, and a subtracted one is added with the other sign.
#[derive(Clone, Copy)]
struct Placed {
    exchanged: bool,
    negated: bool,
}

impl Placed {
    fn new(site: &Site) -> Placed {
        let (first, second) = (is_literal(site, 1), is_literal(site, 2));
        Placed { exchanged: first && !second, negated: second && site.row.opcode() == "sub" }
    }

    /// The operands as the instruction has them.
    fn place<const N: usize>(self, mut x: [u64; N]) -> [u64; N] {
        if let [first, second, ..] = x.as_mut_slice() {
            *second ^= u64::from(self.negated) << 63;
            if self.exchanged {
                std::mem::swap(first, second);
            }
        }
        x
    }
}

fn is_literal(site: &Site, at: usize) -> bool {
    matches!(site.operand(at), Operand::Int(_) | Operand::F32(_) | Operand::F64(_))
}

/// An operation that is not rounded to nearest.
fn directed<const N: usize>(x: [u64; N], format: &Format, round: Round, exact: fn([Num; N], Round) -> Num) -> u64 {
    match exact(x.map(|b| soft::unpack(b, format)), round) {
        Num::Nan if format.bits == 64 => bits64(f64::NAN, x),
        result => soft::pack(result, format, round, false),
    }
}

/// The same operation on each half of a register.
pub(super) fn pairs<const N: usize>(
    site: &Site,
    bits: u32,
    one: impl Fn([u64; N]) -> u64 + Send + Sync + 'static,
) -> Decoded {
    site.map(move |x: [u64; N]| {
        let low = one(x.map(|v| v & mask(bits)));
        let high = one(x.map(|v| v >> bits & mask(bits)));
        high << bits | low & mask(bits)
    })
}

/// A quotient. Of two NaNs the dividend's counts, so the operands stand in reverse.
fn div(site: &Site) -> Decoded {
    if site.ty(1)?.name() == "f32" {
        return arithmetic(site, |[a, b]| a / b, |[a, b]: [f64; 2]| a / b, |[a, b], _| soft::div(a, b));
    }
    let round = site.round();
    site.map(move |[a, b]| {
        match soft::pack(soft::div(soft::unpack(a, &F64), soft::unpack(b, &F64)), &F64, round, false) {
            nan if is_nan(nan, &F64) => bits64(f64::NAN, [b, a]),
            quotient => quotient,
        }
    })
}

fn fma(site: &Site) -> Decoded {
    arithmetic(
        site,
        |[a, b, c]: [f32; 3]| a.mul_add(b, c),
        |[a, b, c]: [f64; 3]| a.mul_add(b, c),
        |[a, b, c], r| soft::fma(a, b, c, r),
    )
}

/// A function of singles with an error bound: calculated in double precision, rounded to nearest.
fn approximate<const N: usize>(site: &Site, f: fn([f64; N]) -> f64) -> Decoded {
    let finish = Finish::new(site, &F32);
    site.map(move |x: [u64; N]| {
        let x = x.map(|b| f64::from(single(finish.input(b))));
        finish.output(bits32(f(x) as f32))
    })
}

/// An angle as the chips see it in `sin` and `cos`: ptxas multiplies by 1/2π in `f32`, rounding toward zero, and the function
/// unit keeps 25 bits of the fraction. So large angles are those of the rounded product, and tiny ones are zero.
struct Turns {
    negative: bool,
    /// A multiple of a quarter of a turn.
    quarter: u32,
    /// The remainder, in radians.
    rest: f64,
}

impl Turns {
    /// log2 of the steps of a quarter of a turn.
    const QUARTER: u32 = 23;

    /// An angle that is an `f32`, in radians; `None` if it is infinite or NaN.
    fn new(angle: f64) -> Option<Turns> {
        // 24 bits times 24 bits are exact in an `f64`.
        let product = angle.abs() * f64::from(f32::from_bits(0x3e22_f983));
        let nearest = product as f32;
        let toward_zero = if f64::from(nearest) > product { nearest.next_down() } else { nearest };
        let steps = (f64::from(toward_zero).fract() * f64::from(4 << Self::QUARTER)) as u32;
        let rest = f64::from(steps & ((1 << Self::QUARTER) - 1)) / f64::from(1 << Self::QUARTER) * FRAC_PI_2;
        angle.is_finite().then_some(Turns { negative: angle.is_sign_negative(), quarter: steps >> Self::QUARTER, rest })
    }

    fn of(quarter: u32, rest: f64) -> f64 {
        let value = if quarter.is_multiple_of(2) { rest.sin() } else { rest.cos() };
        if quarter & 2 == 0 { value } else { -value }
    }
}

fn sine(angle: f64) -> f64 {
    Turns::new(angle).map_or(f64::NAN, |t| Turns::of(t.quarter, t.rest) * if t.negative { -1.0 } else { 1.0 })
}

fn cosine(angle: f64) -> f64 {
    Turns::new(angle).map_or(f64::NAN, |t| Turns::of(t.quarter + 1, t.rest))
}

/// `div.approx`: beyond 2^126 the divisor's reciprocal is taken as zero.
fn divide_approximately([a, b]: [f64; 2]) -> f64 {
    if b.is_finite() && b.abs() > 2f64.powi(126) { a * 0.0 } else { a / b }
}

/// `rcp.approx.ftz.f64` and its like: they read and give only the upper half of a double.
fn upper_half(site: &Site, f: fn(f64) -> f64) -> Decoded {
    site.is("ftz");
    let finish = Finish { format: &F64, ftz: true, sat: false };
    site.map(move |[a]| {
        let a = finish.input(a & !mask(32));
        let result = f(f64::from_bits(a));
        if result.is_nan() { 0x7fff_ffff << 32 } else { finish.output(result.to_bits()) & !mask(32) }
    })
}

fn plain64(site: &Site, f: fn(f64) -> f64) -> Decoded {
    site.map(move |[a]| bits64(f(f64::from_bits(a)), [a]))
}

/// The sign bit of the operands' type.
pub(super) fn sign_bit(site: &Site) -> Result<u64, String> {
    Ok(1 << (site.ty(1)?.bits() - 1))
}

/// An operation on the sign alone.
fn sign(site: &Site, f: fn(u64, u64) -> u64) -> Decoded {
    let bit = sign_bit(site)?;
    let format = if bit == 1 << 63 { &F64 } else { &F32 };
    let finish = Finish::new(site, format);
    site.map(move |[a]| match finish.input(a) {
        nan if is_nan(nan, format) && format.bits == 64 => nan | 1 << 51,
        nan if is_nan(nan, format) => format.nan.unwrap_or(nan),
        a => f(a, bit),
    })
}

fn extreme(site: &Site, greatest: bool) -> Decoded {
    let format = if site.ty(1)?.name() == "f64" { &F64 } else { &F32 };
    let pick = Extreme::new(site, format, greatest);
    match site.there(3) {
        true => site.map(move |[a, b, c]| pick.of(pick.of(a, b), c)),
        false => site.map(move |[a, b]| pick.of(a, b)),
    }
}

/// `min` or `max` of a format.
#[derive(Clone, Copy)]
pub(super) struct Extreme {
    finish: Finish,
    greatest: bool,
    nan: bool,
    xorsign: bool,
    abs: bool,
}

impl Extreme {
    pub(super) fn new(site: &Site, format: &'static Format, greatest: bool) -> Extreme {
        let finish = Finish::new(site, format);
        Extreme { finish, greatest, nan: site.is("NaN"), xorsign: site.is("xorsign"), abs: site.is("abs") }
    }

    /// The smaller or greater; −0 is smaller than +0; a NaN loses, or wins with `.NaN`.
    pub(super) fn of(self, a: u64, b: u64) -> u64 {
        let format = self.finish.format;
        let sign = 1u64 << (format.bits - 1);
        let (a, b) = (self.finish.input(a), self.finish.input(b));
        let flip = if self.xorsign { (a ^ b) & sign } else { 0 };
        let (a, b) = if self.abs { (a & !sign, b & !sign) } else { (a, b) };
        let found = match (is_nan(a, format), is_nan(b, format)) {
            (true, true) if format.bits == 64 => b | 1 << 51,
            (false, false) => self.pick(a, b, sign),
            (true, true) => return format.nan.unwrap_or(0),
            _ if self.nan => return format.nan.unwrap_or(0),
            (true, false) => b,
            (false, true) => a,
        };
        found | flip
    }

    fn pick(self, a: u64, b: u64, sign: u64) -> u64 {
        let key = |v: u64| if v & sign != 0 { -1 - (v & (sign - 1)) as i64 } else { v as i64 & (sign - 1) as i64 };
        if (key(a) > key(b)) == self.greatest { a } else { b }
    }
}

fn testp(site: &Site) -> Decoded {
    type Test = fn(u64, &Format) -> bool;
    const TESTS: [(&str, Test); 6] = [
        ("finite", |m, f| m <= f.max),
        ("infinite", |m, f| Some(m) == f.infinity),
        ("number", |m, f| m <= f.max + 1),
        ("notanumber", |m, f| m > f.max + 1),
        ("normal", |m, f| m == 0 || m <= f.max && m >> f.fraction != 0),
        ("subnormal", |m, f| m != 0 && m >> f.fraction == 0),
    ];
    let test = site.one_of(&TESTS).ok_or("a test that `testp` does not have")?;
    let format = if site.ty(1)?.name() == "f64" { &F64 } else { &F32 };
    site.map(move |[a]| test(a & mask(format.bits - 1), format).into())
}
