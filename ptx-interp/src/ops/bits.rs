//! Logic, shifts and bit fields (9.7.1.14–22, 9.7.8) and `prmt` (9.7.9.7).

use super::{Op, op};
use crate::ctx::Flow;
use crate::site::{Decoded, Site};
use crate::soft::mask;
use ptx_core::isa::Class;

#[rustfmt::skip]
pub(super) const OPS: &[Op] = &[
    op("and", "", |s| s.map(|[a, b]| a & b)),
    op("or", "", |s| s.map(|[a, b]| a | b)),
    op("xor", "", |s| s.map(|[a, b]| a ^ b)),
    op("not", "pred", |s| s.map(|[a]| a ^ 1)),
    op("not", "b16 b32 b64", |s| s.map(|[a]| !a)),
    op("cnot", "", |s| { let m = mask(s.ty(1)?.bits()); s.map(move |[a]| u64::from(a & m == 0)) }),
    op("lop3", "", lop3),
    op("shf.l", "", |s| funnel(s, |wide, by| wide << by >> 32)),
    op("shf.r", "", |s| funnel(s, |wide, by| wide >> by)),
    op("shl", "", |s| { let n = bits(s)?; s.int(move |[a, b]| if b < n { a << b } else { 0 }) }),
    op("shr", "", shr),
    op("popc", "", |s| s.int(|[a]| a.count_ones().into())),
    op("clz", "", |s| { let n = bits(s)?; s.int(move |[a]| u64::from(a.leading_zeros()) + n - 64) }),
    op("brev", "", |s| { let n = bits(s)?; s.int(move |[a]| a.reverse_bits() >> (64 - n)) }),
    op("bfind", "", bfind),
    op("fns", "", |s| s.map(|[m, base, offset]| fns(m as u32, base as u32, offset as i32).into())),
    op("bfe", "", bfe),
    op("bfi", "", bfi),
    op("szext", "", szext),
    op("bmsk", "", bmsk),
    op("prmt", "", prmt),
    op("clmad.lo", "", |s| s.map(|[a, b, c]| carryless(a, b) as u64 ^ c)),
    op("clmad.hi", "", |s| s.map(|[a, b, c]| (carryless(a, b) >> 64) as u64 ^ c)),
];

/// The width of the first source.
fn bits(site: &Site) -> Result<u64, String> {
    Ok(site.ty(1)?.bits().into())
}

fn signed(site: &Site) -> Result<bool, String> {
    Ok(site.ty(1)?.class() == Class::Signed)
}

fn lop3(site: &Site) -> Decoded {
    let (dst, [a, b, c, table], second) = (site.dst(0)?, site.srcs(1)?, site.second(0)?);
    let (q, and) = (site.predicate(5)?, site.is("and"));
    site.is("or");
    Ok(Box::new(move |ctx, group| {
        let mut args = [[0; 32]; 5];
        let [a, b, c, table, q] = ctx.fetch_all([a, b, c, table, q], &mut args);
        let value = |lane: usize| logic(table[lane], a[lane], b[lane], c[lane]);
        ctx.store(dst, group, value);
        if let Some(second) = second {
            let found = |lane: usize| value(lane) & mask(32) != 0;
            ctx.store(second, group, |lane| {
                u64::from(if and { found(lane) && q[lane] != 0 } else { found(lane) || q[lane] != 0 })
            });
        }
        Ok(Flow::Next)
    }))
}

/// Any function of three bits, by its truth table.
fn logic(table: u64, a: u64, b: u64, c: u64) -> u64 {
    (0..8).filter(|row| table >> row & 1 == 1).fold(0, |found, row| {
        let pick = |value: u64, bit: u32| if row >> bit & 1 == 1 { value } else { !value };
        found | pick(a, 2) & pick(b, 1) & pick(c, 0)
    })
}

fn funnel(site: &Site, shift: fn(u64, u64) -> u64) -> Decoded {
    site.is("wrap");
    let clamp = site.is("clamp");
    site.map(move |[a, b, c]| {
        let wide = (b & mask(32)) << 32 | a & mask(32);
        let by = if clamp { (c & mask(32)).min(32) } else { c & 31 };
        shift(wide, by)
    })
}

fn shr(site: &Site) -> Decoded {
    let n = bits(site)?;
    if signed(site)? {
        return site.int(move |[a, b]| ((a as i64) >> b.min(n - 1)) as u64);
    }
    site.int(move |[a, b]| if b < n { a >> b } else { 0 })
}

fn bfind(site: &Site) -> Decoded {
    let (n, amount) = (bits(site)?, site.is("shiftamt"));
    let signed = signed(site)?;
    site.int(move |[a]| {
        let value = if signed && (a as i64) < 0 { !a } else { a };
        match value {
            0 => mask(32),
            _ if amount => u64::from(value.leading_zeros()) + n - 64,
            _ => 63 - u64::from(value.leading_zeros()),
        }
    })
}

