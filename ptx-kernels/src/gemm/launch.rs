//! The launches of one product: its kernel, and where blocks share K the sum of their parts.
#![allow(unsafe_code, reason = "kernels take addresses, which `Gemm::run` has checked and bound")]

use super::params::{self, Problem};
use super::parts::kernels::reduce;
use super::plan::{self, Plan};
use super::problem::{self, Product};
use crate::workspace::{self, Workspace};
use ptx_launch::{Config, Result, StreamRef, WriteSlice};

/// The most batches of one launch: blocks along z.
const BATCHES: usize = 65_535;

/// Threads of a block of `reduce`.
const REDUCE: u64 = 256;

/// Submits a product whose memory is bound to `stream`. Takes this algorithm, or else the best one.
pub(super) fn submit(
    stream: StreamRef<'_>,
    product: Product,
    given: Option<&mut Workspace>,
    algorithm: Option<(&str, u32)>,
) -> Result<()> {
    if product.m == 0 || product.n == 0 || product.batches == 0 {
        return Ok(());
    }
    let (device, available) = (stream.properties()?, workspace::available(given.as_deref()));
    let first = Product { batches: product.batches.min(BATCHES), ..product };
    let plan = match algorithm {
        Some((name, splits)) => plan::named(&first, device, available, name, splits)?,
        None => plan::pick(&first, device, available)?,
    };
    if plan.bytes == 0 {
        return submit_all(stream, &product, &plan, 0);
    }
    workspace::with(stream, given, plan.bytes, |workspace| {
        let mut scratch = workspace.scratch();
        let bound = scratch.bind(stream)?;
        submit_all(stream, &product, &plan, bound.address())
    })
}

/// All batches, as many at a time as a grid has.
fn submit_all(stream: StreamRef<'_>, product: &Product, plan: &Plan, scratch: u64) -> Result<()> {
    let mut start = 0;
    while start < product.batches {
        let part = product.batch_range(start, (product.batches - start).min(BATCHES));
        submit_part(stream, &part, plan, scratch)?;
        start += part.batches;
    }
    Ok(())
}

fn submit_part(stream: StreamRef<'_>, product: &Product, plan: &Plan, scratch: u64) -> Result<()> {
    let [tiles_m, tiles_n] = plan.tiles(product);
    let flag = |there: bool, flag: u32| if there { flag } else { 0 };
    let layouts = flag(product.a.is_along_k(product.m, product.k), params::A_ALONG_K)
        | flag(product.b.is_along_k(product.n, product.k), params::B_ALONG_K);
    let problem = Problem {
        m: product.m,
        n: product.n,
        k: product.k,
        flags: layouts,
        tiles_m,
        tiles_n,
        splits: plan.splits,
        k_split: plan.k_split,
        partial: scratch,
        batches: product.batches as u32,
        pitch: problem::pitch(product.n),
    };
    let tiles = u64::from(tiles_m) * u64::from(tiles_n);
    let config = Config::grid((tiles, plan.splits, problem.batches));
    (plan.candidate.launch)(stream, config, product, problem)?;
    if plan.splits > 1 { add_parts(stream, product, problem) } else { Ok(()) }
}

/// Adds the parts of K up, and finishes them.
fn add_parts(stream: StreamRef<'_>, product: &Product, problem: Problem) -> Result<()> {
    let runs = u64::from(problem.m) * u64::from(problem.pitch / 4);
    let config = Config::grid((runs.div_ceil(REDUCE), 1, problem.batches));
    let instance = if product.kind == params::I8 { reduce::Instance::integer } else { reduce::Instance::float };
    let Product { c, residual, epilogue, .. } = *product;
    // SAFETY: C and the residual are bound to the stream, and have elements for all rows, columns and batches; `partial` has the
    // bytes that the plan asked for, and the stream's next operation that writes them runs later.
    unsafe { reduce::launch(instance, stream, config, c, residual, epilogue, problem) }
}
