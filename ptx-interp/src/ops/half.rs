//! Half precision and bfloat16, alone or in pairs (9.7.4), and mixed precision (9.7.5).

use super::float::{Extreme, Finish, is_nan, pairs, sign_bit};
use super::{Op, op};
use crate::site::{Decoded, Site};
use crate::soft::{self, BF16, F16, F32, Format, Num, Round, mask};
use crate::tensor_map::ElementType;

const HALVES: &str = "f16 f16x2 bf16 bf16x2";

#[rustfmt::skip]
pub(super) const OPS: &[Op] = &[
    op("add", HALVES, |s| arithmetic(s, |[a, b], r| soft::add(a, b, r))),
    op("sub", HALVES, |s| arithmetic(s, |[a, b], r| soft::add(a, b.negate(), r))),
    op("mul", HALVES, |s| arithmetic(s, |[a, b], _| soft::mul(a, b))),
    op("fma", HALVES, |s| arithmetic(s, |[a, b, c], r| soft::fma(a, b, c, r))),
    op("fma.oob", HALVES, fma_oob),
    op("neg", HALVES, |s| sign(s, |a, sign| a ^ sign)),
    op("abs", HALVES, |s| sign(s, |a, sign| a & !sign)),
    op("min", HALVES, |s| extreme(s, false)),
    op("max", HALVES, |s| extreme(s, true)),
    op("tanh", HALVES, |s| approximate(s, f64::tanh)),
    op("ex2", HALVES, |s| approximate(s, f64::exp2)),
    op("add.f32.f16", "", |s| mixed(s, |[a, c], r| soft::add(a, c, r))),
    op("add.f32.bf16", "", |s| mixed(s, |[a, c], r| soft::add(a, c, r))),
    op("sub.f32.f16", "", |s| mixed(s, |[a, c], r| soft::add(a, c.negate(), r))),
    op("sub.f32.bf16", "", |s| mixed(s, |[a, c], r| soft::add(a, c.negate(), r))),
    op("fma.f32.f16", "", |s| mixed(s, |[a, b, c], r| soft::fma(a, b, c, r))),
    op("fma.f32.bf16", "", |s| mixed(s, |[a, b, c], r| soft::fma(a, b, c, r))),
];

/// The element's format, and whether there are two.
fn shape(site: &Site) -> Result<(&'static Format, bool), String> {
    let name = site.ty(1)?.name();
    Ok((if name.starts_with("bf16") { &BF16 } else { &F16 }, name.ends_with("x2")))
}

/// A function of one element, on one or both halves of a register.
fn elementwise<const N: usize>(
    site: &Site,
    two: bool,
    one: impl Fn([u64; N]) -> u64 + Send + Sync + 'static,
) -> Decoded {
    if two { pairs(site, 16, one) } else { site.map(move |x: [u64; N]| one(x.map(|v| v & mask(16)))) }
}

fn arithmetic<const N: usize>(site: &Site, exact: fn([Num; N], Round) -> Num) -> Decoded {
    let (_, two) = shape(site)?;
    elementwise(site, two, one(site, exact)?)
}

/// An operation on one element.
fn one<const N: usize>(
    site: &Site,
    exact: fn([Num; N], Round) -> Num,
) -> Result<impl Fn([u64; N]) -> u64 + Send + Sync + 'static, String> {
    let ((format, _), round) = (shape(site)?, site.round());
    let (finish, relu) = (Finish::new(site, format), site.is("relu"));
    Ok(move |x: [u64; N]| {
        let result = exact(x.map(|b| soft::unpack(finish.input(b), format)), round);
        let bits = finish.output(soft::pack(result, format, round, false));
        if relu && bits & 0x8000 != 0 && !is_nan(bits, format) { 0 } else { bits }
    })
}

/// `fma.oob`: zero where a factor is the NaN with which copies of tensors fill what lies outside.
fn fma_oob(site: &Site) -> Decoded {
    let outside = ElementType::F16.nan().ok_or("a NaN for what lies outside of a tensor")?;
    let (_, two) = shape(site)?;
    let fma = one(site, |[a, b, c], r| soft::fma(a, b, c, r))?;
    elementwise(site, two, move |x: [u64; 3]| if x[..2].contains(&outside) { 0 } else { fma(x) })
}

fn sign(site: &Site, f: fn(u64, u64) -> u64) -> Decoded {
    let (format, two) = shape(site)?;
    let finish = Finish::new(site, format);
    let bit = if two { 0x8000 } else { sign_bit(site)? };
    elementwise(site, two, move |[a]| match finish.input(a) {
        nan if is_nan(nan, format) => format.nan.unwrap_or(nan),
        a => f(a, bit),
    })
}

fn extreme(site: &Site, greatest: bool) -> Decoded {
    let (format, two) = shape(site)?;
    let pick = Extreme::new(site, format, greatest);
    elementwise(site, two, move |[a, b]| pick.of(a, b))
}

fn approximate(site: &Site, f: fn(f64) -> f64) -> Decoded {
    let (format, two) = shape(site)?;
    site.is("approx");
    let finish = Finish::new(site, format);
    elementwise(site, two, move |[a]| {
        let value = soft::unpack(finish.input(a), format).value();
        finish.output(soft::pack(soft::unpack(f(value).to_bits(), &soft::F64), format, Round::Nearest, false))
    })
}

/// `f32` with factors or a summand of 16 bits: the last source is the `f32`.
fn mixed<const N: usize>(site: &Site, exact: fn([Num; N], Round) -> Num) -> Decoded {
    let (format, _) = shape(site)?;
    let (round, finish) = (site.round(), Finish::new(site, &F32));
    site.map(move |x: [u64; N]| {
        let unpacked = std::array::from_fn(|i| soft::unpack(x[i], if i + 1 == N { &F32 } else { format }));
        finish.output(soft::pack(exact(unpacked, round), &F32, round, false))
    })
}
