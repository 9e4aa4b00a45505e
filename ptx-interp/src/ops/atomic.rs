//! `atom` and `red`: every operation, type and vector (9.7.13.5–6). Scopes and orders need no work here: lanes run one
//! after another.

use super::float::bits64;
use super::moves::space;
use super::{Op, op};
use crate::ctx::{Flow, Step};
use crate::exec::{Dst, Src};
use crate::poll::{contended, looking};
use crate::site::{Address, Decoded, Refusal, Site};
use crate::soft::{self, Format, Round, mask};
use crate::space::{Where, number, resolve};
use crate::warp::lanes;
use ptx_core::isa::{Class, Type};

#[rustfmt::skip]
pub(super) const OPS: &[Op] = &[
    op("atom.add", "", |s| update(s, Kind::Add)), op("red.add", "", |s| update(s, Kind::Add)),
    op("atom.and", "", |s| update(s, Kind::And)), op("red.and", "", |s| update(s, Kind::And)),
    op("atom.or", "", |s| update(s, Kind::Or)), op("red.or", "", |s| update(s, Kind::Or)),
    op("atom.xor", "", |s| update(s, Kind::Xor)), op("red.xor", "", |s| update(s, Kind::Xor)),
    op("atom.inc", "", |s| update(s, Kind::Inc)), op("red.inc", "", |s| update(s, Kind::Inc)),
    op("atom.dec", "", |s| update(s, Kind::Dec)), op("red.dec", "", |s| update(s, Kind::Dec)),
    op("atom.min", "", |s| update(s, Kind::Min)), op("red.min", "", |s| update(s, Kind::Min)),
    op("atom.max", "", |s| update(s, Kind::Max)), op("red.max", "", |s| update(s, Kind::Max)),
    op("atom.exch", "", |s| update(s, Kind::Exchange)),
    op("atom.cas", "", |s| update(s, Kind::Compare)),
];

/// The operation on the old value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Add,
    And,
    Or,
    Xor,
    Inc,
    Dec,
    Min,
    Max,
    Exchange,
    Compare,
}

/// An update of one element: its kind and the numbers it works on.
#[derive(Clone, Copy)]
pub(super) struct Update {
    kind: Kind,
    number: Number,
    bits: u32,
}

#[derive(Clone, Copy)]
enum Number {
    Signed,
    Unsigned,
    /// One float, or several in a word.
    Float(&'static Format),
}

impl Update {
    pub(super) fn new(kind: Kind, ty: Type) -> Update {
        let name = ty.name().trim_end_matches("x2").trim_end_matches("x4");
        let number = match soft::format(name) {
            Some(format) => Number::Float(format),
            None if ty.class() == Class::Signed => Number::Signed,
            None => Number::Unsigned,
        };
        Update { kind, number, bits: ty.bits() }
    }

    /// Bytes of an element.
    pub(super) fn bytes(self) -> usize {
        self.bits as usize / 8
    }

    /// The new value of up to 64 bits.
    pub(super) fn apply(self, old: u64, b: u64, c: u64, flush: bool) -> u64 {
        match (self.kind, self.number) {
            (Kind::Exchange, _) => b,
            (Kind::Compare, _) => {
                if old == b {
                    c
                } else {
                    old
                }
            }
            (Kind::And, _) => old & b,
            (Kind::Or, _) => old | b,
            (Kind::Xor, _) => old ^ b,
            (Kind::Inc, _) => {
                if old >= b {
                    0
                } else {
                    old + 1
                }
            }
            (Kind::Dec, _) => {
                if old == 0 || old > b {
                    b
                } else {
                    old - 1
                }
            }
            (kind, Number::Float(format)) => self.floats(kind, format, old, b, flush),
            (Kind::Add, _) => old.wrapping_add(b) & mask(self.bits),
            (kind, Number::Signed) => {
                let unused = 64 - self.bits;
                let less = (old << unused) as i64 <= (b << unused) as i64;
                if less == (kind == Kind::Min) { old } else { b }
            }
            (kind, Number::Unsigned) => {
                if (old <= b) == (kind == Kind::Min) {
                    old
                } else {
                    b
                }
            }
        }
    }

