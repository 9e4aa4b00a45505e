//! Within a warp: reductions, scans, broadcasts. All 32 lanes must be there.

/// The lanes of a warp.
const LANES: u32 = 32;

/// Every lane's mask.
const ALL: u32 = 0xffffffff;

/// The sum of `x` over the warp, in every lane: five times `exchange` and an addition.
fn reduce_sum<T>(x: T) -> T {
    reduce::<"add", T>(x)
}

/// The largest `x` of the warp, in every lane: five times `exchange` and `max`.
fn reduce_max<T>(x: T) -> T {
    reduce::<"max", T>(x)
}

/// The smallest `x` of the warp, in every lane: five times `exchange` and `min`.
fn reduce_min<T>(x: T) -> T {
    reduce::<"min", T>(x)
}

/// `OP` of `x` over the warp, in every lane: five times `exchange` and `combine`.
fn reduce<const OP: &str, T>(x: T) -> T {
    let mut all: T = x;
    for step in [16, 8, 4, 2, 1] {
        let other: T;
        exchange::<"bfly", T>(&mut other, all, step, 31);
        combine::<OP, T>(&mut all, other);
    }
    all
}

/// `into` becomes the `x` of another lane: `shfl.sync` with `MODE` `"bfly"`, `"up"`, `"down"` or `"idx"`, and the manual's operands b
/// and c. One `shfl.sync.b32` for types of 32 bits; for types of 64 bits a `mov`, two `shfl.sync.b32` and a `mov`.
fn exchange<const MODE: &str, T>(into: &mut T, x: T, lane: u32, clamp: u32) {
    assert!(size_of::<T>() == 4 || size_of::<T>() == 8, "lanes exchange values of 32 or 64 bits, and `{T}` has another size");
    if size_of::<T>() == 8 {
        let (low, high): b32;
        ptx! {
            mov.b64 {low, high}, x;
            shfl.sync.{MODE}.b32 low, low, lane, clamp, ALL;
            shfl.sync.{MODE}.b32 high, high, lane, clamp, ALL;
            mov.b64 into, {low, high};
        }
    } else {
        ptx! { shfl.sync.{MODE}.b32 into, x, lane, clamp, ALL; }
    }
}

/// The `x` of the lane whose number differs from this one's in the bits of `mask`: `exchange` by `shfl.sync.bfly`.
fn shuffle_xor<T>(x: T, mask: u32) -> T {
    let value: T;
    exchange::<"bfly", T>(&mut value, x, mask, 31);
    value
}

/// The `x` of the lane `delta` below this one; of the first `delta` lanes, their own: `exchange` by `shfl.sync.up`.
fn shuffle_up<T>(x: T, delta: u32) -> T {
    let value: T;
    exchange::<"up", T>(&mut value, x, delta, 0);
    value
}

/// The `x` of the lane `delta` above this one; of the last `delta` lanes, their own: `exchange` by `shfl.sync.down`.
fn shuffle_down<T>(x: T, delta: u32) -> T {
    let value: T;
    exchange::<"down", T>(&mut value, x, delta, 31);
    value
}

/// `into` becomes `OP` of itself and `x`: `"add"`, `"max"` or `"min"`, the instruction of that name.
fn combine<const OP: &str, T>(into: &mut T, x: T) {
    if OP == "add" {
        *into += x;
    } else if OP == "max" {
        ptx! { max.{T} into, into, x; }
    } else {
        assert!(OP == "min", "values are combined by `add`, `max` or `min`, not by `{OP}`");
        ptx! { min.{T} into, into, x; }
    }
}

/// The sum of `x` over this lane and those before it: five times `exchange`, and a branch around an addition.
fn scan_sum<T>(x: T) -> T {
    scan::<"add", T>(x)
}

/// The largest `x` of this lane and those before it: five times `exchange`, and a branch around `max`.
fn scan_max<T>(x: T) -> T {
    scan::<"max", T>(x)
}

/// `OP` of `x` over this lane and those before it: five times `shfl.sync.up.b32` and a branch around `combine`; of 64 bits, `exchange` and
/// a comparison of `%laneid`.
fn scan<const OP: &str, T>(x: T) -> T {
    let mut all: T = x;
    for step in [1, 2, 4, 8, 16] {
        let other: T;
        let inside: pred;
        if size_of::<T>() == 8 {
            exchange::<"up", T>(&mut other, all, step, 0);
            inside = laneid >= step;
        } else {
            ptx! { shfl.sync.up.b32 other|inside, all, step, 0, ALL; }
        }
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
    assert!(size_of::<T>() == 4, "`redux.sync` takes 32 bits: `warp::reduce` is for others, `{T}` among them");
    let all: T;
    ptx! { redux.sync.{OP}.{T} all, x, ALL; }
    all
}

/// `x` of one lane, in every lane; each lane may name another one: `exchange` by `shfl.sync.idx`.
fn broadcast<T>(x: T, lane: u32) -> T {
    let value: T;
    exchange::<"idx", T>(&mut value, x, lane, 31);
    value
}

/// The lanes where `p` holds, as a mask: `vote.sync.ballot.b32`.
fn ballot(p: pred) -> b32 {
    let mask: b32;
    ptx! { vote.sync.ballot.b32 mask, p, ALL; }
    mask
}

/// True if `p` holds in any lane: `vote.sync.any.pred`.
fn any(p: pred) -> pred {
    let found: pred;
    ptx! { vote.sync.any.pred found, p, ALL; }
    found
}

/// True if `p` holds in every lane: `vote.sync.all.pred`.
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
