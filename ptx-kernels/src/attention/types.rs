//! The element types of attention, and the instances of the kernels for each.

use super::factors::Factors;
use super::forward::kernels::{self as arguments, forward};
use super::hopper;
use super::optional::{Cacheable, Differentiable};
use super::options::Attention;
use super::places::Places;
use super::problem::{Paging, Problem};
use half::{bf16, f16};
use ptx_launch::{IntoTensorMut, Result, StreamRef, TensorMut, TensorRef};

/// The element types: `bf16` and `f16`.
#[diagnostic::on_unimplemented(
    message = "attention has no kernels for elements of `{Self}`",
    label = "expected bf16 or f16"
)]
pub trait Element: Kernels + Input<Self> + Cacheable + Differentiable {}

impl Element for bf16 {}
impl Element for f16 {}

/// The elements of Q, K and V of a forward pass whose output has the type `T`: `T` itself, or [`E4m3`](crate::float8::E4m3).
#[diagnostic::on_unimplemented(
    message = "attention takes no Q, K and V of `{Self}` with an output of `{T}`",
    label = "expected bf16 or f16, with an output of the same type; the forward pass also takes E4m3"
)]
pub trait Input<T>: ptx_launch::Element {
    #[doc(hidden)]
    fn attend(
        stream: StreamRef<'_>,
        options: &Attention<'_, T>,
        inputs: [TensorRef<'_, Self, 4>; 3],
        results: Results<'_, T>,
        problem: Problem,
    ) -> Result<()>;
}

/// The results of a forward pass. The output alone becomes one without logarithms.
#[derive(Debug)]
pub struct Results<'a, T> {
    /// O.
    pub out: TensorMut<'a, T, 4>,
    /// log Σ exp S of each row, which the backward pass needs: natural logarithms of shape (batch, heads, tokens), with any strides.
    pub lse: Option<TensorMut<'a, f32, 3>>,
}

impl<'a, T: 'a, M: IntoTensorMut<'a, T, 4>> From<M> for Results<'a, T> {
    fn from(out: M) -> Self {
        Results { out: out.into(), lse: None }
    }
}

/// The launches of one type.
pub trait Kernels: Copy + 'static {
    #[doc(hidden)]
    fn forward(
        stream: StreamRef<'_>,
        options: &Attention<'_, Self>,
        inputs: [TensorRef<'_, Self, 4>; 3],
        results: Results<'_, Self>,
        problem: (Problem, Paging, Option<Places<'_>>),
    ) -> Result<()>;
}

macro_rules! kernels {
    ($($ty:ty)*) => { $(
        impl Input<$ty> for $ty {
            fn attend(
                stream: StreamRef<'_>,
                options: &Attention<'_, Self>,
                inputs: [TensorRef<'_, Self, 4>; 3],
                results: Results<'_, Self>,
                problem: Problem,
            ) -> Result<()> {
                options.refuse_descale()?;
                Self::forward(stream, options, inputs, results, (problem, Paging::none(&problem), None))
            }
        }

        impl Kernels for $ty {
            fn forward(
                stream: StreamRef<'_>,
                options: &Attention<'_, Self>,
                inputs: [TensorRef<'_, Self, 4>; 3],
                results: Results<'_, Self>,
                (problem, paging, places): (Problem, Paging, Option<Places<'_>>),
            ) -> Result<()> {
                if places.is_none() && let Some(instance) = hopper::instance(stream, options, &inputs, &problem)? {
                    return hopper::run(stream, instance, options, inputs, results, problem);
                }
                let [q, k, v] = inputs;
                let starts = options.lengths.as_ref();
                let (starts_q, starts_k) = (starts.map(|s| &s.starts_q), starts.map(|s| &s.starts_k));
                let instance = forward_instance(&problem);
                let no_factors: Option<&TensorRef<'_, f32, 2>> = None;
                let (lengths, table) = (places.as_ref().map(|p| &p.lengths), places.as_ref().and_then(|p| p.table.as_ref()));
                let Results { mut out, mut lse } = results;
                let inputs = arguments::Inputs {
                    q: &q,
                    k: &k,
                    v: &v,
                    bias: options.bias.as_ref(),
                    starts_q,
                    starts_k,
                    lengths,
                    table,
                    q_factors: no_factors,
                    k_factors: no_factors,
                    v_factors: no_factors,
                };
                let outputs = arguments::Outputs { out: &mut out, lse: lse.as_mut() };
                forward::launch(instance, stream, inputs, outputs, problem, paging, Factors::default())
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
