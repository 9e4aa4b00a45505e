//! `tensormap.replace` and `tensormap.cp_fenceproxy` (9.7.9.28, 9.7.13.16): maps that kernels change. The fence itself is with the
//! other fences.

use super::moves::space;
use super::tensor::read_map;
use super::{Op, op};
use crate::ctx::{Ctx, Flow};
use crate::fault::{Fault, FaultKind};
use crate::site::{Decoded, Site};
use crate::soft::mask;
use crate::space::Where;
use crate::tensor_map::{ElementType, Fill, Interleave, Mode, RANK, TensorMap};
use crate::warp::lanes;
use ptx_target::tensor::Swizzle;

#[rustfmt::skip]
pub(super) const OPS: &[Op] = &[
    op("tensormap.replace", "", replace), op("tensormap.cp_fenceproxy", "", publish),
];

/// Sets a field; the ordinal, then the value. `None`: there is no such ordinal or value.
type Set = fn(&mut TensorMap, usize, u64) -> Option<()>;

#[rustfmt::skip]
const FIELDS: [(&str, Set); 10] = [
    ("global_address", |map, _, value| { map.address = value; Some(()) }),
    ("rank", |map, _, value| { map.rank = u32::try_from(value + 1).ok().filter(|rank| *rank <= RANK as u32)?; Some(()) }),
    ("box_dim", |map, at, value| match &mut map.mode {
        Mode::Tiled { tile } => { *tile.get_mut(at)? = value as u32; Some(()) }
        _ => None,
    }),
    ("global_dim", |map, at, value| { *map.dims.get_mut(at)? = value; Some(()) }),
    ("global_stride", |map, at, value| { *map.strides.get_mut(at)? = value; Some(()) }),
    ("element_stride", |map, at, value| { *map.steps.get_mut(at)? = value as u32; Some(()) }),
    ("elemtype", |map, _, value| { map.element = *ELEMENTS.get(value as usize)?; Some(()) }),
    ("interleave_layout", |map, _, value| { map.interleave = *Interleave::ALL.get(value as usize)?; Some(()) }),
    ("swizzle_mode", |map, _, value| { map.swizzle = *MODES.get(value as usize)?; Some(()) }),
    ("fill_mode", |map, _, value| { map.fill = *Fill::ALL.get(value as usize)?; Some(()) }),
];

/// The atomicity belongs to 128-byte swizzles.
const ATOMS: [Swizzle; 4] = [Swizzle::B128, Swizzle::B128Atom32, Swizzle::B128Atom32Flip8, Swizzle::B128Atom64];
const MODES: [Swizzle; 5] = [Swizzle::None, Swizzle::B32, Swizzle::B64, Swizzle::B128, Swizzle::B96];

/// The numbers of PTX, which are not the driver's.
#[rustfmt::skip]
const ELEMENTS: [ElementType; 16] = [
    ElementType::U8, ElementType::U16, ElementType::U32, ElementType::I32, ElementType::U64, ElementType::I64, ElementType::F16, ElementType::F32,
    ElementType::F32Ftz, ElementType::F64, ElementType::Bf16, ElementType::Tf32, ElementType::Tf32Ftz, ElementType::U4Align8, ElementType::U4Align16,
    ElementType::U6Align16,
];

fn atomicity(map: &mut TensorMap, _: usize, value: u64) -> Option<()> {
    let atom = *ATOMS.get(value as usize)?;
    if ATOMS.contains(&map.swizzle) {
        map.swizzle = atom;
    }
    Some(())
}

fn replace(site: &Site) -> Decoded {
    site.accept(&["tile", "b1024"]);
    let set = if site.is("swizzle_atomicity") { Some(atomicity as Set) } else { site.one_of(&FIELDS) };
    let set = set.ok_or("`tensormap.replace` without a field")?;
    let address = site.address(0, space(site))?;
    let ordinal = site.named("ord").map(|at| site.src(at)).transpose()?;
    let value = site.src(site.named("new_val").ok_or("`tensormap.replace` without a value")?)?;
    Ok(Box::new(move |ctx, group| {
        for lane in lanes(group) {
            let at = address.lane(ctx, lane);
            let ordinal = ordinal.map_or(0, |src| ctx.fetch_lane(src, lane) as usize);
            let value = ctx.fetch_lane(value, lane);
            let mut map = read_map(ctx, lane, address.space, at)?;
            let done = set(&mut map, ordinal, value);
            done.ok_or_else(|| {
                let message =
                    format!("a field of a tensor map set to {value:#x} at ordinal {ordinal}, which it cannot be");
                Fault::new(FaultKind::Undefined, message).at(at).lane(lane)
            })?;
            write(ctx, lane, address.space, at, &map.encode())?;
        }
        Ok(Flow::Next)
    }))
}

/// Writes the 128 bytes of a map, which may be aligned to 64 only.
fn write(ctx: &mut Ctx, lane: usize, space: Where, at: u64, bytes: &[u8]) -> Result<(), Fault> {
    for (i, part) in (0..).zip(bytes.chunks(64)) {
        ctx.bytes_mut(space, lane, at.wrapping_add(64 * i), part.len() as u64)?.copy_from_slice(part);
    }
    Ok(())
}

/// `tensormap.cp_fenceproxy`: copies a map from shared to global memory.
fn publish(site: &Site) -> Decoded {
    site.accept(&["global", "shared::cta", "tensormap::generic", "sync"]);
    let (to, from) = (site.address(0, Where::Global)?, site.address(1, Where::Shared)?);
    let size = site.src(2)?;
    Ok(Box::new(move |ctx, group| {
        for lane in lanes(group) {
            let size = ctx.fetch_lane(size, lane) & mask(32);
            let (to, from) = (to.lane(ctx, lane), from.lane(ctx, lane));
            for at in (0..size).step_by(64) {
                let bytes = ctx.bytes(Where::Shared, lane, from.wrapping_add(at), 64)?.to_vec();
                ctx.bytes_mut(Where::Global, lane, to.wrapping_add(at), 64)?.copy_from_slice(&bytes);
            }
        }
        Ok(Flow::Next)
    }))
}
