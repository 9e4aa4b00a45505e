//! `tcgen05.mma` in all its kinds against a plain triple loop.

use super::formats::*;
use super::run::{COLUMNS, Random, Start, run};
use crate::harness::one_in;
use ptx_interp::Fault;

/// Positions in tensor memory: D, A, the metadata, the scale factors of A and B.
const D: usize = 0;
const A: usize = 256;
const METADATA: usize = 300;
const SCALE_A: usize = 320;
const SCALE_B: usize = 340;
/// Start of B in shared memory.
const B: usize = 48 << 10;

/// Layout of a matrix in shared memory.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Layout {
    /// Its rows (columns of B) are contiguous, not k.
    transposed: bool,
    /// The number in a descriptor: 0, 1, 2, 4, 6.
    swizzle: u64,
}

const K_MAJOR: Layout = Layout { transposed: false, swizzle: 2 };

impl Layout {
    /// Bytes of a swizzled row, and which bits of the address are mixed into bits 4 (or 5) and up.
    fn span(self) -> usize {
        [16, 128, 128, 0, 64, 0, 32][self.swizzle as usize]
    }

    /// The address of a byte of a matrix of `lines` lines, relative to its beginning, and LBO and SBO.
    fn place(self, line: usize, byte: usize, bytes: usize, lines: usize) -> usize {
        let (span, lead, stride) = (self.span(), self.leading(bytes, lines), self.stride(bytes, lines));
        // Transposed, `line` is k and `byte` runs over the rows.
        let group = if self.swizzle == 1 { 4 } else { 8 };
        let flat = match (self.transposed, self.swizzle) {
            (false, 0) => line / 8 * stride + line % 8 * 16 + byte / 16 * lead,
            (false, _) => line / 8 * stride + line % 8 * span + byte / 16 * 16,
            (true, 0) => byte / 16 * stride + line % 8 * 16 + line / 8 * lead,
            (true, _) => byte / span * lead + line % group * span + line / group * stride + byte % span / 16 * 16,
        } + byte % 16;
        let bits = flat / 128;
        match self.swizzle {
            1 => flat ^ (bits % 4) << 5,
            2 => flat ^ (bits % 8) << 4,
            4 => flat ^ (bits % 4) << 4,
            6 => flat ^ (bits % 2) << 4,
            _ => flat,
        }
    }

    fn leading(self, _bytes: usize, lines: usize) -> usize {
        match (self.transposed, self.swizzle) {
            (false, 0) => lines * 16 + 64,
            (false, _) => 16,
            (true, 0) => 128,
            (true, _) => lines * self.span(),
        }
    }

    fn stride(self, _bytes: usize, lines: usize) -> usize {
        match (self.transposed, self.swizzle) {
            (false, 0) => 128,
            (true, 0) => lines.div_ceil(8) * 128,
            (true, 1) => 4 * self.span(),
            _ => 8 * self.span(),
        }
    }

    fn descriptor(self, start: usize, bytes: usize, lines: usize) -> u64 {
        let field = |value: usize| (value as u64 & 0x3_ffff) >> 4;
        let (lead, stride) = (self.leading(bytes, lines), self.stride(bytes, lines));
        field(start) | field(lead) << 16 | field(stride) << 32 | 1 << 46 | self.swizzle << 61
    }
}

/// One instruction and what it works on.
#[derive(Clone, Debug)]
struct Case {
    kind: &'static str,
    /// Bits of an element's place in memory.
    bits: usize,
    a: Format,
    b: Format,
    m: usize,
    n: usize,
    pairs: bool,
    stationary: bool,
    sparse: bool,
    in_tensor: bool,
    layouts: [Layout; 2],
    negate: [bool; 2],
    /// D is f16.
    half: bool,
    accumulate: bool,
    shrink: u32,
    saturate: bool,
    /// Factors of a row, IDs, whether they are ue4m3, and how the instruction gives the count.
    scales: Option<(usize, [u32; 2], bool, &'static str)>,
    selector: u32,
    /// The first lane of layouts C and F.
    lane: usize,
    disabled: Option<Vec<u32>>,
    zeros: Option<u64>,
    ashift: bool,
    wide: bool,
    collector: &'static str,
    seed: u64,
}

fn case(kind: &'static str, bits: usize, a: Format, b: Format, m: usize, n: usize) -> Case {
    Case {
        kind,
        bits,
        a,
        b,
        m,
        n,
        pairs: false,
        stationary: false,
        sparse: false,
        in_tensor: false,
        layouts: [K_MAJOR; 2],
        negate: [false; 2],
        half: false,
        accumulate: true,
        shrink: 0,
        saturate: false,
        scales: None,
        selector: 0,
        lane: 0,
        disabled: None,
        zeros: None,
        ashift: false,
        wide: false,
        collector: "",
        seed: 1,
    }
}

/// A random problem: matrices as codes and as numbers, and what memory holds.
struct Problem {
    starts: Vec<Start>,
    /// M×K, zeros of a sparse A included.
    a: Vec<Vec<f64>>,
    /// N×K.
    b: Vec<Vec<f64>>,
    d: Vec<Vec<f64>>,
}

impl Case {
    fn blocks(&self) -> usize {
        if self.pairs { 2 } else { 1 }
    }

