//! Loads and stores of every space, and what only hints at them (9.7.9).

use super::moves::{extends, space};
use super::{Op, op};
use crate::ctx::{Ctx, Flow};
use crate::exec::{Dst, Src};
use crate::fault::Fault;
use crate::poll::looking;
use crate::site::{Address, Decoded, Refusal, Site};
use crate::soft::mask;
use crate::space::{Where, number};
use crate::warp::{Lanes, lanes};
use ptx_core::ir::Operand;
use ptx_core::isa::Type;

pub(super) const OPS: &[Op] = &[
    op("ld", "", ld),
    op("ldu", "", ld),
    op("st", "", st),
    op("prefetch", "", nothing),
    op("prefetchu", "", nothing),
    op("applypriority", "", nothing),
    op("discard", "", nothing),
    op("createpolicy", "", policy),
    op("st.bulk", "", clear),
];

/// The most bytes that one instruction moves.
const MOST: usize = 64;

/// The element type: the last type among the modifiers.
fn element(site: &Site) -> Result<Type, Refusal> {
    site.accept(&["v2", "v4", "v8"]);
    site.types().last().copied().ok_or_else(|| "an access without a type".into())
}

/// The width of the register that an operand is: values are extended to it.
fn register_bits(site: &Site, operand: &Operand, ty: Type) -> u32 {
    match operand {
        Operand::Reg(register) | Operand::Part(register, _) => site.width(*register).min(64),
        _ => ty.bits().min(64),
    }
}

/// Destinations of the bytes of an access: for each word its offset, its width, and the register with the bits it
/// keeps.
fn targets(site: &Site, at: usize, ty: Type) -> Result<Vec<(usize, usize, Dst)>, Refusal> {
    let bytes = ty.bytes() as usize;
    let mut words = Vec::new();
    for (i, operand) in site.elements(at).iter().enumerate() {
        let dst = site.destination(operand, ty)?;
        let dst = Dst { mask: mask(register_bits(site, operand, ty)), ..dst };
        words.push((i * bytes, bytes.min(8), dst));
        if bytes > 8 {
            words.push((i * bytes + 8, 8, Dst { slot: dst.slot + 1, mask: u64::MAX }));
        }
    }
    Ok(words)
}

/// Modifiers of loads that see what other threads write meanwhile.
const STRONG: [&str; 4] = ["volatile", "relaxed", "acquire", "mmio"];

pub(super) fn ld(site: &Site) -> Decoded {
    let ty = element(site)?;
    let words = targets(site, 0, ty)?;
    let registers = words.iter().map(|(_, _, dst)| dst.slot).collect();
    let step = load(site, ty, words)?;
    Ok(if site.modifiers.iter().any(|m| STRONG.contains(m)) { looking(step, registers) } else { step })
}

fn load(site: &Site, ty: Type, words: Vec<(usize, usize, Dst)>) -> Decoded {
    let address = site.address(1, space(site))?;
    let size = site.elements(0).len() * ty.bytes() as usize;
    if size > MOST {
        return Err(format!("a load of {size} bytes"));
    }
    let unused = if extends(ty) { 64 - ty.bits() } else { 0 };
    if let ([(_, _, dst)], true) = (words.as_slice(), size <= 8) {
        let dst = *dst;
        return Ok(Box::new(move |ctx, group| load_one(ctx, group, address, size, dst, unused)));
    }
    Ok(Box::new(move |ctx, group| {
        let base = ctx.fetch(address.base);
        for lane in lanes(group) {
            let mut buffer = [0; MOST];
            let at = base[lane].wrapping_add(address.offset);
            let (found, gaps, touch) = ctx.bytes_with_gaps(address.space, lane, at, size as u64)?;
            buffer[..size].copy_from_slice(found);
            for (offset, bytes, dst) in &words {
                let value = buffer.get(*offset..*offset + *bytes).map_or(0, number);
                ctx.store_lane(*dst, lane, ((value << unused) as i64 >> unused) as u64);
                if gaps >> offset & mask(*bytes as u32) != 0
                    && let Some(observer) = ctx.observer
                {
                    observer.leave_gap(ctx, (dst.slot, 1 << lane), &touch, gaps.trailing_zeros().into());
                }
            }
        }
        Ok(Flow::Next)
    }))
}

/// A load of one value of up to 8 bytes in each lane.
fn load_one(ctx: &mut Ctx, group: u32, address: Address, size: usize, dst: Dst, unused: u32) -> Result<Flow, Fault> {
    let extend = move |value: u64| ((value << unused) as i64 >> unused) as u64;
    if let (Src::Value(at), Where::Param | Where::Const) = (address.base, address.space) {
        let value = extend(number(ctx.bytes(address.space, 0, at.wrapping_add(address.offset), size as u64)?));
        ctx.store(dst, group, |_| value);
        return Ok(Flow::Next);
    }
    let addresses = ctx.fetch(address.base).map(|base| base.wrapping_add(address.offset));
    let mut values = [0; 32];
    let first = group.trailing_zeros() as usize % 32;
    if let Some(row) = if group == u32::MAX { ctx.row(address.space, &addresses, size as u64) } else { None } {
        for (value, bytes) in values.iter_mut().zip(row.chunks_exact(size)) {
            *value = extend(number(bytes));
        }
    } else if same(group, &addresses) && !address.space.is_private(addresses[first]) {
        values = [extend(number(ctx.bytes_for(address.space, group, addresses[first], size as u64)?)); 32];
    } else {
        let mut rest = group;
        while rest != 0 {
            let lane = rest.trailing_zeros() as usize;
            let together =
                if ctx.observer.is_some() { alike(rest, lane, &addresses, address.space) } else { 1 << lane };
            let value = extend(number(ctx.bytes_for(address.space, together, addresses[lane], size as u64)?));
            lanes(together).for_each(|lane| values[lane] = value);
            rest &= !together;
        }
    }
    ctx.store(dst, group, |lane| values[lane]);
    Ok(Flow::Next)
}

