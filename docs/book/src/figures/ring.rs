//! A ring of shared-memory stages over time, computed from the rules of the ring and two durations.

use super::chart::{BLUE, Bar, Chart, ORANGE};

/// A ring with one producer and one group of consumers. Times are in tenths of a microsecond.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ring {
    /// Stages of the ring.
    pub(super) stages: usize,
    /// Time from the start of a copy until its bytes have arrived.
    pub(super) copy: usize,
    /// Time in which the consumers multiply a stage.
    pub(super) multiply: usize,
}

/// One use of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Use {
    stage: usize,
    /// The start of its copy, and of its product.
    copied: usize,
    multiplied: usize,
}

impl Ring {
    /// The uses of `tiles` tiles: a copy waits until its stage is empty, a product until its stage is full and the previous product
    /// has ended.
    fn uses(&self, tiles: usize) -> Vec<Use> {
        let mut uses: Vec<Use> = Vec::with_capacity(tiles);
        for tile in 0..tiles {
            let empty = tile.checked_sub(self.stages).map_or(0, |before| uses[before].multiplied + self.multiply);
            let idle = uses.last().map_or(0, |last| last.multiplied + self.multiply);
            uses.push(Use { stage: tile % self.stages, copied: empty, multiplied: idle.max(empty + self.copy) });
        }
        uses
    }

    /// The ring over time, a row per stage, and a row for the tensor cores.
    pub(super) fn svg(&self, tiles: usize) -> String {
        let bar = |row, start, length, color, words| Bar { row, start, length, color, words };
        let bars = self.uses(tiles).into_iter().enumerate().flat_map(|(tile, used)| {
            [
                bar(used.stage, used.copied, self.copy, BLUE, format!("copy {tile}")),
                bar(used.stage, used.multiplied, self.multiply, ORANGE, tile.to_string()),
                bar(self.stages, used.multiplied, self.multiply, ORANGE, tile.to_string()),
            ]
        });
        let rows = (0..self.stages).map(|stage| format!("stage {stage}")).chain(["tensor cores".to_owned()]);
        let (title, foot) = (String::new(), String::new());
        let mut chart = Chart { title, rows: rows.collect(), bars: bars.collect(), foot, unit: 9, left: 96 };
        let (end, busy) = (chart.end(), chart.busy(self.stages));
        chart.title = format!("{} stages: the tensor cores are busy {busy} % of the time", self.stages);
        chart.foot = format!("time, {end} × 0.1 µs; tensor cores busy {busy} %");
        chart.svg()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_wait_for_empty_stages_and_products_for_full_ones() {
        let ring = Ring { stages: 2, copy: 10, multiply: 3 };
        let at = |stage, copied, multiplied| Use { stage, copied, multiplied };
        assert_eq!(ring.uses(4), [at(0, 0, 10), at(1, 0, 13), at(0, 13, 23), at(1, 16, 26)]);
    }
}
