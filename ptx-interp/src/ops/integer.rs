//! Integer arithmetic (9.7.1): written once on values extended to 64 bits; the width only where it matters.

use super::{Op, op};
use crate::site::{Decoded, Site};
use crate::soft::mask;
use ptx_core::isa::Class;

const ALL: &str = "u8 u16 u32 u64 s8 s16 s32 s64";
const SIGNED: &str = "s8 s16 s32 s64";
const UNSIGNED: &str = "u8 u16 u32 u64";

#[rustfmt::skip]
pub(super) const OPS: &[Op] = &[
    op("add", ALL, |s| s.int(|[a, b]| a.wrapping_add(b))),
    op("add.sat", "s32", |s| s.int(|[a, b]| clamp32(a as i64 + b as i64))),
    op("add.sat", "u32", |s| s.int(|[a, b]| (a + b).min(mask(32)))),
    op("sub", ALL, |s| s.int(|[a, b]| a.wrapping_sub(b))),
    op("sub.sat", "s32", |s| s.int(|[a, b]| clamp32(a as i64 - b as i64))),
    op("mul.lo", ALL, |s| s.int(|[a, b]| a.wrapping_mul(b))),
    op("mul.wide", ALL, |s| s.int(|[a, b]| a.wrapping_mul(b))),
    op("mul.hi", SIGNED, |s| { let n = width(s)?; s.int(move |[a, b]| high_signed(a, b, n)) }),
    op("mul.hi", UNSIGNED, |s| { let n = width(s)?; s.int(move |[a, b]| high_unsigned(a, b, n)) }),
    op("mad.lo", ALL, |s| s.int(|[a, b, c]| a.wrapping_mul(b).wrapping_add(c))),
    op("mad.wide", ALL, |s| s.int(|[a, b, c]| a.wrapping_mul(b).wrapping_add(c))),
    op("mad.hi", SIGNED, |s| { let n = width(s)?; s.int(move |[a, b, c]| high_signed(a, b, n).wrapping_add(c)) }),
    op("mad.hi", UNSIGNED, |s| { let n = width(s)?; s.int(move |[a, b, c]| high_unsigned(a, b, n).wrapping_add(c)) }),
    op("mad.hi.sat", "s32", |s| s.int(|[a, b, c]| clamp32((high_signed(a, b, 32) as i64) + c as i64))),
    op("mul24.lo", "u32", |s| s.int(|[a, b]| u24(a) * u24(b))),
    op("mul24.lo", "s32", |s| s.int(|[a, b]| (s24(a) * s24(b)) as u64)),
    op("mul24.hi", "u32", |s| s.int(|[a, b]| (u24(a) * u24(b)) >> 16)),
    op("mul24.hi", "s32", |s| s.int(|[a, b]| ((s24(a) * s24(b)) >> 16) as u64)),
    op("mad24.lo", "u32", |s| s.int(|[a, b, c]| (u24(a) * u24(b)).wrapping_add(c))),
    op("mad24.lo", "s32", |s| s.int(|[a, b, c]| ((s24(a) * s24(b)) as u64).wrapping_add(c))),
    op("mad24.hi", "u32", |s| s.int(|[a, b, c]| ((u24(a) * u24(b)) >> 16).wrapping_add(c))),
    op("mad24.hi", "s32", |s| s.int(|[a, b, c]| (((s24(a) * s24(b)) >> 16) as u64).wrapping_add(c))),
    op("mad24.hi.sat", "s32", |s| s.int(|[a, b, c]| clamp32(((s24(a) * s24(b)) >> 16) + c as i64))),
    op("sad", UNSIGNED, |s| s.int(|[a, b, c]| c.wrapping_add(a.abs_diff(b)))),
    op("sad", SIGNED, |s| s.int(|[a, b, c]| c.wrapping_add((a as i64).abs_diff(b as i64)))),
    op("div", UNSIGNED, |s| s.int(|[a, b]| a.checked_div(b).unwrap_or(u64::MAX))),
    op("div", SIGNED, |s| s.int(|[a, b]| if b == 0 { u64::MAX } else { (a as i64).wrapping_div(b as i64) as u64 })),
    // By zero the chips give all ones.
    op("rem", UNSIGNED, |s| s.int(|[a, b]| a.checked_rem(b).unwrap_or(u64::MAX))),
    op("rem", SIGNED, |s| s.int(|[a, b]| if b == 0 { u64::MAX } else { (a as i64).wrapping_rem(b as i64) as u64 })),
    op("abs", SIGNED, |s| s.int(|[a]| (a as i64).wrapping_abs() as u64)),
    op("neg", ALL, |s| s.int(|[a]| a.wrapping_neg())),
    op("min", UNSIGNED, |s| s.int(|[a, b]| a.min(b))),
    op("max", UNSIGNED, |s| s.int(|[a, b]| a.max(b))),
    op("min", SIGNED, |s| { let r = s.is("relu"); s.int(move |[a, b]| relu((a as i64).min(b as i64), r)) }),
    op("max", SIGNED, |s| { let r = s.is("relu"); s.int(move |[a, b]| relu((a as i64).max(b as i64), r)) }),
    op("add", "u16x2 s16x2", |s| packed(s, 16, |a, b| a.wrapping_add(b))),
    op("sub", "u16x2 s16x2", |s| packed(s, 16, |a, b| a.wrapping_sub(b))),
    op("add", "u8x4 s8x4", |s| packed(s, 8, |a, b| a.wrapping_add(b))),
    op("sub", "u8x4 s8x4", |s| packed(s, 8, |a, b| a.wrapping_sub(b))),
    op("min", "u16x2 s16x2", |s| packed(s, 16, Ord::min)),
    op("max", "u16x2 s16x2", |s| packed(s, 16, Ord::max)),
    op("min", "u8x4 s8x4", |s| packed(s, 8, Ord::min)),
    op("max", "u8x4 s8x4", |s| packed(s, 8, Ord::max)),
    op("neg", "u16x2 s16x2", |s| packed_one(s, 16, |a| a.wrapping_neg())),
    op("neg", "u8x4 s8x4", |s| packed_one(s, 8, |a| a.wrapping_neg())),
    op("abs", "s16x2", |s| packed_one(s, 16, |a| a.wrapping_abs())),
    op("abs", "s8x4", |s| packed_one(s, 8, |a| a.wrapping_abs())),
    op("dp4a", "", dp4a),
    op("dp2a", "", dp2a),
];

