//! The places of the elements of a warp's matrices: registers and lanes as functions of rows and columns. Nothing here reads a register.

/// Place of an element: register, lane, and the index in the register.
pub type Place = (usize, usize, usize);

/// Distribution of rows of A and columns of B ("lines") over the registers of a warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// `mma` of 8 (`high` 1) or 16 lines: lane 4·g + t holds of line g, and of g + 8 in every other register, the elements
    /// from k = per·t on, and those behind 4·per of them in later registers.
    Quads {
        /// Rows in eights: 1 or 2.
        high: usize,
    },
    /// Volta's four products of 8×8×4: eight lanes each, four elements a lane, along k or across the lines.
    Volta {
        /// True for elements across the lines.
        across: bool,
    },
    /// `wmma`, which leaves it to the machine: element by element over the lanes.
    Plain {
        /// The elements of a line.
        depth: usize,
    },
}

impl Spread {
    /// Place of element k of a line, with `per` elements in a register.
    pub fn place(self, line: usize, k: usize, per: usize) -> Place {
        match self {
            Spread::Quads { high } => (line / 8 + high * (k / (4 * per)), line % 8 * 4 + k / per % 4, k % per),
            Spread::Volta { across } => {
                let (quad, line) = (line / 8, line % 8);
                let (lane, i) = if across { (k, line % 4) } else { (line % 4, k) };
                (i / per, 4 * quad + lane + 16 * (line / 4), i % per)
            }
            Spread::Plain { depth } => {
                let at = line * depth + k;
                (at / 32 / per, at % 32, at / 32 % per)
            }
        }
    }
}

/// Distribution of C and D over the registers of a warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tile {
    /// `mma`: two neighbors of a row in a lane, then eight rows further, then eight columns.
    Quads {
        /// Rows in eights: 1 or 2.
        high: usize,
    },
    /// Volta's, in `f16` or in words of 32 bits.
    Volta {
        /// True for `f16`.
        half: bool,
    },
    /// `wmma`: element by element over the lanes, with so many columns.
    Plain {
        /// The elements of a row.
        columns: usize,
    },
}

impl Tile {
    /// Row of A and column of B of element i of a lane.
    pub fn position(self, lane: usize, i: usize) -> (usize, usize) {
        match self {
            Tile::Quads { high } => (lane / 4 + i / 2 % high * 8, i / (2 * high) * 8 + lane % 4 * 2 + i % 2),
            Tile::Volta { half } => {
                let (quad, upper) = (lane / 4 % 4 * 8, lane / 16 * 4);
                let (row, column) =
                    if half { (lane % 4, i) } else { ((lane & 1) + (i & 2), (i & 4) + (lane & 2) + (i & 1)) };
                (quad + row + upper, quad + column)
            }
            Tile::Plain { columns } => {
                let at = i * 32 + lane;
                (at / columns, at % columns)
            }
        }
    }
}

/// The lane and the column (of 32 bits) that register `r` of thread `t` holds, for a shape; `.16x32bx2` counts its columns in each half.
pub type Cell = fn(t: u32, r: u32) -> (u32, u32);

/// The shapes of section 9.7.16.2.3: their lanes, and the place of each register. The manual shows the layouts in figures only; these are CUTLASS's.
pub const TRANSFERS: [(&str, (u32, Cell)); 5] = [
    ("32x32b", (32, |t, r| (t, r))),
    ("16x64b", (16, |t, r| (t / 4 + t % 2 * 8, t / 2 % 2 + r * 2))),
    ("16x128b", (16, |t, r| (t / 4 + r % 2 * 8, t % 4 + r / 2 * 4))),
    ("16x256b", (16, |t, r| (t / 4 + r / 2 % 2 * 8, t % 4 * 2 + r % 2 + r / 4 * 8))),
    ("16x32bx2", (16, |t, r| (t % 16, r))),
];
