//! Numbers that look random and are the same in every run.

/// A 64-bit finalizer (splitmix64).
pub(super) fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The element of the sequence of splitmix64.
pub(super) fn nth(number: u64) -> u64 {
    mix(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}
