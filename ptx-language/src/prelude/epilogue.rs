//! From the accumulators of `wgmma` to global memory. For `sm_90` and later.
//!
//! A subtile is 64 columns of 16 bits: rows of 128 bytes, swizzled by 128 bytes, as a tensor map with a box of `[rows, 64]` and
//! `swizzle = 128` stores it. Warp w of a warp group has rows 16w … 16w + 15.

/// 64 rows of 64 columns of 16 bits, swizzled by 128 bytes.
#[align(1024)]
struct Subtile {
    rows: [[u8; 128]; 64],
}

/// A warp group's way to global memory: `BUFFERS` subtiles of shared memory, from which TMA stores.
struct TileStore<const BUFFERS: u32> {
    buffers: Shared<[Subtile; BUFFERS]>,
    /// The address of this thread's row of the first subtile, and its place in the first 32 bytes.
    row: u32,
    swizzle: u32,
    /// The thread in the warp group.
    thread: u32,
    /// The named barrier of the warp group.
    barrier: u32,
}

impl<const BUFFERS: u32> TileStore<BUFFERS> {
    /// For thread `thread` of a warp group with the named barrier `barrier`: `and`, `shr`, `shl`, `xor`, `add` …, once per kernel.
    fn new(buffers: Shared<[Subtile; BUFFERS]>, thread: u32, barrier: u32) -> TileStore<BUFFERS> {
        TileStore { buffers, row: row_address(buffers, thread), swizzle: row_swizzle(thread), thread, barrier }
    }

    /// Stores a warp group's accumulators, `BLOCK_N` columns of 64 rows or several times 64, as `T` to the rows of `c` from `m` on
    /// and the columns from `n` on. For each 64 × 64 `write_subtile`, and in thread 0 `cp.async.bulk.tensor` and
    /// `cp.async.bulk.commit_group`.
    fn store_tile<T, const BLOCK_N: u32, const LEN: u32>(&self, acc: &[f32; LEN], c: TensorMap, m: u32, n: u32) {
        for subtile in 0..LEN / 32 {
            const ROW: u32 = subtile / (BLOCK_N / 64) * 64;
            const COLUMN: u32 = subtile % (BLOCK_N / 64) * 64;
            self.write_subtile::<T, subtile>(acc);
            if self.thread == 0 {
                tma::store_2d(c, n + COLUMN, m + ROW, self.buffers.at(subtile % BUFFERS));
                tma::commit();
            }
        }
    }

    /// Writes 64 columns, accumulators 32 · `SUBTILE` and the next 31, as `T` to buffer `SUBTILE` mod `BUFFERS`, as soon as the
    /// store before has read it. Each subtile of a tile commits one group of stores. By thread 0
    /// `cp.async.bulk.wait_group.read`, then `bar.sync`, `cvt` and `stmatrix`, `fence.proxy.async`, `bar.sync`.
    fn write_subtile<T, const SUBTILE: u32, const LEN: u32>(&self, acc: &[f32; LEN]) {
        const OFFSET: u32 = SUBTILE % BUFFERS * size_of::<Subtile>();
        if self.thread == 0 {
            tma::wait_read::<{ pending(SUBTILE, BUFFERS, LEN / 32) }>();
        }
        barrier::sync::<128>(self.barrier);
        store_fragments::<T, { 32 * SUBTILE }>(acc, self.row + OFFSET, self.swizzle);
        tma::fence();
        barrier::sync::<128>(self.barrier);
    }

    /// Waits until all stores have read shared memory, before the block exits: `cp.async.bulk.wait_group.read 0` by thread 0.
    fn finish(&self) {
        if self.thread == 0 {
            tma::wait_read::<0>();
        }
    }
}

/// The stores that may still read their buffers when subtile `subtile` of a tile of `count` is written to one of `buffers`
/// buffers: those after the last one from the same buffer, which may belong to the tile before.
fn pending(subtile: u32, buffers: u32, count: u32) -> u32 {
    if subtile >= buffers { buffers - 1 } else { (count - 1 - subtile) % buffers + subtile }
}

/// 64 columns from accumulator `FIRST` on, converted to `T` (`bf16`, `f16`): 16 `cvt.rn` of pairs and four times `xor`, `add` and
/// `stmatrix.x4`. `row` and `swizzle` are those of this thread.
fn store_fragments<T, const FIRST: u32, const LEN: u32>(acc: &[f32; LEN], row: u32, swizzle: u32) {
    for pair in 0..4 {
        const A: u32 = FIRST + 8 * pair;
        let packed: [b32; 4];
        for i in 0..4 {
            ptx! { cvt.rn.{T}x2.f32 packed[i], acc[A + 2 * i + 1], acc[A + 2 * i]; }
        }
        let at: u32 = row + (swizzle ^ (32 * pair));
        ptx! { stmatrix.sync.aligned.m8n8.x4.shared.b16 [at], {packed[..]}; }
    }
}

/// The address of this thread's row of the first eight columns: `buffer` has the warp group's rows, `thread` is the index in the warp
/// group. `and`, `shr`, `shl`, `add` …: once per kernel.
fn row_address(buffer: u32, thread: u32) -> u32 {
    let lane: u32 = thread & 31;
    buffer + ((thread >> 5) * 16 + (lane & 15)) * 128
}

/// The swizzled offset of this thread's 16 bytes of the first sixteen columns: `and`, `shr`, `xor`, `shl`.
fn row_swizzle(thread: u32) -> u32 {
    (((thread >> 4) & 1) ^ (thread & 7)) << 4
}

/// Stores the first `rows` rows of a subtile, and at most `columns` columns, where the rows after them belong to others and TMA must not
/// write them. To `to`, with `pitch` bytes from row to row. Four times `ld.shared.v4` and, where the row and the column are inside,
/// `st.global.v4`; eight threads store the 128 bytes of a row.
fn store_rows(subtile: u32, thread: u32, to: u64, pitch: u64, rows: u32, columns: u32) {
    let (row, chunk): (u32, u32) = (thread >> 3, thread & 7);
    let from: u32 = subtile + row * 128 + ((chunk ^ (row & 7)) << 4);
    let mut at: u64 = to + (row as u64 * pitch + wide(chunk) * 16);
    let wanted: pred = chunk * 8 < columns;
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

/// Stores the first `rows` rows of a warp group's 64, and at most `columns` columns, as `f32` from its accumulators: `N` / 2
/// `st.global.v2.f32` where row and column are inside; four threads store 32 bytes of a row.
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
