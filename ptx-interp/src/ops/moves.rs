//! `mov` in all its forms, and addresses: `cvta`, `isspacep`, `mapa`, `getctarank` (9.7.9).

use super::{Op, op};
use crate::ctx::Flow;
use crate::exec::{Dst, Src};
use crate::site::{COMPONENTS, Decoded, Refusal, Site};
use crate::soft::mask;
use crate::space::{RANK, Where, in_block, resolve};
use crate::special;
use ptx_core::ir::Operand;
use ptx_core::isa::{Class, Type};

pub(super) const OPS: &[Op] = &[
    op("mov", "", mov),
    op("cvta", "", |s| cvta(s, Where::to_generic)),
    op("cvta.to", "", |s| cvta(s, Where::local_to)),
    op("isspacep", "", isspacep),
    op("mapa", "", mapa),
    op("getctarank", "", getctarank),
];

/// The type that the modifiers name.
fn written(site: &Site) -> Result<Type, Refusal> {
    site.types().last().copied().ok_or_else(|| "an instruction without a type".into())
}

fn mov(site: &Site) -> Decoded {
    let ty = written(site)?;
    let (to, from) = (site.elements(0), site.elements(1));
    if site.is("v2") || site.is("v4") {
        let sources = match site.operand(1) {
            // `%tid` without a component gives all of them.
            Operand::Special(register) => {
                COMPONENTS.iter().map(|p| special::part(register, p).map(Src::Special)).collect()
            }
            _ => from.iter().map(|a| site.source(a, ty)).collect::<Result<Vec<_>, Refusal>>(),
        }?;
        let moves = to.iter().zip(sources).map(|(d, a)| Ok((site.destination(d, ty)?, a)));
        return Ok(copies(moves.collect::<Result<Vec<_>, Refusal>>()?));
    }
    if let ([to], [from], false) = (to.as_slice(), from.as_slice(), ty.bits() > 64) {
        return Ok(copies(vec![(destination(site, to, ty)?, site.source(from, ty)?)]));
    }
    regroup(site, ty, &to, &from)
}

/// A whole register, whatever the instruction's width.
fn destination(site: &Site, to: &Operand, ty: Type) -> Result<Dst, Refusal> {
    site.destination(to, ty)
}

fn copies(moves: Vec<(Dst, Src)>) -> crate::ctx::Step {
    Box::new(move |ctx, group| {
        let values: Vec<_> = moves.iter().map(|(_, src)| ctx.fetch(*src)).collect();
        for ((dst, _), value) in moves.iter().zip(&values) {
            ctx.store(*dst, group, |lane| value[lane]);
        }
        Ok(Flow::Next)
    })
}

/// Packs and unpacks: the bits of the sources in order become the bits of the destinations in order.
fn regroup(site: &Site, ty: Type, to: &[Operand], from: &[Operand]) -> Decoded {
    let part = |count: usize| {
        let bits = ty.bits() / count.max(1) as u32;
        Type::find(&format!("b{bits}")).ok_or_else(|| format!("parts of {bits} bits"))
    };
    let (wide, narrow) = (part(to.len())?, part(from.len())?);
    let mut sources = Vec::new();
    for operand in from {
        sources.extend(words(site.source(operand, narrow)?, narrow.bits()));
    }
    let mut targets = Vec::new();
    for operand in to {
        let dst = site.destination(operand, wide)?;
        let high = (wide.bits() > 64).then_some((Dst { slot: dst.slot + 1, ..dst }, 64));
        targets.push((dst, wide.bits().min(64)));
        targets.extend(high);
    }
    Ok(Box::new(move |ctx, group| {
        let values: Vec<_> = sources.iter().map(|(src, bits)| (ctx.fetch(*src), *bits)).collect();
        let joined = |lane: usize| {
            values.iter().rev().fold(0u128, |all, (v, bits)| all << bits | u128::from(v[lane] & mask(*bits)))
        };
        let mut at = 0;
        for (dst, bits) in &targets {
            ctx.store(*dst, group, |lane| (joined(lane) >> at) as u64);
            at += bits;
        }
        Ok(Flow::Next)
    }))
}

/// A source as words of at most 64 bits.
fn words(src: Src, bits: u32) -> Vec<(Src, u32)> {
    match src {
        Src::Reg(slot) if bits > 64 => vec![(src, 64), (Src::Reg(slot + 1), 64)],
        _ if bits > 64 => vec![(src, 64), (Src::Value(0), 64)],
        _ => vec![(src, bits)],
    }
}

/// The space among the modifiers.
pub(super) fn space(site: &Site) -> Where {
    let named = site.modifiers.iter().copied().find(|m| Where::from_modifier(Some(m)) != Where::Generic);
    if let Some(name) = named {
        site.is(name);
    }
    Where::from_modifier(named)
}

fn cvta(site: &Site, convert: fn(Where, u64) -> u64) -> Decoded {
    let space = space(site);
    let ty = written(site)?;
    let (dst, src) = (site.destination(site.operand(0), ty)?, site.source(site.operand(1), ty)?);
    Ok(Box::new(move |ctx, group| {
        let a = ctx.fetch(src);
        ctx.store(dst, group, |lane| convert(space, a[lane]));
        Ok(Flow::Next)
    }))
}

fn isspacep(site: &Site) -> Decoded {
    let space = space(site);
    let own = site.modifiers.iter().any(|m| ["shared", "shared::cta"].contains(m));
    let (dst, src) = (site.dst(0)?, site.src(1)?);
    Ok(Box::new(move |ctx, group| {
        let a = ctx.fetch(src);
        let rank = ctx.block.rank as u64 + 1;
        ctx.store(dst, group, |lane| {
            let (found, at) = resolve(a[lane]);
            // The parameters of a kernel stand in global memory.
            let global = space == Where::Global && found == Where::Param;
            u64::from(
                global
                    || (found == space || found.is_shared() && space.is_shared())
                        && (!own || at >> RANK == 0 || at >> RANK == rank),
            )
        });
        Ok(Flow::Next)
    }))
}

/// The same shared address in another block of the cluster.
fn mapa(site: &Site) -> Decoded {
    let window = if space(site).is_shared() { 0 } else { Where::Shared.to_generic(0) };
    let ty = written(site)?;
    let (dst, a, b) = (site.destination(site.operand(0), ty)?, site.source(site.operand(1), ty)?, site.src(2)?);
    Ok(Box::new(move |ctx, group| {
        let mut args = [[0; 32]; 2];
        let [a, b] = ctx.fetch_all([a, b], &mut args);
        ctx.store(dst, group, |lane| window + in_block(b[lane], a[lane]));
        Ok(Flow::Next)
    }))
}

/// Which block of the cluster a shared address is in.
fn getctarank(site: &Site) -> Decoded {
    space(site);
    let src = match site.ty(1) {
        Ok(ty) => site.source(site.operand(1), ty)?,
        Err(_) => site.source(site.operand(1), written(site)?)?,
    };
    let dst = site.dst(0)?;
    Ok(Box::new(move |ctx, group| {
        let a = ctx.fetch(src);
        let own = ctx.block.rank as u64;
        ctx.store(dst, group, |lane| match (a[lane] & mask(32)) >> RANK {
            0 => own,
            rank => rank - 1,
        });
        Ok(Flow::Next)
    }))
}

/// Returns true if a type is extended with its sign.
pub(super) fn extends(ty: Type) -> bool {
    ty.class() == Class::Signed
}
