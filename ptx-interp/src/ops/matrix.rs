//! `ldmatrix`, `stmatrix` and `movmatrix` (9.7.14.5.15–17): matrices of 8 rows between shared memory and registers.

use super::fragment::{sources, targets};
use super::{Op, op};
use crate::ctx::{Ctx, Flow};
use crate::exec::Src;
use crate::fault::{Fault, FaultKind};
use crate::observe::Touch;
use crate::site::{Decoded, Site};
use crate::space::{Where, number};
use ptx_core::diag::codes;

#[rustfmt::skip]
pub(super) const OPS: &[Op] = &[
    op("ldmatrix.m8n8", "", load), op("stmatrix.m8n8", "", |s| store(s, rows)), op("stmatrix.m16n8", "", |s| store(s, columns)),
    op("movmatrix", "", transpose),
    op("ldmatrix.m8n16", "", |s| load_bytes(s, 8)), op("ldmatrix.m16n16", "", |s| load_bytes(s, 16)),
];

/// The whole warp must be here: `.sync.aligned`. `false` while lanes are missing; they wait.
pub(super) fn meet(ctx: &mut Ctx, group: u32) -> Result<bool, Fault> {
    let live = ctx.warp.live;
    if live != u32::MAX {
        return Err(Fault::new(
            FaultKind::Sync,
            "a matrix instruction in a warp of which some lanes do not exist or have exited",
        )
        .code(&codes::W0306));
    }
    Ok(ctx.meet(group, Src::Value(live.into()))? == group)
}

/// Row and column of a lane's two elements in an 8×8 matrix of 16-bit elements.
fn place(lane: usize, half: usize, transposed: bool) -> (usize, usize) {
    let (row, col) = (lane / 4, lane % 4 * 2 + half);
    if transposed { (col, row) } else { (row, col) }
}

/// `ldmatrix`: lane 8·m + r has the address of row r of matrix m.
fn load(site: &Site) -> Decoded {
    site.accept(&["sync", "x1", "x2", "x4", "shared", "shared::cta"]);
    let transposed = site.is("trans");
    let (targets, address) = (targets(site, 0)?, site.address(1, space(site))?);
    Ok(Box::new(move |ctx, group| {
        if !meet(ctx, group)? {
            return Ok(Flow::Apart);
        }
        let bases = ctx.fetch(address.base).map(|base| base.wrapping_add(address.offset));
        for (matrix, dst) in targets.iter().enumerate() {
            let mut rows = [[0; 16]; 8];
            let mut holes: Vec<(usize, u64, Touch)> = Vec::new();
            for (row, bytes) in rows.iter_mut().enumerate() {
                let lane = (8 * matrix + row) % 32;
                let (found, gaps, touch) = ctx.bytes_with_gaps(address.space, lane, bases[lane], 16)?;
                bytes.copy_from_slice(found);
                holes.extend((gaps != 0).then_some((row, gaps, touch)));
            }
            let half = |lane: usize, half: usize| {
                let (row, col) = place(lane, half, transposed);
                number(&rows[row][2 * col..2 * col + 2])
            };
            ctx.store(*dst, group, |lane| half(lane, 0) | half(lane, 1) << 16);
            for (row, gaps, touch) in holes {
                let takes = |lane: &usize| {
                    let parts = [0, 1].map(|half| place(*lane, half, transposed));
                    parts.iter().any(|(r, column)| *r == row && gaps >> (2 * column) & 3 != 0)
                };
                let without = (0..32).filter(takes).fold(0, |mask, lane| mask | 1 << lane);
                let byte = u64::from(gaps.trailing_zeros());
                if let Some(observer) = ctx.observer {
                    observer.leave_gap(ctx, (dst.slot, without), &touch, byte);
                }
            }
        }
        Ok(Flow::Next)
    }))
}

/// Packing of 16 elements of a row in memory: bits of each, and their signedness.
fn packing(site: &Site) -> (u32, bool) {
    const FORMATS: [(&str, (u32, bool)); 3] = [("b6x16_p32", (6, false)), ("b4x16_p64", (4, false)), ("s4", (4, true))];
    site.accept(&["b8x16", "s8", "b8"]);
    site.one_of(&FORMATS).unwrap_or((8, false))
}

