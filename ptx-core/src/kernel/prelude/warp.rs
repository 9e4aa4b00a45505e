//! Within a warp: reductions, scans, broadcasts. All 32 lanes must be there.

/// How many lanes a warp has.
const LANES: u32 = 32;

/// Every lane's mask.
const ALL: u32 = 0xffffffff;

/// The sum of `x` over the warp, in every lane: five times `shfl.sync.bfly.b32` and an addition.
fn reduce_sum<T>(x: T) -> T {
    reduce::<"add", T>(x)
}

/// The largest `x` of the warp, in every lane: five times `shfl.sync.bfly.b32` and `max`.
fn reduce_max<T>(x: T) -> T {
    reduce::<"max", T>(x)
}

/// The smallest `x` of the warp, in every lane: five times `shfl.sync.bfly.b32` and `min`.
fn reduce_min<T>(x: T) -> T {
    reduce::<"min", T>(x)
}

/// `OP` of `x` over the warp, in every lane: five times `shfl.sync.bfly.b32` and `combine`.
fn reduce<const OP: &str, T>(x: T) -> T {
    let mut all: T = x;
    for step in [16, 8, 4, 2, 1] {
        let other: T;
        ptx! { shfl.sync.bfly.b32 other, all, step, 31, ALL; }
        combine::<OP, T>(&mut all, other);
    }
    all
}

/// `into` becomes `OP` of itself and `x`: `"add"`, `"max"` or `"min"`, the instruction of that name.
fn combine<const OP: &str, T>(into: &mut T, x: T) {
    if OP == "add" {
        *into += x;
    } else if OP == "max" {
        ptx! { max.{T} into, into, x; }
    } else {
        ptx! { min.{T} into, into, x; }
    }
}

/// The sum of `x` over this lane and those before it: five times `shfl.sync.up.b32` and a branch around an addition.
fn scan_sum<T>(x: T) -> T {
    scan::<"add", T>(x)
}

/// The largest `x` of this lane and those before it: five times `shfl.sync.up.b32` and a branch around `max`.
fn scan_max<T>(x: T) -> T {
    scan::<"max", T>(x)
}

/// `OP` of `x` over this lane and those before it: five times `shfl.sync.up.b32` and a branch around `combine`.
fn scan<const OP: &str, T>(x: T) -> T {
    let mut all: T = x;
    for step in [1, 2, 4, 8, 16] {
        let other: T;
        let inside: pred;
        ptx! { shfl.sync.up.b32 other|inside, all, step, 0, ALL; }
        if inside {
            combine::<OP, T>(&mut all, other);
        }
    }
    all
}

/// The sum of `x` over the lanes before this one: `scan_sum` and a subtraction, which only integers forgive.
fn scan_sum_before<T>(x: T) -> T {
    scan_sum(x) - x
}

/// `OP` of `x` over the warp, in every lane, by one instruction: `redux.sync`. `"add"`, `"min"` and `"max"` of `u32` and
/// `i32`, `"and"`, `"or"` and `"xor"` of `b32`. For `sm_80` and later.
fn redux<const OP: &str, T>(x: T) -> T {
    let all: T;
    ptx! { redux.sync.{OP}.{T} all, x, ALL; }
    all
}

/// `x` of one lane, in every lane: `shfl.sync.idx.b32`.
fn broadcast<T>(x: T, lane: u32) -> T {
    let value: T;
    ptx! { shfl.sync.idx.b32 value, x, lane, 31, ALL; }
    value
}

/// The lanes where `p` holds, as a mask: `vote.sync.ballot.b32`.
fn ballot(p: pred) -> b32 {
    let mask: b32;
    ptx! { vote.sync.ballot.b32 mask, p, ALL; }
    mask
}

/// Whether `p` holds in any lane: `vote.sync.any.pred`.
fn any(p: pred) -> pred {
    let found: pred;
    ptx! { vote.sync.any.pred found, p, ALL; }
    found
}

/// Whether `p` holds in every lane: `vote.sync.all.pred`.
fn all(p: pred) -> pred {
    let found: pred;
    ptx! { vote.sync.all.pred found, p, ALL; }
    found
}

/// True in one lane of the warp: `elect.sync`. For `sm_90` and later.
fn elect() -> pred {
    let chosen: pred;
    ptx! { elect.sync _|chosen, ALL; }
    chosen
}

/// Waits for all lanes: `bar.warp.sync`.
fn sync() {
    ptx! { bar.warp.sync ALL; }
}