/// The n-th set bit of a mask, up or down from a base.
fn fns(bits: u32, base: u32, offset: i32) -> u32 {
    let set = |at: u32| bits.checked_shr(at).is_some_and(|b| b & 1 == 1);
    let nth = |mut found: Box<dyn Iterator<Item = u32>>| found.nth(offset.unsigned_abs() as usize - 1);
    let found = match offset {
        // Its magnitude is no offset: the chips' code counts none and ends with 0.
        i32::MIN => Some(0),
        0 => Some(base).filter(|b| set(*b)),
        1.. => nth(Box::new((base..32).filter(move |at| bits >> at & 1 == 1))),
        _ => nth(Box::new((0..=base.min(31)).rev().filter(move |at| base < 32 && bits >> at & 1 == 1))),
    };
    found.unwrap_or(u32::MAX)
}

fn bfe(site: &Site) -> Decoded {
    let (n, signed) = (bits(site)?, signed(site)?);
    site.map(move |[a, b, c]| {
        let (position, length) = (field_bound(b, n), field_bound(c, n));
        let field = a.checked_shr(position as u32).unwrap_or(0) & mask(length as u32);
        let top = (position + length).saturating_sub(1).min(n - 1);
        if signed && length > 0 && a >> top & 1 == 1 {
            field | !mask((top + 1).saturating_sub(position) as u32)
        } else {
            field
        }
    })
}

/// A position or length of a field: its low byte; in the 64-bit forms the chips take all bits.
fn field_bound(value: u64, width: u64) -> u64 {
    if width == 64 { (value & mask(32)).min(0xff) } else { value & 0xff }
}

fn bfi(site: &Site) -> Decoded {
    let n = bits(site)?;
    site.map(move |[a, b, c, d]| {
        let (position, length) = (field_bound(c, n) as u32, field_bound(d, n) as u32);
        let field = mask(length).checked_shl(position).unwrap_or(0);
        a.checked_shl(position).unwrap_or(0) & field | b & !field
    })
}

fn szext(site: &Site) -> Decoded {
    let (clamp, signed) = (site.is("clamp"), signed(site)?);
    site.is("wrap");
    site.map(move |[a, b]| {
        let b = b & mask(32);
        let width = (b & 31) as u32;
        match width {
            _ if clamp && b >= 32 => a,
            0 => 0,
            _ if signed && a >> (width - 1) & 1 == 1 => a | !mask(width),
            _ => a & mask(width),
        }
    })
}

fn bmsk(site: &Site) -> Decoded {
    let clamp = site.is("clamp");
    site.is("wrap");
    site.map(move |[a, b]| {
        let (a, b) = (a & mask(32), b & mask(32));
        let (start, width) = if clamp { (a.min(32), b.min(32)) } else { (a & 31, b & 31) };
        mask(width as u32) << start
    })
}

/// `prmt` (9.7.9.7): bytes of `{b, a}` by the nibbles of `c`, or by a mode.
fn prmt(site: &Site) -> Decoded {
    /// For each mode and each value of the selector's low two bits, the byte that each byte of the result is.
    const MODES: [(&str, [[u32; 4]; 4]); 6] = [
        ("f4e", [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5, 6]]),
        ("b4e", [[0, 7, 6, 5], [1, 0, 7, 6], [2, 1, 0, 7], [3, 2, 1, 0]]),
        ("rc8", [[0, 0, 0, 0], [1, 1, 1, 1], [2, 2, 2, 2], [3, 3, 3, 3]]),
        ("ecl", [[0, 1, 2, 3], [1, 1, 2, 3], [2, 2, 2, 3], [3, 3, 3, 3]]),
        ("ecr", [[0, 0, 0, 0], [0, 1, 1, 1], [0, 1, 2, 2], [0, 1, 2, 3]]),
        ("rc16", [[0, 1, 0, 1], [2, 3, 2, 3], [0, 1, 0, 1], [2, 3, 2, 3]]),
    ];
    let mode = site.one_of(&MODES);
    site.map(move |[a, b, c]| {
        let bytes = (b & mask(32)) << 32 | a & mask(32);
        (0..4).fold(0, |word, i| {
            let choice = match mode {
                Some(rows) => rows[(c & 3) as usize][i],
                None => (c >> (4 * i)) as u32 & 15,
            };
            let byte = bytes >> (8 * (choice & 7)) & 0xff;
            let byte = if choice & 8 == 0 { byte } else { 0xff * (byte >> 7) };
            word | byte << (8 * i)
        })
    })
}

fn carryless(a: u64, b: u64) -> u128 {
    (0..64).filter(|i| b >> i & 1 == 1).fold(0, |product, i| product ^ u128::from(a) << i)
}
