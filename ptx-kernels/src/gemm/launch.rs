//! The launches of one product: copies of operands, its kernel, and where blocks share K the sum of their parts.
#![allow(unsafe_code, reason = "kernels take addresses, which `Gemm::run` has checked and bound")]

use super::choice::{self, BATCHES, Decision, Setting, first_batches};
use super::pack::pack;
use super::params::{self, Problem};
use super::parts::kernels::reduce;
use super::plan::{self, Plan};
use super::problem::{self, Product};
use super::tuned;
use crate::workspace::{self, Workspace};
use ptx_launch::{Config, Result, StreamRef, WriteSlice};

/// Threads of a block of `reduce`.
const REDUCE: u64 = 256;

/// The decision for a product: for this algorithm, or else for the one that takes the least time by the model. `is_plain` says that it has no
/// options.
///
/// # Errors
/// [`ErrorKind::Unsupported`](ptx_launch::ErrorKind::Unsupported) if the algorithm, or none, multiplies such operands on the device.
#[inline]
pub(super) fn decide(
    stream: StreamRef<'_>,
    product: &Product,
    available: usize,
    algorithm: Option<(&str, u32)>,
    is_plain: bool,
) -> Result<Decision> {
    let device = stream.properties()?;
    let Some((name, splits)) = algorithm else {
        return choice::choose(product, &Setting { device, available, is_plain });
    };
    let is_free = is_plain && !product.deterministic && tuned::run_on(device, true);
    match if is_free { tuned::layout(product) } else { None } {
        Some(layout) if name == tuned::NAME => Ok(Decision::Tuned(tuned::estimate(product, device, layout).1)),
        _ => plan::named(&first_batches(&product.oriented()), device, available, name, splits).map(Decision::Plan),
    }
}

/// Submits a product whose memory is bound to `stream`, as planned.
pub(super) fn submit(
    stream: StreamRef<'_>,
    product: &Product,
    given: Option<&mut Workspace>,
    plan: &Plan,
) -> Result<()> {
    let product = product.oriented();
    if plan.bytes == 0 {
        return submit_all(stream, &product, plan, [0; 2]);
    }
    workspace::with(stream, given, plan.bytes, |workspace| {
        let (mut scratch, mut flags) = workspace.parts();
        let (scratch, flags) = (scratch.bind(stream)?, flags.bind(stream)?);
        submit_all(stream, &product, plan, [scratch.address(), flags.address()])
    })
}

/// All batches, as many at a time as a grid has, with the addresses of the workspace and of its flags.
fn submit_all(stream: StreamRef<'_>, product: &Product, plan: &Plan, scratch: [u64; 2]) -> Result<()> {
    let mut start = 0;
    while start < product.batches {
        let part = product.batch_range(start, (product.batches - start).min(BATCHES));
        submit_part(stream, &part, plan, scratch)?;
        start += part.batches;
    }
    Ok(())
}

fn submit_part(stream: StreamRef<'_>, product: &Product, plan: &Plan, [scratch, counters]: [u64; 2]) -> Result<()> {
    let ([a, b], partial) = pack(stream, product, plan.packed(product), scratch)?;
    let product = Product { a, b, ..*product };
    let problem = Problem { counters, ..divide(&product, plan, partial) };
    (plan.candidate.launch)(stream, &product, problem)?;
    if plan.splits > 1 && plan.candidate.cluster.is_none() { add_parts(stream, &product, problem) } else { Ok(()) }
}

/// The extents of a product, and its division among blocks.
fn divide(product: &Product, plan: &Plan, partial: u64) -> Problem {
    let [tiles_m, tiles_n] = plan.tiles(product);
    let flags = [
        (params::A_ALONG_K, product.a.is_along_k(product.m, product.k)),
        (params::B_ALONG_K, product.b.is_along_k(product.n, product.k)),
        (params::A_WIDE, plan.wide()[0]),
        (params::B_WIDE, plan.wide()[1]),
    ];
    Problem {
        m: product.m,
        n: product.n,
        k: product.k,
        flags: flags.iter().filter(|(_, is)| *is).fold(0, |flags, (flag, _)| flags | flag),
        tiles_m,
        tiles_n,
        splits: plan.splits,
        k_split: plan.k_split,
        partial,
        counters: 0,
        batches: product.batches as u32,
        pitch: problem::pitch(product.n),
    }
}

/// Adds the parts of K up, and finishes them.
fn add_parts(stream: StreamRef<'_>, product: &Product, problem: Problem) -> Result<()> {
    let runs = u64::from(problem.m) * u64::from(problem.pitch / 4);
    let config = Config::grid((runs.div_ceil(REDUCE), 1, problem.batches));
    let instance = if product.kind == params::I8 { reduce::Instance::integer } else { reduce::Instance::float };
    // SAFETY: C and the residual are bound to the stream, and have elements for all rows, columns and batches; `partial` has the
    // bytes that the plan asked for, and the stream's next operation that writes them runs later.
    unsafe { reduce::launch(instance, stream, config, product.output(), problem) }
}