    /// Each float of a word.
    fn floats(self, kind: Kind, format: &Format, old: u64, b: u64, flush: bool) -> u64 {
        (0..self.bits / format.bits).fold(0, |word, i| {
            let part = |v: u64| v >> (i * format.bits) & mask(format.bits);
            let new = float(kind, format, part(old), part(b), flush);
            word | new << (i * format.bits)
        })
    }
}

fn float(kind: Kind, format: &Format, a: u64, b: u64, flush: bool) -> u64 {
    let zero = |v: u64| {
        if flush && format.bits == 32 && v & mask(format.bits - 1) >> format.fraction << format.fraction == 0 {
            v >> (format.bits - 1) << (format.bits - 1)
        } else {
            v
        }
    };
    let nan = |v: u64| soft::unpack(v, format) == soft::Num::Nan;
    if kind == Kind::Add {
        let sum = soft::add(soft::unpack(zero(a), format), soft::unpack(zero(b), format), Round::Nearest);
        if sum == soft::Num::Nan && format.bits == 64 {
            // Reductions at the L2 cache leave a NaN as it is.
            let kept = [b, a].into_iter().find(|bits| flush && nan(*bits));
            return kept.unwrap_or_else(|| bits64(f64::NAN, [a, b]));
        }
        return zero(soft::pack(sum, format, Round::Nearest, false));
    }
    let sign = 1u64 << (format.bits - 1);
    let key = |v: u64| if v & sign != 0 { -1 - (v & (sign - 1)) as i64 } else { v as i64 };
    match (nan(a), nan(b)) {
        (true, true) => format.nan.unwrap_or(0),
        (true, false) => b,
        (false, true) => a,
        _ => {
            if (key(a) <= key(b)) == (kind == Kind::Min) {
                a
            } else {
                b
            }
        }
    }
}

/// One element: its offset, where the old value goes, the operands.
struct Element {
    offset: u64,
    old: Option<Dst>,
    b: Src,
    c: Src,
}

pub(super) fn update(site: &Site, kind: Kind) -> Decoded {
    site.accept(&["v2", "v4", "v8", "noftz"]);
    let ty = *site.types().last().ok_or("an atomic without a type")?;
    let first = usize::from(site.row.opcode() == "atom");
    let address = site.address(first, space(site))?;
    if ty.bits() > 64 {
        return wide(site, kind, ty);
    }
    let update = Update::new(kind, ty);
    let elements = elements(site, first, kind, ty)?;
    let single = ["f32", "f64"].contains(&ty.name()) && kind == Kind::Add;
    let bytes = ty.bytes();
    let size = bytes * elements.len() as u64;
    let olds: Box<[u32]> = elements.iter().filter_map(|element| element.old.map(|old| old.slot)).collect();
    let step: Step = Box::new(move |ctx, group| {
        let base = ctx.fetch(address.base);
        for lane in lanes(group) {
            let at = base[lane].wrapping_add(address.offset);
            ctx.bytes_mut(address.space, lane, at, size)?;
            let global =
                address.space == Where::Global || address.space == Where::Generic && resolve(at).0 == Where::Global;
            for element in &elements {
                let (b, c) = (ctx.fetch_lane(element.b, lane), ctx.fetch_lane(element.c, lane));
                let cell = ctx.bytes_mut(address.space, lane, at + element.offset, bytes)?;
                let old = number(cell);
                let new = update.apply(old, b & mask(update.bits), c & mask(update.bits), single && global);
                cell.copy_from_slice(&new.to_le_bytes()[..bytes as usize]);
                if let Some(dst) = element.old {
                    ctx.store_lane(dst, lane, old);
                }
            }
        }
        Ok(Flow::Next)
    });
    Ok(contending(looking(step, olds), address, first == 1))
}

fn elements(site: &Site, first: usize, kind: Kind, ty: Type) -> Result<Vec<Element>, Refusal> {
    let old = if first == 1 { site.elements(0) } else { Vec::new() };
    let mut elements = Vec::new();
    for (i, operand) in site.elements(first + 1).iter().enumerate() {
        let c = if kind == Kind::Compare { site.source(site.operand(first + 2), ty)? } else { Src::Value(0) };
        let old = old.get(i).map(|o| site.destination(o, ty)).transpose()?;
        elements.push(Element { offset: i as u64 * ty.bytes(), old, b: site.source(operand, ty)?, c });
    }
    Ok(elements)
}

/// `atom.exch.b128` and `atom.cas.b128`.
fn wide(site: &Site, kind: Kind, ty: Type) -> Decoded {
    let address = site.address(1, space(site))?;
    let dst = site.destination(site.operand(0), ty)?;
    let pair = |at: usize| match site.source(site.operand(at), ty)? {
        Src::Reg(slot) => Ok([Src::Reg(slot), Src::Reg(slot + 1)]),
        _ => Err(Refusal::from("a 128-bit operand that is no register")),
    };
    let b = pair(2)?;
    let c = if kind == Kind::Compare { pair(3)? } else { b };
    let step: Step = Box::new(move |ctx, group| {
        for lane in lanes(group) {
            let at = ctx.fetch_lane(address.base, lane).wrapping_add(address.offset);
            let [b, c] = [b, c].map(|p| p.map(|s| ctx.fetch_lane(s, lane)));
            let cell = ctx.bytes_mut(address.space, lane, at, 16)?;
            let old = [number(&cell[..8]), number(&cell[8..])];
            let new = if kind == Kind::Exchange {
                b
            } else if old == b {
                c
            } else {
                old
            };
            cell[..8].copy_from_slice(&new[0].to_le_bytes());
            cell[8..].copy_from_slice(&new[1].to_le_bytes());
            ctx.store_lane(Dst { mask: u64::MAX, ..dst }, lane, old[0]);
            ctx.store_lane(Dst { slot: dst.slot + 1, mask: u64::MAX }, lane, old[1]);
        }
        Ok(Flow::Next)
    });
    Ok(contending(looking(step, [dst.slot, dst.slot + 1].into()), address, true))
}

/// The step behind the turns of others, if it has a result and may touch global memory.
fn contending(step: Step, address: Address, result: bool) -> Step {
    if !result || !matches!(address.space, Where::Global | Where::Generic) {
        return step;
    }
    contended(step, move |exec, group| {
        let at = exec.fetch_lane(address.base, group.trailing_zeros() as usize % 32).wrapping_add(address.offset);
        address.space == Where::Global || resolve(at).0 == Where::Global
    })
}
