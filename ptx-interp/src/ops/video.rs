//! Video instructions (9.7.18): arithmetic on bytes and half-words that are chosen from 32-bit registers.

use super::{Op, op};
use crate::ctx::Flow;
use crate::exec::{Dst, Src};
use crate::site::{Decoded, Refusal, Site};
use crate::soft::mask;
use ptx_core::ir::Operand;
use ptx_core::isa::{Class, Type};

#[rustfmt::skip]
pub(super) const OPS: &[Op] = &[
    op("vadd", "", |s| scalar(s, Kind::Sum, |a, b| a + b)), op("vsub", "", |s| scalar(s, Kind::Sum, |a, b| a - b)),
    op("vabsdiff", "", |s| scalar(s, Kind::Choice, |a, b| (a - b).abs())),
    op("vmin", "", |s| scalar(s, Kind::Choice, i64::min)), op("vmax", "", |s| scalar(s, Kind::Choice, i64::max)),
    op("vshl.clamp", "", |s| scalar(s, Kind::Shift, |a, b| a << b.clamp(0, 32))),
    op("vshl.wrap", "", |s| scalar(s, Kind::Shift, |a, b| a << (b & 31))),
    op("vshr.clamp", "", |s| scalar(s, Kind::Shift, |a, b| a >> if (0..32).contains(&b) { b } else { 32 })),
    op("vshr.wrap", "", |s| scalar(s, Kind::Shift, |a, b| a >> (b & 31))),
    op("vset", "", set), op("vmad", "", multiply),
    op("vadd2", "", |s| simd(s, 2, |a, b| a + b)), op("vadd4", "", |s| simd(s, 4, |a, b| a + b)),
    op("vsub2", "", |s| simd(s, 2, |a, b| a - b)), op("vsub4", "", |s| simd(s, 4, |a, b| a - b)),
    op("vavrg2", "", |s| simd(s, 2, average)), op("vavrg4", "", |s| simd(s, 4, average)),
    op("vabsdiff2", "", |s| simd(s, 2, |a, b| (a - b).abs())), op("vabsdiff4", "", |s| simd(s, 4, |a, b| (a - b).abs())),
    op("vmin2", "", |s| simd(s, 2, i64::min)), op("vmin4", "", |s| simd(s, 4, i64::min)),
    op("vmax2", "", |s| simd(s, 2, i64::max)), op("vmax4", "", |s| simd(s, 4, i64::max)),
    op("vset2", "", |s| simd_set(s, 2)), op("vset4", "", |s| simd_set(s, 4)),
];

/// Rounds halves up, unless the sum is negative.
fn average(a: i64, b: i64) -> i64 {
    (a + b + i64::from(a + b >= 0)) >> 1
}

/// A function of two parts.
type Function = fn(i64, i64) -> i64;
const COMPARISONS: [(&str, Function); 6] = [
    ("eq", |a, b| (a == b).into()),
    ("ne", |a, b| (a != b).into()),
    ("lt", |a, b| (a < b).into()),
    ("le", |a, b| (a <= b).into()),
    ("gt", |a, b| (a > b).into()),
    ("ge", |a, b| (a >= b).into()),
];

fn compare(site: &Site) -> Result<Function, Refusal> {
    site.one_of(&COMPARISONS).ok_or_else(|| "`vset` without a comparison".into())
}

/// An operand: its register or number, the selector behind it, whether `-` stands before it.
struct Chosen {
    src: Src,
    selector: Option<&'static str>,
    negated: bool,
}

fn chosen(site: &Site, at: usize) -> Result<Chosen, Refusal> {
    let (operand, negated) = match site.operand(at) {
        Operand::Neg(inner) => (inner.as_ref(), true),
        operand => (operand, false),
    };
    Ok(match operand {
        Operand::Part(register, selector) => {
            Chosen { src: Src::Reg(site.slot(*register)?), selector: Some(selector), negated }
        }
        operand => Chosen { src: site.source(operand, word()?)?, selector: None, negated },
    })
}

fn word() -> Result<Type, Refusal> {
    Type::find("b32").ok_or_else(|| "no type .b32".into())
}

/// Place of a byte or a half-word: its first bit and its width; a full word without a selector.
fn place(selector: Option<&str>) -> (u32, u32) {
    let digit = |s: &str| s.get(1..2).and_then(|d| d.parse().ok()).unwrap_or(0u32);
    match selector {
        Some(s) if s.starts_with('b') => (8 * (digit(s) % 4), 8),
        Some(s) => (16 * (digit(s) % 2), 16),
        None => (0, 32),
    }
}

