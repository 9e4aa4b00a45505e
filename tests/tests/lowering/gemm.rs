//! The hardest sample: a warp-specialized, persistent-by-cluster GEMM for `sm_90a`.
use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_90a")]
pub mod gemm {
    use ptx_launch::prelude::*;

    const SHAPE: &str = "m64n256k16";
    const BM: u32 = 128;
    const BN: u32 = 256;
    const BK: u32 = 64;
    const A_BYTES: u32 = BM * BK * 2;
    const STAGE_BYTES: u32 = A_BYTES + BN * BK * 2;

    /// The next stage; the phase turns where the ring starts again.
    fn advance<const STAGES: u32>(stage: &mut u32, phase: &mut u32) {
        *stage += 1;
        if *stage == STAGES {
            *stage = 0;
            *phase ^= 1;
        }
    }

    #[ptx_kernel(block = 384, min_blocks = 1, cluster = 2, shared = 196608, instances = [(3), (4)])]
    pub fn bf16<const STAGES: u32>(a: TensorMap, b: TensorMap, c: TensorMap, tiles: &[u32], k_blocks: u32) {
        #[shared(dynamic, align = 1024)]
        let smem: [u8];
        #[shared]
        let full_bars: [u64; STAGES];
        #[shared]
        let empty_bars: [u64; STAGES];
        let (base, full, empty): (u32, u32, u32) = (smem, full_bars, empty_bars);
        let group: u32 = tid.x / 128;
        if tid.x == 0 {
            for s in 0..STAGES {
                mbarrier::init(full + 8 * s, 1);
                mbarrier::init(empty + 8 * s, 2);
            }
            mbarrier::fence_init();
        }
        cluster::sync();
        let tile: u32;
        let tile_address: u64 = tiles + wide(clusterid.x) * 4;
        ptx! { ld.global.u32 tile, [tile_address]; }
        let (mut stage, mut k): (u32, u32) = (0, 0);
        if group == 0 {
            wgmma::fewer_registers::<40>();
            if tid.x == 0 {
                let mut phase: u32 = 1;
                while k < k_blocks {
                    mbarrier::wait(empty + stage * 8, phase);
                    let bar: u32 = full + stage * 8;
                    let at: u32 = base + stage * STAGE_BYTES;
                    let x: u32 = k * BK;
                    mbarrier::arrive_expect(bar, STAGE_BYTES);
                    tma::load_2d(at, a, x, tile * BM, bar);
                    tma::load_2d(at + A_BYTES, b, x, tile * BN, bar);
                    advance::<STAGES>(&mut stage, &mut phase);
                    k += 1;
                }
            }
        } else {
            wgmma::more_registers::<232>();
            let mut phase: u32 = 0;
            let mut acc: [f32; 128] = [0.0; 128];
            let row: u32 = group - 1;
            while k < k_blocks {
                mbarrier::wait(full + stage * 8, phase);
                let at: u32 = base + stage * STAGE_BYTES;
                let a_desc: u64 = wgmma::descriptor_k128(at + row * (64 * BK * 2));
                let b_desc: u64 = wgmma::descriptor_k128(at + A_BYTES);
                wgmma::fence();
                for sub in 0..4 {
                    let (da, db): (u64, u64) = (a_desc + 2 * sub, b_desc + 2 * sub);
                    ptx! { wgmma.mma_async.sync.aligned.{SHAPE}.f32.bf16.bf16 {acc[..]}, da, db, 1, 1, 1, 0, 0; }
                }
                wgmma::commit();
                wgmma::wait::<0>();
                if tid.x % 128 == 0 {
                    mbarrier::arrive(empty + stage * 8);
                }
                advance::<STAGES>(&mut stage, &mut phase);
                k += 1;
            }
            let out: u32 = base + (tid.x - 128) * 512;
            for i in (0..128).step_by(4) {
                ptx! { st.shared.v4.f32 [out + 4 * i], {acc[i..i + 4]}; }
            }
            tma::fence();
            barrier::sync::<256>(1);
            if tid.x == 128 {
                tma::store_2d(c, tile * BN, tile * BM, base);
                tma::commit();
                tma::wait_read::<0>();
            }
        }
        cluster::sync();
    }
}