    fn k(&self) -> usize {
        let plain = if self.wide { 96 } else { 256 / self.bits };
        if self.sparse { 2 * plain } else { plain }
    }

    fn integer(&self) -> bool {
        self.kind == "i8"
    }

    /// Block, lane and column of an element of D (9.7.16.10.5).
    fn place(&self, row: usize, column: usize) -> (usize, usize, usize) {
        let n = self.n;
        match (self.m, self.pairs, self.stationary, self.sparse) {
            (256, ..) => (row / 128, row % 128, column),
            (128, true, _, false) => (row / 64, row % 64 + column / (n / 2) * 64, column % (n / 2)),
            (128, true, _, true) => (row / 64, row % 64 / 16 * 32 + row % 16 + self.lane, column),
            (128, ..) => (0, row, column),
            (64, _, true, _) => (0, row + column / (n / 2) * 64, column % (n / 2)),
            (64, ..) => (0, row / 16 * 32 + row % 16 + self.lane, column),
            (32, ..) => (0, row + column / (n / 4) * 32, column % (n / 4)),
            other => panic!("{other:?}"),
        }
    }

    /// Every lane of a block in which D has the row.
    fn lanes(&self, row: usize) -> Vec<(usize, usize)> {
        let mut found: Vec<_> = (0..self.n).map(|n| self.place(row, n)).map(|(b, lane, _)| (b, lane)).collect();
        found.dedup();
        found
    }

    fn problem(&self) -> Problem {
        let mut random = Random(self.seed * 977 + self.m as u64 * 31 + self.n as u64);
        let (k, stored) = (self.k(), if self.sparse { self.k() / 2 } else { self.k() });
        let mut starts = vec![Start::new(); self.blocks()];
        let (codes_a, codes_b) = (self.a.codes(), self.b.codes());
        let a: Vec<Vec<u32>> = (0..self.m).map(|_| (0..stored).map(|_| random.pick(&codes_a)).collect()).collect();
        let b: Vec<Vec<u32>> = (0..self.n + 32).map(|_| (0..k).map(|_| random.pick(&codes_b)).collect()).collect();
        let sign = |i: usize| if self.negate[i] { -1.0 } else { 1.0 };
        let mut problem = Problem {
            a: a.iter().map(|row| row.iter().map(|c| sign(0) * self.a.value(*c)).collect()).collect(),
            b: b.iter().map(|row| row.iter().map(|c| sign(1) * self.b.value(*c)).collect()).collect(),
            d: (0..self.m).map(|_| (0..self.n).map(|_| random.below(64) as f64 - 32.0).collect()).collect(),
            starts: Vec::new(),
        };
        self.put_a(&mut starts, &a);
        let part = self.n / self.blocks();
        let shown = if self.zeros.is_some() { self.n + 32 } else { self.n };
        for (line, codes) in b.iter().take(shown).enumerate() {
            let block = if self.pairs { line / part } else { 0 };
            let lines = if self.pairs { part } else { shown };
            put(
                &mut starts[block].shared[B..],
                self.layouts[1],
                (line - block * part, lines),
                codes,
                (self.b.bits, self.bits),
            );
        }
        for (row, values) in problem.d.iter().enumerate() {
            for (column, value) in values.iter().enumerate() {
                let (block, lane, at) = self.place(row, column);
                starts[block].tensor[lane * COLUMNS + D + at] = self.word(*value);
            }
        }
        if self.sparse {
            self.spread(&mut random, &mut starts, &mut problem.a);
        }
        if self.scales.is_some() {
            self.scale(&mut random, &mut starts, &mut problem);
        }
        if self.ashift {
            let moved = |row: usize| if row % 128 == 127 { row } else { row + 1 };
            problem.a = (0..self.m).map(|row| problem.a[moved(row)].clone()).collect();
        }
        Problem { starts, ..problem }
    }

