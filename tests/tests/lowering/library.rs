//! Helpers of the library, so that changes of their text are seen; that none is left out is `prelude/every.rs`' matter.
use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_90a", block = 256, min_blocks = 1, cluster = 2)]
pub fn library(map: TensorMap, x: &[f32], n: u32, v: f32, m: u16) {
    #[shared(align = 1024)]
    let tile: [u8; 8192];
    #[shared]
    let bars: [u64; 4];
    let bar: u32 = bars;
    let at: u32 = tile;
    let s: f32 = warp::reduce_sum(v);
    let hi: f32 = warp::reduce_max(s);
    let lo: u32 = warp::reduce_min(n);
    let scan: u32 = warp::scan_sum(lo);
    let first: u32 = warp::broadcast(scan, 0);
    let p: pred = first < n;
    let mask: b32 = warp::ballot(p);
    let q: pred = warp::any(p) & warp::all(p);
    let e: pred = warp::elect();
    warp::sync();
    let total: f32 = block::reduce_sum::<8>(v) + block::reduce_max::<8>(hi);
    let before: u32 = block::scan_sum::<8>(n);
    block::sync();
    barrier::sync::<128>(1);
    barrier::arrive::<128>(2);
    let rank: u32 = cluster::rank();
    cluster::sync();
    cluster::arrive_relaxed();
    cluster::wait();
    cluster::arrive();
    cluster::wait();
    let other: u32 = cluster::map(at, rank ^ 1);
    let (eight, four): ([b32; 4], [b32; 4]) = (vector::load::<bf16, 8>(x, p, 0), vector::load_once::<f32, 4>(x, p, 0));
    let w: [f32; 8] = vector::unpack::<bf16, 8>(vector::load_shared::<bf16, 8>(x, p));
    vector::store::<bf16, 8>(x, vector::pack::<bf16, 8>(w), p);
    let (a, b): ([b32; 4], [b32; 2]) = (matrix::load_x4(at), matrix::load_x2(at));
    let (c, d): ([b32; 4], [b32; 2]) = (matrix::load_x4_transposed(at), matrix::load_x2_transposed(at));
    let mut products: [f32; 4] = [0.0; 4];
    matrix::multiply::<bf16>(&mut products, a, b);
    matrix::store_x4(at, c);
    matrix::store_x4_transposed(at, a);
    cp_async::copy16(at, x);
    cp_async::copy16_zero(at, x, n);
    cp_async::copy::<4>(at, x);
    cp_async::commit();
    cp_async::wait::<1>();
    cp_async::wait_all();
    if e {
        mbarrier::init(bar, 1);
        mbarrier::fence_init();
    }
    mbarrier::arrive(bar);
    mbarrier::arrive_expect(bar, 8192);
    mbarrier::expect(bar, 16);
    mbarrier::arrive_remote(bar, rank);
    mbarrier::wait(bar, 0);
    let t: pred = mbarrier::test(bar, 1);
    let sw: u32 = swizzle::bytes128(n) + swizzle::bytes64(n) + swizzle::bytes32(n);
    tma::prefetch(map);
    tma::load_1d(at, map, n, bar);
    tma::load_2d(at, map, n, n, bar);
    tma::load_3d(at, map, [n, n, n], bar);
    tma::load_4d(at, map, [n, n, n, 0], bar);
    tma::load_5d(at, map, [n, n, n, 0, 0], bar);
    tma::load_2d_multicast(at, map, n, n, bar, m);
    bulk::load(at, x, 16, bar);
    bulk::store(x, at, 16);
    tma::fence();
    tma::store_2d(map, n, n, at);
    tma::store_3d(map, [n, n, n], at);
    tma::load_4d_im2col(at, map, [n, n, n, n], [1, m], bar);
    tma::store_4d_im2col(map, [n, n, n, n], at);
    tma::fetch_2d(map, n, n);
    tma::reduce_2d::<"add">(map, n, n, at);
    tma::commit();
    tma::wait_read::<0>();
    tma::wait::<0>();
    let d: u64 = wgmma::descriptor_k128(at);
    let d2: u64 = wgmma::descriptor::<16, 512, 64>(at);
    wgmma::fence();
    wgmma::commit();
    wgmma::wait::<0>();
    wgmma::fewer_registers::<40>();
    wgmma::more_registers::<232>();
    mbarrier::invalidate(bar);
}
