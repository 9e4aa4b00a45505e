//! Policies of the second-level cache, for accesses with `.L2::cache_hint`. For `sm_80` and later.

/// As without a policy: `createpolicy.fractional.L2::evict_normal`.
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
