//! `tcgen05.ld`, `.st`, `.cp` and `.shift`: which cell goes where.

use super::run::{COLUMNS, Random, Start, run, run_all};

/// First column for loaded registers, one column each.
const SEEN: usize = 256;

/// A shape as strides: of the bits of a thread's number and of a register's, as (lanes, columns); registers go on in
/// columns of `next` for each repetition.
struct Shape {
    name: &'static str,
    lanes: usize,
    threads: [(usize, usize); 5],
    registers: &'static [(usize, usize)],
    next: usize,
    most: usize,
}

/// After the figures of 9.7.16.2.3.1.
const SHAPES: [Shape; 5] = [
    Shape {
        name: "32x32b",
        lanes: 32,
        threads: [(1, 0), (2, 0), (4, 0), (8, 0), (16, 0)],
        registers: &[],
        next: 1,
        most: 128,
    },
    Shape {
        name: "16x64b",
        lanes: 16,
        threads: [(8, 0), (0, 1), (1, 0), (2, 0), (4, 0)],
        registers: &[],
        next: 2,
        most: 128,
    },
    Shape {
        name: "16x128b",
        lanes: 16,
        threads: [(0, 1), (0, 2), (1, 0), (2, 0), (4, 0)],
        registers: &[(8, 0)],
        next: 4,
        most: 64,
    },
    Shape {
        name: "16x256b",
        lanes: 16,
        threads: [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)],
        registers: &[(0, 1), (8, 0)],
        next: 8,
        most: 32,
    },
    Shape {
        name: "16x32bx2",
        lanes: 16,
        threads: [(1, 0), (2, 0), (4, 0), (8, 0), (0, 0)],
        registers: &[],
        next: 1,
        most: 128,
    },
];

/// Distance of the halves of `.16x32bx2`.
const SPLIT: usize = 130;

impl Shape {
    fn count(&self, num: usize) -> usize {
        num << self.registers.len()
    }

    /// Lane and column of register `r` of thread `t`; a column has `width` of tensor memory.
    fn cell(&self, t: usize, r: usize, width: usize) -> (usize, usize) {
        let bits = (0..5).map(|bit| (t >> bit & 1, self.threads[bit]));
        let inner = self.registers.iter().enumerate().map(|(bit, stride)| (r >> bit & 1, *stride));
        let (lane, column) = bits.chain(inner).fold((0, 0), |(l, c), (on, (dl, dc))| (l + on * dl, c + on * dc));
        let half = if self.name == "16x32bx2" && t >= 16 { SPLIT } else { 0 };
        (lane, (column + (r >> self.registers.len()) * self.next) * width + half)
    }

    fn split(&self) -> String {
        if self.name == "16x32bx2" { format!(", {SPLIT}") } else { String::new() }
    }
}

fn registers(count: usize) -> (String, String) {
    let names: Vec<String> = (0..count).map(|r| format!("%v_{r}")).collect();
    (format!(".reg .b32 {};", names.join(", ")), format!("{{{}}}", names.join(", ")))
}

fn pattern() -> Start {
    let mut start = Start::new();
    let mut random = Random(5);
    start.tensor.iter_mut().take(128 * COLUMNS).for_each(|word| *word = random.below(1 << 31) as u32);
    start
}

#[test]
fn loads_of_every_shape_and_length() {
    for shape in &SHAPES {
        for (num, packed) in [1, 2, 4, 8, 16, 32, 64, 128].into_iter().flat_map(|n| [(n, false), (n, true)]) {
            // Packed, the longest would have more columns than are before `SEEN`.
            if num > shape.most || (packed && shape.next * num > 64) {
                continue;
            }
            let (declared, list) = registers(shape.count(num));
            let (pack, lane) = (if packed { ".pack::16b" } else { "" }, 32 - shape.lanes);
            let body = format!(
                "{declared} add.u32 %r1, %lane, {lane_bits}; tcgen05.ld.sync.aligned.{}.x{num}{pack}.b32 {list}, [%r1+4]{};
                 tcgen05.wait::ld.sync.aligned; add.u32 %r2, %lane, {SEEN};
                 tcgen05.st.sync.aligned.32x32b.x{}.b32 [%r2], {list}; tcgen05.wait::st.sync.aligned;",
                shape.name,
                shape.split(),
                shape.count(num),
                lane_bits = lane << 16,
            );
            let start = pattern();
            let found = run_all("sm_100a", false, std::slice::from_ref(&start), &body).unwrap();
            for (t, r) in (0..128).flat_map(|t| (0..shape.count(num)).map(move |r| (t, r))) {
                let (row, column) = shape.cell(t % 32, r, if packed { 2 } else { 1 });
                let at = (t / 32 * 32 + lane + row) * COLUMNS + 4 + column;
                let word = start.tensor[at];
                let expected = if packed { word & 0xffff | start.tensor[at + 1] << 16 } else { word };
                assert_eq!(
                    found[0][t * COLUMNS + SEEN + r],
                    expected,
                    "{} x{num} {pack}, thread {t}, register {r}",
                    shape.name
                );
            }
        }
    }
}

