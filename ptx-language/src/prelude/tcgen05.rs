//! Tensor memory, and the matrix products that add to it: the tensor cores of `sm_100a` and its family.
//!
//! A block has 128 lanes of 512 columns of 32 bits. `taddr` is an address there: lane · 65536 + column. `GROUP` is 1, or 2
//! where a pair of blocks of a cluster works together; all calls of a kernel must agree on it. One thread issues products,
//! copies and commits; whole warps allocate, load and store. Each of the four warps of a warp group reaches 32 lanes.

/// The modifier for a `GROUP`.
const GROUPS: [&str; 2] = ["cta_group::1", "cta_group::2"];

/// The modifiers for numbers of repetitions, by their logarithms.
const TIMES: [&str; 8] = ["x1", "x2", "x4", "x8", "x16", "x32", "x64", "x128"];

/// Types of A and B by their number in a descriptor: 16 and 32 bits; 8, 6 and 4 bits; integers.
const F16: u32 = 0;
const BF16: u32 = 1;
const TF32: u32 = 2;
const E4M3: u32 = 0;
const E5M2: u32 = 1;
const E2M3: u32 = 3;
const E3M2: u32 = 4;
const E2M1: u32 = 5;
const U8: u32 = 0;
const S8: u32 = 1;
/// Types of D.
const SUM_F16: u32 = 0;
const SUM_F32: u32 = 1;
const SUM_S32: u32 = 2;
/// Bits that may be added to `idesc`: factors that count negative, and factors that stand MN-major in shared memory.
const NEGATE_A: u32 = 0x2000;
const NEGATE_B: u32 = 0x4000;
const MN_MAJOR_A: u32 = 0x8000;
const MN_MAJOR_B: u32 = 0x1_0000;

// ---- tensor memory ----

/// A whole warp allocates `COLUMNS` columns, a power of two from 32 to 512, and writes their address to shared memory at
/// `slot`; it waits until so many are free: `tcgen05.alloc`. In a pair, a warp of each block must call it.
fn alloc<const GROUP: u32, const COLUMNS: u32>(slot: u32) {
    const CTA_GROUP: &str = GROUPS[GROUP - 1];
    ptx! { tcgen05.alloc.{CTA_GROUP}.sync.aligned.shared::cta.b32 [slot], COLUMNS; }
}

/// The address that `alloc` wrote; threads of other warps need a barrier before: `ld.shared`.
fn address(slot: u32) -> u32 {
    let taddr: u32;
    ptx! { ld.shared.u32 taddr, [slot]; }
    taddr
}

/// A whole warp gives columns back, which every block must before it ends: `tcgen05.dealloc`.
fn dealloc<const GROUP: u32, const COLUMNS: u32>(taddr: u32) {
    const CTA_GROUP: &str = GROUPS[GROUP - 1];
    ptx! { tcgen05.dealloc.{CTA_GROUP}.sync.aligned.b32 taddr, COLUMNS; }
}

/// The block will not allocate again, so that the next one on its processor may: `tcgen05.relinquish_alloc_permit`.
fn relinquish<const GROUP: u32>() {
    const CTA_GROUP: &str = GROUPS[GROUP - 1];
    ptx! { tcgen05.relinquish_alloc_permit.{CTA_GROUP}.sync.aligned; }
}

/// `taddr` in the first of the 32 lanes that this warp reaches; the block has one dimension: `shr`, `and`, `shl`, `add`.
fn quarter(taddr: u32) -> u32 {
    taddr + (((tid.x >> 5) & 3) << 21)
}

/// A lane's next `N` columns to each thread, `N` a power of two up to 128, `taddr` from `quarter`:
/// `tcgen05.ld.32x32b` and `tcgen05.wait::ld`. It waits itself, because its caller gets the values by moves, and no
/// instruction may read registers in which they have not arrived; loads that overlap are written in `ptx!`.
fn load<T, const N: u32>(taddr: u32) -> [T; N] {
    const NUM: &str = TIMES[N.trailing_zeros()];
    let values: [T; N];
    ptx! {
        tcgen05.ld.sync.aligned.32x32b.{NUM}.b32 {values[..]}, [taddr];
        tcgen05.wait::ld.sync.aligned;
    }
    values
}

/// Each thread's values to the next `N` columns of its lane: `tcgen05.st.32x32b`. They are there after `wait_store`.
fn store<T, const N: u32>(taddr: u32, values: [T; N]) {
    const NUM: &str = TIMES[N.trailing_zeros()];
    ptx! { tcgen05.st.sync.aligned.32x32b.{NUM}.b32 [taddr], {values[..]}; }
}

/// Waits for the loads that this thread wrote in `ptx!`: `tcgen05.wait::ld`.
fn wait_load() {
    ptx! { tcgen05.wait::ld.sync.aligned; }
}

/// Waits for all stores of this thread: `tcgen05.wait::st`.
fn wait_store() {
    ptx! { tcgen05.wait::st.sync.aligned; }
}

