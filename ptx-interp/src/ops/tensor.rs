//! Copies of tensors (9.7.9.27.1): `cp.async.bulk.tensor`, `cp.reduce.async.bulk.tensor` and what only prefetches.
//!
//! Every copy happens at once, which the manual allows. The map is read when the instruction runs.

use super::atomic::{Kind, Update};
use super::{Op, op};
use crate::ctx::{Ctx, Flow};
use crate::exec::Src;
use crate::fault::{Fault, FaultKind};
use crate::site::{Address, Decoded, Refusal, Site};
use crate::soft::{self, Round, mask};
use crate::space::{Where, in_block, number};
use crate::tensor_map::{BYTES, ElementType, Fill, Mode, TensorMap};
use crate::tensor_walk::{At, Rows, Walk, rows};
use crate::warp::lanes;
use ptx_core::diag::codes;
use ptx_core::ir::Operand;
use ptx_core::isa::Type;
use ptx_target::tensor::Swizzle;

#[rustfmt::skip]
pub(super) const OPS: &[Op] = &[
    op("cp.async.bulk.tensor", "", copy),
    op("cp.reduce.async.bulk.tensor", "", copy),
    op("cp.async.bulk.prefetch.tensor", "", nothing), op("applypriority.async.bulk.tensor", "", nothing),
];

/// A hint to caches.
fn nothing(site: &Site) -> Decoded {
    site.accept_all();
    Ok(Box::new(|_, _| Ok(Flow::Next)))
}

/// Effect of a copy to a tensor on the old content: none, or a reduction.
const REDUCTIONS: [(&str, Kind); 8] = [
    ("add", Kind::Add),
    ("min", Kind::Min),
    ("max", Kind::Max),
    ("inc", Kind::Inc),
    ("dec", Kind::Dec),
    ("and", Kind::And),
    ("or", Kind::Or),
    ("xor", Kind::Xor),
];

/// The reduction that an instruction names.
pub(super) fn reduction(site: &Site) -> Option<Kind> {
    site.one_of(&REDUCTIONS)
}

/// Operands of a copy, one way or the other.
struct Copy {
    map: Address,
    /// The map's tensor stands elsewhere: `.override::global_address`.
    instead: Option<Src>,
    coordinates: Vec<Src>,
    walk: Way,
    shared: Address,
    mbar: Option<Address>,
    /// The blocks of the cluster that get the bytes, one bit each.
    blocks: Option<Src>,
    reduction: Option<Kind>,
}

/// Traversal of a tensor, before the operands have values.
enum Way {
    Tile,
    Rows,
    Pixels(Vec<Src>),
    Row { info: Vec<Src>, wide: bool },
}

/// The operands in a vector, as sources of 32 bits.
fn words(site: &Site, operand: &Operand, ty: &str) -> Result<Vec<Src>, Refusal> {
    let ty = Type::find(ty).ok_or("no such type")?;
    let list = match operand {
        Operand::Vector(list) | Operand::List(list) => list.as_slice(),
        one => std::slice::from_ref(one),
    };
    list.iter().map(|o| site.source(o, ty)).collect()
}

fn way(site: &Site) -> Result<Way, Refusal> {
    let list = |name: &str| match site.named(name) {
        Some(at) => words(site, site.operand(at), "u16"),
        None => Ok(vec![Src::Value(0); 3]),
    };
    site.is("tile");
    Ok(match () {
        () if site.is("tile::gather4") | site.is("tile::scatter4") => Way::Rows,
        () if site.is("im2col") => Way::Pixels(list("offsets")?),
        () if site.is("im2col_no_offs") => Way::Pixels(vec![Src::Value(0); 3]),
        () if site.is("im2col::w") => Way::Row { info: list("info")?, wide: false },
        () if site.is("im2col::w::128") => Way::Row { info: list("info")?, wide: true },
        () => Way::Tile,
    })
}

