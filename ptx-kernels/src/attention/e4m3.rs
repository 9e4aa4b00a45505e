//! Forward passes with Q, K and V of `e4m3`.

use super::factors::Factors;
use super::forward::kernels::forward;
use super::hopper;
use super::options::Attention;
use super::problem::{Paging, Problem, refuse};
use super::types::Input;
use crate::float8::E4m3;
use half::{bf16, f16};
use ptx_launch::{Result, StreamRef, TensorMut, TensorRef};

macro_rules! outputs {
    ($($ty:ty)*) => { $(
        impl Input<$ty> for E4m3 {
            fn attend(
                stream: StreamRef<'_>,
                options: &Attention<'_, $ty>,
                inputs: [TensorRef<'_, E4m3, 4>; 3],
                mut out: TensorMut<'_, $ty, 4>,
                mut lse: Option<TensorMut<'_, f32, 3>>,
                problem: Problem,
            ) -> Result<()> {
                let factors = Factors::new(&options.descale, &problem)?;
                let [Some(q), Some(k), Some(v)] = inputs.map(TensorRef::cast::<u8>) else {
                    return Err(refuse("a tensor of `E4m3` is a slice of cudarc".into(), "a buffer or a view of one"));
                };
                if let Some(instance) = hopper::e4m3::instance(stream, options, &inputs, &problem)? {
                    return hopper::e4m3::run(stream, instance, options, [q, k, v], out, lse, (problem, factors));
                }
                let starts = options.lengths.as_ref();
                let (starts_q, starts_k) = (starts.map(|s| &s.starts_q), starts.map(|s| &s.starts_k));
                let no_cache: Option<&TensorRef<'_, i32, 1>> = None;
                let [q_factors, k_factors, v_factors] = &options.descale;
                forward::launch(
                    instance(&problem), stream, &q, &k, &v, options.bias.as_ref(), starts_q, starts_k, no_cache, no_cache,
                    q_factors.as_ref(), k_factors.as_ref(), v_factors.as_ref(), &mut out, lse.as_mut(), problem,
                    Paging::default(), factors,
                )
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
