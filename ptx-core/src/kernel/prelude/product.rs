//! The main loop of a matrix product: what Hopper's products have in common, whatever decides which tile is whose.
//! For `sm_90a` alone.
//!
//! A tile is `ROWS` × `COLUMNS`. A *stage* of the ring holds 128 bytes along K of A's rows, then of B's. One warp fills
//! stages by TMA (`fill`); warp groups of 64 or 128 rows each multiply them with `wgmma` (`sum`), and write what they have as
//! panels of 64 columns (`panel`). `CM` × `CN` blocks of a cluster have tiles side by side: those in a row share A, those
//! in a column share B, and each fetches its part for all of them.

/// Bytes of a panel, 64 rows of 128 bytes. An MN-major operand comes in pieces of that size too.
const PANEL: u32 = 64 * 128;

/// Bytes of a stage.
fn stage_bytes(rows: u32, columns: u32) -> u32 {
    (rows + columns) * 128
}

/// How many products lie side by side in a tile: one has at most 256 columns.
fn parts(columns: u32) -> u32 {
    columns.div_ceil(256)
}

/// Makes a kernel's ring ready, by all threads of a cluster: thread 0 reads the three maps ahead and makes the barriers, on
/// whose empty ones `ARRIVALS` warp groups arrive; `barrier.cluster.arrive.relaxed`. They may be used after `cluster::wait`.
/// What else was written is not released: that would be a fence of the GPU's scope.
fn begin<const STAGES: u32, const ARRIVALS: u32>(a: TensorMap, b: TensorMap, c: TensorMap, bars: u32) {
    if tid.x == 0 {
        tma::prefetch(a);
        tma::prefetch(b);
        tma::prefetch(c);
        pipeline::init::<STAGES, 1, ARRIVALS>(bars);
    }
    warp::sync();
    cluster::arrive_relaxed();
}

/// Asks for `LINES` of an operand's M or N from `line` on, 128 bytes along K from `k` on, for the `SHARED` blocks of
/// `mask`: one `cp.async.bulk.tensor` of a K-major operand, one for each 64 lines of an MN-major one (`MN` = 1). With `MN`
/// = 2 such operands lie behind each other, and this is the one of number `depth`: what is behind its last K is zero.
fn fetch<const MN: u32, const LINES: u32, const SHARED: u32>(
    to: u32,
    map: TensorMap,
    line: u32,
    k: u32,
    depth: u32,
    bar: u32,
    mask: u16,
) {
    const BOX: u32 = if MN == 0 { LINES } else { 64 };
    for piece in 0..LINES / BOX {
        const AT: u32 = piece * BOX * 128;
        if MN == 0 {
            tma::load_2d_shared::<SHARED>(to + AT, map, k, line + BOX * piece, bar, mask);
        } else if MN == 1 {
            tma::load_2d_shared::<SHARED>(to + AT, map, line + BOX * piece, k, bar, mask);
        } else {
            tma::load_3d_shared::<SHARED>(to + AT, map, line + BOX * piece, k, depth, bar, mask);
        }
    }
}

/// The blocks of this one's row of the cluster, which share A, and of its column, which share B: bits for `.multicast`.
/// Two `shl` and `cvt`.
fn neighbours<const CM: u32, const CN: u32>(down: u32, right: u32) -> [u16; 2] {
    const ROW: u32 = ((1 << (CM * CN)) - 1) / ((1 << CM) - 1);
    const COLUMN: u32 = (1 << CM) - 1;
    let masks: [u16; 2];
    masks[0] = (ROW << down) as u16;
    masks[1] = (COLUMN << (right * CM)) as u16;
    masks
}

/// The producer's part of a tile: asks for its stages from `k` to `end` along K, or with `back` = 1 from the end to `k`, at
/// A's `lines[0]` and B's `lines[1]`; the first block's place in a stage is `places` further on for this one. `masks` are
/// A's and B's. All lanes of the warp wait, the `chosen` one asks. In a loop: `mbarrier.try_wait`,
/// `mbarrier.arrive.expect_tx`, and `fetch` for each.
fn fill<
    T,
    const A_MN: u32,
    const B_MN: u32,
    const ROWS: u32,
    const COLUMNS: u32,
    const STAGES: u32,
    const CM: u32,
    const CN: u32,
