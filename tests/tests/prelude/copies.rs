//! `cluster`, `bulk`, `tma`, `cp_async`, `mbarrier`, `pipeline`, `barrier` and `cache`: what moves, and who waits for it.

use ptx_launch::prelude::*;
use ptx_launch::{Result, TensorMap};

/// Two blocks write to each other in every way that there is; each thread of the first 32 has a word of its own.
#[ptx_kernel(arch = "sm_90", block = 64, grid = 2, cluster = 2, unsafe(requires(out.len() >= 2 * 5 * 32)))]
pub fn neighbors(out: &mut [u32]) {
    #[shared(align = 16)]
    let words: [u32; 128];
    #[shared(align = 16)]
    let sent: [u32; 32];
    #[shared]
    let bar: u64;
    let (rank, other): (u32, u32) = (cluster::rank(), cluster::rank() ^ 1);
    let (mine, value): (u32, u32) = (words + (tid.x & 31) * 4, 100 * rank + (tid.x & 31));
    if tid.x < 32 {
        let zero: u32 = 0;
        ptx! {
            st.shared.u32 [mine], value;
            st.shared.u32 [mine + 256], zero;
        }
    }
    if tid.x == 0 {
        mbarrier::init(bar, 1);
        mbarrier::fence_init();
        // 32 words from threads, and 128 bytes in one piece.
        mbarrier::arrive_expect(bar, 256);
    }
    tma::fence();
    cluster::sync();
    if tid.x < 32 {
        cluster::store(mine + 128, value, other);
        cluster::add(mine + 256, value, other);
        cluster::send(mine + 384, value, bar, other);
    }
    if tid.x == 32 {
        bulk::send(cluster::map(sent, other), words, 128, cluster::map(bar, other));
    }
    mbarrier::wait(bar, 0);
    cluster::sync();
    if tid.x < 32 {
        let to: u64 = out + (wide(rank) * 640 + wide(tid.x) * 4);
        let there: u32 = cluster::load::<u32>(mine, other);
        let (mut a, mut b, mut c, mut d, from): (u32, u32, u32, u32, u32) = (0, 0, 0, 0, sent + tid.x * 4);
        ptx! {
            ld.shared.u32 a, [mine + 128];
            ld.shared.u32 b, [mine + 256];
            ld.shared.u32 c, [mine + 384];
            ld.shared.u32 d, [from];
            st.global.u32 [to], there;
            st.global.u32 [to + 128], a;
            st.global.u32 [to + 256], b;
            st.global.u32 [to + 384], c;
            st.global.u32 [to + 512], d;
        }
    }
    cluster::sync();
}

#[ptx_test]
fn blocks_of_a_cluster_write_to_each_other(device: &Device) -> Result<()> {
    let mut out = device.zeros::<u32>(320)?;
    neighbors(device, &mut out)?;
    let words = |rank: u32| (0..5).flat_map(move |_| (0..32).map(move |i| 100 * rank + i));
    assert_eq!(out.download()?, words(1).chain(words(0)).collect::<Vec<_>>());
    Ok(())
}

/// 128 bytes by each bulk copy: to shared memory plainly, with a policy, and from one block to both; back plainly, with a
/// policy, and as a sum.
#[ptx_kernel(arch = "sm_90", block = 32, grid = 2, cluster = 2, unsafe(requires(x.len() >= 96, out.len() >= 192)))]
pub fn pieces(x: &[u32], out: &mut [u32]) {
    #[shared(align = 128)]
    let tile: [u32; 96];
    #[shared]
    let bar: u64;
    if tid.x == 0 {
        mbarrier::init(bar, 1);
        mbarrier::fence_init();
        mbarrier::arrive_expect(bar, 384);
    }
    cluster::sync();
    if tid.x == 0 {
        bulk::fetch(x, 384);
        bulk::load(tile, x, 128, bar);
        bulk::load_policy(tile + 128, x + 128, 128, bar, cache::evict_first());
        if cluster::rank() == 0 {
            bulk::load_multicast(tile + 256, x + 256, 128, bar, 3);
        }
    }
    mbarrier::wait(bar, 0);
    if tid.x == 0 {
        let to: u64 = out + wide(cluster::rank()) * 384;
        bulk::store(to, tile, 128);
        bulk::store_policy(to + 128, tile + 128, 128, cache::evict_last());
        bulk::reduce::<u32, "add">(to + 256, tile + 256, 128);
        tma::commit();
        tma::wait::<0>();
    }
    warp::sync();
    cluster::sync();
}