/// The lanes that read what this one reads: they make one report.
fn alike(group: u32, lane: usize, addresses: &Lanes, space: Where) -> u32 {
    match space.is_private(addresses[lane]) {
        true => 1 << lane,
        false => lanes(group).filter(|l| addresses[*l] == addresses[lane]).fold(0, |mask, l| mask | 1 << l),
    }
}

/// Sources of the bytes of a store: offset, width, source.
fn sources(site: &Site, at: usize, ty: Type) -> Result<Vec<(usize, usize, Src)>, Refusal> {
    let bytes = ty.bytes() as usize;
    let mut words = Vec::new();
    for (i, operand) in site.elements(at).iter().enumerate() {
        let src = site.source(operand, ty)?;
        words.push((i * bytes, bytes.min(8), src));
        if bytes > 8 {
            let high = if let Src::Reg(slot) = src { Src::Reg(slot + 1) } else { Src::Value(0) };
            words.push((i * bytes + 8, 8, high));
        }
    }
    Ok(words)
}

pub(super) fn st(site: &Site) -> Decoded {
    let ty = element(site)?;
    let address = site.address(0, space(site))?;
    let words = sources(site, 1, ty)?;
    let size = site.elements(1).len() * ty.bytes() as usize;
    if size > MOST {
        return Err(format!("a store of {size} bytes"));
    }
    if let ([(_, _, src)], true) = (words.as_slice(), size <= 8) {
        let src = *src;
        return Ok(Box::new(move |ctx, group| store_one(ctx, group, address, size, src)));
    }
    Ok(Box::new(move |ctx, group| {
        let base = ctx.fetch(address.base);
        let first = group.trailing_zeros() as usize % 32;
        let uniform = same(group, &base) && words.iter().all(|(_, _, src)| same(group, &ctx.fetch(*src)));
        for (lane, together) in
            alone_or_together(group, uniform && !address.space.is_private(base[first].wrapping_add(address.offset)))
        {
            let mut buffer = [0; MOST];
            for (offset, bytes, src) in &words {
                let value = ctx.fetch_lane(*src, lane).to_le_bytes();
                if let Some(to) = buffer.get_mut(*offset..*offset + *bytes) {
                    to.copy_from_slice(&value[..*bytes]);
                }
            }
            let at = base[lane].wrapping_add(address.offset);
            ctx.bytes_mut_for(address.space, together, at, size as u64)?.copy_from_slice(&buffer[..size]);
        }
        Ok(Flow::Next)
    }))
}

/// A store of one value of up to 8 bytes in each lane.
fn store_one(ctx: &mut Ctx, group: u32, address: Address, size: usize, src: Src) -> Result<Flow, Fault> {
    let addresses = ctx.fetch(address.base).map(|base| base.wrapping_add(address.offset));
    let values = ctx.fetch(src);
    let first = group.trailing_zeros() as usize % 32;
    if let Some(row) = if group == u32::MAX { ctx.row_mut(address.space, &addresses, size as u64) } else { None } {
        for (bytes, value) in row.chunks_exact_mut(size).zip(values) {
            bytes.copy_from_slice(&value.to_le_bytes()[..size]);
        }
        return Ok(Flow::Next);
    }
    let uniform = same(group, &addresses) && same(group, &values) && !address.space.is_private(addresses[first]);
    for (lane, together) in alone_or_together(group, uniform) {
        let bytes = ctx.bytes_mut_for(address.space, together, addresses[lane], size as u64)?;
        bytes.copy_from_slice(&values[lane].to_le_bytes()[..size]);
    }
    Ok(Flow::Next)
}

/// Returns true if all lanes have the same value.
fn same(group: u32, values: &Lanes) -> bool {
    let first = values[group.trailing_zeros() as usize % 32];
    lanes(group).all(|lane| values[lane] == first)
}

/// Each lane with itself; or, for what they do once for all, the first with all of them.
fn alone_or_together(group: u32, together: bool) -> impl Iterator<Item = (usize, u32)> {
    let leaders = if together { group & group.wrapping_neg() } else { group };
    lanes(leaders).map(move |lane| (lane, if together { group } else { 1 << lane }))
}

/// An instruction that changes only how fast others are.
fn nothing(site: &Site) -> Decoded {
    site.accept_all();
    Ok(Box::new(|_, _| Ok(Flow::Next)))
}

/// A cache policy is a number that only hints read.
fn policy(site: &Site) -> Decoded {
    site.accept_all();
    let dst = site.dst(0)?;
    Ok(Box::new(move |ctx, group| {
        ctx.store(dst, group, |_| 0);
        Ok(Flow::Next)
    }))
}

/// `st.bulk`: zeroes a range of shared memory.
fn clear(site: &Site) -> Decoded {
    let address = site.address(0, space(site))?;
    let size = site.src(1)?;
    Ok(Box::new(move |ctx, group| {
        for lane in lanes(group) {
            let at = ctx.fetch_lane(address.base, lane).wrapping_add(address.offset);
            let bytes = ctx.fetch_lane(size, lane);
            for step in (0..bytes).step_by(8) {
                let at = at.wrapping_add(step);
                ctx.bytes_mut(address.space, lane, at, 8)?.fill(0);
            }
        }
        Ok(Flow::Next)
    }))
}
