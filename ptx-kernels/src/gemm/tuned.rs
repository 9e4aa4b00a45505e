//! The kernels tuned for Hopper in the choice: the products that they take, their time, and their launch.

use super::hopper::{self, Layout, Pick, Scratch};
use super::params::{self, Source};
use super::problem::{Product, size};
use super::tuning;
use crate::float8::E4m3;
use crate::workspace::{self, Workspace};
use half::{bf16, f16};
use ptx_launch::{Properties, Result, StreamRef, TensorMut, TensorRef};

/// The name of these kernels among the algorithms.
pub(crate) const NAME: &str = "hopper";

/// A product without options, for tuned kernels.
pub struct Job<'j, 't, T, O> {
    pub(crate) stream: StreamRef<'j>,
    pub(crate) a: TensorRef<'t, T, 2>,
    pub(crate) b: TensorRef<'t, T, 2>,
    pub(crate) c: TensorMut<'j, O, 2>,
    pub(crate) workspace: Option<&'j mut Workspace>,
}

/// True if the kernels run on the device: on the CPU device too, where they are named only.
#[inline]
pub(crate) fn run_on(device: Properties, named: bool) -> bool {
    device.capability.map_or(named, |capability| capability == 90)
}

/// The layouts of a product without options, if they are some for these kernels: one matrix each, dense, with rows (of transposed
/// operands: columns) of multiples of 16 bytes.
#[inline]
pub(crate) fn layout(product: &Product) -> Option<Layout> {
    let pair = matches!(
        (product.kind, product.epilogue.kind),
        (params::BF16, params::BF16) | (params::F16, params::F16) | (params::E4M3, params::BF16)
    );
    let (size, to) = (size(product.kind), size(product.epilogue.kind));
    let Product { m, n, k, c, .. } = *product;
    let rows = Source { at: c.at, line: c.row, k: c.column, batch: 0 };
    let has_rows = is_dense(&rows, m, n, to, true);
    if !pair || product.batches != 1 || !has_rows || [m, n, k].contains(&0) {
        return None;
    }
    // An operand that is dense both ways has rows: A's lie along K, and those of B, which is K x N, along N.
    let layout =
        Layout { a_k_major: major(&product.a, m, k, size, true)?, b_k_major: major(&product.b, n, k, size, false)? };
    (size > 1 || layout == Layout::K_MAJOR).then_some(layout)
}

/// True if an operand is dense along K, false if it is along its lines; as it is `preferred` if both are right.
#[inline]
fn major(source: &Source, lines: u32, k: u32, size: u64, preferred: bool) -> Option<bool> {
    if is_dense(source, lines, k, size, preferred) {
        return Some(preferred);
    }
    is_dense(source, lines, k, size, !preferred).then_some(!preferred)
}

/// True if an operand of `lines` lines is dense along K, or else along its lines, in rows of multiples of 16 bytes.
#[inline]
fn is_dense(source: &Source, lines: u32, k: u32, size: u64, k_major: bool) -> bool {
    let (inner, outer, extent, others) =
        if k_major { (source.k, source.line, k, lines) } else { (source.line, source.k, lines, k) };
    let row = u64::from(extent) * size;
    (extent == 1 || inner == size)
        && (others == 1 || outer == row)
        && row.is_multiple_of(16)
        && source.at.is_multiple_of(16)
}

/// The time of a product, about, in picoseconds, and the kernel that takes it.
#[inline]
pub(crate) fn estimate(product: &Product, device: Properties, layout: Layout) -> (f32, Pick) {
    tuning::hopper_time(product, device.multiprocessors, layout, tuning::shipped(product.kind))
}

impl<T: hopper::Operand> Job<'_, '_, T, T::Output> {
    /// Submits the product to a kernel; `None` if it is none for it, or if a capture finds no memory for it.
    fn run(self, pick: Pick) -> Option<Result<()>> {
        let Job { stream, a, b, c, workspace } = self;
        let (variant, order) = pick.variant::<T>(Layout::of(&a, &b, &c)?)?;
        let work = |workspace: &mut Workspace| {
            if stream.is_captured() && !workspace.has::<Scratch>() {
                return Ok(false);
            }
            let scratch = workspace.keep(|| Scratch::new(&stream.device()?))?;
            variant.launch(stream, (a, b, c), order, scratch).map(|()| true)
        };
        match workspace::with(stream, workspace, 0, work) {
            Ok(false) => None,
            Ok(true) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        }
    }
}

/// A result for which there may be tuned kernels.
pub trait Tuned<T>: Sized {
    /// Submits the product to a tuned kernel; `None` if there are none for it.
    #[doc(hidden)]
    fn submit(job: Job<'_, '_, T, Self>, pick: Pick) -> Option<Result<()>> {
        let _ = (job, pick);
        None
    }
}

macro_rules! tuned {
    ($($t:ty => $o:ty;)*) => { $(
        impl Tuned<$t> for $o {
            fn submit(job: Job<'_, '_, $t, $o>, pick: Pick) -> Option<Result<()>> {
                job.run(pick)
            }
        }
    )* };
}
tuned! {
    bf16 => bf16;
    f16 => f16;
}

impl Tuned<E4m3> for bf16 {
    fn submit(job: Job<'_, '_, E4m3, bf16>, pick: Pick) -> Option<Result<()>> {
        let Job { stream, a, b, c, workspace } = job;
        // The kernels have elements as their bits.
        Job::<u8, bf16> { stream, a: a.cast()?, b: b.cast()?, c, workspace }.run(pick)
    }
}
