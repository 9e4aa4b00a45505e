//! Numbers in structs that are addresses (`addresses(p.at = [u8; n])`): accesses stay in the memory that somebody vouches for, and are aligned where
//! the conditions tell so.

use super::{assert_proved_or, is_thorough, one_in};
use ptx_jit::Source;

/// The kernel adds up parts, and writes a matrix with any strides. A flag makes one access of four neighbors.
const KERNEL: &str = "
    #[derive(KernelParam)] #[repr(C)]
    struct P { partial: u64, at: u64, row: u64, column: u64, m: u32, n: u32, parts: u32, flags: u32 }

    #[ptx_contract]
    impl P {
        fn grid(&self) -> (u32, u32) { (self.n.div_ceil(128), self.m) }
        fn is_counted(&self) -> bool { self.m >= 1 && self.m <= 65535 && self.n >= 1 && self.n < 1 << 30 && self.n.is_multiple_of(4) && self.parts >= 1 }
        fn sums(&self) -> u64 { u64::from(self.m) * u64::from(self.n / 4) * u64::from(self.parts) }
        fn bytes(&self) -> u64 { u64::from(self.m - 1) * self.row + u64::from(self.n - 1) * self.column + 4 }
        fn is_wide(&self) -> bool { self.flags / 4 % 2 == 1 }
        fn is_aligned(&self) -> bool { [self.at, self.row, self.column].iter().all(|bytes| bytes.is_multiple_of(4)) }
        fn has_runs(&self) -> bool {
            !self.is_wide() || self.column == 4 && [self.at, self.row].iter().all(|bytes| bytes.is_multiple_of(16))
        }
    }

    #[ptx_kernel(
        arch = \"sm_90\", params(P), block = 32, grid = p.grid(), proved(bounds),
        requires(p.is_counted(), p.is_aligned(), p.has_runs()),
        addresses(p.partial = [u128; p.sums()], p.at = [u8; p.bytes()])
    )]
    pub fn k(p: P) {
        let (row, column): (u32, u32) = (ctaid.y, (ctaid.x * 32 + tid.x) * 4);
        if column < p.n {
            let matrix: u64 = wide(p.m) * p.n * 4;
            let mut from: u64 = p.partial + (wide(row) * p.n + column as u64) * 4;
            let mut left: u32 = p.parts;
            let sums: [b32; 4];
            while left > 0 {
                ptx! { ld.global.v4.b32 {sums[..]}, [from]; }
                from += matrix;
                left -= 1;
            }
            let mut to: u64 = p.at + p.row * (row as u64) + p.column * (column as u64);
            if p.flags & 4 != 0 {
                ptx! { st.global.v4.b32 [to], {sums[..]}; }
            } else {
                for i in 0..4 {
                    ptx! { st.global.b32 [to], sums[i]; }
                    to += p.column;
                }
            }
        }
    }";

/// Each row replaces a text of the kernel by another one, which makes the kernel wrong, and has the beginning of the error.
const WRONG: [(&str, &str, &str); 13] = [
    // One part too few, and one turn too many.
    ("u64::from(self.parts)", "u64::from(self.parts - 1)", "bounds are not decided"),
    ("left > 0", "left + 1 > 0", "bounds are not decided"),
    ("if column < p.n", "if column <= p.n", "bounds are not decided"),
    // Of a row, or a column, too few.
    ("u64::from(self.m - 1) * self.row", "u64::from(self.m - 2) * self.row", "bounds are not decided"),
    ("self.column + 4", "self.column + 3", "bounds are not decided"),
    ("to += p.column", "to += p.row", "bounds are not decided"),
    // The flag leaves the distance of columns open, or another flag is meant.
    ("self.column == 4 && ", "", "bounds are not decided"),
    ("self.flags / 4", "self.flags / 2", "are not decided"),
    ("p.flags & 4", "p.flags & 12", "are not decided"),
    // Eight bytes are not sixteen; the alignment of a row, and of the start.
    ("is_multiple_of(16)", "is_multiple_of(8)", "alignment is not decided"),
    ("[self.at, self.row].iter()", "[self.at].iter()", "alignment is not decided"),
    ("[self.at, self.row, self.column]", "[self.at, self.column, self.column]", "alignment is not decided"),
    ("p.partial = [u128; p.sums()]", "p.partial = [u64; 2 * p.sums()]", "alignment is not decided"),
];

