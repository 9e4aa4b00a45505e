//! Double precision on tensor cores: `mma` of `f64`. Each warp has 32 × 32 elements of C, and reads A and B through the cache.

use ptx_examples::{Report, elements, random, timer};
use ptx_launch::prelude::*;

/// The kernel.
#[ptx_module(arch = "sm_80")]
pub mod kernels {
    /// Tiles of 8 × 8 along each side of a warp's part.
    const TILES: u32 = 4;

    /// One element of each of `TILES` fragments along M or N: 8 rows × 4 along K, row lane / 4 and place lane % 4.
    fn fragments<const LEN: u32>(from: Global<f64>, pitch: u32) -> [f64; LEN] {
        let values: [f64; LEN];
        for i in 0..LEN {
            let at = from + wide(pitch) * (64 * i);
            ptx! { ld.global.f64 values[i], [at]; }
        }
        values
    }

    /// C = A · Bᵀ, with a warp for each 32 × 32 elements.
    #[ptx_kernel(
        block = 32,
        grid = (N / 32, M / 32),
        unsafe(requires(M % 32 == 0, N % 32 == 0, K % 4 == 0, K < 1 << 20))
    )]
    pub fn gemm(a: Tile<f64, (M, K)>, b: Tile<f64, (N, K)>, #[align(16)] c: TileMut<f64, (M, N)>) {
        let (row, column): (u32, u32) = (ctaid.y * 32 + laneid / 4, ctaid.x * 32 + laneid / 4);
        let mut sums: [[[f64; 2]; TILES]; TILES] = [[[0.0; 2]; TILES]; TILES];
        let mut k: u32 = laneid % 4;
        while k < K {
            let left: [f64; TILES] = fragments::<TILES>(a.at(row, k), K);
            let right: [f64; TILES] = fragments::<TILES>(b.at(column, k), K);
            for i in 0..TILES {
                for j in 0..TILES {
                    ptx! {
                        mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64
                            {sums[i][j][..]}, {left[i]}, {right[j]}, {sums[i][j][..]};
                    }
                }
            }
            k += 4;
        }
        for i in 0..TILES {
            for j in 0..TILES {
                let to = c.at(row + 8 * i, ctaid.x * 32 + 8 * j + laneid % 4 * 2);
                ptx! { st.global.v2.f64 [to], {sums[i][j][..]}; }
            }
        }
    }
}

pub(crate) fn run(device: &Device) -> ptx_launch::Result<Report> {
    let [m, n, k] = [(4096, 64), (4096, 96), (4096, 40)].map(|(cuda, cpu)| elements(device, cuda, cpu) as usize);
    let values = |count: usize, seed| random(count as u32, seed).into_iter().map(f64::from).collect::<Vec<_>>();
    let (a, b) = (values(m * k, 61), values(n * k, 62));
    let (device_a, device_b) = (device.upload(&a)?, device.upload(&b)?);
    let mut c = device.zeros::<f64>(m * n)?;
    let stream = device.stream();
    let mut launch = || kernels::gemm(&stream, device_a.tile([m, k])?, device_b.tile([n, k])?, c.tile_mut([m, n])?);
    let time = timer(device).measure(&stream, &mut launch)?.median();
    let c = c.download()?;
    // Some elements of a large product, all of a small one.
    let step = (m * n / 4096).max(1);
    let error = (0..m * n).step_by(step).map(|at| {
        let (row, column) = (&a[at / n * k..][..k], &b[at % n * k..][..k]);
        let sum: f64 = row.iter().zip(column).map(|(a, b)| a * b).sum();
        (c[at] - sum).abs()
    });
    Ok(Report {
        name: "ampere_gemm_f64",
        device: device.name().to_owned(),
        size: format!("{m} × {n} × {k}"),
        error: error.fold(0.0, f64::max) / k as f64,
        limit: 1e-15,
        time,
        figure: ptx_examples::product::flops([m, n, k], time),
    })
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}