#[ptx_test]
fn pieces_are_copied_by_one_thread(device: &Device) -> Result<()> {
    let x: Vec<u32> = (1..97).collect();
    let mut out = device.upload(&[1000; 192])?;
    pieces(device, &device.upload(&x)?, &mut out)?;
    let block = x.iter().map(|x| if *x > 64 { 1000 + x } else { *x });
    assert_eq!(out.download()?, block.clone().chain(block).collect::<Vec<_>>());
    Ok(())
}

/// A box of `RANK` dimensions to both blocks, and combined into another tensor by the reduction of number `OP`.
#[ptx_kernel(
    arch = "sm_90",
    block = 32,
    grid = 2,
    cluster = 2,
    instances = [(1, 0), (2, 1), (3, 2), (4, 3), (5, 4), (1, 5), (2, 6), (3, 7)]
)]
pub fn boxes<const RANK: u32, const OP: u32>(from: TensorMap, to: TensorMap) {
    const OPS: [&str; 8] = ["add", "min", "max", "xor", "or", "and", "inc", "dec"];
    #[shared(align = 128)]
    let tile: [u32; 32];
    #[shared]
    let bar: u64;
    if tid.x == 0 {
        tma::prefetch(from);
        mbarrier::init(bar, 1);
        mbarrier::fence_init();
        mbarrier::arrive_expect(bar, 128);
    }
    cluster::sync();
    if tid.x == 0 {
        if cluster::rank() == 0 {
            if RANK == 1 {
                tma::fetch_1d(from, 32);
                tma::load_1d_multicast(tile, from, 32, bar, 3);
            } else if RANK == 2 {
                tma::fetch_2d(from, 0, 1);
                tma::load_2d_multicast(tile, from, 0, 1, bar, 3);
            } else if RANK == 3 {
                tma::fetch_3d(from, [0, 0, 1]);
                tma::load_3d_multicast(tile, from, [0, 0, 1], bar, 3);
            } else if RANK == 4 {
                tma::fetch_4d(from, [0, 0, 0, 1]);
                tma::load_4d_multicast(tile, from, [0, 0, 0, 1], bar, 3);
            } else {
                tma::fetch_5d(from, [0, 0, 0, 0, 1]);
                tma::load_5d_multicast(tile, from, [0, 0, 0, 0, 1], bar, 3);
            }
        }
        mbarrier::wait(bar, 0);
        let rank: u32 = cluster::rank();
        if RANK == 1 {
            tma::reduce_1d::<{ OPS[OP] }>(to, rank * 32, tile);
        } else if RANK == 2 {
            tma::reduce_2d::<{ OPS[OP] }>(to, 0, rank, tile);
        } else if RANK == 3 {
            tma::reduce_3d::<{ OPS[OP] }>(to, [0, 0, rank], tile);
        } else if RANK == 4 {
            tma::reduce_4d::<{ OPS[OP] }>(to, [0, 0, 0, rank], tile);
        } else {
            tma::reduce_5d::<{ OPS[OP] }>(to, [0, 0, 0, 0, rank], tile);
        }
        tma::commit();
        tma::wait::<0>();
    }
    warp::sync();
    cluster::sync();
}

/// A launch of one instance.
macro_rules! boxes_of {
    ($rank:literal, $op:literal) => {
        |device, from, to| {
            // SAFETY: the tensors of both maps outlive the launch, and have the instance's dimensions.
            unsafe { boxes::<$rank, $op>(device, from, to) }
        }
    };
}

type Boxes = fn(&Device, &TensorMap, &TensorMap) -> Result<()>;
type Operation = fn(u32, u32) -> u32;

#[ptx_test(seeds = 2)]
fn boxes_go_to_all_blocks_and_are_reduced(device: &Device) -> Result<()> {
    const CASES: [(usize, Operation, Boxes); 8] = [
        (1, |old, new| old + new, boxes_of!(1, 0)),
        (2, u32::min, boxes_of!(2, 1)),
        (3, u32::max, boxes_of!(3, 2)),
        (4, |old, new| old ^ new, boxes_of!(4, 3)),
        (5, |old, new| old | new, boxes_of!(5, 4)),
        (1, |old, new| old & new, boxes_of!(1, 5)),
        (2, |old, new| if old >= new { 0 } else { old + 1 }, boxes_of!(2, 6)),
        (3, |old, new| if old == 0 || old > new { new } else { old - 1 }, boxes_of!(3, 7)),
    ];
    let (old, new): (Vec<u32>, Vec<u32>) = (0..64).map(|i| (i * 29 % 41, i * 17 % 53)).unzip();
    for (rank, operation, launch) in CASES {
        // 64 words, in two halves along the outermost dimension.
        let shape: &[usize] = [&[64][..], &[2, 32], &[2, 4, 8], &[2, 2, 4, 4], &[2, 2, 2, 2, 4]][rank - 1];
        let mut tile = shape.to_vec();
        tile[0] /= 2;
        let (from, to) = (device.upload(&new)?, device.upload(&old)?);
        let map = |memory: &Buffer<u32>| TensorMap::of(device, memory, shape)?.tile(&tile).build();
        launch(device, &map(&from)?, &map(&to)?)?;
        let expected = (0..64).map(|i| operation(old[i], new[32 + i % 32])).collect::<Vec<_>>();
        assert_eq!(to.download()?, expected, "{rank} dimensions");
    }
    Ok(())
}

