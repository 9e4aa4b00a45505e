//! The kernels tuned for Hopper in the choice: the products that they take, and their launch.

use super::hopper::{self, Layout, Scratch};
use crate::float8::E4m3;
use crate::workspace::{self, Workspace};
use half::{bf16, f16};
use ptx_launch::{Properties, Result, StreamRef, TensorMut, TensorRef};

/// The name of these kernels among the algorithms.
pub(crate) const NAME: &str = "hopper";

/// Rows and columns below which portable kernels have the better tiles.
const FEW: usize = 128;

/// A product without options, for tuned kernels.
pub struct Job<'j, 't, T, O> {
    pub(crate) stream: StreamRef<'j>,
    pub(crate) a: TensorRef<'t, T, 2>,
    pub(crate) b: TensorRef<'t, T, 2>,
    pub(crate) c: TensorMut<'j, O, 2>,
    pub(crate) workspace: Option<&'j mut Workspace>,
    /// The caller named these kernels.
    pub(crate) named: bool,
}

/// True if the kernels run on the device: on the CPU device too, where they are named only.
pub(crate) fn run_on(device: Properties, named: bool) -> bool {
    device.capability.map_or(named, |capability| capability == 90)
}

impl<T: hopper::Operand> Job<'_, '_, T, T::Output> {
    /// The layout of the product, if it is one for these kernels.
    fn layout(&self) -> Option<Layout> {
        let [m, n] = self.c.shape();
        let layout = Layout::of(&self.a, &self.b, &self.c)?;
        let exists = hopper::variants::<T>().any(|variant| variant.layout() == layout);
        (exists && (self.named || m >= FEW && n >= FEW)).then_some(layout)
    }

    /// Submits the product; `None` if it is none for these kernels.
    fn run(self) -> Option<Result<()>> {
        let layout = self.layout()?;
        let Job { stream, a, b, c, workspace, .. } = self;
        let ([m, k], [_, n]) = (a.shape(), b.shape());
        let work = |workspace: &mut Workspace| {
            if stream.is_captured() && !workspace.has::<Scratch>() {
                return Ok(false);
            }
            let scratch = workspace.keep(|| Scratch::new(&stream.device()?))?;
            let Some((variant, order)) = hopper::pick::<T>(scratch, [m, n, k], layout) else { return Ok(false) };
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
    /// True if [`submit`](Tuned::submit) takes the product.
    #[doc(hidden)]
    fn takes(job: &mut Job<'_, '_, T, Self>) -> bool {
        let _ = job;
        false
    }

    /// Submits the product to tuned kernels; `None` if there are none for it.
    #[doc(hidden)]
    fn submit(job: Job<'_, '_, T, Self>) -> Option<Result<()>> {
        let _ = job;
        None
    }
}

macro_rules! tuned {
    ($($t:ty => $o:ty;)*) => { $(
        impl Tuned<$t> for $o {
            fn takes(job: &mut Job<'_, '_, $t, $o>) -> bool {
                job.layout().is_some()
            }

            fn submit(job: Job<'_, '_, $t, $o>) -> Option<Result<()>> {
                job.run()
            }
        }
    )* };
}
tuned! {
    bf16 => bf16;
    f16 => f16;
}

impl<'t> Job<'_, 't, E4m3, bf16> {
    /// The same with elements as their bits, as the kernels have them.
    fn as_bits(&mut self) -> Option<Job<'_, 't, u8, bf16>> {
        let Job { stream, a, b, c, workspace, named } = self;
        let (a, b, c) = (a.cast()?, b.cast()?, TensorMut::from(c));
        Some(Job { stream: *stream, a, b, c, workspace: workspace.as_deref_mut(), named: *named })
    }
}

impl Tuned<E4m3> for bf16 {
    fn takes(job: &mut Job<'_, '_, E4m3, bf16>) -> bool {
        job.as_bits().is_some_and(|job| job.layout().is_some())
    }

    fn submit(mut job: Job<'_, '_, E4m3, bf16>) -> Option<Result<()>> {
        job.as_bits()?.run()
    }
}
