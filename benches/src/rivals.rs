//! The libraries that kernels are measured by, in this process. Each is looked for when it is asked for; a machine without it
//! has no such rival. Besides ptx-runtime this is the one place with `unsafe`: it calls C. What can only be had from Python or
//! C++ (torch.compile, pyptx, CUTLASS) is a companion: `companion.py`, `cutlass.cu`.

pub mod cublas;
pub mod cublaslt;
pub mod cudnn;
pub mod fa3;
pub mod flash_mla;
mod shared_library;

use ptx_launch::Result;
use ptx_launch::prelude::*;

/// Number of a library's algorithms that are timed a second time.
const FINALISTS: usize = 4;

/// Those of some ways to do the same that work, the quickest first: all are timed once, and the best ones again.
fn quickest<T>(mut ways: Vec<T>, stream: &Stream, mut launch: impl FnMut(&T) -> Result<()>) -> Vec<T> {
    for runs in [1, 3] {
        let timer = Timer::new().warm_up(1).runs(runs).batch(runs);
        let time = |way: T| timer.measure(stream, || launch(&way)).ok().map(|timing| (timing.median(), way));
        let mut timed: Vec<_> = ways.into_iter().filter_map(time).collect();
        timed.sort_by_key(|(time, _)| *time);
        ways = timed.into_iter().take(FINALISTS).map(|(_, way)| way).collect();
    }
    ways
}

/// A type of operands, under the names of the libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// bf16
    Bf16,
    /// f16
    F16,
    /// 8 bits, 4 of them the exponent's.
    E4m3,
    /// f32, cut to 11 significant bits
    Tf32,
    /// i8
    I8,
}