/// A ring of two stages: 32 threads fill it by `cp.async`, 32 threads sum what comes.
#[ptx_kernel(arch = "sm_90", block = 64, grid = 1, unsafe(requires(x.len() >= rounds * 128, out.len() >= 32)))]
pub fn ring(x: &[u32], out: &mut [u32], rounds: u32) {
    #[shared(align = 16)]
    let tiles: [u32; 256];
    #[shared]
    let barriers: pipeline::Barriers<2>;
    let mut ring = pipeline::Pipeline::new(barriers);
    let mut round: u32 = 0;
    if tid.x == 0 {
        barriers.init::<32, 1>();
    }
    barrier::sync::<64>(1);
    let lane: u32 = tid.x & 31;
    let at: u32 = tiles + lane * 16;
    if tid.x < 32 {
        while round < rounds {
            ring.wait_empty();
            let (to, from): (u32, u64) = (at + ring.stage * 512, x + (wide(round) * 512 + wide(lane) * 16));
            // Four, eight and sixteen bytes, the last with nothing behind the first twelve.
            cp_async::copy::<4>(to, from);
            cp_async::copy::<8>(to + 8, from + 8);
            if lane == 31 {
                cp_async::wait_all();
                cp_async::copy16_zero(to, from, 12);
            }
            cp_async::arrive(ring.full());
            ring.advance();
            round += 1;
        }
    } else {
        let mut sum: u32 = 0;
        while round < rounds {
            ring.wait_full();
            let (mut a, mut c, mut d, from): (u32, u32, u32, u32) = (0, 0, 0, at + ring.stage * 512);
            ptx! {
                ld.shared.u32 a, [from];
                ld.shared.v2.u32 {c, d}, [from + 8];
            }
            sum += a + c + d;
            warp::sync();
            ring.release::<1>(ring.stage, lane);
            ring.advance();
            round += 1;
        }
        let to: u64 = out + wide(lane) * 4;
        ptx! { st.global.u32 [to], sum; }
    }
}

#[ptx_test]
fn a_ring_of_stages_loses_nothing(device: &Device) -> Result<()> {
    let (rounds, x): (u32, Vec<u32>) = (5, (0..640).collect());
    let mut out = device.zeros::<u32>(32)?;
    ring(device, &device.upload(&x)?, &mut out, rounds)?;
    let word = |round: usize, lane: usize, at: usize| x[128 * round + 4 * lane + at];
    let of_lane = |lane: usize| {
        (0..5)
            .map(|round| {
                word(round, lane, 0) + word(round, lane, 2) + if lane == 31 { 0 } else { word(round, lane, 3) }
            })
            .sum()
    };
    assert_eq!(out.download()?, (0..32).map(of_lane).collect::<Vec<u32>>());
    Ok(())
}

/// 128 bytes to the first pixels of a tensor of `RANK` dimensions, four channels a pixel.
#[ptx_kernel(arch = "sm_90", block = 32, grid = 1, instances = [3, 4, 5])]
pub fn pixels<const RANK: u32>(x: &[u32], to: TensorMap) {
    #[shared(align = 128)]
    let tile: [u32; 32];
    #[shared]
    let bar: u64;
    if tid.x == 0 {
        mbarrier::init(bar, 1);
        mbarrier::fence_init();
        // Bytes may be expected apart from the arrival.
        mbarrier::expect(bar, 128);
        mbarrier::arrive(bar);
        bulk::load(tile, x, 128, bar);
        loop {
            if mbarrier::test(bar, 0) {
                break;
            }
        }
        mbarrier::invalidate(bar);
        if RANK == 3 {
            tma::store_3d_im2col(to, [0, 0, 0], tile);
        } else if RANK == 4 {
            tma::store_4d_im2col(to, [0, 0, 0, 0], tile);
        } else {
            tma::store_5d_im2col(to, [0, 0, 0, 0, 0], tile);
        }
        tma::commit();
        tma::wait::<0>();
    }
}

