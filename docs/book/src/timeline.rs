//! Pictures of pipelines: the stages of a ring over time, computed from the rules of the ring and two durations.

use std::fmt::Write;

/// A ring of shared-memory stages with one producer and one group of consumers. Times are in tenths of a microsecond.
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    /// Stages of the ring.
    pub stages: usize,
    /// Time from the start of a copy until its bytes have arrived.
    pub copy: usize,
    /// Time in which the consumers multiply a stage.
    pub multiply: usize,
}

/// One use of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// The stage.
    pub stage: usize,
    /// The start of its copy.
    pub copied: usize,
    /// The start of its product.
    pub multiplied: usize,
}

const UNIT: usize = 9;
const ROW: usize = 26;
const LEFT: usize = 96;
const COPY: &str = "#cfe3ff";
const MULTIPLY: &str = "#ffe2c2";

impl Ring {
    /// The uses of `tiles` tiles: a copy waits until its stage is empty, a product until its stage is full and the previous product
    /// has ended.
    #[must_use]
    pub fn uses(&self, tiles: usize) -> Vec<Use> {
        let mut uses: Vec<Use> = Vec::with_capacity(tiles);
        for tile in 0..tiles {
            let empty = tile.checked_sub(self.stages).map_or(0, |before| uses[before].multiplied + self.multiply);
            let idle = uses.last().map_or(0, |last| last.multiplied + self.multiply);
            uses.push(Use { stage: tile % self.stages, copied: empty, multiplied: idle.max(empty + self.copy) });
        }
        uses
    }

    /// The ring over time, a row per stage, and a row for the tensor cores.
    #[must_use]
    pub fn svg(&self, tiles: usize) -> String {
        let uses = self.uses(tiles);
        let end = uses.last().map_or(0, |last| last.multiplied + self.multiply);
        let busy = 100 * tiles * self.multiply / end.max(1);
        let (width, height) = (LEFT + end * UNIT + 1, (self.stages + 1) * ROW + 24);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
             font-family=\"sans-serif\" font-size=\"11\" text-anchor=\"middle\" role=\"img\">\n\
             <title>{} stages: the tensor cores are busy {busy} % of the time</title>\n",
            self.stages
        );
        for (tile, used) in uses.iter().enumerate() {
            bar(&mut out, used.stage, [used.copied, self.copy], COPY, &format!("copy {tile}"));
            bar(&mut out, used.stage, [used.multiplied, self.multiply], MULTIPLY, &tile.to_string());
            bar(&mut out, self.stages, [used.multiplied, self.multiply], MULTIPLY, &tile.to_string());
        }
        for stage in 0..self.stages {
            label(&mut out, stage, &format!("stage {stage}"));
        }
        label(&mut out, self.stages, "tensor cores");
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{}\" fill=\"gray\">time, {end} × 0.1 µs; tensor cores busy {busy} %</text>",
            LEFT + end * UNIT / 2,
            height - 8
        );
        out + "</svg>\n"
    }
}

fn bar(out: &mut String, row: usize, [start, length]: [usize; 2], color: &str, words: &str) {
    let (x, y, width, height) = (LEFT + start * UNIT, row * ROW + 2, length * UNIT, ROW - 4);
    let _ = writeln!(
        out,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{color}\" stroke=\"#666\" stroke-width=\"0.6\"/>\
         <text x=\"{}\" y=\"{}\" fill=\"black\">{words}</text>",
        x + width / 2,
        y + 15
    );
}

fn label(out: &mut String, row: usize, words: &str) {
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"{}\" fill=\"gray\" text-anchor=\"end\">{words}</text>",
        LEFT - 8,
        row * ROW + 17
    );
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
