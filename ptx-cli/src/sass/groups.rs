//! Groups of asynchronous operations: products of tensor cores (`wgmma`) and copies to shared memory (`cp.async`), which a warp starts, and waits for by
//! their number instead of a barrier of the schedule.

use super::listing::Instruction;

/// What has been started in a block, and when it ends.
#[derive(Default)]
pub(super) struct Groups {
    /// When the tensor cores can begin another product.
    free: u64,
    /// When the results of each group of products can be read.
    product_groups: Vec<u64>,
    /// When all copies so far have come.
    copies: u64,
    copy_groups: Vec<u64>,
}

/// The opcodes of `wgmma`.
const PRODUCTS: [&str; 5] = ["HGMMA", "IGMMA", "QGMMA", "BGMMA", "DGMMA"];

/// Cycles from the end of the last product of a group until its results can be read. Like all numbers here it was measured on an H200 (`sm_90`, 2026-11-29), by
/// groups of 1, 2, 4 and 8 products with N from 8 to 256: they took 58 + 8 · N / 2 cycles and the like from N = 64 on, 13 of them to issue; types do not matter.
const RESULTS: u64 = 45;
/// Cycles of a copy of `cp.async` that hits L2.
const COPY: u64 = 279;

impl Groups {
    /// Returns when an instruction can issue that is ready at `now`, and starts what it starts.
    pub(super) fn issue(&mut self, instruction: &Instruction, now: u64) -> u64 {
        let text = instruction.text.as_str();
        match instruction.opcode() {
            opcode if PRODUCTS.contains(&opcode) => {
                let (start, columns) = (self.free.max(now), columns(text));
                self.free = start + interval(columns);
                if text.contains("gsb0") {
                    self.product_groups.push(start + columns / 2 + RESULTS);
                }
                now
            }
            "WARPGROUP" if text.contains("DEPBAR") => now.max(ready(&self.product_groups, text)),
            "LDGSTS" => {
                self.copies = self.copies.max(now + COPY);
                now
            }
            "LDGDEPBAR" => {
                self.copy_groups.push(self.copies);
                now
            }
            "DEPBAR" => now.max(ready(&self.copy_groups, text)),
            _ => now,
        }
    }
}

/// Cycles from one product to the next: N / 2, where a multiprocessor reaches its peak, and more for narrow ones.
fn interval(columns: u64) -> u64 {
    (columns / 2).max(16 + columns / 4)
}

/// The columns N of a product of `64xNxK`.
fn columns(text: &str) -> u64 {
    let shape = text.split('.').find(|part| part.starts_with("64x"));
    shape.and_then(|shape| shape.split('x').nth(1)?.parse().ok()).unwrap_or(0)
}

/// When all groups but the newest have ended, whose number is the second operand: `DEPBAR.LE SB0, 0x1`.
fn ready(groups: &[u64], text: &str) -> u64 {
    let left = text.split(',').nth(1).and_then(|number| number.trim().strip_prefix("0x"));
    let left = left.and_then(|digits| usize::from_str_radix(digits, 16).ok()).unwrap_or(0);
    groups.iter().rev().skip(left).copied().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::listing::Instruction;
    use super::{COPY, Groups, RESULTS};

    fn issue(groups: &mut Groups, text: &str, now: u64) -> u64 {
        groups.issue(&Instruction { text: text.to_owned(), ..Instruction::default() }, now)
    }

    /// The cycles from clock to clock around a group on the chip: 11 to start, 2 behind the wait.
    #[test]
    fn groups_of_products_take_as_long_as_measured() {
        for (columns, count, measured) in [
            (8, 8, 188),
            (64, 1, 90),
            (64, 8, 314),
            (96, 4, 250),
            (128, 2, 186),
            (192, 8, 828),
            (256, 4, 570),
            (256, 8, 1082),
        ] {
            let groups = &mut Groups::default();
            for at in 0..count {
                let last = if at + 1 == count { ", gsb0" } else { "" };
                issue(groups, &format!("HGMMA.64x{columns}x16.F32.BF16 R24, gdesc[UR4], R24{last}"), 11 + 4 * at);
            }
            let end = issue(groups, "WARPGROUP.DEPBAR.LE gsb0, 0x0", 60) + 2;
            assert!(
                end.abs_diff(measured) * 100 <= measured,
                "{count} products of {columns}: {end}, measured {measured}"
            );
        }
    }

    #[test]
    fn the_newest_groups_are_not_waited_for() {
        let groups = &mut Groups::default();
        issue(groups, "HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4], RZ, !UPT, gsb0", 10);
        issue(groups, "@P0 QGMMA.64x256x32.F32.E4M3.E4M3 R24, gdesc[UR4], R24, gsb0", 14);
        assert_eq!(issue(groups, "WARPGROUP.DEPBAR.LE gsb0, 0x1", 20), 10 + 64 + RESULTS);
        assert_eq!(issue(groups, "WARPGROUP.DEPBAR.LE gsb0, 0x0", 20), 10 + 64 + 128 + RESULTS);
        assert_eq!(issue(groups, "WARPGROUP.ARRIVE", 20), 20);
    }

    #[test]
    fn copies_run_beside_each_other() {
        let groups = &mut Groups::default();
        issue(groups, "LDGSTS.E.BYPASS.128 [R9], desc[UR4][R6.64]", 0);
        issue(groups, "LDGSTS.E.BYPASS.128 [R9+0x800], desc[UR4][R4.64]", 4);
        issue(groups, "LDGDEPBAR", 6);
        assert_eq!(issue(groups, "DEPBAR.LE SB0, 0x1", 8), 8);
        assert_eq!(issue(groups, "@P0 DEPBAR.LE SB0, 0x0", 8), 4 + COPY);
    }
}
