//! Matrix products on tensor cores with `mma.sync`, for `sm_80` and later (8-bit floats: `sm_89`): operands in 16-byte or 4-byte runs, either of
//! them K-major or, but for 8-bit elements, MN-major. The sums go to the generic epilogue through the ring's memory.
#![allow(unsafe_code, reason = "kernels take addresses, which `Gemm::run` has checked and bound")]

/// The rows of the kernels of a module for a type. A module for each target has its own entries, of which these functions are alike.
macro_rules! rows {
    ($capability:literal) => {
        fn rows<T>(kind: u32) -> impl Iterator<Item = Instance>
        where
            T: KernelParam,
            mma::Types<T>: mma::Exists,
        {
            <mma::Types<T> as mma::Exists>::kernels().iter().filter_map(move |(instance, _)| {
                let (_, config) = mma::INSTANCES.iter().find(|(known, _)| known == instance)?;
                let axes = $crate::gemm::mma::axes(config.tile, 64 / config.size, config.majors);
                Some(Instance::new(instance, (Family::Mma, $capability), (kind, None), axes, |_, call| {
                    let (p, problem) = (call.product, call.problem());
                    // SAFETY: all memory is bound to the stream, and has elements for the extents of the problem; the workspace has the bytes that the plan
                    // has counted.
                    unsafe { mma::launch::<T>(*instance, call.stream, problem.grid(), p.a, p.b, p.output(), problem) }
                }))
            })
        }
    };
}

pub(super) mod float8;
mod multiply;

use super::instance::{Axes, Family, Instance};
use super::params::{self, Epilogue, Matrix, Output, Problem, Source, Vector};
use kernels::mma;
use ptx_launch::KernelParam;
use ptx_launch::prelude::{bf16, f16, ptx_module};

/// The kernels for `sm_80`.
#[ptx_module(
    arch = "sm_80",
    params(Source, Matrix, Vector, Epilogue, Output, Problem),
    parts(multiply::multiply, super::codes::codes, super::epilogue::epilogue)
)]
#[allow(dead_code, unreachable_pub, reason = "modules share one set of names")]
pub(crate) mod kernels {
    use super::{Epilogue, Matrix, Output, Problem, Source, Vector};

