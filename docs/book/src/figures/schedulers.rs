//! The schedulers of the GEMM for Hopper: the tiles of each SM over time, and the order of tiles.

use super::chart::{self, BLUE, Bar, Chart, GRAY, GREEN, ORANGE, PINK, VIOLET, YELLOW};

/// SMs, and steps of K of a tile.
const SMS: usize = 8;
const STEPS: usize = 8;

/// Steps that the exchange of partial sums takes.
const EXCHANGE: usize = 1;

const COLORS: [&str; 4] = [BLUE, ORANGE, GREEN, VIOLET];

/// A part of a tile on an SM.
fn unit(sm: usize, start: usize, length: usize, tile: usize) -> Bar {
    Bar { row: sm, start, length, color: COLORS[tile / SMS % COLORS.len()], words: format!("tile {tile}") }
}

fn exchange(sm: usize, start: usize) -> Bar {
    Bar { row: sm, start, length: EXCHANGE, color: PINK, words: "+".to_owned() }
}

/// SM s has tiles s, s + 8, s + 16 …
fn of_static(tiles: usize) -> Vec<Bar> {
    (0..tiles).map(|tile| unit(tile % SMS, tile / SMS * STEPS, STEPS, tile)).collect()
}

/// Full rounds as with the static scheduler; the steps of the tiles that are left are divided evenly. The SM with the last part of a tile adds the
/// others' sums.
fn of_stream_k(tiles: usize) -> Vec<Bar> {
    let full = tiles / SMS * SMS;
    let (mut bars, begin, each) = (of_static(full), full / SMS * STEPS, (tiles - full) * STEPS / SMS);
    for sm in 0..SMS {
        let (from, end) = (sm * each, (sm + 1) * each);
        let mut at = from;
        while at < end {
            let (tile, last) = (at / STEPS, end.min((at / STEPS + 1) * STEPS));
            bars.push(unit(sm, begin + at - from, last - at, full + tile));
            if last % STEPS == 0 && (at % STEPS != 0 || from > tile * STEPS) {
                bars.push(exchange(sm, begin + last - from));
            }
            at = last;
        }
    }
    bars
}

/// As many SMs for each tile as there are; each adds a part of the columns of all parts.
fn of_split_k(tiles: usize) -> Vec<Bar> {
    let splits = SMS / tiles;
    let each = STEPS / splits;
    let parts = (0..tiles * splits).flat_map(|sm| [unit(sm, 0, each, sm / splits), exchange(sm, each)]);
    parts.collect()
}

/// Bars of a panel: below those before it, with a heading.
fn add(chart: &mut Chart, heading: &str, bars: Vec<Bar>) {
    let end = bars.iter().map(Bar::end).max().unwrap_or(0);
    chart.rows.push(format!("{heading}: {end} steps:"));
    let first = chart.rows.len();
    chart.rows.extend((0..SMS).map(|sm| format!("SM {sm}")));
    chart.bars.extend(bars.into_iter().map(|bar| Bar { row: first + bar.row, ..bar }));
}

pub(super) fn over_time() -> String {
    let title = "Schedulers of the GEMM: tiles of 8 steps along K on 8 SMs".to_owned();
    let foot = "time in steps along K; + adds the sums of other SMs".to_owned();
    let mut chart = Chart { title, rows: Vec::new(), bars: Vec::new(), foot, unit: 24, left: 60 };
    add(&mut chart, "20 tiles, static or claimed: half of the SMs are idle in the last round", of_static(20));
    add(&mut chart, "20 tiles, stream-K: all SMs share the last round", of_stream_k(20));
    add(&mut chart, "2 tiles, static: six SMs are idle", of_static(2));
    add(&mut chart, "2 tiles, split-K: four SMs share a tile", of_split_k(2));
    chart.svg()
}

/// The tile of an index, as `scheduler::blocked` computes it: bands of `band` rows, in blocks of `run` columns.
fn blocked(index: usize, [rows, columns]: [usize; 2], band: usize, run: usize) -> (usize, usize) {
    let size = band * columns;
    let (number, inside) = (index / size, index % size);
    let (first, height) = (number * band, band.min(rows - number * band));
    let block = inside / (height * run);
    let (left, within) = (block * run, inside - block * height * run);
    let width = run.min(columns - left);
    (first + within / width, left + within % width)
}

/// Rows and columns of tiles of C, and the clusters that run at a time.
const TILES: [usize; 2] = [8, 16];
const CLUSTERS: usize = 32;
const CELL: usize = 24;

pub(super) fn order() -> String {
    let [rows, columns] = TILES;
    let orders =
        [("by rows", 1, columns), ("G8x1: bands of 8, by columns", 8, 1), ("G4x8: blocks of 4 rows of 8", 4, 8)];
    let panel = columns * CELL + 24;
    let size = [orders.len() * panel, rows * CELL + 44];
    let mut out = chart::open("The order of tiles: those of one color run at the same time", size);
    for (at, (name, band, run)) in orders.into_iter().enumerate() {
        let left = at * panel + 2;
        let (mut touched_rows, mut touched_columns) = ([false; TILES[0]], [false; TILES[1]]);
        for index in 0..rows * columns {
            let (row, column) = blocked(index, TILES, band, run);
            if index < CLUSTERS {
                (touched_rows[row], touched_columns[column]) = (true, true);
            }
            let color = [BLUE, ORANGE, GREEN, YELLOW, GRAY][index / CLUSTERS % 5];
            chart::rect(&mut out, [left + column * CELL, 22 + row * CELL, CELL, CELL], color, &index.to_string());
        }
        let count = |touched: &[bool]| touched.iter().filter(|touched| **touched).count();
        let reads = format!(
            "the first {CLUSTERS} read {} rows of A and {} columns of B",
            count(&touched_rows),
            count(&touched_columns)
        );
        chart::text(&mut out, [left + columns * CELL / 2, 14], "black", name);
        chart::text(&mut out, [left + columns * CELL / 2, 38 + rows * CELL], "gray", &reads);
    }
    out + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_k_divides_the_last_round_evenly() {
        let bars = of_stream_k(20);
        let steps =
            |sm| bars.iter().filter(|bar| bar.row == sm && bar.words != "+").map(|bar| bar.length).sum::<usize>();
        assert!((0..SMS).all(|sm| steps(sm) == 20 * STEPS / SMS));
        assert_eq!(bars.iter().map(Bar::end).max(), Some(20 * STEPS / SMS + EXCHANGE));
    }

    #[test]
    fn an_order_has_each_tile_once() {
        let mut tiles: Vec<_> = (0..TILES[0] * TILES[1]).map(|index| blocked(index, TILES, 3, 5)).collect();
        tiles.sort_unstable();
        tiles.dedup();
        assert_eq!(tiles.len(), TILES[0] * TILES[1]);
    }
}
