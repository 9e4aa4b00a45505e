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

/// The descriptor of a K-major tile with rows of 128 swizzled bytes: `descriptor::<16, 1024, 128>`.
fn descriptor_k128(address: u32) -> u64 {
    descriptor::<16, 1024, 128>(address)
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
