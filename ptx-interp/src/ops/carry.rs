//! Extended precision (9.7.2): additions and subtractions that read and write `CC.CF`.

use super::{Op, op};
use crate::ctx::Flow;
use crate::site::{Decoded, Site};
use crate::soft::mask;
use crate::warp::lanes;
use ptx_core::isa::Class;

#[rustfmt::skip]
pub(super) const OPS: &[Op] = &[
    op("add.cc", "", |s| chain::<2>(s, false, |[a, b], _| (a, b))),
    op("addc", "", |s| chain::<2>(s, false, |[a, b], _| (a, b))),
    op("sub.cc", "", |s| chain::<2>(s, true, |[a, b], _| (a, b))),
    op("subc", "", |s| chain::<2>(s, true, |[a, b], _| (a, b))),
    op("mad.lo.cc", "", |s| chain::<3>(s, false, |[a, b, c], n| (a.wrapping_mul(b) & mask(n.bits), c))),
    op("mad.hi.cc", "", |s| chain::<3>(s, false, |[a, b, c], n| (n.high(a, b), c))),
    op("madc.lo", "", |s| chain::<3>(s, false, |[a, b, c], n| (a.wrapping_mul(b) & mask(n.bits), c))),
    op("madc.hi", "", |s| chain::<3>(s, false, |[a, b, c], n| (n.high(a, b), c))),
];

/// The type of the operands.
#[derive(Clone, Copy)]
struct Number {
    bits: u32,
    signed: bool,
}

impl Number {
    /// The upper half of a product.
    fn high(self, a: u64, b: u64) -> u64 {
        let unused = 64 - self.bits;
        let product = if self.signed {
            let wide = |v: u64| i128::from((v << unused) as i64 >> unused);
            (wide(a) * wide(b)) as u128
        } else {
            u128::from(a) * u128::from(b)
        };
        // The chips take 16-bit factors as 32-bit ones here.
        (product >> self.bits.max(32)) as u64 & mask(self.bits)
    }
}

/// `x + y + carry in`, or `x + ~y + carry in`: as on the chips, `CC.CF` after a subtraction is set where nothing was
/// borrowed (the manual's borrow is its opposite; a chain of one kind cannot tell). `terms` gives x and y. Opcodes that
/// end in `c` take the carry, `.cc` writes it.
fn chain<const N: usize>(site: &Site, subtract: bool, terms: fn([u64; N], Number) -> (u64, u64)) -> Decoded {
    let ty = site.ty(1)?;
    let number = Number { bits: ty.bits(), signed: ty.class() == Class::Signed };
    let (takes, gives) = (site.row.opcode().ends_with('c'), site.is("cc"));
    let (dst, srcs) = (site.dst(0)?, site.srcs::<N>(1)?);
    Ok(Box::new(move |ctx, group| {
        let mut args = [[0; 32]; N];
        let args = ctx.fetch_all(srcs, &mut args);
        for lane in lanes(group) {
            let carry = if takes { u64::from(ctx.warp.carry >> lane & 1) } else { u64::from(subtract) };
            let (x, y) = terms(std::array::from_fn(|i| args[i][lane] & mask(number.bits)), number);
            let (value, out) = step(x, y, carry, number.bits, subtract);
            ctx.store_lane(dst, lane, value);
            if gives {
                ctx.warp.carry = ctx.warp.carry & !(1 << lane) | u32::from(out) << lane;
            }
        }
        Ok(Flow::Next)
    }))
}

/// The result and whether it carried.
fn step(x: u64, y: u64, carry: u64, bits: u32, subtract: bool) -> (u64, bool) {
    let y = if subtract { !y & mask(bits) } else { y };
    let wide = u128::from(x) + u128::from(y) + u128::from(carry);
    (wide as u64 & mask(bits), wide >> bits & 1 == 1)
}
