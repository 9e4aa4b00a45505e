//! Matrix products of a warp group: descriptors of shared memory, and the fences around `wgmma.mma_async`.
//! For `sm_90a` alone.

/// The two bits of a descriptor that say how rows are swizzled.
fn swizzle_mode(bytes: u32) -> u64 {
    if bytes == 128 {
        1
    } else if bytes == 64 {
        2
    } else if bytes == 32 {
        3
    } else {
        0
    }
}

/// The descriptor of a tile at `address`: `LEADING` and `STRIDE` are the byte distances of core matrices, `SWIZZLE` the
/// bytes of a swizzled row (0, 32, 64 or 128). `and`, `shr`, `cvt`, `or`.
fn descriptor<const LEADING: u32, const STRIDE: u32, const SWIZZLE: u32>(address: u32) -> u64 {
    const LEADING_BITS: u64 = (LEADING as u64 / 16) * 0x1_0000;
    const STRIDE_BITS: u64 = (STRIDE as u64 / 16) * 0x1_0000_0000;
    const FIXED: u64 = LEADING_BITS | STRIDE_BITS | (swizzle_mode(SWIZZLE) << 62);
    ((address & 0x3ffff) >> 4) as u64 | FIXED
}

/// The descriptor of a K-major tile with rows of `SWIZZLE` swizzled bytes, 32, 64 or 128, below each other:
/// `descriptor::<16, 8 · SWIZZLE, SWIZZLE>`.
fn descriptor_k<const SWIZZLE: u32>(address: u32) -> u64 {
    descriptor::<16, { 8 * SWIZZLE }, SWIZZLE>(address)
}

/// The descriptor of an MN-major tile whose rows along MN are `SWIZZLE` swizzled bytes, 32, 64 or 128, one for each step of
/// K below each other, with `NEXT` bytes to the next `SWIZZLE` bytes of MN: `descriptor::<NEXT, 8 · SWIZZLE, SWIZZLE>`.
fn descriptor_mn<const SWIZZLE: u32, const NEXT: u32>(address: u32) -> u64 {
    descriptor::<NEXT, { 8 * SWIZZLE }, SWIZZLE>(address)
}

/// The descriptor of a tile without swizzle, of core matrices: 8 rows of 16 bytes below each other, 128 bytes that lie
/// together. `ALONG` bytes to the next one along the rows of 16 bytes (K of a K-major tile, MN of an MN-major one) and
/// `DOWN` to the one below: `descriptor` of mode 0. The hardware takes the two the other way round for MN-major tiles, `MN` = 1.
fn descriptor_plain<const MN: u32, const ALONG: u32, const DOWN: u32>(address: u32) -> u64 {
    if MN == 0 { descriptor::<ALONG, DOWN, 0>(address) } else { descriptor::<DOWN, ALONG, 0>(address) }
}

/// The descriptor of a K-major tile with rows of 128 swizzled bytes: `descriptor_k::<128>`.
fn descriptor_k128(address: u32) -> u64 {
    descriptor_k::<128>(address)
}

/// The descriptor of an MN-major tile whose rows are 128 swizzled bytes: `descriptor_mn::<128, NEXT>`.
fn descriptor_mn128<const NEXT: u32>(address: u32) -> u64 {
    descriptor_mn::<128, NEXT>(address)
}

/// The descriptor of a tile with rows of 128 swizzled bytes, K-major with `MAJOR` = 0, else MN-major in swizzle atoms of 64 rows:
/// `descriptor_k128` or `descriptor_mn128::<8192>`.
fn descriptor_of<const MAJOR: u32>(address: u32) -> u64 {
    if MAJOR == 0 { descriptor_k128(address) } else { descriptor_mn128::<8192>(address) }
}

/// The descriptor `bytes` further on, a multiple of 16: `add`.
fn advance<const BYTES: u64>(descriptor: u64) -> u64 {
    descriptor + BYTES / 16
}

/// The shapes for 16-bit operands, by columns / 8 − 1.
const SHAPES_16: [&str; 32] = [
    "m64n8k16", "m64n16k16", "m64n24k16", "m64n32k16", "m64n40k16", "m64n48k16", "m64n56k16", "m64n64k16",
    "m64n72k16", "m64n80k16", "m64n88k16", "m64n96k16", "m64n104k16", "m64n112k16", "m64n120k16", "m64n128k16",
    "m64n136k16", "m64n144k16", "m64n152k16", "m64n160k16", "m64n168k16", "m64n176k16", "m64n184k16", "m64n192k16",
    "m64n200k16", "m64n208k16", "m64n216k16", "m64n224k16", "m64n232k16", "m64n240k16", "m64n248k16", "m64n256k16",
];

/// The shapes for 8-bit operands, by columns / 8 − 1.
const SHAPES_8: [&str; 32] = [
    "m64n8k32", "m64n16k32", "m64n24k32", "m64n32k32", "m64n40k32", "m64n48k32", "m64n56k32", "m64n64k32",
    "m64n72k32", "m64n80k32", "m64n88k32", "m64n96k32", "m64n104k32", "m64n112k32", "m64n120k32", "m64n128k32",
    "m64n136k32", "m64n144k32", "m64n152k32", "m64n160k32", "m64n168k32", "m64n176k32", "m64n184k32", "m64n192k32",
    "m64n200k32", "m64n208k32", "m64n216k32", "m64n224k32", "m64n232k32", "m64n240k32", "m64n248k32", "m64n256k32",
];

