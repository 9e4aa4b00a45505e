//! Every helper of `tcgen05`, for one block and for a pair: the text that they make is PTX.
use libtest_mimic::Trial;
use ptx_launch::prelude::*;

pub fn trials() -> Vec<Trial> {
    vec![
        super::passes!(descriptors_are_constants),
        super::assembles("tcgen05 alone::PTX", alone::PTX),
        super::assembles("tcgen05 together::PTX", together::PTX),
    ]
}

/// All of them for one block.
#[ptx_kernel(arch = "sm_100a", block = 128, grid = 1)]
pub fn alone(out: &mut [u32]) {
    #[shared]
    let bar: u64;
    #[shared]
    let barriers: pipeline::Barriers<2>;
    #[shared]
    let slot: u32;
    #[shared(align = 1024)]
    let matrix: [u8; 16384];
    mbarrier::init(bar, 2);
    barriers.init::<1, 1>();
    tcgen05::alloc::<1, 64>(slot);
    tcgen05::relinquish::<1>();
    let taddr: u32 = tcgen05::quarter(tcgen05::address(slot));
    let (a, b): (u64, u64) = (tcgen05::descriptor_k128(matrix), tcgen05::descriptor_mn128::<2048>(matrix));
    let plain: u64 = tcgen05::descriptor::<128, 256, 0>(matrix);
    const HALVES: u32 = tcgen05::idesc(tcgen05::BF16, tcgen05::F16, tcgen05::SUM_F32, 128, 64) | tcgen05::MN_MAJOR_B;
    const BYTES: u32 = tcgen05::idesc_scaled(tcgen05::E4M3, tcgen05::E2M1, 1, 128, 64);
    tcgen05::mma::<1, "kind::f16">(taddr, a, b, HALVES, false);
    tcgen05::mma::<1, "kind::i8">(
        taddr,
        a,
        b,
        tcgen05::idesc(tcgen05::S8, tcgen05::U8, tcgen05::SUM_S32, 128, 64),
        false,
    );
    tcgen05::mma_tensor::<1, "kind::tf32">(
        taddr,
        taddr,
        b,
        tcgen05::idesc(tcgen05::TF32, tcgen05::TF32, tcgen05::SUM_F32, 128, 64) | tcgen05::NEGATE_A,
        true,
    );
    tcgen05::mma_scaled::<1, "kind::mxf8f6f4", "block32">(taddr, a, b, BYTES, [taddr + 8, taddr + 12], true);
    let mut accumulate: pred = false;
    tcgen05::mma_row128::<1, "kind::f8f6f4">(taddr, a, plain, HALVES, &mut accumulate);
    let mut ring = pipeline::Pipeline::new(barriers);
    tcgen05::multiply::<1, "kind::f16", 64, 16384>(taddr, a, plain, HALVES, 128, &mut ring);
    tcgen05::copy_rows::<1>(taddr, plain);
    tcgen05::copy_scales::<1>(taddr, plain);
    tcgen05::shift::<1>(taddr);
    tcgen05::commit::<1>(bar);
    tcgen05::commit_multicast::<1>(bar, 1);
    tcgen05::fence_before();
    tcgen05::fence_after();
    let values: [f32; 64] = tcgen05::load::<f32, 64>(taddr);
    tcgen05::wait_load();
    tcgen05::store(taddr, values);
    tcgen05::wait_store();
    tcgen05::store_row(matrix, tid.x & 31, tcgen05::pack::<bf16, 64>(values));
    ptx! { st.global.u32 [out], HALVES; st.global.u32 [out + 4], BYTES; }
    tcgen05::dealloc::<1, 64>(taddr);
}

/// Those that know how many blocks there are, for a pair.
#[ptx_kernel(arch = "sm_100a", block = 128, grid = 2, cluster = 2)]
pub fn together(map: TensorMap) {
    #[shared]
    let bar: u64;
    #[shared]
    let slot: u32;
    #[shared(align = 1024)]
    let matrix: [u8; 16384];
    mbarrier::init(bar, 2);
    tcgen05::alloc::<2, 128>(slot);
    tcgen05::relinquish::<2>();
    let taddr: u32 = tcgen05::address(slot);
    let a: u64 = tcgen05::descriptor_k128(matrix);
    tma::load_2d_pair(matrix, map, 0, 0, cluster::map(bar, 0));
    const SIZES: u32 = tcgen05::idesc(tcgen05::F16, tcgen05::F16, tcgen05::SUM_F16, 256, 64);
    tcgen05::mma::<2, "kind::f16">(taddr, a, a, SIZES, false);
    tcgen05::mma_tensor::<2, "kind::f16">(taddr, taddr, a, SIZES | tcgen05::NEGATE_B, false);
    tcgen05::mma_scaled::<2, "kind::mxf4nvf4", "block16">(taddr, a, a, SIZES, [taddr, taddr], false);
    tcgen05::copy_rows::<2>(taddr, a);
    tcgen05::copy_scales::<2>(taddr, a);
    tcgen05::shift::<2>(taddr);
    tcgen05::commit::<2>(bar);
    tcgen05::commit_multicast::<2>(bar, 3);
    tcgen05::commit_all::<2>(bar);
    tcgen05::dealloc::<2, 128>(taddr);
}

/// The bits that the manual gives the fields.
fn descriptors_are_constants() {
    let halves = 1 << 4 | 1 << 7 | 1 << 16 | 8 << 17 | 8 << 24;
    let bytes = 5 << 10 | 8 << 17 | 1 << 23 | 1 << 27;
    assert!(alone::PTX.contains(&format!("[%out], {halves};")), "{halves}\n{}", alone::PTX);
    assert!(alone::PTX.contains(&format!("[%out + 4], {bytes};")), "{bytes}\n{}", alone::PTX);
}
