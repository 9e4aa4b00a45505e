//! Matrix products on the ordinary units, for every target from `sm_75` on: any type, any stride, any alignment. `f32` is exact but for the
//! rounding of each `fma`; 8-bit integers are exact. The grid of each kernel is (tiles, parts of K, batches).
#![allow(unsafe_code, reason = "kernels take addresses, which `Gemm::run` has checked and bound")]

mod rows;
mod runs;
mod tiles;

use super::instance::{Axes, Family, Instance, Submit, rows};
use super::params::{BF16, E4M3, E5M2, Epilogue, F16, F32, I8, Matrix, Output, Problem, Source, TF32, Vector};
use super::problem::size;
use crate::float8::E5m2 as e5m2;
use kernels::{rows as few_rows, runs as long_runs, runs_small as short_runs, simt};
use ptx_launch::prelude::{bf16, e4m3, f16, ptx_module};
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
        grid = p.grid_of_tiles(),
        min_blocks = 8 / C.micro,
        instances = [
            m128n128k16_1x1_xx = (f32, Square::new(128, 8)),
            m64n64k16_1x1_xx = ([f32, f16, bf16, e4m3, e5m2, i8], Square::new(64, 4))
        ],
        requires(
            p.has_tiles([C.block, C.block]),
            a.is_aligned(size_of::<T>()),
            b.is_aligned(size_of::<T>()),
            out.epilogue.kind < I32 || size_of::<T>() == 1,
            out.is_aligned(WORDS, WIDE)
        ),
        addresses(
            a.at = [u8; a.bytes(p.m, p, size_of::<T>())],
            b.at = [u8; b.bytes(p.n, p, size_of::<T>())],
            p.partial = [u8; p.stored_bytes()],
            out.c.at = [u8; out.c_bytes(p, WORDS)],
            out.residual.at = [u8; out.residual_bytes(p, WORDS, RESIDUAL)],
            out.epilogue.scale_rows.at = [u8; out.scale_rows_bytes(p, SCALE_ROWS)],
            out.epilogue.scale_columns.at = [u8; out.scale_columns_bytes(p, SCALE_COLUMNS)],
            out.epilogue.bias_rows.at = [u8; out.bias_rows_bytes(p, WORDS, BIAS_ROWS)],
            out.epilogue.bias_columns.at = [u8; out.bias_columns_bytes(p, WORDS, BIAS_COLUMNS)]
        )
    )]
    pub fn simt<T, const C: Square>(a: Source, b: Source, out: Output, p: Problem) {
        #[shared(align = 16)]
        let memory: [b32; C.words()];
        multiply_tile::<T, C>(&a, &b, &out, &p, memory);
    }

    /// Four rows of C, by four columns or 32: operands go from memory to registers once, at any alignment. The threads of a block share K.
    #[ptx_kernel(
        block = C.threads,
        grid = p.grid_of_tiles(),
        min_blocks = 1024 / C.threads,
        instances = [
            m4n4k512_1x1_xk = ([f32, f16, bf16, e4m3, e5m2, i8], Rows::along_k(512)),
            m4n4k128_1x1_xk = ([f32, f16, bf16, e4m3, e5m2, i8], Rows::along_k(128)),
            m4n32k64_1x1_xn = ([f32, f16, bf16, e4m3, e5m2, i8], Rows::along_n(512)),
            m4n32k16_1x1_xn = ([f32, f16, bf16, e4m3, e5m2, i8], Rows::along_n(128))
        ],
        requires(
            p.has_tiles(C.tile()),
            a.is_aligned(size_of::<T>()),
            b.is_aligned(size_of::<T>()),
            out.epilogue.kind < I32 || size_of::<T>() == 1,
            out.is_aligned(WORDS, WIDE),
            out.parts_c(p, WORDS)
        ),
        addresses(
            a.at = [u8; a.bytes(p.m, p, size_of::<T>())],
            b.at = [u8; b.bytes(p.n, p, size_of::<T>())],
            p.partial = [u8; p.stored_bytes()],
            out.c.at = [u8; out.c_bytes(p, WORDS)],
            out.residual.at = [u8; out.residual_bytes(p, WORDS, RESIDUAL)],
            out.epilogue.scale_rows.at = [u8; out.scale_rows_bytes(p, SCALE_ROWS)],
            out.epilogue.scale_columns.at = [u8; out.scale_columns_bytes(p, SCALE_COLUMNS)],
            out.epilogue.bias_rows.at = [u8; out.bias_rows_bytes(p, WORDS, BIAS_ROWS)],
            out.epilogue.bias_columns.at = [u8; out.bias_columns_bytes(p, WORDS, BIAS_COLUMNS)]
        )
    )]
    pub fn rows<T, const C: Rows>(a: Source, b: Source, out: Output, p: Problem) {
        #[shared(align = 16)]
        let memory: [b32; C.words()];
        multiply_rows::<T, C>(&a, &b, &out, &p, memory);
    }

    /// The same, by runs of 16 bytes of operands that both lie along K.
    #[ptx_kernel(
        block = C.threads,
        grid = p.grid_of_tiles(),
        min_blocks = 1024 / C.threads,
        instances = [
            m4n4k2048_1x1_kk = (f32, Rows::along_k(512)),
            m4n4k4096_1x1_kk = ([f16, bf16], Rows::along_k(512)),
            m4n4k8192_1x1_kk = (i8, Rows::along_k(512))
        ],
        requires(
            p.has_tiles(C.tile()),
            p.k_split % 16 == 0,
            a.has_runs(0, size_of::<T>(), p.has(A_WIDE)),
            b.has_runs(0, size_of::<T>(), p.has(B_WIDE)),
            out.epilogue.kind < I32 || size_of::<T>() == 1,
            out.is_aligned(WORDS, WIDE),
            out.parts_c(p, WORDS)
        ),
        addresses(
            a.at = [u8; a.bytes(p.m, p, size_of::<T>())],
            b.at = [u8; b.bytes(p.n, p, size_of::<T>())],
            p.partial = [u8; p.stored_bytes()],
            out.c.at = [u8; out.c_bytes(p, WORDS)],
            out.residual.at = [u8; out.residual_bytes(p, WORDS, RESIDUAL)],
            out.epilogue.scale_rows.at = [u8; out.scale_rows_bytes(p, SCALE_ROWS)],
            out.epilogue.scale_columns.at = [u8; out.scale_columns_bytes(p, SCALE_COLUMNS)],
            out.epilogue.bias_rows.at = [u8; out.bias_rows_bytes(p, WORDS, BIAS_ROWS)],
            out.epilogue.bias_columns.at = [u8; out.bias_columns_bytes(p, WORDS, BIAS_COLUMNS)]
        )
    )]
    pub fn runs<T, const C: Rows>(a: Source, b: Source, out: Output, p: Problem) {
        #[shared(align = 16)]
        let memory: [b32; C.words()];
        multiply_runs::<T, C>(&a, &b, &out, &p, memory);
    }

    /// The same with fewer threads. It is a kernel of its own, since names of instances do not have the threads: `m4n4k2048_1x1_kk` is `i8` here.
    #[ptx_kernel(
        block = C.threads,
        grid = p.grid_of_tiles(),
        min_blocks = 1024 / C.threads,
        instances = [
            m4n4k512_1x1_kk = (f32, Rows::along_k(128)),
            m4n4k1024_1x1_kk = ([f16, bf16], Rows::along_k(128)),
            m4n4k2048_1x1_kk = (i8, Rows::along_k(128))
        ],
        requires(
            p.has_tiles(C.tile()),
            p.k_split % 16 == 0,
            a.has_runs(0, size_of::<T>(), p.has(A_WIDE)),
            b.has_runs(0, size_of::<T>(), p.has(B_WIDE)),
            out.epilogue.kind < I32 || size_of::<T>() == 1,
            out.is_aligned(WORDS, WIDE),
            out.parts_c(p, WORDS)
        ),
        addresses(
            a.at = [u8; a.bytes(p.m, p, size_of::<T>())],
            b.at = [u8; b.bytes(p.n, p, size_of::<T>())],
            p.partial = [u8; p.stored_bytes()],
            out.c.at = [u8; out.c_bytes(p, WORDS)],
            out.residual.at = [u8; out.residual_bytes(p, WORDS, RESIDUAL)],
            out.epilogue.scale_rows.at = [u8; out.scale_rows_bytes(p, SCALE_ROWS)],
            out.epilogue.scale_columns.at = [u8; out.scale_columns_bytes(p, SCALE_COLUMNS)],
            out.epilogue.bias_rows.at = [u8; out.bias_rows_bytes(p, WORDS, BIAS_ROWS)],
            out.epilogue.bias_columns.at = [u8; out.bias_columns_bytes(p, WORDS, BIAS_COLUMNS)]
        )
    )]
    pub fn runs_small<T, const C: Rows>(a: Source, b: Source, out: Output, p: Problem) {
        #[shared(align = 16)]
        let memory: [b32; C.words()];
        multiply_runs::<T, C>(&a, &b, &out, &p, memory);
    }
}