/// The shapes for `tf32`, by columns / 8 − 1.
const SHAPES_32: [&str; 32] = [
    "m64n8k8", "m64n16k8", "m64n24k8", "m64n32k8", "m64n40k8", "m64n48k8", "m64n56k8", "m64n64k8",
    "m64n72k8", "m64n80k8", "m64n88k8", "m64n96k8", "m64n104k8", "m64n112k8", "m64n120k8", "m64n128k8",
    "m64n136k8", "m64n144k8", "m64n152k8", "m64n160k8", "m64n168k8", "m64n176k8", "m64n184k8", "m64n192k8",
    "m64n200k8", "m64n208k8", "m64n216k8", "m64n224k8", "m64n232k8", "m64n240k8", "m64n248k8", "m64n256k8",
];

/// 64 × `N` × 16 elements of 16 bits, with A and B in shared memory: one `wgmma.mma_async` on the `N` / 2 accumulators from
/// `FIRST` on. Without `accumulate` their old values do not count. `A_MN` and `B_MN` are 1 for an operand that is
/// MN-major, else 0.
fn multiply16<T, const N: u32, const FIRST: u32, const A_MN: u32, const B_MN: u32, const LEN: u32>(
    acc: &mut [f32; LEN],
    a: u64,
    b: u64,
    accumulate: pred,
) {
    const SHAPE: &str = SHAPES_16[N / 8 - 1];
    ptx! {
        wgmma.mma_async.sync.aligned.{SHAPE}.f32.{T}.{T}
            {acc[FIRST..FIRST + N / 2]}, a, b, accumulate, 1, 1, A_MN, B_MN;
    }
}

/// The same with A in registers: this thread's four words of its warp's 16 × 16 elements, as `matrix::load_x4` brings them.
fn multiply16_registers<T, const N: u32, const FIRST: u32, const B_MN: u32, const LEN: u32>(
    acc: &mut [f32; LEN],
    a: [b32; 4],
    b: u64,
    accumulate: pred,
) {
    const SHAPE: &str = SHAPES_16[N / 8 - 1];
    ptx! {
        wgmma.mma_async.sync.aligned.{SHAPE}.f32.{T}.{T}
            {acc[FIRST..FIRST + N / 2]}, {a[..]}, b, accumulate, 1, 1, B_MN;
    }
}

/// 64 × `N` × 32 elements of 8 bits, K-major: one `wgmma.mma_async` on the `N` / 2 accumulators from `FIRST` on.
fn multiply8<A, B, const N: u32, const FIRST: u32, const LEN: u32>(acc: &mut [f32; LEN], a: u64, b: u64, accumulate: pred) {
    const SHAPE: &str = SHAPES_8[N / 8 - 1];
    ptx! { wgmma.mma_async.sync.aligned.{SHAPE}.f32.{A}.{B} {acc[FIRST..FIRST + N / 2]}, a, b, accumulate, 1, 1; }
}

/// The same for `i8`, with accumulators of `i32`.
fn multiply8_integer<const N: u32, const FIRST: u32, const LEN: u32>(acc: &mut [i32; LEN], a: u64, b: u64, accumulate: pred) {
    const SHAPE: &str = SHAPES_8[N / 8 - 1];
    ptx! { wgmma.mma_async.sync.aligned.{SHAPE}.s32.s8.s8 {acc[FIRST..FIRST + N / 2]}, a, b, accumulate; }
}

/// 64 × `N` × 8 elements of `f32`, cut to `tf32`, K-major: one `wgmma.mma_async` on the `N` / 2 accumulators from `FIRST` on.
fn multiply_tf32<const N: u32, const FIRST: u32, const LEN: u32>(acc: &mut [f32; LEN], a: u64, b: u64, accumulate: pred) {
    const SHAPE: &str = SHAPES_32[N / 8 - 1];
    ptx! { wgmma.mma_async.sync.aligned.{SHAPE}.f32.tf32.tf32 {acc[FIRST..FIRST + N / 2]}, a, b, accumulate, 1, 1; }
}

/// Orders the registers and shared memory that the next products read: `wgmma.fence`.
fn fence() {
    ptx! { wgmma.fence.sync.aligned; }
}

/// Ends a group of products: `wgmma.commit_group`.
fn commit() {
    ptx! { wgmma.commit_group.sync.aligned; }
}

/// Waits until at most `PENDING` groups are not done: `wgmma.wait_group`.
fn wait<const PENDING: u32>() {
    ptx! { wgmma.wait_group.sync.aligned PENDING; }
}

/// Gives registers back: `setmaxnreg.dec`. Every warp of the warp group must call it.
fn fewer_registers<const COUNT: u32>() {
    ptx! { setmaxnreg.dec.sync.aligned.u32 COUNT; }
}

/// Takes more registers: `setmaxnreg.inc`. Every warp of the warp group must call it.
fn more_registers<const COUNT: u32>() {
    ptx! { setmaxnreg.inc.sync.aligned.u32 COUNT; }
}
