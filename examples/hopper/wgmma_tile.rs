//! Hopper's tensor cores, the shortest way: TMA brings a step of A and B to shared memory, `wgmma` multiplies it, one step at a time. A
//! ring of stages, a producer warp and clusters make it fast (`gemm`).

use ptx_examples::{Report, random, relative_error, timer};
use ptx_launch::prelude::*;

/// The kernel.
#[ptx_module(arch = "sm_90a")]
pub mod kernels {
    /// A step along K: 64 elements, 128 bytes, of each row.
    struct Stage {
        a: swizzle::Tile128<bf16, 64>,
        b: swizzle::Tile128<bf16, 128>,
    }

    /// C = A · Bᵀ: a block of one warp group for each 64 × 128 elements.
    #[ptx_kernel(
        block = 128,
        grid = (N / 128, M / 64),
        unsafe(requires(M % 64 == 0, N % 128 == 0, K % 64 == 0, K > 0))
    )]
    pub fn tile(
        #[tma(tile = swizzle::Tile128::<bf16, 64>)] a: Tile<bf16, (M, K)>,
        #[tma(tile = swizzle::Tile128::<bf16, 128>)] b: Tile<bf16, (N, K)>,
        #[align(8)] c: TileMut<f32, (M, N)>,
    ) {
        #[shared]
        let (stage, full): (Stage, mbarrier::Barrier);
        if tid.x == 0 {
            full.init(1);
            mbarrier::fence_init();
        }
        block::sync();
        let mut acc: [f32; 64] = [0.0; 64];
        let (left, right): (u64, u64) = (stage.a.descriptor(), stage.b.descriptor());
        let (mut k, mut phase): (u32, u32) = (0, 0);
        while k < K {
            if tid.x == 0 {
                full.arrive_expect(size_of::<Stage>());
                stage.a.load(a_map, k, ctaid.y * 64, full);
                stage.b.load(b_map, k, ctaid.x * 128, full);
            }
            full.wait(phase);
            wgmma::fence();
            for step in 0..4 {
                const AT: u64 = 32 * step;
                let (x, y): (u64, u64) = (wgmma::advance::<AT>(left), wgmma::advance::<AT>(right));
                wgmma::multiply16::<bf16, 128, 0, 0, 0>(&mut acc, x, y, true);
            }
            wgmma::commit();
            wgmma::wait::<0>();
            block::sync();
            phase = phase ^ 1;
            k += 64;
        }
        let row: u32 = ctaid.y * 64 + tid.x / 32 * 16 + laneid / 4;
        let column: u32 = ctaid.x * 128 + laneid % 4 * 2;
        for j in 0..16 {
            for half in 0..2 {
                let to = c.at(row + 8 * half, column + 8 * j);
                ptx! { st.global.v2.f32 [to], {acc[4 * j + 2 * half..4 * j + 2 * half + 2]}; }
            }
        }
    }
}

pub(crate) fn run(device: &Device) -> ptx_launch::Result<Report> {
    let device = &ptx_examples::chip_or_cpu(device, (9, 0));
    let [m, n, k] = if device.is_cuda() { [4096, 4096, 4096] } else { [128, 128, 128] };
    let values = |count: usize, seed| random(count as u32, seed).into_iter().map(bf16::from_f32).collect::<Vec<_>>();
    let (a, b) = (values(m * k, 71), values(n * k, 72));
    let (device_a, device_b) = (device.upload(&a)?, device.upload(&b)?);
    let mut c = device.zeros::<f32>(m * n)?;
    let stream = device.stream();
    let mut launch = || kernels::tile(&stream, device_a.tile([m, k])?, device_b.tile([n, k])?, c.tile_mut([m, n])?);
    let time = timer(device).measure(&stream, &mut launch)?.median();
    // Some rows of a large product.
    let rows = if device.is_cuda() { 8 } else { m };
    let found = c.download()?;
    let exact = (0..rows * n).map(|at| {
        let (row, column) = (&a[at / n * k..][..k], &b[at % n * k..][..k]);
        row.iter().zip(column).map(|(a, b)| f64::from(a.to_f32()) * f64::from(b.to_f32())).sum()
    });
    Ok(Report {
        name: "hopper_wgmma_tile",
        device: device.name().to_owned(),
        size: format!("{m} × {n} × {k}"),
        error: relative_error(&found[..rows * n], exact),
        limit: 1e-5,
        time,
        figure: ptx_examples::product::flops([m, n, k], time),
    })
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}
