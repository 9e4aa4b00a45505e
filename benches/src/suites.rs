//! Every suite by its name. A suite names its kernels' sizes and rivals; how a contest is held stands in `bench`.

mod copy;
mod gemm;

use crate::bench::Bench;
use ptx_launch::Result;

/// Holds the contests of one kernel.
pub type Suite = fn(&mut Bench) -> Result<()>;

/// All of them, in the order of the table.
pub const SUITES: &[(&str, Suite)] = &[("copy f32", copy::f32), ("gemm bf16", gemm::bf16), ("gemm f16", gemm::f16)];