impl Copy {
    fn new(site: &Site) -> Result<Copy, Refusal> {
        site.accept(&["global", "shared::cta", "shared::cluster", "bulk_group", "mbarrier::complete_tx::bytes"]);
        site.accept(&["1d", "2d", "3d", "4d", "5d", "multicast::cluster", "multicast::cluster::16b", "reduce"]);
        site.accept(&["multicast::cluster::32b", "cta_group::1", "cta_group::2", "mbarrier::report::disabled"]);
        let moved = site.is("override::global_address");
        let map = site.named("map").ok_or("a tensor copy without a map")?;
        let Operand::Memory { rest, .. } = site.operand(map) else { return Err("a tensor copy without a map".into()) };
        let coordinates = rest.last().ok_or("a tensor copy without coordinates")?;
        let shared = site.named("dst").or(site.named("src")).ok_or("a tensor copy without shared memory")?;
        let blocks = site.named("mask").or(site.named("mask32"));
        let instead = match (moved, rest.first()) {
            (true, Some(address)) => Some(site.source(address, Type::find("b64").ok_or("no type .b64")?)?),
            _ => None,
        };
        let space = if site.modifiers.contains(&"shared::cluster") { Where::Cluster } else { Where::Shared };
        Ok(Copy {
            map: site.address(map, Where::Generic)?,
            instead,
            coordinates: words(site, coordinates, "b32")?,
            walk: way(site)?,
            shared: site.address(shared, space)?,
            // It lies in the memory that the tile comes to.
            mbar: site.named("mbar").map(|at| site.address(at, space)).transpose()?,
            blocks: blocks.map(|at| site.src(at)).transpose()?,
            reduction: reduction(site),
        })
    }

    /// The map and the rows, in one lane.
    fn rows(&self, ctx: &Ctx, lane: usize) -> Result<(TensorMap, Rows), Fault> {
        let place = self.map.lane(ctx, lane);
        let mut map = read_map(ctx, lane, self.map.space, place)?;
        map.check().map_err(|invalid| Fault::new(FaultKind::BadAccess, invalid.to_string()).at(place).lane(lane))?;
        if let Some(address) = self.instead {
            map.address = ctx.fetch_lane(address, lane);
        }
        let value = |src: &Src| i64::from(ctx.fetch_lane(*src, lane) as u32 as i32);
        let short =
            |list: &[Src], at: usize| list.get(at).map_or(0, |src| (ctx.fetch_lane(*src, lane) & mask(16)) as i64);
        let at: At = std::array::from_fn(|d| self.coordinates.get(d).map_or(0, value));
        let walk = match &self.walk {
            Way::Tile => Walk::Tile,
            Way::Rows => Walk::Rows([at[1], at[2], at[3], at[4]]),
            Way::Pixels(offsets) => Walk::Pixels(std::array::from_fn(|d| short(offsets, d))),
            Way::Row { info, wide } => Walk::Row { halo: short(info, 0), offset: short(info, 1), wide: *wide },
        };
        let rank = if matches!(walk, Walk::Rows(_)) { 2 } else { self.coordinates.len() as u32 };
        let wrong = |what: String| Fault::new(FaultKind::Undefined, format!("a tensor copy with {what}")).lane(lane);
        if rank != map.rank {
            return Err(wrong(format!("{rank} coordinates through a map of {} dimensions", map.rank)));
        }
        let rows = rows(&map, at, walk).map_err(wrong)?;
        Ok((map, rows))
    }

    fn run(&self, ctx: &mut Ctx, lane: usize) -> Result<(), Fault> {
        let (map, rows) = self.rows(ctx, lane)?;
        let shared = self.shared.lane(ctx, lane);
        if !shared.is_multiple_of(128) {
            let message = "a tile in shared memory that does not begin at a multiple of 128 bytes";
            return Err(Fault::new(FaultKind::Misaligned, message).code(&codes::W0102).at(shared).lane(lane));
        }
        let Some(mbar) = self.mbar else {
            self.starts_inside(ctx, lane, &map)?;
            return self.store(ctx, lane, &map, &rows, shared);
        };
        let to = [(self.shared.space, shared), (mbar.space, mbar.lane(ctx, lane))];
        ctx.completes_on(to[1].0, lane, to[1].1)?;
        let pieces = load(ctx, lane, &map, &rows)?;
        let Some(blocks) = self.blocks else { return deliver(ctx, lane, &map, &rows, to, &pieces) };
        let blocks = ctx.fetch_lane(blocks, lane);
        // The same offsets in every block: their shared windows.
        for rank in (0..32).filter(|rank| blocks >> rank & 1 == 1) {
            let there = |(_, at): (Where, u64)| (Where::Cluster, in_block(rank, at));
            deliver(ctx, lane, &map, &rows, to.map(there), &pieces)?;
        }
        Ok(())
    }