/// The rows of all kernels. Exact products of `f32` do for `tf32`.
pub(super) fn instances() -> impl Iterator<Item = Instance> {
    let tiles = rows!(
        simt: [f32] F32, [f32] TF32, [f16] F16, [bf16] BF16, [e4m3] E4M3, [e5m2] E5M2, [i8] I8;
        row_of_tiles { |_, call, _| let (p, problem) = (call.product, call.problem()); }
        (call.stream, p.a, p.b, p.output(), problem)
    );
    let few = rows!(
        few_rows: [f32] F32, [f32] TF32, [f16] F16, [bf16] BF16, [e4m3] E4M3, [e5m2] E5M2, [i8] I8;
        row_of_elements { |_, call, _| let (p, problem) = (call.product, call.problem()); }
        (call.stream, p.a, p.b, p.output(), problem)
    );
    let long = rows!(
        long_runs: [f32] F32, [f32] TF32, [f16] F16, [bf16] BF16, [i8] I8;
        row_of_runs { |_, call, _| let [a, b] = call.runs([0; 2]); }
        (call.stream, a, b, call.product.output(), call.problem())
    );
    let short = rows!(
        short_runs: [f32] F32, [f32] TF32, [f16] F16, [bf16] BF16, [i8] I8;
        row_of_runs { |_, call, _| let [a, b] = call.runs([0; 2]); }
        (call.stream, a, b, call.product.output(), call.problem())
    );
    tiles.chain(few).chain(long).chain(short)
}

