//! Pictures of layouts for the documents, as SVG, drawn from the functions that the operations use.
//!
//! The test fails if a file of `ptx-launch/docs/figures` is not current; `UPDATE_EXPECT=1` renews them.
#![allow(clippy::unwrap_used, reason = "a test")]

use crate::layouts::{Spread, TRANSFERS, Tile};
use ptx_target::tensor::Swizzle;
use std::fmt::Write;
use std::path::Path;

/// Width and height of a cell, and the room for the numbers of rows and columns.
const CELL: [usize; 2] = [26, 22];
const MARGIN: usize = 30;

/// Light colors, so that black text is readable on them.
const COLORS: [&str; 8] = ["#cfe3ff", "#ffe2c2", "#d5f0cf", "#f7d0e2", "#e4daf7", "#fdf3b8", "#cdeeee", "#e3e3e3"];

/// A cell: its words, the number of its color, and the element that it starts at.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cell {
    words: String,
    color: usize,
}

/// A matrix of cells; neighbors that are equal are drawn as one.
struct Figure {
    title: String,
    rows: usize,
    columns: usize,
    /// True if equal neighbors of a column are merged, not those of a row.
    tall: bool,
    /// The width of an element, in cells.
    wide: usize,
    cell: Box<dyn Fn(usize, usize) -> Cell>,
}

impl Figure {
    fn svg(&self) -> String {
        let [width, height] = [CELL[0] * self.wide, CELL[1]];
        let (all_x, all_y) = (MARGIN + self.columns * width + 1, MARGIN + self.rows * height + 1);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {all_x} {all_y}\" width=\"{all_x}\" height=\"{all_y}\" \
             font-family=\"sans-serif\" font-size=\"11\" text-anchor=\"middle\" role=\"img\">\n<title>{}</title>\n",
            self.title
        );
        for column in 0..self.columns {
            text(&mut out, MARGIN + column * width + width / 2, MARGIN - 8, "gray", &column.to_string());
        }
        for row in 0..self.rows {
            text(&mut out, MARGIN / 2, MARGIN + row * height + height / 2 + 4, "gray", &row.to_string());
        }
        for (row, column) in (0..self.rows).flat_map(|row| (0..self.columns).map(move |column| (row, column))) {
            let cell = (self.cell)(row, column);
            let [down, right] = self.extent(row, column, &cell);
            if down * right == 0 {
                continue;
            }
            let (x, y, w, h) = (MARGIN + column * width, MARGIN + row * height, right * width, down * height);
            let color = COLORS[cell.color % COLORS.len()];
            let _ = writeln!(
                out,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" fill=\"{color}\" stroke=\"#666\" stroke-width=\"0.6\"/>"
            );
            text(&mut out, x + w / 2, y + h / 2 + 4, "black", &cell.words);
        }
        out + "</svg>\n"
    }

    /// Rows and columns of the cells that are drawn as one from here on; none inside of one.
    fn extent(&self, row: usize, column: usize, cell: &Cell) -> [usize; 2] {
        let same = |row: usize, column: usize| (self.cell)(row, column) == *cell;
        if self.tall {
            let inside = row > 0 && same(row - 1, column);
            let end = (row..self.rows).take_while(|row| same(*row, column)).count();
            [if inside { 0 } else { end }, 1]
        } else {
            let inside = column > 0 && same(row, column - 1);
            let end = (column..self.columns).take_while(|column| same(row, *column)).count();
            [1, if inside { 0 } else { end }]
        }
    }
}

fn text(out: &mut String, x: usize, y: usize, color: &str, words: &str) {
    let _ = writeln!(out, "<text x=\"{x}\" y=\"{y}\" fill=\"{color}\">{words}</text>");
}

/// Thread and register.
fn held(thread: usize, register: usize) -> Cell {
    Cell { words: format!("T{thread} r{register}"), color: register }
}

/// A or B of `mma` with elements of 16 bits, two in a register.
fn operand(title: &str, lines: usize, tall: bool) -> Figure {
    let spread = Spread::Quads { high: lines / 8 };
    let cell = move |row: usize, column: usize| {
        let (line, k) = if tall { (column, row) } else { (row, column) };
        let (register, lane, _) = spread.place(line, k, 2);
        held(lane, register)
    };
    let (rows, columns) = if tall { (16, lines) } else { (lines, 16) };
    Figure { title: title.to_owned(), rows, columns, tall, wide: 1 + usize::from(tall), cell: Box::new(cell) }
}