#[test]
fn stores_of_every_shape_and_length() {
    for shape in &SHAPES {
        for (num, packed) in [1, 4, 32].into_iter().flat_map(|n| [(n, false), (n, true)]) {
            let (declared, list) = registers(shape.count(num));
            let pack = if packed { ".unpack::16b" } else { "" };
            let value = |t: usize, r: usize| (t * 0x1_0003 + r * 0x7_0011) as u32;
            let set: String =
                (0..shape.count(num)).map(|r| format!("mad.lo.u32 %v_{r}, %t, 0x10003, {};\n", r * 0x7_0011)).collect();
            let body = format!(
                "{declared} {set} tcgen05.st.sync.aligned.{}.x{num}{pack}.b32 [%lane]{}, {list}; tcgen05.wait::st.sync.aligned;",
                shape.name,
                shape.split()
            );
            let start = pattern();
            let found = run_all("sm_100a", false, std::slice::from_ref(&start), &body).unwrap();
            let mut expected = start.tensor;
            for (t, r) in (0..128).flat_map(|t| (0..shape.count(num)).map(move |r| (t, r))) {
                let (row, column) = shape.cell(t % 32, r, if packed { 2 } else { 1 });
                let at = (t / 32 * 32 + row) * COLUMNS + column;
                let value = value(t, r);
                expected[at] = if packed { value & 0xffff } else { value };
                if packed {
                    expected[at + 1] = value >> 16;
                }
            }
            assert!(found[0] == expected, "{} x{num} {pack}", shape.name);
        }
    }
}

#[test]
fn loads_that_reduce() {
    let (declared, list) = registers(8);
    let value = |lane: usize, column: usize| ((lane * 37 + column * 101) % 200) as i32 - 100;
    let mut integers = Start::new();
    let mut floats = Start::new();
    for (lane, column) in (0..128).flat_map(|lane| (0..16).map(move |column| (lane, column))) {
        integers.tensor[lane * COLUMNS + column] = value(lane, column) as u32;
        floats.tensor[lane * COLUMNS + column] = (value(lane, column) as f32).to_bits();
    }
    floats.tensor[5 * COLUMNS + 3] = f32::NAN.to_bits();
    type Fold = fn(Vec<i32>) -> i32;
    let cases: [(&str, bool, Fold); 6] = [
        ("min.s32", false, |v| v.into_iter().min().unwrap()),
        ("max.s32", false, |v| v.into_iter().max().unwrap()),
        ("max.u32", false, |v| v.into_iter().map(|x| x as u32).max().unwrap() as i32),
        ("min.f32", true, |v| v.into_iter().min().unwrap()),
        ("max.abs.f32", true, |v| v.into_iter().map(i32::abs).max().unwrap()),
        ("min.NaN.f32", true, |v| v.into_iter().min().unwrap()),
    ];
    for (operation, float, fold) in cases {
        let body = format!(
            "{declared} tcgen05.ld.red.sync.aligned.32x32b.x8.{operation} {list}, %r1, [%lane]; tcgen05.wait::ld.sync.aligned; add.u32 %r2, %lane, {SEEN};
             tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {{%r1}}; tcgen05.wait::st.sync.aligned;"
        );
        let start = if float { &floats } else { &integers };
        let found = run_all("sm_103a", false, std::slice::from_ref(start), &body).unwrap();
        for t in 0..128 {
            let there = (0..8).filter(|column| !(float && t == 5 && *column == 3));
            let least = fold(there.map(|column| value(t, column)).collect());
            let expected = if float { (least as f32).to_bits() } else { least as u32 };
            let expected = if t == 5 && operation.contains("NaN") { 0x7fff_ffff } else { expected };
            assert_eq!(found[0][t * COLUMNS + SEEN], expected, "{operation}, thread {t}");
        }
    }
}

/// Bytes of a K-major matrix in shared memory: row r, byte b, with 128-byte swizzle or without.
fn place(swizzle: u64, row: usize, byte: usize) -> usize {
    match swizzle {
        0 => row / 8 * 256 + row % 8 * 16 + byte / 16 * 128 + byte % 16,
        _ => (row * 128 + byte) ^ (row % 8) << 4,
    }
}