/// The width of the sources.
fn width(site: &Site) -> Result<u32, String> {
    Ok(site.ty(1)?.bits())
}

fn clamp32(value: i64) -> u64 {
    value.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as u64
}

fn high_signed(a: u64, b: u64, bits: u32) -> u64 {
    ((i128::from(a as i64) * i128::from(b as i64)) >> bits) as u64
}

fn high_unsigned(a: u64, b: u64, bits: u32) -> u64 {
    ((u128::from(a) * u128::from(b)) >> bits) as u64
}

fn u24(a: u64) -> u64 {
    a & mask(24)
}

fn s24(a: u64) -> i64 {
    (a << 40) as i64 >> 40
}

fn relu(value: i64, on: bool) -> u64 {
    (if on { value.max(0) } else { value }) as u64
}

/// One element of a packed value, extended by its sign.
pub(super) fn element(value: u64, at: u32, bits: u32, signed: bool) -> i64 {
    let raw = (value >> (at * bits)) & mask(bits);
    if signed { (raw << (64 - bits)) as i64 >> (64 - bits) } else { raw as i64 }
}

/// Each element of two packed integers; with `.sat` the results are clamped, with `.relu` they are not negative.
fn packed(site: &Site, bits: u32, f: fn(i64, i64) -> i64) -> Decoded {
    let signed = site.ty(1)?.name().starts_with('s');
    let (relu, sat) = (site.is("relu"), site.is("sat"));
    let low = if signed { -(1 << (bits - 1)) } else { 0 };
    let high = low + mask(bits) as i64;
    let count = site.ty(0)?.bits() / bits;
    site.map(move |[a, b]| {
        (0..count).fold(0, |packed, i| {
            let value = f(element(a, i, bits, signed), element(b, i, bits, signed));
            let value = if sat { value.clamp(low, high) } else { value };
            let value = if relu { value.max(0) } else { value };
            packed | (value as u64 & mask(bits)) << (i * bits)
        })
    })
}

fn packed_one(site: &Site, bits: u32, f: fn(i64) -> i64) -> Decoded {
    let signed = site.ty(1)?.name().starts_with('s');
    let count = site.ty(0)?.bits() / bits;
    site.map(move |[a]| {
        (0..count).fold(0, |packed, i| packed | (f(element(a, i, bits, signed)) as u64 & mask(bits)) << (i * bits))
    })
}

/// The signs of the two factors of a dot product.
fn signs(site: &Site) -> Result<(bool, bool), String> {
    match site.types().as_slice() {
        [a, b, ..] => Ok((a.class() == Class::Signed, b.class() == Class::Signed)),
        _ => Err("a dot product without types".into()),
    }
}

fn dp4a(site: &Site) -> Decoded {
    let (a_signed, b_signed) = signs(site)?;
    site.map(move |[a, b, c]| {
        (0..4).fold(c, |sum, i| sum.wrapping_add((element(a, i, 8, a_signed) * element(b, i, 8, b_signed)) as u64))
    })
}

fn dp2a(site: &Site) -> Decoded {
    let (a_signed, b_signed) = signs(site)?;
    site.is("lo");
    let first = if site.is("hi") { 2 } else { 0 };
    site.map(move |[a, b, c]| {
        (0..2).fold(c, |sum, i| {
            sum.wrapping_add((element(a, i, 16, a_signed) * element(b, first + i, 8, b_signed)) as u64)
        })
    })
}
