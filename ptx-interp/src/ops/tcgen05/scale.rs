//! The scale factors of `.block_scale` (9.7.16.10.7): which bytes of tensor memory they are.
//!
//! The manual has the layouts in figures; these are CUTLASS's. Every quarter of the lanes has a copy of its own: factor j of
//! row (or column) i is byte `id + j` of lane `i % 32`, column `i / 32`; beyond the fourth byte, the next block of columns.

use super::At;
use super::idesc::{Idesc, ScaleType};
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::site::Site;
use crate::tmem::{Taddr, Tmem};

/// The scale factors of an instruction.
#[derive(Clone, Copy)]
pub(super) struct Scales {
    a: At,
    b: At,
    /// Factors in a row of 256 bits of k, as `.scale_vec` or `.block` gives them.
    count: usize,
}

/// Factors in a row, by the modifier; without one, 32 elements have one.
const COUNTS: [(&str, usize); 4] = [("scale_vec::1X", 1), ("scale_vec::2X", 2), ("scale_vec::4X", 4), ("block16", 4)];

impl Scales {
    pub(super) fn new(site: &Site, bits: u32) -> Result<Scales, String> {
        site.accept(&["block_scale", "block32"]);
        let count = site.one_of(&COUNTS).unwrap_or(if bits == 4 { 2 } else { 1 });
        Ok(Scales { a: At::new(site, "scale_a")?, b: At::new(site, "scale_b")?, count })
    }

    /// Resolves a descriptor for one thread.
    pub(super) fn resolve(self, ctx: &Ctx, lane: usize, idesc: &Idesc) -> Result<Resolved, Fault> {
        let ty = idesc.scale.ok_or_else(|| Fault::undefined("no type of scale factors"))?;
        // K = 96 is one and a half times as long.
        let count = if idesc.k == 96 { self.count * 3 / 2 } else { self.count };
        if ty == ScaleType::Ue4m3 && self.count != 4 {
            return Err(Fault::undefined("scale factors of ue4m3 for 32 elements each; they are for 16"));
        }
        let step = match count {
            2 | 6 => 2,
            4 => 4,
            _ => 1,
        };
        if let Some(id) = [idesc.a.scale, idesc.b.scale].into_iter().find(|id| id % step != 0) {
            let message =
                format!("scale factor ID {id} with {count} factors in a row; it must be a multiple of {step}");
            return Err(Fault::undefined(message));
        }
        Ok(Resolved { ty, count, k: idesc.k, a: self.a.lane(ctx, lane), b: self.b.lane(ctx, lane) })
    }
}

/// The scale factors of one product.
#[derive(Debug)]
pub(super) struct Resolved {
    ty: ScaleType,
    count: usize,
    k: usize,
    pub a: Taddr,
    pub b: Taddr,
}

impl Resolved {
    /// The factors of row (or column) `index` of `all`, as the lanes of a quarter see them.
    pub(super) fn of(
        &self,
        tmem: &Tmem,
        at: Taddr,
        id: u32,
        (index, all): (u32, u32),
        quarter: u32,
    ) -> Result<Vec<f64>, Fault> {
        let block = all.div_ceil(128) * 4;
        let factor = |j: u32| {
            let (byte, column) = ((id + j) % 4, index / 32 + (id + j) / 4 * block);
            let word = tmem.row(at.at_lane(quarter * 32 + index % 32).right(column), 1)?[0];
            Ok(value(self.ty, word.to_le_bytes()[byte as usize]))
        };
        (0..self.count as u32).map(factor).collect()
    }

    /// Number of columns that hold the factors of `all` rows (or columns) of which the first is byte `id`.
    pub(super) fn columns(&self, id: u32, all: u32) -> u32 {
        let block = all.div_ceil(128) * 4;
        (all.saturating_sub(1)) / 32 + (id + self.count as u32 - 1) / 4 * block + 1
    }

    /// Which factor an element of a row has.
    pub(super) fn which(&self, k: usize) -> usize {
        k * self.count / self.k
    }
}

fn value(ty: ScaleType, bits: u8) -> f64 {
    match (ty, bits) {
        (ScaleType::Ue8m0, 0xff) | (ScaleType::Ue4m3, 0x7f | 0xff) => f64::NAN,
        (ScaleType::Ue8m0, exponent) => 2f64.powi(i32::from(exponent) - 127),
        (ScaleType::Ue4m3, bits) => {
            let (exponent, fraction) = (i32::from(bits >> 3 & 15), f64::from(bits & 7));
            let hidden = if exponent == 0 { 0.0 } else { 8.0 };
            (hidden + fraction) * 2f64.powi(exponent.max(1) - 10)
        }
    }
}