    /// A number as a word of D.
    fn word(&self, value: f64) -> u32 {
        match (self.integer(), self.half) {
            (true, _) => value as i64 as i32 as u32,
            (_, true) => nearest_half(value),
            _ => (value as f32).to_bits(),
        }
    }

    fn put_a(&self, starts: &mut [Start], a: &[Vec<u32>]) {
        let rows = self.m / self.blocks();
        for (row, codes) in a.iter().enumerate() {
            if !self.in_tensor {
                let shared = &mut starts[row / rows].shared;
                put(shared, self.layouts[0], (row % rows, rows), codes, (self.a.bits, self.bits));
                continue;
            }
            for (block, lane) in self.lanes(row) {
                for (i, code) in codes.iter().enumerate() {
                    // Four bits in a byte stand in its middle.
                    let at = i * self.bits + if self.a.bits == 4 && self.bits == 8 { 2 } else { 0 };
                    starts[block].tensor[lane * COLUMNS + A + at / 32] |= code << (at % 32);
                }
            }
        }
    }

    /// Chooses which elements of each chunk are there, writes the metadata, and spreads the rows of A.
    fn spread(&self, random: &mut Random, starts: &mut [Start], a: &mut [Vec<f64>]) {
        let (long, each): (usize, usize) =
            [(32, (2, 1)), (4, (8, 2))].iter().find(|c| c.0 == self.bits).map_or((4, 1), |c| c.1);
        let choices: &[u32] =
            if self.bits == 32 { &[0b0100, 0b1110] } else { &[0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110] };
        for (row, values) in a.iter_mut().enumerate() {
            let (mut dense, mut next) = (vec![0.0; self.k()], values.iter());
            for chunk in 0..self.k() / long {
                let bits = random.pick(choices);
                let indices = if self.bits == 32 {
                    vec![(bits == 0b1110) as usize]
                } else {
                    vec![bits as usize & 3, bits as usize >> 2]
                };
                for i in indices.iter().flat_map(|index| (0..each).map(move |i| index * each + i)) {
                    dense[chunk * long + i] = *next.next().unwrap();
                }
                for (block, lane) in self.lanes(row) {
                    // Where chunk `chunk` of a row in lane `lane` has its bits.
                    let (lane, column, shift) = if self.bits >= 16 {
                        (
                            lane / 16 * 16 + lane % 8 + chunk / 4 * 8,
                            self.selector as usize,
                            lane / 8 % 2 * 16 + chunk % 4 * 4,
                        )
                    } else {
                        (lane, chunk / 8, chunk % 8 * 4)
                    };
                    starts[block].tensor[lane * COLUMNS + METADATA + column] |= bits << shift;
                }
            }
            *values = dense;
        }
    }

    /// Writes scale factors to every quarter, and multiplies the matrices with them.
    fn scale(&self, random: &mut Random, starts: &mut [Start], problem: &mut Problem) {
        let Some((count, ids, small, _)) = self.scales else { return };
        let mut choose = || {
            // Powers of two, or (small) 1.5, 0.5, 1, 2.
            if small {
                random.pick(&[(0x3c, 1.5), (0x30, 0.5), (0x38, 1.0), (0x40, 2.0)])
            } else {
                random.pick(&[(126, 0.5), (127, 1.0), (128, 2.0), (130, 8.0)])
            }
        };
        let chunk = self.k() / count;
        let rows = self.m / self.blocks();
        for (row, values) in problem.a.iter_mut().enumerate() {
            for j in 0..count {
                let (byte, factor) = choose();
                values[j * chunk..(j + 1) * chunk].iter_mut().for_each(|v| *v *= factor);
                for quarter in 0..4 {
                    put_scale(&mut starts[row / rows], SCALE_A, ids[0] as usize + j, (row % rows, rows), quarter, byte);
                }
            }
        }
        // With layout B the upper half of the lanes works on the second half of the columns.
        let parts = if self.m / self.blocks() == 64 { 2 } else { 1 };
        let wide = self.n / parts;
        for (column, values) in problem.b.iter_mut().take(self.n).enumerate() {
            for j in 0..count {
                let (byte, factor) = choose();
                values[j * chunk..(j + 1) * chunk].iter_mut().for_each(|v| *v *= factor);
                let quarters = (0..4).filter(|quarter| quarter * parts / 4 == column / wide);
                for (start, quarter) in quarters.flat_map(|q| (0..self.blocks()).map(move |s| (s, q))) {
                    put_scale(&mut starts[start], SCALE_B, ids[1] as usize + j, (column % wide, wide), quarter, byte);
                }
            }
        }
    }

