//! Backward on `sm_80` and newer, as in FlashAttention-2, without atomic additions: a kernel whose blocks own queries makes dQ, one
//! whose blocks own keys makes dK and dV. Both compute P again from the scores and the logarithms of their sums, so the result
//! is the same each time.
//!
//! With dP = dO · Vᵀ and delta = rowsum(dO ∘ O): dS = P ∘ (dP - delta), dQ = scale · dS · K, dK = scale · dSᵀ · Q, dV = Pᵀ · dO.
//! The first kernel computes delta, the second one reads it.

pub(super) mod keys;
pub(super) mod queries;

use super::hopper;
use super::options::Attention;
use super::problem::{Gradients, Problem};
use super::{Grads, Saved};
use half::{bf16, f16};
use keys::kernels::grad_keys;
use ptx_launch::{Buffer, Result, StreamRef};
use queries::kernels::grad_queries;

/// A backward pass: its shapes, and the kernels on Hopper that take it.
#[derive(Debug)]
pub struct Plan {
    pub(super) hopper: Option<hopper::backward::Plan>,
    pub(super) problem: Problem,
    pub(super) gradients: Gradients,
}

/// The launches of one type.
pub trait Differentiable: Copy + 'static {
    #[doc(hidden)]
    fn backward(
        stream: StreamRef<'_>,
        options: &Attention<'_, Self>,
        saved: &Saved<'_, Self>,
        grads: Grads<'_, Self>,
        scratch: &mut Buffer<u8>,
        plan: Plan,
    ) -> Result<()>;
}

macro_rules! differentiable {
    ($($ty:ty)*) => { $(
        impl Differentiable for $ty {
            fn backward(
                stream: StreamRef<'_>,
                options: &Attention<'_, Self>,
                saved: &Saved<'_, Self>,
                mut grads: Grads<'_, Self>,
                scratch: &mut Buffer<u8>,
                Plan { hopper, problem, gradients }: Plan,
            ) -> Result<()> {
                if let Some(plan) = hopper {
                    return plan.run(stream, options, (saved, grads, scratch), (problem, gradients));
                }
                let starts = options.lengths.as_ref();
                let (starts_q, starts_k) = (starts.map(|s| &s.starts_q), starts.map(|s| &s.starts_k));
                let (by_queries, by_keys) = backward_instances(&problem);
                let Saved { q, k, v, out, lse, out_grad } = saved;
                let bias = options.bias.as_ref();
                let tensors = queries::kernels::Tensors {
                    q,
                    k,
                    v,
                    out,
                    lse,
                    out_grad,
                    bias,
                    starts_q,
                    starts_k,
                    q_grad: &mut grads.q,
                    pairs: &mut *scratch,
                };
                grad_queries::launch(by_queries, stream, tensors, problem, gradients)?;
                for instance in by_keys {
                    let tensors = keys::kernels::Tensors {
                        q,
                        k,
                        v,
                        out_grad,
                        bias,
                        starts_q,
                        starts_k,
                        pairs: &*scratch,
                        k_grad: &mut grads.k,
                        v_grad: &mut grads.v,
                    };
                    grad_keys::launch(*instance, stream, tensors, problem, gradients)?;
                }
                Ok(())
            }
        }
    )* };
}
differentiable! { bf16 f16 }

/// The smallest instances that hold the rows. Sums of dK and dV with 256 elements fill the registers, so that they are made one after the
/// other.
fn backward_instances(problem: &Problem) -> (grad_queries::Instance, &'static [grad_keys::Instance]) {
    use grad_keys::Instance as ByKeys;
    use grad_queries::Instance as ByQueries;
    match problem.dims() {
        (..=64, ..=64) => (ByQueries::d64, &[ByKeys::d64]),
        (..=96, ..=96) => (ByQueries::d96, &[ByKeys::d96]),
        (..=128, ..=128) => (ByQueries::d128, &[ByKeys::d128]),
        (..=192, ..=128) => (ByQueries::d192, &[ByKeys::d192]),
        _ => (ByQueries::d256, &[ByKeys::d256_v, ByKeys::d256_k]),
    }
}
