//! Within a block of one dimension: reductions and scans over its warps. Every thread must call them.

/// The sum of `x` over a block of `WARPS` warps, in every thread: a warp reduction, `st.shared` by the first lane of
/// each warp, `bar.sync 0`, `WARPS` times `ld.shared` and an addition, `bar.sync 0`.
fn reduce_sum<const WARPS: u32, T>(x: T) -> T {
    reduce::<"add", WARPS, T>(x)
}

/// As `reduce_sum` of `f32`, for a place that a kernel comes to once, and a number of warps that is a multiple of four: a
/// warp reduction, `st.shared` by the first lane of each warp, one `bar.sync 0`, `WARPS` / 4 times `ld.shared.v4`.
fn reduce_sum_once<const WARPS: u32>(x: f32) -> f32 {
    #[shared(align = 16)]
    let partial: [f32; WARPS];
    let mine: f32 = warp::reduce_sum(x);
    store(partial, mine);
    ptx! { bar.sync 0; }
    let mut sum: f32 = 0.0;
    for at in 0..WARPS / 4 {
        let four: [f32; 4];
        ptx! { ld.shared.v4.f32 {four[..]}, [partial + 16 * at]; }
        sum += (four[0] + four[1]) + (four[2] + four[3]);
    }
    sum
}

/// The largest `x` of a block of `WARPS` warps, in every thread: as `reduce_sum`, with `max`.
fn reduce_max<const WARPS: u32, T>(x: T) -> T {
    reduce::<"max", WARPS, T>(x)
}

/// The smallest `x` of a block of `WARPS` warps, in every thread: as `reduce_sum`, with `min`.
fn reduce_min<const WARPS: u32, T>(x: T) -> T {
    reduce::<"min", WARPS, T>(x)
}

/// `OP` of `x` over a block of `WARPS` warps, in every thread: as `reduce_sum`, with `warp::combine`.
fn reduce<const OP: &str, const WARPS: u32, T>(x: T) -> T {
    const BYTES: u32 = size_of::<T>();
    #[shared]
    let partial: [T; WARPS];
    let mine: T = warp::reduce::<OP, T>(x);
    store(partial, mine);
    ptx! { bar.sync 0; }
    let all: T;
    ptx! { ld.shared.{T} all, [partial]; }
    for at in 1..WARPS {
        let other: T;
        ptx! { ld.shared.{T} other, [partial + BYTES * at]; }
        warp::combine::<OP, T>(&mut all, other);
    }
    ptx! { bar.sync 0; }
    all
}

/// The first lane of each warp writes its warp's value: `shr`, `mul.lo`, `add`, `st.shared`.
fn store<T>(partial: u32, value: T) {
    if laneid == 0 {
        let at: u32 = partial + (tid.x >> 5) * size_of::<T>();
        ptx! { st.shared.{T} [at], value; }
    }
}

/// Waits for all threads of the block: `bar.sync 0`.
fn sync() {
    ptx! { bar.sync 0; }
}

/// The sum of `x` over this thread and those before it in a block of `WARPS` warps: a warp scan, `st.shared` by the last
/// lane of each warp, `bar.sync 0`, `WARPS` − 1 times `ld.shared` and a branch around an addition, `bar.sync 0`.
fn scan_sum<const WARPS: u32, T>(x: T) -> T {
    scan::<"add", WARPS, T>(x)
}

/// The largest `x` of this thread and those before it in a block of `WARPS` warps: as `scan_sum`, with `max`.
fn scan_max<const WARPS: u32, T>(x: T) -> T {
    scan::<"max", WARPS, T>(x)
}

/// `OP` of `x` over this thread and those before it in a block of `WARPS` warps: as `scan_sum`, with `warp::combine`.
fn scan<const OP: &str, const WARPS: u32, T>(x: T) -> T {
    const BYTES: u32 = size_of::<T>();
    #[shared]
    let partial: [T; WARPS];
    let (mut all, warp): (T, u32) = (warp::scan::<OP, T>(x), tid.x >> 5);
    if laneid == 31 {
        let mine: u32 = partial + warp * size_of::<T>();
        ptx! { st.shared.{T} [mine], all; }
    }
    ptx! { bar.sync 0; }
    for at in 0..WARPS - 1 {
        let other: T;
        ptx! { ld.shared.{T} other, [partial + BYTES * at]; }
        if at < warp {
            warp::combine::<OP, T>(&mut all, other);
        }
    }
    ptx! { bar.sync 0; }
    all
}
