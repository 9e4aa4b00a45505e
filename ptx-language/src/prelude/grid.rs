//! The blocks of a grid wait for each other (`sync`, `sm_70`), and the grids of a stream overlap, for kernels that are launched with
//! `pdl`: the next one may start before this one has ended (`sm_90`).

/// Lets the next grid start as soon as all blocks of this one have allowed it, or ended, and a multiprocessor has capacity:
/// `griddepcontrol.launch_dependents`.
fn launch_dependents() {
    ptx! { griddepcontrol.launch_dependents; }
}

/// Waits until the grids before this one have ended and what they wrote can be read: `griddepcontrol.wait`.
fn wait() {
    ptx! { griddepcontrol.wait; }
}

/// Waits for the grids before, and lets the next grid start: `griddepcontrol.wait` and `griddepcontrol.launch_dependents` from `sm_90` on,
/// nothing on older targets, whose grids do not overlap. What this grid writes stays invisible to the next one until that one's own `wait`.
fn overlap() {
    if arch >= sm_90 {
        wait();
        launch_dependents();
    }
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

/// Waits until all threads of all blocks of the grid have called it; what they wrote before can then be read. For kernels with
/// `cooperative`. `bar.sync 0`; in the first thread of a block `atom.acq_rel.gpu.global.add`, and `ld.acquire.gpu.global` in a loop until
/// the highest bit of the counter has changed; `bar.sync 0`.
#[cooperative]
fn sync() {
    static mut ARRIVED: u32 = 0;
    ptx! { bar.sync 0; }
    if (tid.x | tid.y | tid.z) == 0 {
        let blocks = nctaid.x * nctaid.y * nctaid.z;
        let mut share: u32 = 1;
        // The shares of all blocks add up to the highest bit.
        if (ctaid.x | ctaid.y | ctaid.z) == 0 {
            share = 0x8000_0001 - blocks;
        }
        let before: u32;
        ptx! { atom.acq_rel.gpu.global.add.u32 before, [ARRIVED], share; }
        loop {
            let now: u32;
            ptx! { ld.acquire.gpu.global.u32 now, [ARRIVED]; }
            if (before ^ now) >= 0x8000_0000 {
                break;
            }
        }
    }
    ptx! { bar.sync 0; }
}

/// True in all `THREADS` threads, the last ones of a block, of the last of `blocks` blocks that come to `flag`, which is zero before and after. What
/// the others wrote to global memory before can then be read. `slot` is shared memory for a number. `bar.sync 1`; in the first thread
/// `fence.acq_rel.gpu`, `atom.acq_rel.gpu.global.inc` and `st.shared`; `bar.sync 1`, `ld.shared`.
fn is_last<const THREADS: u32>(flag: u64, blocks: u32, slot: u32) -> pred {
    barrier::sync::<THREADS>(1);
    if tid.x == ntid.x - THREADS {
        let before: u32;
        let limit: u32 = blocks - 1;
        ptx! {
            fence.acq_rel.gpu;
            atom.acq_rel.gpu.global.inc.u32 before, [flag], limit;
            st.shared.u32 [slot], before;
        }
    }
    barrier::sync::<THREADS>(1);
    let before: u32;
    ptx! { ld.shared.u32 before, [slot]; }
    before == blocks - 1
}