    fn idesc(&self) -> u32 {
        let bit = |value: bool, at: u32| u32::from(value) << at;
        let common =
            bit(self.sparse, 2) | bit(self.negate[0], 13) | bit(self.negate[1], 14) | (self.n as u32 / 8) << 17;
        let common = common | bit(self.layouts[0].transposed, 15) | bit(self.layouts[1].transposed, 16);
        let four = self.bits == 4;
        let (a, b) = if four { (1, 1) } else { (self.a.code, self.b.code) };
        let common = common | a << 7 | b << 10;
        match self.scales {
            Some((_, [a, b], small, _)) => {
                common | b << 4 | bit(!small, 23) | (self.m as u32 / 128) << 27 | a << 29 | bit(self.wide, 31)
            }
            None => {
                let result = if self.integer() { 2 } else { u32::from(!self.half) };
                common | self.selector | bit(self.saturate, 3) | result << 4 | (self.m as u32 / 16) << 24
            }
        }
    }

    fn instruction(&self) -> String {
        let group = self.blocks();
        let (k, stored) = (self.k() * self.bits / 8, if self.sparse { self.k() / 2 } else { self.k() } * self.bits / 8);
        let rows = self.m / group;
        let shown = if self.zeros.is_some() { self.n + 32 } else { self.n / group };
        let lines = |layout: Layout, rows: usize, bytes: usize| {
            if layout.transposed { (rows * self.bits / 8, bytes * 8 / self.bits) } else { (bytes, rows) }
        };
        let (bytes, count) = lines(self.layouts[0], rows, stored);
        let mut a_desc = self.layouts[0].descriptor(0, bytes, count);
        if self.wide {
            a_desc |= 1 << 52;
        }
        let (bytes, count) = lines(self.layouts[1], shown, k);
        let b_desc = self.layouts[1].descriptor(B, bytes, count) | u64::from(self.wide) << 52;
        let at = |register: usize, column: usize, lane: usize| {
            format!("add.u32 %r{register}, %tm, {};\n", lane << 16 | column)
        };
        let mut text = at(1, D, self.lane)
            + &at(2, A, self.lane)
            + &at(3, METADATA, self.lane)
            + &at(4, SCALE_A, 0)
            + &at(5, SCALE_B, 0);
        text += &format!("mov.u64 %d1, {a_desc:#x}; mov.u64 %d2, {b_desc:#x}; mov.u32 %r6, {:#x};\n", self.idesc());
        text += &format!("setp.ne.u32 %p1, {}, 0;\n", u32::from(self.accumulate));
        let mut operands = vec!["[%r1]".to_string(), if self.in_tensor { "[%r2]" } else { "%d1" }.into(), "%d2".into()];
        operands.extend(self.sparse.then(|| "[%r3]".to_string()));
        operands.push("%r6".into());
        let mut block = String::new();
        if let Some((.., says)) = self.scales {
            operands.extend(["[%r4]".to_string(), "[%r5]".into()]);
            block = format!(".block_scale{says}");
        }
        if let Some(disabled) = &self.disabled {
            for (i, mask) in disabled.iter().enumerate() {
                text += &format!("mov.b32 %r{}, {mask:#x};\n", 10 + i);
            }
            let registers: Vec<String> = (0..disabled.len()).map(|i| format!("%r{}", 10 + i)).collect();
            operands.push(format!("{{{}}}", registers.join(", ")));
        }
        operands.push("%p1".into());
        operands.extend((self.shrink > 0).then(|| self.shrink.to_string()));
        if let Some(zeros) = self.zeros {
            text += &format!("mov.u64 %d3, {zeros:#x};\n");
            operands.push("%d3".into());
        }
        let (ws, sp) = (if self.stationary { ".ws" } else { "" }, if self.sparse { ".sp" } else { "" });
        let shift = if self.ashift { ".ashift" } else { "" };
        text + &format!(
            "tcgen05.mma{ws}{sp}.cta_group::{group}.kind::{}{block}{shift}{} {};
             tcgen05.commit.cta_group::{group}.mbarrier::arrive::one.shared::cluster.b64 [%bar];
             WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%bar], 0; @!%p2 bra WAIT;",
            self.kind,
            self.collector,
            operands.join(", ")
        )
    }