/// Orders this thread's `tcgen05` instructions before a barrier or a flag: `tcgen05.fence::before_thread_sync`.
fn fence_before() {
    ptx! { tcgen05.fence::before_thread_sync; }
}

/// Orders them behind a barrier or a flag that it has seen: `tcgen05.fence::after_thread_sync`.
fn fence_after() {
    ptx! { tcgen05.fence::after_thread_sync; }
}

// ---- descriptors ----

/// The three bits of a descriptor that say how rows of so many bytes are swizzled.
fn swizzle_mode(bytes: u32) -> u64 {
    if bytes == 128 {
        2
    } else if bytes == 64 {
        4
    } else if bytes == 32 {
        6
    } else {
        0
    }
}

/// The descriptor of a matrix in shared memory at `address`: `LEADING` and `STRIDE` are the byte distances of core matrices,
/// `SWIZZLE` the bytes of a swizzled row (0, 32, 64 or 128). `and`, `shr`, `cvt`, `or`.
fn descriptor<const LEADING: u32, const STRIDE: u32, const SWIZZLE: u32>(address: u32) -> u64 {
    const LEADING_BITS: u64 = (LEADING as u64 / 16) * 0x1_0000;
    const STRIDE_BITS: u64 = (STRIDE as u64 / 16) * 0x1_0000_0000;
    const FIXED: u64 = LEADING_BITS | STRIDE_BITS | (1 << 46) | (swizzle_mode(SWIZZLE) << 61);
    ((address & 0x3ffff) >> 4) as u64 | FIXED
}

/// The descriptor of a K-major tile with rows of 128 swizzled bytes: `descriptor::<16, 1024, 128>`.
fn descriptor_k128(address: u32) -> u64 {
    descriptor::<16, 1024, 128>(address)
}

/// The descriptor of an MN-major tile with rows of 128 swizzled bytes, `NEXT` bytes from one such row of tiles to the next:
/// `descriptor::<NEXT, 1024, 128>`.
fn descriptor_mn128<const NEXT: u32>(address: u32) -> u64 {
    descriptor::<NEXT, 1024, 128>(address)
}

/// The instruction descriptor of a product of `m` rows (of both blocks of a pair) and `n` columns, with the types of A, B and
/// D by their numbers. A constant.
fn idesc(a: u32, b: u32, d: u32, m: u32, n: u32) -> u32 {
    (d << 4) | (a << 7) | (b << 10) | ((n / 8) << 17) | ((m / 16) << 24)
}

/// The same with scale factors, of type 1 (`ue8m0`) or 0 (`ue4m3`). E2M1 is type 1 where all types have 4 bits.
fn idesc_scaled(a: u32, b: u32, scale: u32, m: u32, n: u32) -> u32 {
    (a << 7) | (b << 10) | ((n / 8) << 17) | (scale << 23) | ((m / 128) << 27)
}

// ---- products ----

/// D = A · B, and `+ D` with `accumulate`: 256 bits of k of `KIND` (`kind::f16`, `kind::tf32`, `kind::f8f6f4`, `kind::i8`),
/// both factors in shared memory: `tcgen05.mma`, whose
/// addresses in tensor memory must be untyped: `mov.b32` before.
fn mma<const GROUP: u32, const KIND: &str>(d: u32, a: u64, b: u64, idesc: u32, accumulate: pred) {
    const CTA_GROUP: &str = GROUPS[GROUP - 1];
    let to: b32 = d as b32;
    ptx! { tcgen05.mma.{CTA_GROUP}.{KIND} [to], a, b, idesc, accumulate; }
}

/// The same with A in tensor memory, two or more elements to a column: `tcgen05.mma`.
fn mma_tensor<const GROUP: u32, const KIND: &str>(d: u32, a: u32, b: u64, idesc: u32, accumulate: pred) {
    const CTA_GROUP: &str = GROUPS[GROUP - 1];
    let (to, from): (b32, b32) = (d as b32, a as b32);
    ptx! { tcgen05.mma.{CTA_GROUP}.{KIND} [to], [from], b, idesc, accumulate; }
}

/// The same with a factor for every 32 or 16 elements of a row of A and a column of B, `scales` in tensor
/// memory: `tcgen05.mma.block_scale`, `KIND` is `kind::mxf8f6f4`, `kind::mxf4` or `kind::mxf4nvf4`, `EACH` `block32` or `block16`.
fn mma_scaled<const GROUP: u32, const KIND: &str, const EACH: &str>(
    d: u32,
    a: u64,
    b: u64,
    idesc: u32,
    scales: [u32; 2],
    accumulate: pred,
) {
    const CTA_GROUP: &str = GROUPS[GROUP - 1];
    let (to, of_a, of_b): (b32, b32, b32) = (d as b32, scales[0] as b32, scales[1] as b32);
    ptx! { tcgen05.mma.{CTA_GROUP}.{KIND}.block_scale.{EACH} [to], a, b, idesc, [of_a], [of_b], accumulate; }
}