    /// Checks the start of a copy to a tensor: no negative coordinate, and no bounding box with one. Chips stop there
    /// at an illegal instruction.
    fn starts_inside(&self, ctx: &Ctx, lane: usize, map: &TensorMap) -> Result<(), Fault> {
        let value = |src: &Src| ctx.fetch_lane(*src, lane) as u32 as i32;
        let corner = if let Mode::Im2col { lower, .. } = map.mode { lower } else { [0; 3] };
        let message = match self.coordinates.iter().map(value).enumerate().find(|(_, at)| *at < 0) {
            Some((d, at)) => format!("a tensor copy to coordinate {d} = {at}; what is written begins at 0 or above"),
            None if corner.iter().any(|at| *at < 0) => {
                format!("a tensor copy to a bounding box from {corner:?}; what is written begins at 0 or above")
            }
            None => return Ok(()),
        };
        Err(Fault::new(FaultKind::Undefined, message).lane(lane))
    }

    /// From shared memory to the tensor; what lies outside is not written.
    fn store(&self, ctx: &mut Ctx, lane: usize, map: &TensorMap, rows: &Rows, shared: u64) -> Result<(), Fault> {
        let update = self.reduction.map(|kind| reducer(kind, map.element)).transpose();
        let update = update.map_err(|what| Fault::new(FaultKind::Undefined, what).lane(lane))?;
        for (i, start) in (0..).zip(&rows.starts) {
            let Some(start) = start else { continue };
            for unit in rows.inside() {
                let from = shared.wrapping_add(i * rows.pitch + unit as u64 * rows.shared);
                let bytes = gather(ctx, lane, map, from, rows.shared)?;
                let packed = packed(map.element, &bytes[..rows.shared as usize], rows);
                let to = start.wrapping_add((rows.first + unit) as u64 * rows.global);
                let flush = matches!(map.element, ElementType::F32Ftz | ElementType::Tf32Ftz);
                write(ctx, lane, to, &packed[..rows.global as usize], update.map(|update| (update, flush)))?;
            }
        }
        Ok(())
    }
}

/// The reduction of elements of a map.
fn reducer(kind: Kind, element: ElementType) -> Result<Update, String> {
    const NAMES: [&str; 13] = ["", "", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "f32", "f32", "f32"];
    let name = NAMES.get(element as usize).copied().unwrap_or("");
    let ty = Type::find(name).ok_or_else(|| format!("a reduction of {element:?} elements in a tensor"))?;
    Ok(Update::new(kind, ty))
}

/// Writes the bytes of a unit to global memory, through a reduction (that may take subnormals as zero) or not.
fn write(ctx: &mut Ctx, lane: usize, to: u64, bytes: &[u8], update: Option<(Update, bool)>) -> Result<(), Fault> {
    let size = update.map_or(bytes.len(), |(update, _)| update.bytes());
    for (i, part) in bytes.chunks(size).enumerate() {
        let cell = ctx.bytes_mut(Where::Global, lane, to.wrapping_add((i * size) as u64), part.len() as u64)?;
        match update {
            None => cell.copy_from_slice(part),
            Some((update, flush)) => {
                let new = update.apply(number(cell), number(part), 0, flush);
                cell.copy_from_slice(&new.to_le_bytes()[..part.len()]);
            }
        }
    }
    Ok(())
}

/// The most bytes of a unit: a slice of channels.
const UNIT: usize = 32;

/// The rows of a tensor, each with its units as they stand in shared memory.
fn load(ctx: &Ctx, lane: usize, map: &TensorMap, rows: &Rows) -> Result<Vec<u8>, Fault> {
    let nan = if map.fill == Fill::Nan { map.element.nan().unwrap_or(0) } else { 0 };
    let size = rows.shared as usize;
    let fill: Vec<u8> = nan.to_le_bytes().into_iter().take(size.min(8)).cycle().take(size).collect();
    let outside = fill.repeat(rows.count as usize);
    let mut pieces = Vec::with_capacity(rows.bytes() as usize);
    for start in &rows.starts {
        let from = pieces.len();
        pieces.extend_from_slice(&outside);
        let Some(start) = start else { continue };
        let inside = rows.inside();
        let at = start.wrapping_add((rows.first + inside.start) as u64 * rows.global);
        let row = &mut pieces[from + inside.start as usize * size..from + inside.end as usize * size];
        // Rows begin at multiples of 16 bytes; units that are padded are read one by one.
        let (near, far) = if rows.global == rows.shared { (16, 16) } else { (rows.shared, rows.global) };
        for (i, part) in (0..).zip(row.chunks_mut(near as usize)) {
            let bytes = (part.len() as u64).min(far);
            let (data, padding) = part.split_at_mut(bytes as usize);
            data.copy_from_slice(ctx.bytes(Where::Global, lane, at.wrapping_add(i * far), bytes)?);
            padding.fill(0);
        }
        round(map.element, row);
    }
    Ok(pieces)
}

