//! Copies from global to shared memory that do not wait. For `sm_80` and later.

/// 16 bytes, past the first-level cache: `cp.async.cg.shared.global`.
fn copy16(to: u32, from: u64) {
    ptx! { cp.async.cg.shared.global [to], [from], 16; }
}

/// 16 bytes, of which the first `bytes` are read and the rest is zero: `cp.async.cg.shared.global`.
fn copy16_zero(to: u32, from: u64, bytes: u32) {
    ptx! { cp.async.cg.shared.global [to], [from], 16, bytes; }
}

/// The same for rows of whole lines of 128 bytes, which the second-level cache fetches together: `cp.async.cg.shared.global.L2::128B`.
fn copy16_zero_of_line(to: u32, from: u64, bytes: u32) {
    ptx! { cp.async.cg.shared.global.L2::128B [to], [from], 16, bytes; }
}

/// `BYTES` bytes, 4, 8 or 16, through all caches: `cp.async.ca.shared.global`.
fn copy<const BYTES: u32>(to: u32, from: u64) {
    ptx! { cp.async.ca.shared.global [to], [from], BYTES; }
}

/// Ends a group of copies: `cp.async.commit_group`.
fn commit() {
    ptx! { cp.async.commit_group; }
}

/// Waits until at most `PENDING` groups are on their way: `cp.async.wait_group`.
fn wait<const PENDING: u32>() {
    ptx! { cp.async.wait_group PENDING; }
}

/// Waits for all copies: `cp.async.wait_all`.
fn wait_all() {
    ptx! { cp.async.wait_all; }
}

/// Arrives at the `mbarrier` at `bar` when this thread's copies so far have come; the barrier counts this arrival as one
/// that it was made for: `cp.async.mbarrier.arrive.noinc`.
fn arrive(bar: u32) {
    ptx! { cp.async.mbarrier.arrive.noinc.shared.b64 [bar]; }
}
