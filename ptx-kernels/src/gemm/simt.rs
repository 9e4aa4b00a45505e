//! Matrix products on the ordinary units, for every target from `sm_75` on: any type, any stride, any alignment. `f32` is exact but for the
//! rounding of each `fma`; 8-bit integers are exact. The grid of each kernel is (tiles, parts of K, batches).
#![allow(unsafe_code, reason = "kernels take addresses, which `Gemm::run` has checked and bound")]

mod rows;
mod runs;
mod tiles;

use super::instance::{Axes, Family, Instance};
use super::launch::Call;
use super::params::{self, Epilogue, Matrix, Output, Problem, Source, Vector};
use super::problem::size;
use crate::float8::E5m2 as e5m2;
use ptx_launch::prelude::{bf16, e4m3, f16, ptx_module};
use ptx_launch::{KernelParam, Result};
use std::fmt::Debug;

/// The kernels.
#[ptx_module(
    arch = "sm_75",
    params(Source, Matrix, Vector, Epilogue, Output, Problem),
    parts(tiles::tiles, rows::rows, runs::runs, super::codes::codes, super::epilogue::epilogue)
)]
#[allow(dead_code, unreachable_pub, reason = "modules share one set of names")]
pub(crate) mod kernels {
    use super::{Epilogue, Matrix, Output, Problem, Source, Vector, e5m2};

    /// Tiles of operands of any layout.
    #[ptx_kernel(
        block = C.threads(),
        min_blocks = 8 / C.micro,
        instances = [
            m128n128k16_1x1_xx = (f32, Square::new(128, 8)),
            m64n64k16_1x1_xx = (f32, Square::new(64, 4)),
            m64n64k16_1x1_xx = (f16, Square::new(64, 4)),
            m64n64k16_1x1_xx = (bf16, Square::new(64, 4)),
            m64n64k16_1x1_xx = (e4m3, Square::new(64, 4)),
            m64n64k16_1x1_xx = (e5m2, Square::new(64, 4)),
            m64n64k16_1x1_xx = (i8, Square::new(64, 4))
        ]
    )]
    pub fn simt<T, const C: Square>(a: Source, b: Source, out: Output, p: Problem) {
        #[shared(align = 16)]
        let memory: [b32; C.words()];
        multiply_tile::<T, C>(&a, &b, &out, &p, memory);
    }

    /// Four rows of C, by four columns or 32: operands go from memory to registers once, at any alignment. The threads of a block share K.
    #[ptx_kernel(
        block = C.threads,
        min_blocks = 1024 / C.threads,
        instances = [
            m4n4k512_1x1_xk = (f32, Rows::along_k(512)),
            m4n4k128_1x1_xk = (f32, Rows::along_k(128)),
            m4n32k64_1x1_xn = (f32, Rows::along_n(512)),
            m4n32k16_1x1_xn = (f32, Rows::along_n(128)),
            m4n4k512_1x1_xk = (f16, Rows::along_k(512)),
            m4n4k128_1x1_xk = (f16, Rows::along_k(128)),
            m4n32k64_1x1_xn = (f16, Rows::along_n(512)),
            m4n32k16_1x1_xn = (f16, Rows::along_n(128)),
            m4n4k512_1x1_xk = (bf16, Rows::along_k(512)),
            m4n4k128_1x1_xk = (bf16, Rows::along_k(128)),
            m4n32k64_1x1_xn = (bf16, Rows::along_n(512)),
            m4n32k16_1x1_xn = (bf16, Rows::along_n(128)),
            m4n4k512_1x1_xk = (e4m3, Rows::along_k(512)),
            m4n4k128_1x1_xk = (e4m3, Rows::along_k(128)),
            m4n32k64_1x1_xn = (e4m3, Rows::along_n(512)),
            m4n32k16_1x1_xn = (e4m3, Rows::along_n(128)),
            m4n4k512_1x1_xk = (e5m2, Rows::along_k(512)),
            m4n4k128_1x1_xk = (e5m2, Rows::along_k(128)),
            m4n32k64_1x1_xn = (e5m2, Rows::along_n(512)),
            m4n32k16_1x1_xn = (e5m2, Rows::along_n(128)),
            m4n4k512_1x1_xk = (i8, Rows::along_k(512)),
            m4n4k128_1x1_xk = (i8, Rows::along_k(128)),
            m4n32k64_1x1_xn = (i8, Rows::along_n(512)),
            m4n32k16_1x1_xn = (i8, Rows::along_n(128))
        ]
    )]
    pub fn rows<T, const C: Rows>(a: Source, b: Source, out: Output, p: Problem) {
        #[shared(align = 16)]
        let memory: [b32; C.words()];
        multiply_rows::<T, C>(&a, &b, &out, &p, memory);
    }

    /// The same, by runs of 16 bytes of operands that both lie along K.
    #[ptx_kernel(
        block = 512,
        min_blocks = 2,
        instances = [
            m4n4k2048_1x1_kk = (f32),
            m4n4k4096_1x1_kk = (f16),
            m4n4k4096_1x1_kk = (bf16),
            m4n4k8192_1x1_kk = (i8)
        ]
    )]
    pub fn runs<T>(a: Source, b: Source, out: Output, p: Problem) {
        const ROWS: Rows = Rows::along_k(512);
        #[shared(align = 16)]
        let memory: [b32; ROWS.words()];
        multiply_runs::<T, ROWS>(&a, &b, &out, &p, memory);
    }

    /// The same with fewer threads.
    #[ptx_kernel(
        block = 128,
        min_blocks = 8,
        instances = [
            m4n4k512_1x1_kk = (f32),
            m4n4k1024_1x1_kk = (f16),
            m4n4k1024_1x1_kk = (bf16),
            m4n4k2048_1x1_kk = (i8)
        ]
    )]
    pub fn runs_small<T>(a: Source, b: Source, out: Output, p: Problem) {
        const ROWS: Rows = Rows::along_k(128);
        #[shared(align = 16)]
        let memory: [b32; ROWS.words()];
        multiply_runs::<T, ROWS>(&a, &b, &out, &p, memory);
    }
}