    /// Elements of 16 bits, of `f32` cut to `tf32`, and of `i8`. The grid is (tiles, parts of K, batches).
    #[ptx_kernel(
        block = C.threads(),
        shared = C.bytes(),
        min_blocks = 256 / C.threads(),
        instances = [
            m128n128k32_1x1_kk = (f16, Config::new([128, 128], [64, 64], 4, KK, 2)),
            m128n128k32_1x1_kk = (bf16, Config::new([128, 128], [64, 64], 4, KK, 2)),
            m128n128k32_1x1_kn = (f16, Config::new([128, 128], [64, 64], 4, KN, 2)),
            m128n128k32_1x1_kn = (bf16, Config::new([128, 128], [64, 64], 4, KN, 2)),
            m128n128k32_1x1_mk = (f16, Config::new([128, 128], [64, 64], 4, MK, 2)),
            m128n128k32_1x1_mk = (bf16, Config::new([128, 128], [64, 64], 4, MK, 2)),
            m128n128k32_1x1_mn = (f16, Config::new([128, 128], [64, 64], 4, MN, 2)),
            m128n128k32_1x1_mn = (bf16, Config::new([128, 128], [64, 64], 4, MN, 2)),
            m64n64k32_1x1_kk = (f16, Config::new([64, 64], [32, 32], 4, KK, 2)),
            m64n64k32_1x1_kk = (bf16, Config::new([64, 64], [32, 32], 4, KK, 2)),
            m64n64k32_1x1_kn = (f16, Config::new([64, 64], [32, 32], 4, KN, 2)),
            m64n64k32_1x1_kn = (bf16, Config::new([64, 64], [32, 32], 4, KN, 2)),
            m64n64k32_1x1_mk = (f16, Config::new([64, 64], [32, 32], 4, MK, 2)),
            m64n64k32_1x1_mk = (bf16, Config::new([64, 64], [32, 32], 4, MK, 2)),
            m64n64k32_1x1_mn = (f16, Config::new([64, 64], [32, 32], 4, MN, 2)),
            m64n64k32_1x1_mn = (bf16, Config::new([64, 64], [32, 32], 4, MN, 2)),
            m16n64k32_1x1_kk = (f16, Config::new([16, 64], [16, 16], 6, KK, 2)),
            m16n64k32_1x1_kk = (bf16, Config::new([16, 64], [16, 16], 6, KK, 2)),
            m16n64k32_1x1_kn = (f16, Config::new([16, 64], [16, 16], 6, KN, 2)),
            m16n64k32_1x1_kn = (bf16, Config::new([16, 64], [16, 16], 6, KN, 2)),
            m16n64k32_1x1_mk = (f16, Config::new([16, 64], [16, 16], 6, MK, 2)),
            m16n64k32_1x1_mk = (bf16, Config::new([16, 64], [16, 16], 6, MK, 2)),
            m16n64k32_1x1_mn = (f16, Config::new([16, 64], [16, 16], 6, MN, 2)),
            m16n64k32_1x1_mn = (bf16, Config::new([16, 64], [16, 16], 6, MN, 2)),
            m128n128k16_1x1_kk = (f32, Config::new([128, 128], [64, 64], 4, KK, 4)),
            m128n128k16_1x1_kn = (f32, Config::new([128, 128], [64, 64], 4, KN, 4)),
            m128n128k16_1x1_mk = (f32, Config::new([128, 128], [64, 64], 4, MK, 4)),
            m128n128k16_1x1_mn = (f32, Config::new([128, 128], [64, 64], 4, MN, 4)),
            m64n64k16_1x1_kk = (f32, Config::new([64, 64], [32, 32], 4, KK, 4)),
            m64n64k16_1x1_kn = (f32, Config::new([64, 64], [32, 32], 4, KN, 4)),
            m64n64k16_1x1_mk = (f32, Config::new([64, 64], [32, 32], 4, MK, 4)),
            m64n64k16_1x1_mn = (f32, Config::new([64, 64], [32, 32], 4, MN, 4)),
            m16n64k16_1x1_kk = (f32, Config::new([16, 64], [16, 16], 6, KK, 4)),
            m16n64k16_1x1_kn = (f32, Config::new([16, 64], [16, 16], 6, KN, 4)),
            m16n64k16_1x1_mk = (f32, Config::new([16, 64], [16, 16], 6, MK, 4)),
            m16n64k16_1x1_mn = (f32, Config::new([16, 64], [16, 16], 6, MN, 4)),
            m128n128k64_1x1_kk = (i8, Config::new([128, 128], [64, 64], 4, KK, 1)),
            m64n64k64_1x1_kk = (i8, Config::new([64, 64], [32, 32], 4, KK, 1)),
            m16n64k64_1x1_kk = (i8, Config::new([16, 64], [16, 16], 6, KK, 1))
        ]
    )]
    pub fn mma<T, const C: Config>(a: Source, b: Source, out: Output, p: Problem) {
        #[shared(dynamic, align = 128)]
        let ring: [u8];
        multiply_block::<T, C>(&a, &b, &out, &p, ring);
    }
}

/// The rows of all kernels.
pub(super) fn instances() -> impl Iterator<Item = Instance> {
    rows::<bf16>(params::BF16)
        .chain(rows::<f16>(params::F16))
        .chain(rows::<f32>(params::TF32))
        .chain(rows::<i8>(params::I8))
        .chain(float8::instances())
}

rows!(80);

/// The axes of a kernel without clusters.
fn axes(tile: [u32; 2], depth: u32, majors: [u32; 2]) -> Axes {
    let majors = majors.map(|major| Some(major == 0));
    Axes { tile, depth, cluster: [1; 2], splits: 1, raster: [0; 2], majors }
}