/// Four products along K-major rows of 128 bytes; `accumulate` concerns the first, and is true afterwards.
fn mma_row128<const GROUP: u32, const KIND: &str>(d: u32, a: u64, b: u64, idesc: u32, accumulate: &mut pred) {
    for step in 0..4 {
        mma::<GROUP, KIND>(d, a + 2 * step, b + 2 * step, idesc, *accumulate);
        if step == 0 {
            *accumulate = true;
        }
    }
}

/// Arrives at the mbarrier once all that this thread issued is complete: `tcgen05.commit`.
fn commit<const GROUP: u32>(bar: u32) {
    const CTA_GROUP: &str = GROUPS[GROUP - 1];
    ptx! { tcgen05.commit.{CTA_GROUP}.mbarrier::arrive::one.shared::cluster.b64 [bar]; }
}

/// The same at the mbarriers of all blocks of `mask`: `tcgen05.commit … .multicast::cluster`.
fn commit_multicast<const GROUP: u32>(bar: u32, mask: u16) {
    const CTA_GROUP: &str = GROUPS[GROUP - 1];
    ptx! { tcgen05.commit.{CTA_GROUP}.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [bar], mask; }
}

/// At the mbarriers of all blocks that share the product, one or a pair: `commit` or `commit_multicast`.
fn commit_all<const GROUP: u32>(bar: u32) {
    if GROUP == 1 {
        commit::<1>(bar);
    } else {
        commit_multicast::<2>(bar, 3);
    }
}

/// One thread multiplies `k` elements, `DEPTH` per row of 128 bytes, from the stages of a ring, `STAGE` bytes each, which it releases: `a`
/// and `b` describe the factors in the first stage. The first product does not count the old contents of `d`. A loop of
/// `Pipeline::wait_full`, `fence_after`, `mma_row128`, `commit_all`.
fn multiply<const GROUP: u32, const KIND: &str, const DEPTH: u32, const STAGE: u32, const STAGES: u32>(
    d: u32,
    a: u64,
    b: u64,
    idesc: u32,
    k: u32,
    ring: &mut pipeline::Pipeline<STAGES>,
) {
    let mut accumulate: pred = false;
    let mut done: u32 = 0;
    while done < k {
        ring.wait_full();
        fence_after();
        let at: u64 = wide(ring.stage) * (STAGE / 16);
        mma_row128::<GROUP, KIND>(d, a + at, b + at, idesc, &mut accumulate);
        commit_all::<GROUP>(ring.empty());
        ring.advance();
        done += DEPTH;
    }
}

// ---- copies ----

/// 128 rows of 32 bytes from shared memory to 8 columns: `tcgen05.cp.128x256b`.
fn copy_rows<const GROUP: u32>(taddr: u32, from: u64) {
    const CTA_GROUP: &str = GROUPS[GROUP - 1];
    ptx! { tcgen05.cp.{CTA_GROUP}.128x256b [taddr], from; }
}

/// 32 rows of 16 bytes to 4 columns of all four quarters, as scale factors want it: `tcgen05.cp.32x128b.warpx4`.
fn copy_scales<const GROUP: u32>(taddr: u32, from: u64) {
    const CTA_GROUP: &str = GROUPS[GROUP - 1];
    ptx! { tcgen05.cp.{CTA_GROUP}.32x128b.warpx4 [taddr], from; }
}

/// In 8 columns of 32 lanes, each lane gets what the next one has, the last one keeps its own: `tcgen05.shift.down`.
fn shift<const GROUP: u32>(taddr: u32) {
    const CTA_GROUP: &str = GROUPS[GROUP - 1];
    ptx! { tcgen05.shift.{CTA_GROUP}.down [taddr]; }
}

// ---- from the sums to global memory ----

/// Neighboring values as pairs of `T` (`bf16`, `f16`), rounded to nearest: `cvt.rn`.
fn pack<T, const N: u32>(values: [f32; N]) -> [b32; N / 2] {
    let pairs: [b32; N / 2];
    for i in 0..N / 2 {
        ptx! { cvt.rn.{T}x2.f32 pairs[i], values[2 * i + 1], values[2 * i]; }
    }
    pairs
}

/// A thread's 64 values of 16 bits to its row of a subtile in shared memory: rows of 128 bytes, swizzled by 128, as a tensor map with a
/// box of `[32, 64]` and `swizzle = 128` stores them. The subtile begins at a multiple of 1024: `shl`, `add`, and
/// eight times `xor`, `add`, `st.shared.v4`.
fn store_row(subtile: u32, row: u32, pairs: [b32; 32]) {
    let (line, turn): (u32, u32) = (subtile + (row << 7), (row & 7) << 4);
    for chunk in 0..8 {
        let at: u32 = line + ((16 * chunk) ^ turn);
        ptx! { st.shared.v4.b32 [at], {pairs[4 * chunk..4 * chunk + 4]}; }
    }
}