/// The rows of all kernels. Exact products of `f32` do for `tf32`.
pub(super) fn instances() -> impl Iterator<Item = Instance> {
    [params::F32, params::TF32]
        .into_iter()
        .flat_map(|kind| rows_of_all::<f32>(kind).chain(rows_of_runs::<f32>(kind)))
        .chain(rows_of_all::<f16>(params::F16).chain(rows_of_runs::<f16>(params::F16)))
        .chain(rows_of_all::<bf16>(params::BF16).chain(rows_of_runs::<bf16>(params::BF16)))
        .chain(rows_of_all::<e4m3>(params::E4M3))
        .chain(rows_of_all::<e5m2>(params::E5M2))
        .chain(rows_of_all::<i8>(params::I8).chain(rows_of_runs::<i8>(params::I8)))
}

/// The row of an instance.
fn row(
    ident: &dyn Debug,
    family: Family,
    kind: u32,
    (tile, depth, majors): ([u32; 2], u32, [Option<bool>; 2]),
    submit: impl Fn(&Instance, Call<'_>) -> Result<()> + Send + Sync + 'static,
) -> Instance {
    let axes = Axes { tile, depth, cluster: [1; 2], splits: 1, raster: [0; 2], majors };
    Instance::new(ident, (family, 75), (kind, None), axes, submit)
}

/// The instances that load elements one by one.
fn rows_of_all<T>(kind: u32) -> impl Iterator<Item = Instance>
where
    T: KernelParam,
    kernels::simt::Types<T>: kernels::simt::Exists,
    kernels::rows::Types<T>: kernels::rows::Exists,
{
    let tiles =
        <kernels::simt::Types<T> as kernels::simt::Exists>::kernels().iter().filter_map(move |(instance, _)| {
            let (_, config) = kernels::simt::INSTANCES.iter().find(|(known, _)| known == instance)?;
            Some(row(instance, Family::Simt, kind, ([config.block; 2], kernels::DEPTH, [None; 2]), |_, call| {
                let (p, problem) = (call.product, call.problem());
                // SAFETY: all memory is bound to the stream, and has elements for the extents of the problem; the workspace has the bytes that the plan
                // has counted.
                unsafe {
                    kernels::simt::launch::<T>(*instance, call.stream, problem.grid(), p.a, p.b, p.output(), problem)
                }
            }))
        });
    let few = <kernels::rows::Types<T> as kernels::rows::Exists>::kernels().iter().filter_map(move |(instance, _)| {
        let (_, config) = kernels::rows::INSTANCES.iter().find(|(known, _)| known == instance)?;
        let along_k = config.along_k == 1;
        let (columns, depth) = if along_k { (4, config.threads) } else { (32, config.threads / 8) };
        Some(row(instance, Family::Rows, kind, ([4, columns], depth, [None, Some(along_k)]), |_, call| {
            let (p, problem) = (call.product, call.problem());
            // SAFETY: as above.
            unsafe { kernels::rows::launch::<T>(*instance, call.stream, problem.grid(), p.a, p.b, p.output(), problem) }
        }))
    });
    tiles.chain(few)
}

/// The instances that load runs of 16 bytes.
fn rows_of_runs<T>(kind: u32) -> impl Iterator<Item = Instance>
where
    T: KernelParam,
    kernels::runs::Types<T>: kernels::runs::Exists,
    kernels::runs_small::Types<T>: kernels::runs_small::Exists,
{
    let axes = move |threads: u32| ([4, 4], threads * 16 / size(kind) as u32, [Some(true); 2]);
    let large = <kernels::runs::Types<T> as kernels::runs::Exists>::kernels().iter().map(move |(instance, _)| {
        row(instance, Family::Runs, kind, axes(512), |_, call| {
            let (p, problem) = (call.product, call.problem());
            // SAFETY: as above.
            unsafe { kernels::runs::launch::<T>(*instance, call.stream, problem.grid(), p.a, p.b, p.output(), problem) }
        })
    });
    let small =
        <kernels::runs_small::Types<T> as kernels::runs_small::Exists>::kernels().iter().map(move |(instance, _)| {
            row(instance, Family::Runs, kind, axes(128), |_, call| {
                let (p, problem) = (call.product, call.problem());
                // SAFETY: as above.
                unsafe {
                    kernels::runs_small::launch::<T>(
                        *instance,
                        call.stream,
                        problem.grid(),
                        p.a,
                        p.b,
                        p.output(),
                        problem,
                    )
                }
            })
        });
    large.chain(small)
}