    fn run(&self, problem: &Problem) -> Result<Vec<Vec<u32>>, Fault> {
        run(if self.wide { "sm_103a" } else { "sm_100a" }, self.pairs, &problem.starts, &self.instruction())
    }

    /// Which columns of B are hidden, and from which column on it is read, in the plainest way.
    fn columns(&self) -> Vec<Option<usize>> {
        let Some(bits) = self.zeros else { return (0..self.n).map(Some).collect() };
        let shift = (bits >> 56) as usize;
        let (ones, zeros) = ((bits >> 40 & 0xff) as usize + 1, (bits >> 48 & 0xff) as usize + 1);
        let parts = 128 / self.m;
        let mut found = Vec::new();
        for part in 0..parts {
            let mut hidden = bits >> (32 + part) & 1 == 1;
            let (mut left, mut mask) = (if hidden { ones } else { zeros }, Vec::new());
            while mask.len() < self.n + 256 {
                if left == 0 {
                    hidden = !hidden;
                    left = if hidden { ones } else { zeros };
                }
                mask.push(hidden);
                left -= 1;
            }
            let start = (bits >> (8 * part) & 0xff) as usize;
            found.extend(mask.into_iter().skip(start).take(self.n / parts));
        }
        let some = bits >> 39 & 1 == 1;
        found.into_iter().enumerate().map(|(n, hidden)| (!(hidden && some)).then_some(n + shift)).collect()
    }

    fn check(&self) {
        let problem = self.problem();
        let found = self.run(&problem).unwrap_or_else(|fault| panic!("{self:?}: {fault}"));
        let columns = self.columns();
        let mut expected: Vec<Vec<u32>> = problem.starts.iter().map(|start| start.tensor.clone()).collect();
        for row in 0..self.m {
            for (column, shown) in columns.iter().enumerate() {
                let (block, lane, at) = self.place(row, column);
                let bit = self.disabled.as_ref().map_or(0, |masks| masks[4 * block + lane / 32] >> (lane % 32) & 1);
                if bit == 1 {
                    continue;
                }
                let start = if self.accumulate { problem.d[row][column] / f64::from(1u32 << self.shrink) } else { 0.0 };
                let product: f64 =
                    shown.map_or(0.0, |n| (0..self.k()).map(|k| problem.a[row][k] * problem.b[n][k]).sum());
                let sum = start + product;
                let sum = if self.saturate { sum.clamp(f64::from(i32::MIN), f64::from(i32::MAX)) } else { sum };
                expected[block][lane * COLUMNS + D + at] = if self.half { nearest_half(sum) } else { self.word(sum) };
            }
        }
        for (block, words) in expected.iter().enumerate() {
            for (at, word) in words.iter().enumerate() {
                // Both zeros are right.
                let same = found[block][at] == *word
                    || (found[block][at] | word) == 0x8000_0000
                    || (self.half && (found[block][at] | word) == 0x8000);
                assert!(
                    same,
                    "block {block}, lane {}, column {}: {:#x}, expected {word:#x}\n{self:?}",
                    at / COLUMNS,
                    at % COLUMNS,
                    found[block][at]
                );
            }
        }
    }
}

fn nearest_half(value: f64) -> u32 {
    let codes: Vec<u32> = (0..0x7c00).collect();
    let above = codes.partition_point(|code| F16.value(*code) < value.abs()) as u32;
    let distance = |code: &u32| ((F16.value(*code) - value.abs()).abs(), code & 1);
    let near = [above.saturating_sub(1), above.min(0x7bff)];
    let best = near.into_iter().min_by(|a, b| distance(a).partial_cmp(&distance(b)).unwrap()).unwrap();
    best | if value < 0.0 { 0x8000 } else { 0 }
}

fn put_scale(start: &mut Start, at: usize, byte: usize, (index, all): (usize, usize), quarter: usize, value: u32) {
    let (lane, block) = (quarter * 32 + index % 32, all.div_ceil(128) * 4);
    let column = at + index / 32 + byte / 4 * block;
    start.tensor[lane * COLUMNS + column] |= value << (byte % 4 * 8);
}