#[test]
fn addresses_in_structs_are_those_of_memory() {
    assert_proved_or(KERNEL, "");
    for (old, new, expected) in one_in(13, WRONG) {
        assert!(KERNEL.contains(old), "{old}");
        assert_proved_or(&KERNEL.replacen(old, new, 1), expected);
    }
}

/// Elements of a matrix whose dimensions lie in each other in some order.
const APART: &str = "
    #[derive(KernelParam)] #[repr(C)]
    struct P { at: u64, row: u64, column: u64, m: u32, n: u32 }

    #[ptx_contract]
    impl P {
        fn holds(&self) -> bool { self.m >= 1 && self.m <= 65535 && self.n >= 1 && [self.at, self.row, self.column].iter().all(|bytes| bytes.is_multiple_of(4)) }
        fn bytes(&self) -> u64 { u64::from(self.m - 1) * self.row + u64::from(self.n - 1) * self.column + 4 }
        fn is_apart(&self) -> bool { Self::nests(self.column, self.row, self.n) || Self::nests(self.row, self.column, self.m) }
        fn nests(inner: u64, outer: u64, elements: u32) -> bool { inner >= 4 && outer >= inner * u64::from(elements - 1) + 4 }
    }

    #[ptx_kernel(
        arch = \"sm_90\", params(P), block = 32, grid = (p.n.div_ceil(32), p.m), proved, requires(p.holds(), p.is_apart()),
        addresses(p.at = [u8; p.bytes()])
    )]
    pub fn k(p: P) {
        let column: u32 = ctaid.x * 32 + tid.x;
        if column < p.n {
            let to: u64 = p.at + p.row * (ctaid.y as u64) + p.column * (column as u64);
            ptx! { st.global.u32 [to], 0; }
        }
    }";

#[test]
fn elements_by_strides_are_apart() {
    assert_proved_or(APART, "");
    for (old, new) in [
        ("inner >= 4 && ", ""),
        ("u64::from(elements - 1) + 4 }", "u64::from(elements - 1) }"),
        ("self.row, self.n)", "self.row, 1)"),
    ] {
        assert!(APART.contains(old), "{old}");
        assert_proved_or(&APART.replacen(old, new, 1), "races are not decided");
    }
}

