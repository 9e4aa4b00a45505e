//! Copies of neighboring bytes that one thread begins and the copy engine does: no tensor map, no register. Addresses and
//! sizes are multiples of 16 bytes. For `sm_90` and later.

/// Global to shared memory, counted by the `mbarrier` at `bar`: `cp.async.bulk.shared::cluster.global`.
fn load(to: u32, from: u64, bytes: u32, bar: u32) {
    ptx! { cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [to], [from], bytes, [bar]; }
}

/// The same with a policy for the second-level cache: `… .L2::cache_hint`.
fn load_policy(to: u32, from: u64, bytes: u32, bar: u32, policy: u64) {
    ptx! {
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [to], [from], bytes, [bar], policy;
    }
}

/// To the same place in every block of `mask`, and counted by the barrier there: `… .multicast::cluster`.
fn load_multicast(to: u32, from: u64, bytes: u32, bar: u32, mask: u16) {
    ptx! {
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [to], [from], bytes, [bar], mask;
    }
}

/// This block's shared memory to another's of the cluster; `to` and `bar` are addresses of `cluster::map`:
/// `cp.async.bulk.shared::cluster.shared::cta`.
fn send(to: u32, from: u32, bytes: u32, bar: u32) {
    ptx! { cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [to], [from], bytes, [bar]; }
}

/// Global memory to the second-level cache: `cp.async.bulk.prefetch.L2.global`.
fn fetch(from: u64, bytes: u32) {
    ptx! { cp.async.bulk.prefetch.L2.global [from], bytes; }
}

/// Shared to global memory: `cp.async.bulk.global.shared::cta`. `tma::commit` and `tma::wait` end it.
fn store(to: u64, from: u32, bytes: u32) {
    ptx! { cp.async.bulk.global.shared::cta.bulk_group [to], [from], bytes; }
}

/// The same with a policy for the second-level cache: `… .L2::cache_hint`.
fn store_policy(to: u64, from: u32, bytes: u32, policy: u64) {
    ptx! { cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [to], [from], bytes, policy; }
}

/// Brings shared memory to global memory by `OP` (`"add"`, `"min"`, `"max"` …) on elements of `T`:
/// `cp.reduce.async.bulk.global.shared::cta`.
fn reduce<T, const OP: &str>(to: u64, from: u32, bytes: u32) {
    ptx! { cp.reduce.async.bulk.global.shared::cta.bulk_group.{OP}.{T} [to], [from], bytes; }
}
