//! Policies of the second-level cache, for accesses with `.L2::cache_hint`. For `sm_80` and later.
//!
//! There is none for `evict_normal`, the default by the manual: an H200 treats loads without any policy better. With
//! `evict_normal` it does not merge what several blocks ask for at the same time, and keeps no copies of the lines of the
//! cache's other half: up to 2.2 times the traffic in `examples/hopper/gemm.rs` (docs/benchmarks/tried.md).

/// For data that is read again soon, and should stay: `createpolicy.fractional.L2::evict_last`.
fn evict_last() -> u64 {
    let policy: u64;
    ptx! { createpolicy.fractional.L2::evict_last.b64 policy; }
    policy
}

/// For data that is not read again soon, and may go first: `createpolicy.fractional.L2::evict_first`.
fn evict_first() -> u64 {
    let policy: u64;
    ptx! { createpolicy.fractional.L2::evict_first.b64 policy; }
    policy
}