/// A part of a word, extended by a type.
fn extract(word: u64, (at, bits): (u32, u32), signed: bool) -> i64 {
    let part = word >> at & mask(bits);
    if signed { (part << (64 - bits)) as i64 >> (64 - bits) } else { part as i64 }
}

/// The range of a part of so many bits.
fn clamp(value: i64, bits: u32, signed: bool) -> i64 {
    match signed {
        true => value.clamp(-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        false => value.clamp(0, (1 << bits) - 1),
    }
}

fn signed(site: &Site) -> Result<Vec<bool>, Refusal> {
    let types = site.types();
    if types.len() < 2 {
        return Err("a video instruction without its types".into());
    }
    Ok(types.into_iter().map(|ty| ty.class() == Class::Signed).collect())
}

/// The operation on the result and c.
#[derive(Clone, Copy)]
enum Then {
    Nothing,
    Add,
    Least,
    Greatest,
    /// It becomes a part of c.
    Merge,
}

/// No chip has scalar video instructions any more. What ptxas 13.5 makes of them computes with 64 bits where the manual has 33
/// or 34, and that is what the chips give. (Up to 13.0 ptxas also merged the wrong bytes into `.h1`; here it is the manual's.)
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Sums: for what follows, the lower 32 bits are extended by their sign.
    Sum,
    /// Of shifts, `.sat` clamps 34 bits, and to a whole word even where a part is written.
    Shift,
    /// The rest.
    Choice,
}

impl Kind {
    /// `.sat` of a result that goes into so many bits.
    fn saturate(self, value: i64, bits: u32, signed: bool) -> i64 {
        match (self, bits) {
            (Kind::Shift, _) => clamp(value << 30 >> 30, 32, signed),
            (_, 32) if signed => clamp(value, 32, true),
            (_, 32) => value.max(0),
            // What is negative counts as large.
            _ => (value as u64).min(mask(bits - u32::from(signed))) as i64,
        }
    }

    /// The number that goes on to the second operation.
    fn extended(self, value: i64, saturated: bool) -> i64 {
        let whole = self == Kind::Choice || self == Kind::Shift && !saturated;
        if whole { value } else { i64::from(value as i32) }
    }
}

fn scalar(site: &Site, kind: Kind, f: Function) -> Decoded {
    let signs = signed(site)?;
    finish(site, kind, (signs[0], signs[1], *signs.get(2).unwrap_or(&signs[1])), f)
}

fn set(site: &Site) -> Decoded {
    let (signs, compare) = (signed(site)?, compare(site)?);
    finish(site, Kind::Choice, (signs[0], signs[0], signs[1]), compare)
}

/// `d = f(a, b)`, clamped, and joined with c. The signs are those of d, a and b.
fn finish(site: &Site, kind: Kind, (d_sign, a_sign, b_sign): (bool, bool, bool), f: Function) -> Decoded {
    const SECOND: [(&str, Then); 3] = [("add", Then::Add), ("min", Then::Least), ("max", Then::Greatest)];
    let saturate = site.is("sat");
    let (dst, selector) = destination(site)?;
    let (a, b) = (chosen(site, 1)?, chosen(site, 2)?);
    let c = if site.there(3) { site.src(3)? } else { Src::Value(0) };
    let then = match (site.one_of(&SECOND), selector) {
        (Some(then), _) => then,
        (None, Some(_)) => Then::Merge,
        (None, None) => Then::Nothing,
    };
    let (a_place, b_place, place) = (place(a.selector), place(b.selector), place(selector));
    Ok(Box::new(move |ctx, group| {
        let mut args = [[0; 32]; 3];
        let [a, b, c] = ctx.fetch_all([a.src, b.src, c], &mut args);
        ctx.store(dst, group, |lane| {
            let value = f(extract(a[lane], a_place, a_sign), extract(b[lane], b_place, b_sign));
            let value = if saturate { kind.saturate(value, place.1, d_sign) } else { value };
            then.join(kind.extended(value, saturate), c[lane], place, d_sign)
        });
        Ok(Flow::Next)
    }))
}

impl Then {
    /// The result and c, as 64 bits of which the lower 32 are kept.
    fn join(self, value: i64, c: u64, (at, bits): (u32, u32), signed: bool) -> u64 {
        let other = extract(c, (0, 32), signed);
        let less = if signed { value < other } else { (value as u64) < other as u64 };
        match self {
            Then::Nothing => value as u64,
            Then::Add => value.wrapping_add(other) as u64,
            Then::Least => (if less { value } else { other }) as u64,
            Then::Greatest => (if less { other } else { value }) as u64,
            Then::Merge => c & !(mask(bits) << at) | (value as u64 & mask(bits)) << at,
        }
    }
}