>(
    a: TensorMap,
    b: TensorMap,
    lines: [u32; 2],
    places: [u32; 2],
    masks: [u16; 2],
    depth: u32,
    stages: u32,
    bars: u32,
    stage: &mut u32,
    phase: &mut u32,
    k: u32,
    end: u32,
    back: u32,
    chosen: pred,
) {
    const STAGE: u32 = stage_bytes(ROWS, COLUMNS);
    const DEEP: u32 = 128 / size_of::<T>();
    let mut left: u32 = (end - k + (DEEP - 1)) / DEEP;
    let mut at_k: u32 = k + back * (left - 1) * DEEP;
    let step: u32 = DEEP - back * (2 * DEEP);
    while left > 0 {
        pipeline::wait_empty::<STAGES>(bars, *stage, *phase);
        if chosen {
            let full: u32 = pipeline::full(bars, *stage);
            let to: u32 = stages + *stage * STAGE;
            let (to_a, to_b): (u32, u32) = (to + places[0], to + places[1] + ROWS * 128);
            mbarrier::arrive_expect(full, STAGE);
            fetch::<A_MN, { ROWS / CN }, CN>(to_a, a, lines[0], at_k, depth, full, masks[0]);
            fetch::<B_MN, { COLUMNS / CM }, CM>(to_b, b, lines[1], at_k, depth, full, masks[1]);
        }
        pipeline::advance::<STAGES>(stage, phase);
        at_k += step;
        left -= 1;
    }
}

/// The descriptor of an operand's first stage: `wgmma::descriptor_k128`, or `descriptor_mn128` for an MN-major one.
fn descriptor<const MN: u32>(address: u32) -> u64 {
    if MN == 0 { wgmma::descriptor_k128(address) } else { wgmma::descriptor_mn128::<PANEL>(address) }
}

/// Multiplies a warp group's rows of a stage by its columns, for each 64 rows `COLUMNS` / 2 accumulators: four times 32
/// bytes along K, `wgmma.mma_async` for each 64 rows and 256 columns. Without `accumulate` the old values of `acc` do not
/// count; it is set.
fn multiply<T, const A_MN: u32, const B_MN: u32, const COLUMNS: u32, const LEN: u32>(
    acc: &mut [f32; LEN],
    a: u64,
    b: u64,
    accumulate: &mut pred,
) {
    const PARTS: u32 = parts(COLUMNS);
    const N: u32 = COLUMNS / PARTS;
    for step in 0..4 {
        // The next 32 bytes along K; of an MN-major operand, the next 16 lines of 128 bytes.
        const NEXT_A: u64 = step * if A_MN == 0 { 2 } else { 128 };
        const NEXT_B: u64 = step * if B_MN == 0 { 2 } else { 128 };
        for part in 0..LEN * 2 / N {
            // Of the operands' panels of 64 lines, this product's in A, and its first in B.
            const DOWN: u64 = (part / PARTS * PANEL / 16) as u64;
            const ASIDE: u64 = (part % PARTS * N * 8) as u64;
            let (da, db): (u64, u64) = (a + (NEXT_A + DOWN), b + (NEXT_B + ASIDE));
            if size_of::<T>() == 1 {
                wgmma::multiply8::<T, T, N, { part * N / 2 }>(acc, da, db, *accumulate);
            } else {
                wgmma::multiply16::<T, N, { part * N / 2 }, A_MN, { B_MN.min(1) }>(acc, da, db, *accumulate);
            }
        }
        if step == 0 {
            *accumulate = true;
        }
    }
}

