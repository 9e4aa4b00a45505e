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
fn store_panel<T2, const FIRST: u32, const N: u32>(acc: [f32; N], row: u32, place: u32) {
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