/// The whole register that is written, and its selector.
fn destination(site: &Site) -> Result<(Dst, Option<&'static str>), Refusal> {
    match site.operand(0) {
        Operand::Part(register, selector) => Ok((Dst { slot: site.slot(*register)?, mask: mask(32) }, Some(selector))),
        operand => Ok((site.destination(operand, word()?)?, None)),
    }
}

/// `vmad`: a product of 64 bits, plus c, shifted.
fn multiply(site: &Site) -> Decoded {
    let signs = signed(site)?;
    let (saturate, more) = (site.is("sat"), site.is("po"));
    let shift = site.one_of(&[("shr7", 7), ("shr15", 15)]).unwrap_or(0);
    let (dst, a, b, c) = (site.dst(0)?, chosen(site, 1)?, chosen(site, 2)?, chosen(site, 3)?);
    let turned = a.negated != b.negated;
    let (a_sign, b_sign) = (signs[1], *signs.get(2).unwrap_or(&signs[1]));
    let wide = a_sign || b_sign || turned || c.negated;
    let (a_place, b_place) = (place(a.selector), place(b.selector));
    Ok(Box::new(move |ctx, group| {
        let mut args = [[0; 32]; 3];
        let [x, y, z] = ctx.fetch_all([a.src, b.src, c.src], &mut args);
        ctx.store(dst, group, |lane| {
            // A whole word is multiplied and added as a signed one, whatever its type.
            let part = |word: u64, place, signed| i64::from(extract(word, place, signed) as i32);
            let product = part(x[lane], a_place, a_sign) * part(y[lane], b_place, b_sign);
            let third = part(z[lane], (0, 32), true);
            let product = if turned { -product } else { product };
            let third = if c.negated { i64::from(!(third as i32)) + 1 } else { third };
            let sum = product.wrapping_add(third).wrapping_add(i64::from(more));
            let sum = if wide || shift == 0 { sum >> shift } else { (sum as u64 >> shift) as i64 };
            (if saturate { clamp(sum, 32, wide) } else { sum }) as u64
        });
        Ok(Flow::Next)
    }))
}

fn simd(site: &Site, parts: u32, f: Function) -> Decoded {
    let signs = signed(site)?;
    side_by_side(site, parts, (signs[0], signs[1], *signs.get(2).unwrap_or(&signs[1])), f)
}

fn simd_set(site: &Site, parts: u32) -> Decoded {
    let (signs, compare) = (signed(site)?, compare(site)?);
    side_by_side(site, parts, (false, signs[0], signs[1]), compare)
}

/// The digits of `.b3210`, lowest part first.
fn digits(selector: Option<&str>, default: &str) -> Vec<u32> {
    selector.unwrap_or(default).chars().rev().filter_map(|c| c.to_digit(10)).collect()
}

fn side_by_side(site: &Site, parts: u32, (d_sign, a_sign, b_sign): (bool, bool, bool), f: Function) -> Decoded {
    let (saturate, sum) = (site.is("sat"), site.is("add"));
    let (dst, selector) = destination(site)?;
    let (a, b, c) = (chosen(site, 1)?, chosen(site, 2)?, site.src(3)?);
    let (low, high) = if parts == 2 { ("h10", "h32") } else { ("b3210", "b7654") };
    let (from_a, from_b) = (digits(a.selector, low), digits(b.selector, high));
    let written = digits(selector, low);
    let bits = 32 / parts;
    Ok(Box::new(move |ctx, group| {
        let mut args = [[0; 32]; 3];
        let [a, b, c] = ctx.fetch_all([a.src, b.src, c], &mut args);
        ctx.store(dst, group, |lane| {
            let both = a[lane] & mask(32) | b[lane] << 32;
            let part = |digits: &[u32], i: u32, sign: bool| {
                let digit = digits.get(i as usize).copied().unwrap_or(0);
                extract(both, (bits * digit, bits), sign)
            };
            let mut result = c[lane];
            for i in (0..parts).filter(|i| written.contains(i)) {
                let value = f(part(&from_a, i, a_sign), part(&from_b, i, b_sign));
                let value = if saturate { clamp(value, bits, d_sign) } else { value };
                result = match sum {
                    true => result.wrapping_add(value as u64),
                    false => result & !(mask(bits) << (bits * i)) | (value as u64 & mask(bits)) << (bits * i),
                };
            }
            result
        });
        Ok(Flow::Next)
    }))
}