/// A consumer's part of a tile: `acc` becomes the sum of its rows' products from `k` to `end`, in the order of `fill`. The
/// ring's `stage` and `phase` go on. In a loop: `mbarrier.try_wait`, `wgmma.fence`, the products of a stage,
/// `wgmma.commit_group`; while these run, `wgmma.wait_group 1` and an arrival give back the stage before.
///
/// With `TURNS` above 0, at most `STAGES`, the first of two consumers (`role` 1 and 2) multiplies that many stages at the end
/// before the second does, and writes its sums meanwhile: named barrier 3, `bar.arrive` and `bar.sync`. Not if all of a
/// tile fits the ring, for then it could come to the barrier twice while the second one has yet to.
fn sum<
    T,
    const A_MN: u32,
    const B_MN: u32,
    const COLUMNS: u32,
    const STAGES: u32,
    const BLOCKS: u32,
    const STAGE: u32,
    const TURNS: u32,
    const LEN: u32,
>(
    acc: &mut [f32; LEN],
    from_a: u64,
    from_b: u64,
    bars: u32,
    stage: &mut u32,
    phase: &mut u32,
    k: u32,
    end: u32,
    thread: u32,
    role: u32,
) {
    const DEEP: u32 = 128 / size_of::<T>();
    let mut accumulate: pred = false;
    // From `since` on there are stages that are not given back yet.
    let (mut last, mut since, mut at_k, mut turn): (u32, u32, u32, u32) = (0, k, k, end);
    if TURNS > 0 {
        let steps: u32 = (end - k + (DEEP - 1)) / DEEP;
        if steps > STAGES {
            turn = k + (steps - TURNS) * DEEP;
        }
    }
    while at_k < end {
        if TURNS > 0 {
            if role == 2 {
                if at_k == turn {
                    wgmma::wait::<0>();
                    pipeline::release::<STAGES, BLOCKS>(bars, last, thread);
                    since = at_k;
                    barrier::sync::<256>(3);
                }
            }
        }
        let at: u64 = wide(*stage) * (STAGE / 16);
        let (da, db): (u64, u64) = (from_a + at, from_b + at);
        pipeline::wait_full(bars, *stage, *phase);
        wgmma::fence();
        multiply::<T, A_MN, B_MN, COLUMNS>(acc, da, db, &mut accumulate);
        wgmma::commit();
        // While these products run, the stage of those before them is given back.
        if at_k > since {
            wgmma::wait::<1>();
            pipeline::release::<STAGES, BLOCKS>(bars, last, thread);
        }
        last = *stage;
        pipeline::advance::<STAGES>(stage, phase);
        at_k += DEEP;
    }
    if TURNS > 0 {
        if role == 1 {
            if turn < end {
                barrier::arrive::<256>(3);
            }
        }
    }
    wgmma::wait::<0>();
    pipeline::release::<STAGES, BLOCKS>(bars, last, thread);
}

/// How many stores may still read their panels when panel `number` of a tile's `count` is written, with `panels` in shared
/// memory: those behind the last one from the same place, which may be the tile before's.
fn pending(number: u32, panels: u32, count: u32) -> u32 {
    if number >= panels { panels - 1 } else { (count - 1 - number) % panels + number }
}

/// 64 columns of a warp group's rows from accumulator `FIRST` on, as `T2`, to its panel of number `FIRST` / 32 mod `PANELS`,
/// as soon as the store before has read it (each panel of a tile commits one group of stores): by thread 0
/// `cp.async.bulk.wait_group.read`, then `bar.sync`, `cvt` and `stmatrix`, `fence.proxy.async`, `bar.sync`. `bar` is a named
/// barrier of this warp group.
fn panel<T2, const FIRST: u32, const PANELS: u32, const LEN: u32>(
    acc: &[f32; LEN],
    out: u32,
    place: u32,
    thread: u32,
    bar: u32,
) {
    const NUMBER: u32 = FIRST / 32;
    const AT: u32 = NUMBER % PANELS * PANEL;
    if thread == 0 {
        tma::wait_read::<{ pending(NUMBER, PANELS, LEN / 32) }>();
    }
    barrier::sync::<128>(bar);
    epilogue::store_panel::<T2, FIRST>(acc, out + AT, place);
    tma::fence();
    barrier::sync::<128>(bar);
}

