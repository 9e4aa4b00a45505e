//! The reduction of a product whose blocks share K (split-K): the kernel adds the partial sums, and runs the epilogue. For every target from `sm_75` on.
#![allow(unsafe_code, reason = "kernels take addresses, which `Gemm::run` has checked and bound")]

use super::params::{Epilogue, Matrix, Output, Problem, Source, Vector};
use ptx_launch::prelude::ptx_module;

/// The kernel.
#[ptx_module(
    arch = "sm_75",
    params(Source, Matrix, Vector, Epilogue, Output, Problem),
    parts(super::codes::codes, super::epilogue::epilogue)
)]
#[allow(dead_code, unreachable_pub, reason = "modules share one set of names")]
pub(crate) mod kernels {
    use super::{Epilogue, Matrix, Output, Problem, Vector};

    /// Threads of a block.
    pub const THREADS: u32 = 256;

    /// Types that a kernel is made for.
    #[derive(Clone, Copy, Debug)]
    pub struct Config {
        /// 1 if sums are `i32`.
        pub integer: u32,
    }

    /// Adds the sums of the parts of K up, in order, and finishes them: four neighbors of a row each thread.
    #[ptx_kernel(
        block = THREADS,
        grid = p.grid_of_runs(THREADS),
        instances = [float = (Config { integer: 0 }), integer = (Config { integer: 1 })],
        requires(
            p.has_partials(),
            out.epilogue.kind < I32 + C.integer,
            out.is_aligned(WORDS, WIDE),
            out.parts_c(p, WORDS)
        ),
        addresses(
            p.partial = [u128; p.partial_runs()],
            out.c.at = [u8; out.c_bytes(p, WORDS)],
            out.residual.at = [u8; out.residual_bytes(p, WORDS, RESIDUAL)],
            out.epilogue.scale_rows.at = [u8; out.scale_rows_bytes(p, SCALE_ROWS)],
            out.epilogue.scale_columns.at = [u8; out.scale_columns_bytes(p, SCALE_COLUMNS)],
            out.epilogue.bias_rows.at = [u8; out.bias_rows_bytes(p, WORDS, BIAS_ROWS)],
            out.epilogue.bias_columns.at = [u8; out.bias_columns_bytes(p, WORDS, BIAS_COLUMNS)]
        )
    )]
    pub fn reduce<const C: Config>(out: Output, p: Problem) {
        let runs: u32 = p.pitch / 4;
        let index: u32 = ctaid.x * THREADS + tid.x;
        let row: u32 = index / runs;
        let place = Place { row, column: (index - row * runs) * 4, batch: ctaid.z, split: 0 };
        if row >= p.m {
            return;
        }
        let matrix: u64 = wide(p.m) * p.pitch * 4;
        let step: u64 = matrix * (p.batches as u64);
        let mut from: u64 = p.partial + matrix * (place.batch as u64) + (wide(row) * p.pitch + place.column as u64) * 4;
        let sums: [b32; 4];
        ptx! { ld.global.v4.b32 {sums[..]}, [from]; }
        let mut left: u32 = p.splits - 1;
        while left > 0 {
            let more: [b32; 4];
            from += step;
            ptx! { ld.global.v4.b32 {more[..]}, [from]; }
            for i in 0..4 {
                if C.integer == 1 {
                    ptx! { add.s32 sums[i], sums[i], more[i]; }
                } else {
                    ptx! { add.rn.f32 sums[i], sums[i], more[i]; }
                }
            }
            left -= 1;
        }
        if place.column < p.n {
            write_out::<{ C.integer }>(&sums, &place, &out, &p);
        }
    }
}