/// `ldmatrix` of 16 columns: elements of 8 bits, or of fewer that are extended to 8. A lane has four neighbors of a row; of 16
/// rows, which come transposed, those of a second row eight further in its next register.
fn load_bytes(site: &Site, rows: usize) -> Decoded {
    site.accept(&["sync", "x1", "x2", "x4", "shared", "shared::cta"]);
    let ((bits, signed), transposed) = (packing(site), site.is("trans"));
    let (targets, address) = (targets(site, 0)?, site.address(1, space(site))?);
    Ok(Box::new(move |ctx, group| {
        if !meet(ctx, group)? {
            return Ok(Flow::Apart);
        }
        let bases = ctx.fetch(address.base).map(|base| base.wrapping_add(address.offset));
        for (matrix, registers) in targets.chunks(rows / 8).enumerate() {
            let mut table = [[0; 16]; 16];
            for (row, line) in table.iter_mut().enumerate().take(rows) {
                let lane = (rows * matrix + row) % 32;
                *line = unpacked(ctx.bytes(address.space, lane, bases[lane], 16)?, bits, signed);
            }
            for (upper, dst) in registers.iter().enumerate() {
                ctx.store(*dst, group, |lane| {
                    let (row, first) = (lane / 4 + 8 * upper, lane % 4 * 4);
                    let at = |i: usize| if transposed { table[first + i][row] } else { table[row][first + i] };
                    u64::from(u32::from_le_bytes([at(0), at(1), at(2), at(3)]))
                });
            }
        }
        Ok(Flow::Next)
    }))
}

/// The first 16 elements of 16 bytes.
fn unpacked(bytes: &[u8], bits: u32, signed: bool) -> [u8; 16] {
    let word = bytes.iter().rev().fold(0u128, |word, byte| word << 8 | u128::from(*byte));
    std::array::from_fn(|i| {
        let value = (word >> (i as u32 * bits)) as u8 & (0xff >> (8 - bits));
        if signed { ((value << (8 - bits)) as i8 >> (8 - bits)) as u8 } else { value }
    })
}

/// Shared memory if the instruction names it, else a generic address.
fn space(site: &Site) -> Where {
    if site.is("shared") || site.is("shared::cta") { Where::Shared } else { Where::Generic }
}

/// The lines of 16 bytes of the matrix that a register of each lane holds, transposed or not.
type Lines = fn(&[u64; 32], bool) -> [[u8; 16]; 8];

fn store(site: &Site, lines: Lines) -> Decoded {
    site.accept(&["sync", "x1", "x2", "x4", "shared", "shared::cta"]);
    let transposed = site.is("trans");
    let (address, sources) = (site.address(0, space(site))?, sources(site, 1)?);
    Ok(Box::new(move |ctx, group| {
        if !meet(ctx, group)? {
            return Ok(Flow::Apart);
        }
        let bases = ctx.fetch(address.base).map(|base| base.wrapping_add(address.offset));
        for (matrix, src) in sources.iter().enumerate() {
            for (row, line) in lines(&ctx.fetch(*src), transposed).iter().enumerate() {
                let lane = (8 * matrix + row) % 32;
                ctx.bytes_mut(address.space, lane, bases[lane], 16)?.copy_from_slice(line);
            }
        }
        Ok(Flow::Next)
    }))
}

/// The rows of an 8×8 matrix of 16-bit elements.
fn rows(lanes: &[u64; 32], transposed: bool) -> [[u8; 16]; 8] {
    let mut rows = [[0; 16]; 8];
    for (lane, value) in lanes.iter().enumerate() {
        for half in 0..2 {
            let (row, col) = place(lane, half, transposed);
            rows[row][2 * col..2 * col + 2].copy_from_slice(&((value >> (16 * half)) as u16).to_le_bytes());
        }
    }
    rows
}

/// The columns of a 16×8 matrix of bytes. Lane 4·g + t has two neighbors of row g, then of row g + 8, as `mma` leaves them.
fn columns(lanes: &[u64; 32], _: bool) -> [[u8; 16]; 8] {
    let mut columns = [[0; 16]; 8];
    for (lane, value) in lanes.iter().enumerate() {
        for (at, byte) in value.to_le_bytes().into_iter().take(4).enumerate() {
            columns[lane % 4 * 2 + at % 2][lane / 4 + 8 * (at / 2)] = byte;
        }
    }
    columns
}

fn transpose(site: &Site) -> Decoded {
    site.accept(&["sync", "m8n8", "trans"]);
    let (dst, src) = (site.dst(0)?, site.src(1)?);
    Ok(Box::new(move |ctx, group| {
        if !meet(ctx, group)? {
            return Ok(Flow::Apart);
        }
        let rows = rows(&ctx.fetch(src), true);
        let half = |lane: usize, half: usize| {
            let (row, col) = place(lane, half, false);
            number(&rows[row][2 * col..2 * col + 2])
        };
        ctx.store(dst, group, |lane| half(lane, 0) | half(lane, 1) << 16);
        Ok(Flow::Next)
    }))
}