/// Leaves the sums of a warp group at `slot`, `N` × 512 bytes of global memory, to whoever `collect`s them, and says so in
/// `flag`: `N` / 4 times `st.global.v4`, `bar.sync`, and one `st.release.gpu`.
fn leave<const N: u32>(acc: &[f32; N], slot: u64, flag: u64, thread: u32, bar: u32) {
    let to: u64 = slot + wide(thread) * 16;
    for part in 0..N / 4 {
        ptx! { st.global.v4.f32 [to + 2048 * part], {acc[4 * part..4 * part + 4]}; }
    }
    barrier::sync::<128>(bar);
    if thread == 0 {
        ptx! { st.release.gpu.global.u32 [flag], 1; }
    }
}

/// Waits for the sums that another warp group leaves at `slot`, and adds them to this one's: a loop of `ld.acquire.gpu` by
/// one thread, which clears `flag` for the next time, `bar.sync`, and `N` / 4 times `ld.global.v4` and four additions.
fn collect<const N: u32>(acc: &mut [f32; N], slot: u64, flag: u64, thread: u32, bar: u32) {
    if thread == 0 {
        await_flag::<1>(flag);
        ptx! { st.relaxed.gpu.global.u32 [flag], 0; }
    }
    barrier::sync::<128>(bar);
    let from: u64 = slot + wide(thread) * 16;
    for part in 0..N / 4 {
        let other: [f32; 4];
        ptx! { ld.global.v4.f32 {other[..]}, [from + 2048 * part]; }
        for i in 0..4 {
            acc[4 * part + i] += other[i];
        }
    }
}

/// Waits until a flag has this value: `ld.acquire.gpu` in a loop.
fn await_flag<const VALUE: u32>(flag: u64) {
    loop {
        let there: u32;
        ptx! { ld.acquire.gpu.global.u32 there, [flag]; }
        if there == VALUE {
            break;
        }
    }
}

/// `PARTS` warp groups of blocks that run at the same time have the sums of the same tile over different parts of K. Each
/// comes with its number, and goes with all parts' sums of its share of the columns: accumulators `part` · `N` / `PARTS` and
/// those behind. The others' go through `slots` in global memory, `PARTS`² of `N` / `PARTS` × 512 bytes, with as many
/// `flags`, which are zero before and after. For each other part `st.global.v4`, one `st.release.gpu`, `await_flag`, and
/// `ld.global.v4` with four additions; four times `bar.sync`.
fn meet<const PARTS: u32, const N: u32>(acc: &mut [f32; N], slots: u64, flags: u64, part: u32, thread: u32, bar: u32) {
    const SHARE: u32 = N / PARTS;
    const SLOT: u32 = SHARE * 512;
    // One thread for each other part looks after the slot to it, and after the one from it.
    let mut other: pred = thread < PARTS;
    if thread == part {
        other = false;
    }
    let (to, from): (u64, u64) = (flags + wide(part * PARTS + thread) * 4, flags + wide(thread * PARTS + part) * 4);
    if other {
        await_flag::<0>(to);
    }
    barrier::sync::<128>(bar);
    for there in 0..PARTS {
        if part != there {
            let slot: u64 = slots + ((part * PARTS + there) * SLOT + thread * 16) as u64;
            for four in 0..SHARE / 4 {
                const AT: u32 = SHARE * there + 4 * four;
                ptx! { st.global.v4.f32 [slot + 2048 * four], {acc[AT..AT + 4]}; }
            }
        }
    }
    barrier::sync::<128>(bar);
    if other {
        ptx! { st.release.gpu.global.u32 [to], 1; }
        await_flag::<1>(from);
    }
    barrier::sync::<128>(bar);
    for here in 0..PARTS {
        if part == here {
            for there in 0..PARTS {
                if there != here {
                    let slot: u64 = slots + ((there * PARTS + here) * SLOT + thread * 16) as u64;
                    for four in 0..SHARE / 4 {
                        let sums: [f32; 4];
                        ptx! { ld.global.v4.f32 {sums[..]}, [slot + 2048 * four]; }
                        for i in 0..4 {
                            acc[SHARE * here + 4 * four + i] += sums[i];
                        }
                    }
                }
            }
        }
    }
    barrier::sync::<128>(bar);
    if other {
        ptx! { st.release.gpu.global.u32 [from], 0; }
    }
}