/// A launch of one instance.
macro_rules! pixels_of {
    ($rank:literal) => {
        |device, x, to| {
            // SAFETY: the tensor of the map outlives the launch, and has the instance's dimensions; `x` has 32 words.
            unsafe { pixels::<$rank>(device, x, to) }
        }
    };
}

#[ptx_test(seeds = 2)]
fn pixels_are_stored_one_behind_the_other(device: &Device) -> Result<()> {
    type Launch = fn(&Device, &Buffer<u32>, &TensorMap) -> Result<()>;
    const CASES: [(&[usize], Launch); 3] =
        [(&[3, 5, 4], pixels_of!(3)), (&[2, 3, 3, 4], pixels_of!(4)), (&[2, 2, 2, 3, 4], pixels_of!(5))];
    let x: Vec<u32> = (1..33).collect();
    for (shape, launch) in CASES {
        let to = device.zeros::<u32>(shape.iter().product())?;
        let corner = vec![0; shape.len() - 2];
        let map = TensorMap::of(device, &to, shape)?.im2col(&corner, &corner, 4, 8).build()?;
        launch(device, &device.upload(&x)?, &map)?;
        let out = to.download()?;
        assert_eq!((&out[..32], out[32..].iter().max()), (&*x, Some(&0)), "{shape:?}");
    }
    Ok(())
}

/// Queries of kernels, and constants from them.
#[ptx_kernel(arch = "sm_90", block = 32, grid = 4, cluster = 4, unsafe(requires(out.len() >= 4)))]
pub fn sizes(out: &mut [u32]) {
    const RING: u32 = size_of::<pipeline::Barriers<3>>();
    const SINGLES: u32 = vector::widest::<f32>();
    const HALVES: u32 = vector::widest::<bf16>();
    let blocks: u32 = cluster::blocks();
    let (ring, singles, halves): (u32, u32, u32) = (RING, SINGLES, HALVES);
    if cluster::rank() == 3 {
        ptx! { st.global.v4.u32 [out], {blocks, ring, singles, halves}; }
    }
}

#[ptx_test(seeds = 1)]
fn sizes_are_known(device: &Device) -> Result<()> {
    let mut out = device.zeros::<u32>(4)?;
    sizes(device, &mut out)?;
    assert_eq!(out.download()?, [4, 48, 4, 8]);
    Ok(())
}

/// Tiles of shared memory whose type makes the tensor map.
#[ptx_kernel(arch = "sm_90", block = 64, grid = (N / 32, M / 16), unsafe(requires(M % 16 == 0, N % 32 == 0)))]
pub fn doubled(
    #[tma(tile = swizzle::Tile128::<f32, 16>)] x: Tile<f32, (M, N)>,
    #[tma(tile = swizzle::Tile128::<f32, 16>)] y: TileMut<f32, (M, N)>,
) {
    #[shared]
    let (tile, full): (swizzle::Tile128<f32, 16>, mbarrier::Barrier);
    let (column, row): (u32, u32) = (ctaid.x * swizzle::Tile128::<f32, 16>::COLUMNS, ctaid.y * 16);
    if tid.x == 0 {
        full.init(1);
        mbarrier::fence_init();
        full.arrive_expect(swizzle::Tile128::<f32, 16>::BYTES);
        tile.load(x_map, column, row, full);
    }
    block::sync();
    full.wait(0);
    let mut r: u32 = tid.x / 32;
    while r < 16 {
        let at = tile.element(r, tid.x % 32);
        let v: f32;
        ptx! {
            ld.shared.f32   v, [at];
            add.f32         v, v, v;
            st.shared.f32   [at], v;
        }
        r += 2;
    }
    tma::fence();
    block::sync();
    if tid.x == 0 {
        tile.store(y_map, column, row);
        tma::commit();
        tma::wait_read::<0>();
    }
}

#[ptx_test(seeds = 2)]
fn a_tile_has_its_map_from_its_type(device: &Device) -> Result<()> {
    let shape = [32, 64];
    let x: Vec<f32> = (0..32 * 64).map(|i| i as f32).collect();
    let device_x = device.upload(&x)?;
    let mut y = device.zeros::<f32>(x.len())?;
    doubled(device, device_x.tile(shape)?, y.tile_mut(shape)?)?;
    assert_eq!(y.download()?, x.iter().map(|x| 2.0 * x).collect::<Vec<_>>());
    Ok(())
}
