//! The grids of a stream, for kernels that are launched with `pdl`: the next one may start before this one has ended.
//! For `sm_90` and later.

/// Lets the next grid start as soon as all blocks of this one have said so, or ended, and there is room:
/// `griddepcontrol.launch_dependents`.
fn launch_dependents() {
    ptx! { griddepcontrol.launch_dependents; }
}

/// Waits until the grids before this one have ended and what they wrote can be read: `griddepcontrol.wait`.
fn wait() {
    ptx! { griddepcontrol.wait; }
}

/// Before `wait`: has the second-level cache fetch `bytes` from `from` on, whole 16 bytes, which this block will read. The
/// grids before may still write there, for they write to the same cache. That is for blocks that start while the grid
/// before ends: half of the `BLOCKS` that fit each multiprocessor, as what is asked for too early is in the way of what is
/// needed. Called by all threads of a block: `setp` twice, and under it `cp.async.bulk.prefetch.L2.global`.
fn fetch_ahead<const BLOCKS: u32>(from: u64, bytes: u32) {
    if tid.x == 0 {
        if ctaid.x < nsmid * (BLOCKS / 2).max(1) {
            bulk::fetch(from, bytes);
        }
    }
}
