//! The element types of attention, and the instances of the kernels for each.

use super::forward::kernels::forward;
use super::options::Attention;
use super::problem::Problem;
use half::{bf16, f16};
use ptx_launch::{Result, StreamRef, TensorMut, TensorRef};

/// The element types: `bf16` and `f16`.
pub trait Element: Kernels {}

impl Element for bf16 {}
impl Element for f16 {}

/// The launches of one type.
pub trait Kernels: Copy + 'static {
    #[doc(hidden)]
    fn forward(
        stream: StreamRef<'_>,
        options: &Attention<'_, Self>,
        inputs: [TensorRef<'_, Self, 4>; 3],
        out: TensorMut<'_, Self, 4>,
        lse: Option<TensorMut<'_, f32, 3>>,
        problem: Problem,
    ) -> Result<()>;
}

macro_rules! kernels {
    ($($ty:ty)*) => { $(
        impl Kernels for $ty {
            fn forward(
                stream: StreamRef<'_>,
                options: &Attention<'_, Self>,
                [q, k, v]: [TensorRef<'_, Self, 4>; 3],
                mut out: TensorMut<'_, Self, 4>,
                mut lse: Option<TensorMut<'_, f32, 3>>,
                problem: Problem,
            ) -> Result<()> {
                let starts = options.lengths.as_ref();
                let (starts_q, starts_k) = (starts.map(|s| &s.starts_q), starts.map(|s| &s.starts_k));
                let instance = forward_instance(&problem);
                forward::launch(
                    instance, stream, &q, &k, &v, options.bias.as_ref(), starts_q, starts_k, &mut out, lse.as_mut(), problem,
                )
            }
        }
    )* };
}
kernels! { bf16 f16 }

/// The smallest instance that holds the rows; the rest of its columns is zero.
fn forward_instance(problem: &Problem) -> forward::Instance {
    match problem.dims() {
        (..=64, ..=64) => forward::Instance::d64,
        (..=96, ..=96) => forward::Instance::d96,
        (..=128, ..=128) => forward::Instance::d128,
        (..=192, ..=128) => forward::Instance::d192,
        _ => forward::Instance::d256,
    }
}