/// C and D of `mma` and of a warp of `wgmma`, one `f32` in a register.
fn sums(title: &str, columns: usize) -> Figure {
    let tile = Tile::Quads { high: 2 };
    let cell = move |row: usize, column: usize| {
        let places = (0..32).flat_map(|lane| (0..columns / 2).map(move |i| (lane, i)));
        let found = places.into_iter().find(|(lane, i)| tile.position(*lane, *i) == (row, column));
        found.map_or_else(|| Cell { words: String::new(), color: 7 }, |(lane, i)| held(lane, i))
    };
    Figure { title: title.to_owned(), rows: 16, columns, tall: false, wide: 2, cell: Box::new(cell) }
}

/// Lanes and columns of tensor memory, and which thread's register gets them.
fn transfer(name: &str, columns: usize) -> Figure {
    let (lanes, place) =
        TRANSFERS.into_iter().find(|(shape, _)| *shape == name).map_or((0, None), |(_, (l, p))| (l, Some(p)));
    let cell = move |row: usize, column: usize| {
        let places = (0..32u32).flat_map(|thread| (0..8).map(move |register| (thread, register)));
        let found =
            places.into_iter().find(|(t, r)| place.is_some_and(|place| place(*t, *r) == (row as u32, column as u32)));
        found.map_or_else(|| Cell { words: String::new(), color: 7 }, |(t, r)| held(t as usize, r as usize))
    };
    let title = format!("tcgen05.ld.{name}: rows are lanes, columns are columns of 32 bits");
    Figure { title, rows: lanes as usize, columns, tall: false, wide: 2, cell: Box::new(cell) }
}

/// The chunk of 16 bytes that lies at each place of a swizzled row.
fn swizzle(mode: Swizzle, bytes: usize) -> Figure {
    let cell = move |row: usize, place: usize| {
        let chunk = (0..bytes / 16)
            .find(|chunk| mode.apply((row * bytes + chunk * 16) as u64) == (row * bytes + place * 16) as u64);
        chunk.map_or_else(
            || Cell { words: String::new(), color: 7 },
            |chunk| Cell { words: chunk.to_string(), color: chunk },
        )
    };
    let title = format!("Swizzle of {bytes} bytes: which chunk of 16 bytes lies at each place of a row");
    Figure { title, rows: 8, columns: bytes / 16, tall: false, wide: 2, cell: Box::new(cell) }
}

fn figures() -> Vec<(&'static str, Figure)> {
    vec![
        ("mma_m16n8k16_a", operand("A of mma.m16n8k16, rows of M and columns of K", 16, false)),
        ("mma_m16n8k16_b", operand("B of mma.m16n8k16, rows of K and columns of N", 8, true)),
        ("mma_m16n8k16_c", sums("C and D of mma.m16n8k16, rows of M and columns of N", 8)),
        ("wgmma_d", sums("D of wgmma, the 16 rows of the first warp and 16 columns of N", 16)),
        ("tcgen05_ld_16x64b", transfer("16x64b", 4)),
        ("tcgen05_ld_16x128b", transfer("16x128b", 8)),
        ("tcgen05_ld_16x256b", transfer("16x256b", 8)),
        ("tcgen05_ld_32x32b", transfer("32x32b", 4)),
        ("swizzle_128", swizzle(Swizzle::B128, 128)),
        ("swizzle_64", swizzle(Swizzle::B64, 64)),
        ("swizzle_32", swizzle(Swizzle::B32, 32)),
    ]
}

#[test]
fn figures_of_the_documents_are_current() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ptx-launch/docs/figures");
    let mut stale = Vec::new();
    for (name, figure) in figures() {
        let (path, svg) = (folder.join(format!("{name}.svg")), figure.svg());
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(&path, &svg).unwrap();
        } else if std::fs::read_to_string(&path).unwrap_or_default() != svg {
            stale.push(name);
        }
    }
    assert!(stale.is_empty(), "UPDATE_EXPECT=1 renews {stale:?}");
}