/// A `tf32` is rounded on its way into shared memory.
fn round(element: ElementType, bytes: &mut [u8]) {
    if !matches!(element, ElementType::Tf32 | ElementType::Tf32Ftz) {
        return;
    }
    for word in bytes.chunks_exact_mut(4) {
        let single = soft::unpack(number(word), &soft::F32);
        let rounded = soft::pack(single, &soft::TF32, Round::Nearest, false);
        word.copy_from_slice(&(rounded as u32).to_le_bytes());
    }
}

/// Puts the rows into shared memory and signals the mbarrier.
fn deliver(
    ctx: &mut Ctx,
    lane: usize,
    map: &TensorMap,
    rows: &Rows,
    [(space, shared), (mbar_space, mbar)]: [(Where, u64); 2],
    pieces: &[u8],
) -> Result<(), Fault> {
    ctx.completes_on(mbar_space, lane, mbar)?;
    let row = (rows.count as u64 * rows.shared) as usize;
    let step = if map.swizzle == Swizzle::B128Atom32Flip8 { 8 } else { 16 };
    for (i, bytes) in (0..).zip(pieces.chunks(row.max(1))) {
        for (j, part) in (0..).zip(bytes.chunks(step as usize)) {
            let at = map.swizzle.apply(shared.wrapping_add(i * rows.pitch + step * j));
            ctx.bytes_mut(space, lane, at, part.len() as u64)?.copy_from_slice(part);
            if let Some(observer) = ctx.observer {
                observer.note_tile(ctx, at, map.swizzle);
            }
        }
    }
    let bytes = rows.bytes() as i64;
    ctx.change_mbarrier((mbar_space, lane, mbar), |m| m.expect(-bytes))?;
    Ok(())
}

/// The bytes of a unit in shared memory.
fn gather(ctx: &Ctx, lane: usize, map: &TensorMap, from: u64, size: u64) -> Result<[u8; UNIT], Fault> {
    let mut bytes = [0; UNIT];
    let step = size.min(8);
    for (i, to) in (0..).zip(bytes[..size as usize].chunks_mut(step as usize)) {
        let at = map.swizzle.apply(from.wrapping_add(i * step));
        to.copy_from_slice(ctx.bytes(Where::Shared, lane, at, to.len() as u64)?);
    }
    Ok(bytes)
}

/// A unit as it stands in global memory: six of every eight bits, of the type that has them, else its first bytes.
fn packed(element: ElementType, bytes: &[u8], rows: &Rows) -> [u8; UNIT] {
    let mut all = [0; UNIT];
    if element == ElementType::U6Align16 && rows.shared == 16 {
        let word = bytes.iter().rev().fold(0u128, |word, byte| word << 6 | u128::from(byte & 0x3f));
        all[..16].copy_from_slice(&word.to_le_bytes());
    } else {
        all[..bytes.len()].copy_from_slice(bytes);
    }
    all
}

/// The map at an address, whatever its numbers are.
pub(super) fn read_map(ctx: &Ctx, lane: usize, space: Where, at: u64) -> Result<TensorMap, Fault> {
    let mut bytes = [0; BYTES];
    for (i, part) in (0..).zip(bytes.chunks_mut(64)) {
        part.copy_from_slice(ctx.object(space, lane, at.wrapping_add(64 * i), 64)?);
    }
    TensorMap::read(&bytes).map_err(|bad| Fault::new(FaultKind::BadAccess, bad.to_string()).at(at).lane(lane))
}

fn copy(site: &Site) -> Decoded {
    let copy = Copy::new(site)?;
    Ok(Box::new(move |ctx, group| {
        lanes(group).try_for_each(|lane| copy.run(ctx, lane))?;
        Ok(Flow::Next)
    }))
}
