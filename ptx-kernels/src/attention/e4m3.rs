//! Forward passes with Q, K and V of `e4m3`.

use super::factors::Factors;
use super::forward::kernels::{self as arguments, forward};
use super::hopper;
use super::options::Attention;
use super::problem::{Paging, Problem, refuse};
use super::types::{Input, Results};
use crate::float8::E4m3;
use half::{bf16, f16};
use ptx_launch::{Result, StreamRef, TensorRef};

macro_rules! outputs {
    ($($ty:ty)*) => { $(
        impl Input<$ty> for E4m3 {
            fn attend(
                stream: StreamRef<'_>,
                options: &Attention<'_, $ty>,
                inputs: [TensorRef<'_, E4m3, 4>; 3],
                results: Results<'_, $ty>,
                problem: Problem,
            ) -> Result<()> {
                let factors = Factors::new(&options.descale, &problem)?;
                let [Some(q), Some(k), Some(v)] = inputs.map(TensorRef::cast::<u8>) else {
                    return Err(refuse("a tensor of `E4m3` is a slice of cudarc".into(), "a buffer or a view of one"));
                };
                if let Some(instance) = hopper::e4m3::instance(stream, options, &inputs, &problem)? {
                    return hopper::e4m3::run(stream, instance, options, [q, k, v], results, (problem, factors));
                }
                let starts = options.lengths.as_ref();
                let (starts_q, starts_k) = (starts.map(|s| &s.starts_q), starts.map(|s| &s.starts_k));
                let no_cache: Option<&TensorRef<'_, i32, 1>> = None;
                let [q_factors, k_factors, v_factors] = &options.descale;
                let Results { mut out, mut lse } = results;
                let inputs = arguments::Inputs {
                    q: &q,
                    k: &k,
                    v: &v,
                    bias: options.bias.as_ref(),
                    starts_q,
                    starts_k,
                    lengths: no_cache,
                    table: no_cache,
                    q_factors: q_factors.as_ref(),
                    k_factors: k_factors.as_ref(),
                    v_factors: v_factors.as_ref(),
                };
                let outputs = arguments::Outputs { out: &mut out, lse: lse.as_mut() };
                let paging = Paging::none(&problem);
                forward::launch(instance(&problem), stream, inputs, outputs, problem, paging, factors)
            }
        }
    )* };
}
outputs! { bf16 f16 }

/// The smallest portable instance that holds the rows.
fn instance(problem: &Problem) -> forward::Instance {
    match problem.dims() {
        (..=64, ..=64) => forward::Instance::d64,
        (..=128, ..=128) => forward::Instance::d128,
        _ => forward::Instance::d256,
    }
}