/// The row of an instance.
fn row(
    ident: &dyn Debug,
    family: Family,
    kind: u32,
    axes: ([u32; 2], u32, [Option<bool>; 2]),
    submit: Submit,
) -> Instance {
    let (tile, depth, majors) = axes;
    Instance::new(
        ident,
        (family, 75),
        (kind, None),
        Axes { tile, depth, cluster: [1; 2], raster: [0; 2], majors },
        submit,
    )
}

fn row_of_tiles(ident: &dyn Debug, kind: u32, config: &kernels::Square, submit: Submit) -> Instance {
    row(ident, Family::Simt, kind, ([config.block; 2], kernels::DEPTH, [None; 2]), submit)
}

fn row_of_elements(ident: &dyn Debug, kind: u32, config: &kernels::Rows, submit: Submit) -> Instance {
    let along_k = config.along_k == 1;
    let (columns, depth) = if along_k { (4, config.threads) } else { (32, config.threads / 8) };
    row(ident, Family::Rows, kind, ([4, columns], depth, [None, Some(along_k)]), submit)
}

fn row_of_runs(ident: &dyn Debug, kind: u32, config: &kernels::Rows, submit: Submit) -> Instance {
    row(ident, Family::Runs, kind, ([4; 2], config.threads * 16 / size(kind) as u32, [Some(true); 2]), submit)
}
