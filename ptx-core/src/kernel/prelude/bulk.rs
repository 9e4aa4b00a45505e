//! Copies of neighbouring bytes that one thread begins and the copy engine does: no tensor map, no register. Addresses and
//! sizes are multiples of 16 bytes. For `sm_90` and later.

/// Global to shared memory, counted by the `mbarrier` at `bar`: `cp.async.bulk.shared::cluster.global`.
fn load(to: u32, from: u64, bytes: u32, bar: u32) {
    ptx! { cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [to], [from], bytes, [bar]; }
}

/// Shared to global memory: `cp.async.bulk.global.shared::cta`. `tma::commit` and `tma::wait` end it.
fn store(to: u64, from: u32, bytes: u32) {
    ptx! { cp.async.bulk.global.shared::cta.bulk_group [to], [from], bytes; }
}
