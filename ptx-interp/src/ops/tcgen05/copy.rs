//! `tcgen05.cp` and `tcgen05.shift` (9.7.16.9): from shared to tensor memory, and rows that move up by one.

use super::{At, pairs, source};
use crate::ctx::{Ctx, Flow};
use crate::fault::{Fault, FaultKind};
use crate::site::{Decoded, Site};
use crate::tmem::Taddr;
use crate::tmem::{Cells, Use};
use crate::warp::lanes;
use ptx_core::diag::codes;
use ptx_target::descriptor::{Descriptor, Major};

/// Rows of the source that go to lanes of tensor memory.
#[derive(Clone, Copy)]
struct Part {
    row: u32,
    lane: u32,
    count: u32,
}

const fn part(row: u32, lane: u32, count: u32) -> Part {
    Part { row, lane, count }
}

/// A shape: pieces of 16 bytes in a row, and where the rows go. Each row of `.4x256b` goes to another quarter: CUTLASS
/// renews the last lane of each with it, after a `tcgen05.shift`.
type Shape = (u64, &'static [Part]);

const SHAPES: [(&str, Shape); 6] = [
    ("128x256b", (2, &[part(0, 0, 128)])),
    ("128x128b", (1, &[part(0, 0, 128)])),
    ("4x256b", (2, &[part(0, 0, 1), part(1, 32, 1), part(2, 64, 1), part(3, 96, 1)])),
    ("warpx4", (1, &[part(0, 0, 32), part(0, 32, 32), part(0, 64, 32), part(0, 96, 32)])),
    ("warpx2::02_13", (1, &[part(0, 0, 64), part(0, 64, 64)])),
    ("warpx2::01_23", (1, &[part(0, 0, 32), part(0, 32, 32), part(32, 64, 32), part(32, 96, 32)])),
];

/// The decompression of 16 bytes.
type Unpack = fn(u128) -> u128;

const FORMATS: [(&str, Unpack); 2] = [("b4x16_p64", |piece| widen(piece, 4)), ("b6x16_p32", |piece| widen(piece, 6))];

/// Sixteen elements of `bits` bits to bytes: those of 4 bits stand at bit 2, as `tcgen05.mma` reads them.
fn widen(piece: u128, bits: u32) -> u128 {
    let up = if bits == 4 { 2 } else { 0 };
    (0..16).fold(0, |bytes, i| bytes | (piece >> (i * bits) & ((1 << bits) - 1)) << (8 * i + up))
}

/// Each block of a pair copies from its own shared memory.
pub(super) fn copy(site: &Site) -> Decoded {
    site.accept(&["64x128b", "32x128b", "b8x16"]);
    let (pieces, parts) = site.one_of(&SHAPES).ok_or("`tcgen05.cp` without a shape")?;
    let unpack = site.one_of(&FORMATS);
    let (pairs, to, from) = (pairs(site), At::new(site, "taddr")?, source(site, "s_desc")?);
    Ok(Box::new(move |ctx, group| {
        let blocks = ctx.blocks(pairs)?;
        for lane in lanes(group) {
            ctx.issuer = lane;
            let to = to.lane(ctx, lane);
            let from =
                Descriptor::tcgen05(ctx.fetch_lane(from, lane)).map_err(|why| Fault::undefined(why).lane(lane))?;
            for (rank, part) in blocks.iter().flat_map(|rank| parts.iter().map(move |part| (*rank, *part))) {
                copy_part(ctx, rank, (to, from, pieces), part, unpack).map_err(|fault| fault.lane(lane))?;
            }
        }
        Ok(Flow::Next)
    }))
}

fn copy_part(
    ctx: &mut Ctx,
    rank: usize,
    (to, from, pieces): (Taddr, Descriptor, u64),
    part: Part,
    unpack: Option<Unpack>,
) -> Result<(), Fault> {
    let (first, columns) = (to.lane + part.lane, 4 * pieces as u32);
    ctx.tmem(rank)?.row(to.at_lane(first), columns)?;
    let cells = Cells::new(first, part.count, to.column, columns);
    ctx.use_tensor(rank, ctx.issuer, cells, Use::Write)?;
    for row in 0..part.count {
        for piece in 0..pieces {
            let bytes = ctx.piece(rank, from.piece(Major::K, (part.row + row).into(), piece), from.swizzle)?;
            let bytes = unpack.map_or(bytes, |unpack| unpack(u128::from_le_bytes(bytes)).to_le_bytes());
            let at = to.at_lane(to.lane + part.lane + row).right(4 * piece as u32);
            let words = ctx.tmem(rank)?.row_mut(at, 4)?;
            for (word, four) in words.iter_mut().zip(bytes.as_chunks().0) {
                *word = u32::from_le_bytes(*four);
            }
        }
    }
    Ok(())
}

/// Bytes of a row that `tcgen05.shift` moves: 32, which are 8 columns.
const SHIFTED: u32 = 8;

/// Of a warp's 32 rows each gets the next one's 32 bytes; the last keeps its own.
pub(super) fn shift(site: &Site) -> Decoded {
    site.accept(&["down"]);
    let (pairs, at) = (pairs(site), At::new(site, "taddr")?);
    Ok(Box::new(move |ctx, group| {
        let blocks = ctx.blocks(pairs)?;
        for lane in lanes(group) {
            let at = at.lane(ctx, lane);
            if at.lane % 32 != 0 {
                let message = format!("`tcgen05.shift` from lane {} on; it must be a multiple of 32", at.lane);
                return Err(Fault::new(FaultKind::Misaligned, message).code(&codes::W0102).lane(lane));
            }
            for rank in &blocks {
                ctx.tmem(*rank)?.row(at, SHIFTED)?;
                ctx.use_tensor(*rank, lane, Cells::new(at.lane, 32, at.column, SHIFTED), Use::Update)?;
                for row in at.lane..at.lane + 31 {
                    let next = ctx.tmem(*rank)?.row(at.at_lane(row + 1), SHIFTED)?.to_vec();
                    ctx.tmem(*rank)?.row_mut(at.at_lane(row), SHIFTED)?.copy_from_slice(&next);
                }
            }
        }
        Ok(Flow::Next)
    }))
}
