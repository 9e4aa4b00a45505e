//! From the accumulators of `wgmma` to shared memory as TMA stores it. For `sm_90` and later.
//!
//! A panel is 64 columns of 16 bits, rows of 128 bytes, swizzled by 128 bytes: what a tensor map with a box of
//! `[rows, 64]` and `swizzle = 128` writes. Warp w of a warp group has rows 16w … 16w + 15.

/// Where this thread's part of the first eight columns of a panel goes, before swizzling is undone by `store`; `panel` is the
/// address of the warp group's rows, `thread` its number in the warp group. `and`, `shr`, `shl`, `add` …: once a kernel.
fn row(panel: u32, thread: u32) -> u32 {
    let lane: u32 = thread & 31;
    panel + ((thread >> 5) * 16 + (lane & 15)) * 128
}

/// The swizzled place of this thread's 16 bytes of the first sixteen columns: `and`, `shr`, `xor`, `shl`.
fn place(thread: u32) -> u32 {
    (((thread >> 4) & 1) ^ (thread & 7)) << 4
}

/// 64 columns from accumulator `FIRST` on, converted to `T2` (`bf16x2`, `f16x2`): 16 `cvt.rn` of pairs and four times
/// `xor`, `add` and `stmatrix.x4`. `row` and `place` are those of this thread.
fn store_panel<T2, const FIRST: u32, const N: u32>(acc: &[f32; N], row: u32, place: u32) {
    for pair in 0..4 {
        const A: u32 = FIRST + 8 * pair;
        let packed: [T2; 4];
        for i in 0..4 {
            ptx! { cvt.rn.{T2}.f32 packed[i], acc[A + 2 * i + 1], acc[A + 2 * i]; }
        }
        let at: u32 = row + (place ^ (32 * pair));
        ptx! { stmatrix.sync.aligned.m8n8.x4.shared.b16 [at], {packed[..]}; }
    }
}

/// The first `rows` rows of a panel, row by row: what is behind them may be another's, so that TMA cannot write it. To `to`
/// with `pitch` bytes from row to row, and `columns` columns at most. Four times `ld.shared.v4` and, where the row and the
/// column are inside, `st.global.v4`; eight threads write the 128 bytes of a row.
fn store_rows(panel: u32, thread: u32, to: u64, pitch: u64, rows: u32, columns: u32) {
    let (row, piece): (u32, u32) = (thread >> 3, thread & 7);
    let from: u32 = panel + row * 128 + ((piece ^ (row & 7)) << 4);
    let mut at: u64 = to + (row as u64 * pitch + wide(piece) * 16);
    let wanted: pred = piece * 8 < columns;
    for quarter in 0..4 {
        let mut inside: pred = row + 16 * quarter < rows;
        let packed: [b32; 4];
        ptx! {
            and.pred inside, inside, wanted;
            ld.shared.v4.b32 {packed[..]}, [from + 2048 * quarter];
            @inside st.global.v4.b32 [at], {packed[..]};
        }
        at += pitch * 16;
    }
}

/// The first `rows` rows of a warp group's 64, and `columns` columns at most, as `f32` straight from its accumulators: `N` /
/// 2 times `st.global.v2.f32` where row and column are inside; four threads write 32 bytes of a row.
fn store_pairs<const N: u32>(acc: &[f32; N], thread: u32, to: u64, pitch: u64, rows: u32, columns: u32) {
    let row: u32 = (thread >> 5) * 16 + ((thread & 31) >> 2);
    let column: u32 = (thread & 3) * 2;
    let upper: u64 = to + (row as u64 * pitch + wide(column) * 4);
    let lower: u64 = upper + pitch * 8;
    let (above, below): (pred, pred) = (row < rows, row + 8 < rows);
    for part in 0..N / 4 {
        let inside: pred = column + 8 * part < columns;
        let (high, low): (pred, pred);
        ptx! {
            and.pred high, above, inside;
            and.pred low, below, inside;
            @high st.global.v2.f32 [upper + 32 * part], {acc[4 * part..4 * part + 2]};
            @low st.global.v2.f32 [lower + 32 * part], {acc[4 * part + 2..4 * part + 4]};
        }
    }
}
