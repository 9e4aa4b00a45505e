//! Policies of the second-level cache, for accesses with `.L2::cache_hint`. For `sm_80` and later.

/// `createpolicy.fractional.L2::evict_normal`. The manual says that it is the default, but an H200 treats loads without any
/// policy better: only with `evict_normal` it does not merge what several blocks ask for at the same time, and does not
/// keep copies of the other half's lines (1.3 to 2.2 times the traffic of the second-level cache in `examples/hopper/gemm.rs`).
fn normal() -> u64 {
    let policy: u64;
    ptx! { createpolicy.fractional.L2::evict_normal.b64 policy; }
    policy
}

/// What is read again soon, and should stay: `createpolicy.fractional.L2::evict_last`.
fn evict_last() -> u64 {
    let policy: u64;
    ptx! { createpolicy.fractional.L2::evict_last.b64 policy; }
    policy
}

/// What is not read again soon, and may go first: `createpolicy.fractional.L2::evict_first`.
fn evict_first() -> u64 {
    let policy: u64;
    ptx! { createpolicy.fractional.L2::evict_first.b64 policy; }
    policy
}