fn descriptor(swizzle: u64) -> u64 {
    let (lead, stride) = if swizzle == 0 { (128u64, 256u64) } else { (16, 1024) };
    (lead >> 4) << 16 | (stride >> 4) << 32 | 1 << 46 | swizzle << 61
}

/// Shapes of `tcgen05.cp`: rows, bytes of a row, and the lanes of a row.
type Copied = (&'static str, usize, usize, fn(usize) -> Vec<usize>);

const COPIES: [Copied; 6] = [
    ("128x256b", 128, 32, |row| vec![row]),
    ("4x256b", 4, 32, |row| vec![32 * row]),
    ("128x128b", 128, 16, |row| vec![row]),
    ("64x128b.warpx2::02_13", 64, 16, |row| vec![row, row + 64]),
    ("64x128b.warpx2::01_23", 64, 16, |row| vec![row / 32 * 64 + row % 32, row / 32 * 64 + row % 32 + 32]),
    ("32x128b.warpx4", 32, 16, |row| (0..4).map(|quarter| quarter * 32 + row).collect()),
];

#[test]
fn copies_of_every_shape_and_format() {
    let mut random = Random(11);
    for (shape, rows, bytes, lanes) in COPIES {
        for ((swizzle, pairs), format) in
            [(0, false), (2, false), (0, true)].into_iter().zip(["", ".b8x16.b4x16_p64", ".b8x16.b6x16_p32"])
        {
            let mut starts = vec![Start::new(); if pairs { 2 } else { 1 }];
            let mut expected: Vec<Vec<u32>> = starts.iter().map(|s| s.tensor.clone()).collect();
            for (block, start) in starts.iter_mut().enumerate() {
                for (row, piece) in (0..rows).flat_map(|row| (0..bytes / 16).map(move |piece| (row, piece))) {
                    let source: Vec<u8> = (0..16).map(|_| random.below(256) as u8).collect();
                    (0..16).for_each(|b| start.shared[place(swizzle, row, 16 * piece + b)] = source[b]);
                    let wide = widened(&source, format);
                    for lane in lanes(row) {
                        for word in 0..4 {
                            let four = u32::from_le_bytes(wide[4 * word..4 * word + 4].try_into().unwrap());
                            expected[block][lane * COLUMNS + 16 + 4 * piece + word] = four;
                        }
                    }
                }
            }
            let group = starts.len();
            let body = format!(
                "mov.u64 %d1, {:#x}; add.u32 %r1, %tm, 16; tcgen05.cp.cta_group::{group}.{shape}{format} [%r1], %d1; {}",
                descriptor(swizzle),
                completes(group)
            );
            let found = run("sm_100a", pairs, &starts, &body).unwrap();
            assert!(found == expected, "{shape}{format}");
        }
    }
}

/// Sixteen elements of 4 or 6 bits as bytes, bit by bit.
fn widened(source: &[u8], format: &str) -> Vec<u8> {
    let (bits, up) = match format {
        "" => return source.to_vec(),
        ".b8x16.b4x16_p64" => (4, 2),
        _ => (6, 0),
    };
    let bit = |at: usize| source[at / 8] >> (at % 8) & 1;
    (0..16).map(|i| (0..bits).fold(0, |byte, b| byte | bit(i * bits + b) << (b + up))).collect()
}

/// Waits until what was issued is complete.
fn completes(group: usize) -> String {
    format!(
        "tcgen05.commit.cta_group::{group}.mbarrier::arrive::one.shared::cluster.b64 [%bar];
         COMPLETE: mbarrier.try_wait.parity.shared::cta.b64 %p9, [%bar], 0; @!%p9 bra COMPLETE;"
    )
}

#[test]
fn rows_move_up_by_one() {
    for (pairs, quarter) in [(false, 0), (false, 64), (true, 96)] {
        let starts = vec![pattern(); if pairs { 2 } else { 1 }];
        let group = starts.len();
        let body = format!(
            "add.u32 %r1, %tm, {}; tcgen05.shift.cta_group::{group}.down [%r1]; {}",
            quarter << 16 | 24,
            completes(group)
        );
        let found = run("sm_100a", pairs, &starts, &body).unwrap();
        for (found, start) in found.iter().zip(&starts) {
            for (lane, column) in (0..128).flat_map(|lane| (0..COLUMNS).map(move |column| (lane, column))) {
                let moves = (quarter..quarter + 31).contains(&lane) && (24..32).contains(&column);
                let expected = start.tensor[(lane + usize::from(moves)) * COLUMNS + column];
                assert_eq!(found[lane * COLUMNS + column], expected, "lane {lane}, column {column}");
            }
        }
    }
}
