//! The launches of one product: copies of operands, its kernel, and where blocks share K the sum of their parts.
#![allow(unsafe_code, reason = "kernels take addresses, which `Gemm::run` has checked and bound")]

use super::instance::{Instance, Loads};
use super::maps::Mapped;
use super::pack::pack;
use super::params::{self, Problem, Raster, Source};
use super::plan::{BATCHES, Plan};
use super::problem::{self, Product};
use super::reduce::kernels::reduce;
use super::sm90::Scratch;
use crate::workspace::{self, Workspace};
use ptx_launch::{Result, StreamRef, TensorMap, WriteSlice};

/// A launch of an instance.
pub(crate) struct Call<'c> {
    pub(crate) stream: StreamRef<'c>,
    pub(crate) product: &'c Product,
    plan: &'c Plan,
    /// The addresses of the sums of parts, and of counters.
    memory: [u64; 2],
    pub(crate) scratch: Option<&'c mut Scratch>,
}

impl Call<'_> {
    /// The extents of the product, and its division among blocks.
    pub(crate) fn problem(&self) -> Problem {
        self.plan.problem(self.product, self.memory)
    }

    /// A and B in runs along K where a major is 0, or else along the lines.
    pub(crate) fn runs(&self, majors: [u32; 2]) -> [Source; 2] {
        let Product { a, b, m, n, k, batches, kind, .. } = *self.product;
        [(a, m, majors[0]), (b, n, majors[1])]
            .map(|(source, lines, major)| source.in_runs(major == 0, [lines, k], problem::size(kind), batches))
    }

    /// The extents, and the order of tiles.
    pub(crate) fn raster(&self) -> Raster {
        let (Product { m, n, k, .. }, [band, run]) = (*self.product, self.plan.raster);
        Raster { m, n, k, band, run }
    }

    /// Clusters that run at the same time, each block on an SM.
    ///
    /// # Errors
    /// Those of the driver.
    pub(crate) fn capacity(&self) -> Result<u32> {
        Ok((self.stream.properties()?.multiprocessors / self.plan.instance.blocks()).max(1))
    }

    /// The tensor map of A (0) or B (1).
    ///
    /// # Errors
    /// Those of a tensor map.
    pub(crate) fn operand_map(&self, instance: &Instance, at: usize) -> Result<TensorMap> {
        Mapped::operand(self.product, instance, at).map(self.stream)
    }

    /// The tensor map of C, in boxes of `rows` rows.
    ///
    /// # Errors
    /// Those of a tensor map.
    pub(crate) fn result_map(&self, instance: &Instance, rows: u32) -> Result<TensorMap> {
        Mapped::result(self.product, instance, rows).map(self.stream)
    }
}

/// Submits a product whose memory is bound to `stream`, as planned.
///
/// # Errors
/// Those of a launch, and of the workspace.
pub(super) fn submit(
    stream: StreamRef<'_>,
    product: &Product,
    given: Option<&mut Workspace>,
    plan: &Plan,
) -> Result<()> {
    if plan.instance.family.has_scratch() {
        let turned = product.transposed();
        let product = if plan.is_turned { &turned } else { product };
        return workspace::with(stream, given, 0, |workspace| {
            let scratch = workspace.keep(|| Scratch::new(&stream.device()?))?;
            plan.instance.submit(Call { stream, product, plan, memory: [0; 2], scratch: Some(scratch) })
        });
    }
    if plan.bytes == 0 {
        return submit_batches(stream, product, plan, [0; 2]);
    }
    workspace::with(stream, given, plan.bytes, |workspace| {
        let (mut scratch, mut flags) = workspace.parts();
        let (scratch, flags) = (scratch.bind(stream)?, flags.bind(stream)?);
        submit_batches(stream, product, plan, [scratch.address(), flags.address()])
    })
}

/// All batches, as many at a time as a grid has, with the addresses of the workspace and of its flags.
fn submit_batches(stream: StreamRef<'_>, product: &Product, plan: &Plan, memory: [u64; 2]) -> Result<()> {
    let mut start = 0;
    while start < product.batches {
        let part = product.batch_range(start, (product.batches - start).min(BATCHES));
        submit_one(stream, &part, plan, memory)?;
        start += part.batches;
    }
    Ok(())
}

fn submit_one(stream: StreamRef<'_>, product: &Product, plan: &Plan, [scratch, counters]: [u64; 2]) -> Result<()> {
    let ([a, b], partial) = pack(stream, product, &plan.packed, scratch)?;
    let (product, memory) = (&Product { a, b, ..*product }, [partial, counters]);
    plan.instance.submit(Call { stream, product, plan, memory, scratch: None })?;
    // Persistent kernels add parts up themselves.
    if plan.splits > 1 && plan.instance.family.loads() != Loads::Tma {
        add_parts(stream, product, plan.problem(product, memory))
    } else {
        Ok(())
    }
}

/// Adds the parts of K up, and finishes them.
fn add_parts(stream: StreamRef<'_>, product: &Product, problem: Problem) -> Result<()> {
    let instance = if product.kind == params::I8 { reduce::Instance::integer } else { reduce::Instance::float };
    // SAFETY: C and what the epilogue reads are bound to the stream, and have elements for all rows, columns and batches; `partial` has the
    // bytes that the plan has counted, and the stream's next operation that writes them runs later.
    unsafe { reduce::launch(instance, stream, product.output(), problem) }
}