/// Writes a line of a matrix: codes of `own` bits in places of `bits`; of 4 and 6 bits in bytes, 16 together and padding.
fn put(shared: &mut [u8], layout: Layout, (line, lines): (usize, usize), codes: &[u32], (own, bits): (u32, usize)) {
    let own = own as usize;
    // So many bits lie in one byte.
    let together = 1 << own.trailing_zeros().min(3);
    for (k, code) in codes.iter().enumerate() {
        for bit in (0..own).step_by(together) {
            let at = if layout.transposed {
                layout.place(k, line * bits / 8 + bit / 8, lines * bits / 8, codes.len()) * 8 + bit % 8
            } else {
                let per = 128 / bits;
                let inside = k / per * 128 + k % per * own + bit;
                // K = 96 of 4 bits begins 96 bytes into its row: the second 16 bytes of it stand in the other half.
                layout.place(line, inside / 8, codes.len() * bits / 8, lines) * 8 + inside % 8
            };
            shared[at / 8] |= ((code >> bit & ((1 << together) - 1)) as u8) << (at % 8);
        }
    }
}

fn f16(m: usize, n: usize) -> Case {
    case("f16", 16, F16, F16, m, n)
}

#[test]
fn kind_f16_in_every_layout_of_shared_memory() {
    for (seed, swizzle) in [0, 2, 4, 6].into_iter().enumerate() {
        for (transpose_a, transpose_b) in [(false, false), (true, false), (false, true), (true, true)] {
            let layout = |transposed| Layout { transposed, swizzle };
            let layouts = [layout(transpose_a), layout(transpose_b)];
            Case { layouts, seed: seed as u64, ..f16(128, 64) }.check();
        }
    }
    let mixed = [Layout { transposed: true, swizzle: 4 }, Layout { transposed: false, swizzle: 0 }];
    Case { layouts: mixed, ..f16(64, 24) }.check();
}

#[test]
fn kind_f16_in_all_types_and_options() {
    Case { a: BF16, b: BF16, ..f16(128, 256 / one_in(4)) }.check();
    Case { a: BF16, b: F16, negate: [true, false], ..f16(128, 8) }.check();
    Case { negate: [false, true], accumulate: false, ..f16(64, 40) }.check();
    Case { half: true, ..f16(128, 32) }.check();
    Case { shrink: 3, ..f16(128, 16) }.check();
    Case { lane: 16, ..f16(64, 16) }.check();
    Case { disabled: Some(vec![0x0000_ffff, 0, u32::MAX, 0x8000_0001]), ..f16(128, 16) }.check();
    let collectors = [".collector::a::fill", ".collector::a::use", ".collector::a::lastuse", ".collector::a::discard"];
    for collector in collectors.into_iter().step_by(one_in(4)) {
        Case { collector, ..f16(128, 8) }.check();
    }
}

#[test]
fn a_in_tensor_memory() {
    Case { in_tensor: true, ..f16(128, 32) }.check();
    Case { in_tensor: true, ..f16(64, 32) }.check();
    Case { in_tensor: true, lane: 16, ..f16(64, 32) }.check();
    Case { in_tensor: true, ashift: true, collector: ".collector::a::lastuse", ..f16(128, 32) }.check();
    Case { in_tensor: true, ..case("tf32", 32, TF32, TF32, 128, 16) }.check();
    for ty in [E4M3, E5M2, E2M3, E3M2, E2M1] {
        Case { in_tensor: true, ..case("f8f6f4", 8, ty, E4M3, 128, 16) }.check();
    }
    Case { in_tensor: true, ..case("i8", 8, S8, U8, 64, 16) }.check();
    Case { in_tensor: true, scales: Some((2, [0, 0], false, "")), ..case("mxf4", 4, E2M1, E2M1, 128, 16) }.check();
}

#[test]
fn kind_tf32() {
    for swizzle in [0, 2, 4, 6] {
        let layouts = [Layout { transposed: false, swizzle }; 2];
        Case { layouts, ..case("tf32", 32, TF32, TF32, 128, 24) }.check();
    }
    let layouts = [Layout { transposed: true, swizzle: 1 }; 2];
    Case { layouts, ..case("tf32", 32, TF32, TF32, 64, 32) }.check();
}

#[test]
fn kind_f8f6f4_in_every_pair_of_types() {
    let types = [E4M3, E5M2, E2M3, E3M2, E2M1];
    let pairs = types.into_iter().flat_map(|a| types.map(|b| (a, b)));
    for (a, b) in pairs.step_by(one_in(12)) {
        case("f8f6f4", 8, a, b, 128, 16).check();
    }
    let layouts = [Layout { transposed: true, swizzle: 2 }, Layout { transposed: true, swizzle: 6 }];
    Case { layouts, half: true, ..case("f8f6f4", 8, E4M3, E5M2, 64, 48) }.check();
}