/// The same of matrices, one for each batch, by blocks of four rows and 32 columns. A flag makes one access of four neighbors.
const BATCHES: &str = "
    #[derive(KernelParam)] #[repr(C)]
    struct P { at: u64, batch: u64, row: u64, column: u64, m: u32, n: u32, batches: u32, tiles: u32, wide: u32 }

    #[ptx_contract]
    impl P {
        fn holds(&self) -> bool {
            self.m >= 1 && self.m < 1 << 30 && self.n >= 1 && self.n < 1 << 30 && self.batches >= 1 && self.tiles == self.m.div_ceil(4)
                && [self.at, self.batch, self.row, self.column].iter().all(|bytes| bytes.is_multiple_of(4))
                && (self.wide == 0 || self.column == 4 && [self.at, self.batch, self.row].iter().all(|bytes| bytes.is_multiple_of(16)))
        }
        fn grid(&self) -> (u64, u32, u32) { (u64::from(self.tiles) * u64::from(self.n.div_ceil(32)), 1, self.batches) }
        fn bytes(&self) -> u64 {
            u64::from(self.batches - 1) * self.batch + u64::from(self.m - 1) * self.row + u64::from(self.n - 1) * self.column + 4
        }
        fn is_apart(&self) -> bool {
            Self::nests([self.column, self.row, self.batch], [self.n, self.m])
                || Self::nests([self.row, self.column, self.batch], [self.m, self.n])
                || Self::nests([self.batch, self.column, self.row], [self.batches, self.n])
        }
        fn nests([inner, middle, outer]: [u64; 3], [elements, groups]: [u32; 2]) -> bool {
            inner >= 4 && middle >= inner * u64::from(elements) && outer >= middle * u64::from(groups)
        }
    }

    #[ptx_kernel(
        arch = \"sm_90\", params(P), block = 32, grid = p.grid(), proved, requires(p.holds(), p.is_apart()),
        addresses(p.at = [u8; p.bytes()])
    )]
    pub fn k(p: P) {
        let tile: u32 = ctaid.x / p.tiles;
        let row: u32 = (ctaid.x - tile * p.tiles) * 4 + tid.x / 8;
        let column: u32 = tile * 32 + tid.x % 8 * 4;
        let batch: u32 = ctaid.z;
        if (row < p.m) & (column < p.n) {
            let mut to: u64 = p.at + p.batch * (batch as u64) + p.row * (row as u64) + p.column * (column as u64);
            let count: u32 = p.n - column;
            if (p.wide != 0) & (count >= 4) {
                ptx! { st.global.v4.u32 [to], {0, 0, 0, 0}; }
            } else {
                for i in 0..4 {
                    let there: pred = count > i;
                    ptx! { @there st.global.u32 [to], 0; }
                    to += p.column;
                }
            }
        }
    }";

#[test]
fn matrices_of_batches_are_apart() {
    // Without optimization each proof takes half a minute: all of them are for `PTX_THOROUGH`.
    let decide = |text: &str, expected: &str| {
        if is_thorough() {
            assert_proved_or(text, expected);
        }
    };
    decide(BATCHES, "");
    let mutants = [
        ("inner >= 4 && ", ""),
        ("u64::from(elements) &&", "u64::from(elements - 1) &&"),
        ("u64::from(groups)", "u64::from(groups - 1)"),
        ("self.row, self.batch], [self.n, self.m]", "self.row, self.batch], [self.m, self.n]"),
        ("let batch: u32 = ctaid.z", "let batch: u32 = ctaid.z / 2"),
        ("tile * p.tiles) * 4", "tile * p.tiles) * 3"),
        ("tid.x % 8 * 4", "tid.x % 8 * 3"),
    ];
    for (old, new) in mutants {
        assert!(BATCHES.contains(old), "{old}");
        decide(&BATCHES.replacen(old, new, 1), "[P091");
    }
}

/// Whoever launches a kernel vouches for the addresses, if its author does not.
#[test]
fn addresses_need_somebody_who_vouches() {
    let program = Source::text("k.rs", APART).compile().unwrap();
    assert!(
        program.kernels().all(|kernel| kernel.launch.as_ref().is_ok_and(|launch| !launch.proved && !launch.vouched))
    );
    let vouched = APART.replacen(
        "proved, requires(p.holds(), p.is_apart()),",
        "proved(bounds), unsafe(requires(p.holds(), p.is_apart()),",
        1,
    );
    let vouched = vouched.replacen("addresses(p.at = [u8; p.bytes()])", "addresses(p.at = [u8; p.bytes()]))", 1);
    let program = Source::text("k.rs", &vouched).compile().unwrap();
    assert!(program.kernels().all(|kernel| kernel.launch.as_ref().is_ok_and(|launch| launch.vouched)));
}

#[test]
fn wrong_addresses_in_structs_are_refused() {
    for (wrong, expected) in [
        ("p.m = [u8; p.bytes()]", "`p.m` is no `u64` in a struct"),
        ("q.at = [u8; p.bytes()]", "this is no field of a struct among the parameters"),
        ("p.at = [u8]", "this does not say which elements are addresses of which memory"),
    ] {
        assert_proved_or(&APART.replacen("p.at = [u8; p.bytes()]", wrong, 1), expected);
    }
}
