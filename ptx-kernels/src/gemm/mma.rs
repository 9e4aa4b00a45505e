//! Matrix products on tensor cores with `mma.sync`, for `sm_80` and later (8-bit floats: `sm_89`): operands in 16-byte or 4-byte runs, either of
//! them K-major or, but for 8-bit elements, MN-major. The sums go to the generic epilogue through the ring's memory.
#![allow(unsafe_code, reason = "kernels take addresses, which `Gemm::run` has checked and bound")]

pub(super) mod float8;
mod multiply;

use super::instance::{Axes, Family, Instance, Submit, rows};
use super::params::{BF16, Epilogue, F16, I8, Matrix, Output, Problem, Source, TF32, Vector};
use kernels::mma;
use ptx_launch::prelude::{bf16, f16, ptx_module};
use std::fmt::Debug;

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
        grid = p.grid_of_tiles(),
        shared = C.bytes(),
        min_blocks = 256 / C.threads(),
        instances = [
            m128n128k32_1x1_kk = ([f16, bf16], Config::new([128, 128], [64, 64], 4, KK, 2)),
            m128n128k32_1x1_kn = ([f16, bf16], Config::new([128, 128], [64, 64], 4, KN, 2)),
            m128n128k32_1x1_mk = ([f16, bf16], Config::new([128, 128], [64, 64], 4, MK, 2)),
            m128n128k32_1x1_mn = ([f16, bf16], Config::new([128, 128], [64, 64], 4, MN, 2)),
            m64n64k32_1x1_kk = ([f16, bf16], Config::new([64, 64], [32, 32], 4, KK, 2)),
            m64n64k32_1x1_kn = ([f16, bf16], Config::new([64, 64], [32, 32], 4, KN, 2)),
            m64n64k32_1x1_mk = ([f16, bf16], Config::new([64, 64], [32, 32], 4, MK, 2)),
            m64n64k32_1x1_mn = ([f16, bf16], Config::new([64, 64], [32, 32], 4, MN, 2)),
            m16n64k32_1x1_kk = ([f16, bf16], Config::new([16, 64], [16, 16], 6, KK, 2)),
            m16n64k32_1x1_kn = ([f16, bf16], Config::new([16, 64], [16, 16], 6, KN, 2)),
            m16n64k32_1x1_mk = ([f16, bf16], Config::new([16, 64], [16, 16], 6, MK, 2)),
            m16n64k32_1x1_mn = ([f16, bf16], Config::new([16, 64], [16, 16], 6, MN, 2)),
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
        ],
        requires(
            p.has_tiles(C.tile),
            p.k_split % C.depth() == 0,
            a.has_runs(C.majors[0], C.size, p.has(A_WIDE)),
            b.has_runs(C.majors[1], C.size, p.has(B_WIDE)),
            out.epilogue.kind < I32 || C.size == 1,
            out.is_aligned(WORDS, WIDE)
        ),
        addresses(
            a.at = [u8; a.bytes(p.m, p, C.size)],
            b.at = [u8; b.bytes(p.n, p, C.size)],
            p.partial = [u8; p.stored_bytes()],
            out.c.at = [u8; out.c_bytes(p, WORDS)],
            out.residual.at = [u8; out.residual_bytes(p, WORDS, RESIDUAL)],
            out.epilogue.scale_rows.at = [u8; out.scale_rows_bytes(p, SCALE_ROWS)],
            out.epilogue.scale_columns.at = [u8; out.scale_columns_bytes(p, SCALE_COLUMNS)],
            out.epilogue.bias_rows.at = [u8; out.bias_rows_bytes(p, WORDS, BIAS_ROWS)],
            out.epilogue.bias_columns.at = [u8; out.bias_columns_bytes(p, WORDS, BIAS_COLUMNS)]
        )
    )]
    pub fn mma<T, const C: Config>(a: Source, b: Source, out: Output, p: Problem) {
        #[shared(dynamic, align = 128)]
        let ring: [u8];
        multiply_block::<T, C>(&a, &b, &out, &p, ring);
    }
}

/// The rows of all kernels.
pub(super) fn instances() -> impl Iterator<Item = Instance> {
    let rows = rows!(
        mma: [bf16] BF16, [f16] F16, [f32] TF32, [i8] I8;
        row { |_, call, config| let [a, b] = call.runs(config.majors); }
        (call.stream, a, b, call.product.output(), call.problem())
    );
    rows.chain(float8::instances())
}

fn row(ident: &dyn Debug, kind: u32, config: &kernels::Config, submit: Submit) -> Instance {
    Instance::new(ident, (Family::Mma, 80), (kind, None), axes(config.tile, config.depth(), config.majors), submit)
}

/// The axes of a kernel without clusters.
fn axes(tile: [u32; 2], depth: u32, majors: [u32; 2]) -> Axes {
    Axes { tile, depth, cluster: [1; 2], raster: [0; 2], majors: majors.map(|major| Some(major == 0)) }
}
