//! The kernels for 8-bit floats, which `mma.sync` has from `sm_89` on.

use super::multiply;
use crate::float8::E5m2 as e5m2;
use crate::gemm::instance::{Family, Instance, Submit, rows};
use crate::gemm::params::{E4M3, E5M2, Epilogue, Matrix, Output, Problem, Source, Vector};
use kernels::mma;
use ptx_launch::prelude::{e4m3, ptx_module};
use std::fmt::Debug;

/// The kernels for `sm_89`.
#[ptx_module(
    arch = "sm_89",
    params(Source, Matrix, Vector, Epilogue, Output, Problem),
    parts(multiply::multiply, crate::gemm::codes::codes, crate::gemm::epilogue::epilogue)
)]
#[allow(dead_code, unreachable_pub, reason = "modules share one set of names")]
pub(crate) mod kernels {
    use super::{Epilogue, Matrix, Output, Problem, Source, Vector, e5m2};

    /// Floats of 8 bits. Eight warps: `sm_90` multiplies them as `f16`, and needs registers for that. The grid is (tiles, parts of K, batches).
    #[ptx_kernel(
        block = C.threads(),
        grid = p.grid_of_tiles(),
        shared = C.bytes(),
        min_blocks = 256 / C.threads(),
        instances = [
            m128n128k64_1x1_kk = ([e4m3, e5m2], Config::new([128, 128], [64, 32], 4, KK, 1)),
            m64n64k64_1x1_kk = ([e4m3, e5m2], Config::new([64, 64], [32, 32], 4, KK, 1)),
            m16n64k64_1x1_kk = ([e4m3, e5m2], Config::new([16, 64], [16, 16], 6, KK, 1))
        ],
        requires(p.has_tiles(C.tile), p.k_split % C.depth() == 0)
    )]
    pub fn mma<T, const C: Config>(a: Source, b: Source, out: Output, p: Problem) {
        #[shared(dynamic, align = 128)]
        let ring: [u8];
        multiply_block::<T, C>(&a, &b, &out, &p, ring);
    }
}

/// The rows of the kernels.
pub(super) fn instances() -> impl Iterator<Item = Instance> {
    rows!(
        mma: [e4m3] E4M3, [e5m2] E5M2;
        row { |_, call, _| let (p, problem) = (call.product, call.problem()); }
        (call.stream, p.a, p.b, p.output(), problem)
    )
}

fn row(ident: &dyn Debug, kind: u32, config: &kernels::Config, submit: Submit) -> Instance {
    let axes = super::axes(config.tile, config.depth(), config.majors);
    Instance::new(ident, (Family::Mma, 89), (kind, None), axes, submit)
}