#[test]
fn kind_i8() {
    for (a, b) in [(U8, U8), (S8, S8), (U8, S8), (S8, U8)] {
        case("i8", 8, a, b, 128, 24).check();
    }
    Case { saturate: true, ..case("i8", 8, S8, S8, 64, 48) }.check();
}

#[test]
fn integers_saturate_or_wrap_at_the_end() {
    for (saturate, expected) in [(true, i32::MAX as u32), (false, (i32::MAX as u32).wrapping_add(1020))] {
        let case = Case { saturate, ..case("i8", 8, U8, U8, 128, 8) };
        let mut problem = case.problem();
        problem.starts[0].shared.fill(0);
        problem.starts[0].tensor.fill(i32::MAX as u32);
        let ones = [vec![255], vec![0; 31]].concat();
        put(&mut problem.starts[0].shared, K_MAJOR, (0, 128), &ones, (8, 8));
        let fours = [vec![4], vec![0; 31]].concat();
        put(&mut problem.starts[0].shared[B..], K_MAJOR, (0, 8), &fours, (8, 8));
        assert_eq!(case.run(&problem).unwrap()[0][D], expected);
    }
}

#[test]
fn block_scaling() {
    for id in 0..4 {
        let scales = Some((1, [id, 3 - id], false, ".scale_vec::1X"));
        Case { scales, ..case("mxf8f6f4", 8, E4M3, E2M1, 128, 40) }.check();
    }
    Case {
        scales: Some((1, [0, 0], false, ".block32")),
        negate: [true, true],
        ..case("mxf8f6f4", 8, E3M2, E5M2, 128, 256)
    }
    .check();
    Case { scales: Some((2, [2, 0], false, ".scale_vec::2X")), ..case("mxf4", 4, E2M1, E2M1, 128, 64) }.check();
    Case { scales: Some((2, [0, 2], false, ".block32")), ..case("mxf4nvf4", 4, E2M1, E2M1, 128, 64) }.check();
    Case { scales: Some((4, [0, 0], true, ".scale_vec::4X")), ..case("mxf4nvf4", 4, E2M1, E2M1, 128, 72) }.check();
    Case { scales: Some((4, [0, 0], false, ".block16")), accumulate: false, ..case("mxf4nvf4", 4, E2M1, E2M1, 128, 8) }
        .check();
}

#[test]
fn sparse_matrices() {
    for (m, lane) in [(128, 0), (64, 0), (64, 16)] {
        for selector in [0, 1] {
            Case { sparse: true, selector, lane, ..f16(m, 32) }.check();
            Case { sparse: true, selector, lane, ..case("tf32", 32, TF32, TF32, m, 16) }.check();
        }
        Case { sparse: true, lane, in_tensor: true, ..f16(m, 16) }.check();
        Case { sparse: true, lane, ..case("f8f6f4", 8, E4M3, E3M2, m, 24) }.check();
        Case { sparse: true, lane, ..case("i8", 8, S8, U8, m, 16) }.check();
    }
    Case { sparse: true, scales: Some((1, [1, 2], false, "")), ..case("mxf8f6f4", 8, E5M2, E4M3, 128, 16) }.check();
    Case { sparse: true, scales: Some((2, [2, 2], false, "")), ..case("mxf4", 4, E2M1, E2M1, 128, 16) }.check();
    Case { sparse: true, scales: Some((4, [0, 0], true, ".block16")), ..case("mxf4nvf4", 4, E2M1, E2M1, 128, 16) }
        .check();
}

#[test]
fn weight_stationary_products() {
    for m in [32, 64, 128] {
        Case { stationary: true, ..f16(m, 64) }.check();
        Case { stationary: true, in_tensor: true, ..f16(m, 128) }.check();
        Case { stationary: true, ..case("i8", 8, S8, S8, m, 128) }.check();
        Case { stationary: true, sparse: true, ..f16(m, 64) }.check();
        Case { stationary: true, sparse: true, ..case("f8f6f4", 8, E4M3, E4M3, m, 128) }.check();
        // The masks of the manual's example 4, shifted by 2.
        let zeros = Some(1 | 2 << 8 | 1 << 16 | 3 << 32 | 1 << 39 | 2 << 40 | 3 << 48 | 2 << 56);
        Case { stationary: true, zeros, ..f16(m, 64) }.check();
        Case { stationary: true, zeros: zeros.map(|z| z & !(1 << 39)), ..case("tf32", 32, TF32, TF32, m, 64) }.check();
    }
    Case { stationary: true, collector: ".collector::b2::fill", ..f16(64, 256) }.check();
}

