//! `cvt.rs` (9.7.9.21): conversions from `f32` that random bits round. The bits are added to what is cut off, from its top; a
//! carry rounds away from zero.

use super::{Op, op};
use crate::ctx::Flow;
use crate::exec::Src;
use crate::site::{Decoded, Site};
use crate::soft::{self, F32, Format, Num, Round, mask};

pub(super) const OPS: &[Op] = &[op("cvt.rs", "", convert)];

/// Which of the random bits each source has: the lowest, for each, and how many.
struct Bits {
    from: &'static [u32],
    count: u32,
}

/// For the elements of a word, the first source first.
const BITS: [(&str, Bits); 4] = [
    ("f16x2", Bits { from: &[16, 0], count: 13 }),
    ("bf16x2", Bits { from: &[16, 0], count: 16 }),
    ("e2m1x4", Bits { from: &[24, 8, 16, 0], count: 8 }),
    ("", Bits { from: &[16, 16, 0, 0], count: 16 }),
];

fn convert(site: &Site) -> Decoded {
    let (to, from) = (site.ty(0)?, site.ty(1)?);
    let element = to.name().rsplit_once('x').map_or(to.name(), |(name, _)| name);
    let format = soft::format(element).ok_or_else(|| format!("`cvt.rs` to .{}", to.name()))?;
    let bits = BITS.iter().find(|(name, _)| *name == to.name() || name.is_empty()).map(|(_, bits)| bits);
    let Bits { from: starts, count } = bits.ok_or("`cvt.rs` without random bits")?;
    let operands = match starts.len() {
        2 => vec![site.operand(1).clone(), site.operand(2).clone()],
        _ => site.elements(1),
    };
    let sources = operands.iter().map(|o| site.source(o, from)).collect::<Result<Vec<Src>, _>>()?;
    let random = site.src(site.named("rbits").ok_or("`cvt.rs` without random bits")?)?;
    let (relu, saturate) = (site.is("relu"), site.is("satfinite"));
    let (dst, width) = (site.dst(0)?, to.bits() / starts.len() as u32);
    Ok(Box::new(move |ctx, group| {
        let values: Vec<_> = sources.iter().map(|s| ctx.fetch(*s)).collect();
        let random = ctx.fetch(random);
        ctx.store(dst, group, |lane| {
            values.iter().zip(*starts).fold(0, |word, (value, start)| {
                let random = random[lane] >> start & mask(*count);
                let num = soft::unpack(value[lane], &F32);
                let num = if relu && num.negative() { Num::int(0) } else { num };
                word << width | rounded(num, format, random, *count, saturate)
            })
        });
        Ok(Flow::Next)
    }))
}

/// A number rounded by `count` random bits.
fn rounded(num: Num, format: &Format, random: u64, count: u32, saturate: bool) -> u64 {
    let Num::Finite { neg, sig, exp } = num else { return soft::pack(num, format, Round::Zero, saturate) };
    let leading = (127 - sig.leading_zeros() as i32 + exp).max(1 - format.bias);
    let unit = leading - format.fraction as i32 - count as i32;
    let moved = soft::add(num, Num::Finite { neg, sig: random.into(), exp: unit }, Round::Zero);
    let beyond = leading > format.bias + i32::from(format.infinity.is_none());
    match (beyond && !saturate, format.infinity) {
        (true, Some(_)) => soft::pack(Num::Inf { neg }, format, Round::Zero, false),
        _ => soft::pack(moved, format, Round::Zero, saturate),
    }
}