#[test]
fn two_blocks_multiply_together() {
    for m in [128, 256] {
        let pair = Case { pairs: true, ..f16(m, 32) };
        pair.check();
        Case { in_tensor: true, seed: 2, ..pair.clone() }.check();
        Case { layouts: [Layout { transposed: true, swizzle: 2 }; 2], n: 256, ..pair.clone() }.check();
        Case { sparse: true, seed: 3, ..pair.clone() }.check();
        Case { disabled: Some((0..8).map(|i| 0x11 << i).collect()), ..pair.clone() }.check();
        Case { pairs: true, ..case("i8", 8, U8, S8, m, 64) }.check();
        Case { pairs: true, scales: Some((1, [1, 0], false, "")), ..case("mxf8f6f4", 8, E4M3, E4M3, m, 96) }.check();
        Case { pairs: true, scales: Some((4, [0, 0], true, ".block16")), ..case("mxf4nvf4", 4, E2M1, E2M1, m, 256) }
            .check();
    }
    Case { pairs: true, sparse: true, lane: 16, ..f16(128, 32) }.check();
    Case { pairs: true, in_tensor: true, ashift: true, ..f16(256, 32) }.check();
}

/// A row of 48 bytes that begins 96 bytes into the swizzle's row goes on at the leading dimension's address.
#[test]
fn rows_of_96_elements() {
    for (count, ids, small, says) in [(3, [0, 3], false, ".block32"), (6, [2, 0], true, ".block16")] {
        let kind = if count == 3 { "mxf4" } else { "mxf4nvf4" };
        let case = Case { wide: true, scales: Some((count, ids, small, says)), ..case(kind, 4, E2M1, E2M1, 128, 160) };
        let mut problem = case.problem();
        // Bytes 0 to 47 of each row move: 0–31 to 96–127, 32–47 to the beginning of a row 16 KiB (24 KiB for B) on.
        let memory = problem.starts[0].shared.clone();
        let mut moved = vec![0; memory.len()];
        for (base, rows, rest) in [(0, 128, 16 << 10), (B, 160, 24 << 10)] {
            for (row, byte) in (0..rows).flat_map(|row| (0..48).map(move |byte| (row, byte))) {
                let from = base + K_MAJOR.place(row, byte, 48, rows);
                let to = if byte < 32 {
                    K_MAJOR.place(row, byte + 96, 128, rows)
                } else {
                    rest + K_MAJOR.place(row, byte - 32, 128, rows)
                };
                moved[base + to] = memory[from];
            }
        }
        problem.starts[0].shared = moved;
        let expected = case.expected(&problem);
        let descriptor = |base: usize, rest: usize| {
            (base as u64 + 96) >> 4 | ((base + rest) as u64 >> 4) << 16 | 64 << 32 | 1 << 46 | 1 << 52 | 2 << 61
        };
        let text = case.instruction();
        let text = replace(&text, "mov.u64 %d1, ", &format!("{:#x}", descriptor(0, 16 << 10)));
        let text = replace(&text, "mov.u64 %d2, ", &format!("{:#x}", descriptor(B, 24 << 10)));
        let found = run("sm_103a", false, &problem.starts, &text).unwrap();
        for (row, column) in (0..128).flat_map(|row| (0..160).map(move |column| (row, column))) {
            assert_eq!(
                f32::from_bits(found[0][row * COLUMNS + column]),
                expected[row][column] as f32,
                "{row}, {column}"
            );
        }
    }
}

/// Replaces the number after some words.
fn replace(text: &str, words: &str, number: &str) -> String {
    let (before, after) = text.split_once(words).unwrap();
    let (_, rest) = after.split_once(';').unwrap();
    format!("{before}{words}{number};{rest}")
}

impl Case {
    fn expected(&self, problem: &Problem) -> Vec<Vec<f64>> {
        let sum = |row: usize, n: usize| (0..self.k()).map(|k| problem.a[row][k] * problem.b[n][k]).sum::<f64>();
        (0..self.m).map(|row| (0..self.n).map(|n| problem.d[row][n] + sum(row, n)).collect()).collect()
    }
}
