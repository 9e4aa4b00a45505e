//! Backward on Hopper (`sm_90a`): the calls that its kernels take, and their launches. `passes` has what comes before and behind the
//! kernel of `grads`, which computes all gradients.
#![allow(unsafe_code, reason = "launches with tensor maps are vouched for here")]

pub(in crate::attention) mod grads;
pub(in crate::attention) mod passes;

use super::{has_map, tensor_map};
use crate::attention::options::Attention;
use crate::attention::problem::{Gradients, Problem};
use crate::attention::{Grads, Saved};
use grads::kernels::backward;
use passes::kernels::{finish, prepare};
use ptx_launch::{Buffer, Result, StreamRef, TensorElement};

/// The instances for a head size, and the queries of their tiles.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    prepare: prepare::Instance,
    backward: backward::Instance,
    finish: finish::Instance,
    queries: u32,
}

const D64: Plan = Plan {
    prepare: prepare::Instance::d64,
    backward: backward::Instance::d64,
    finish: finish::Instance::d64,
    queries: 128,
};
const D128: Plan = Plan {
    prepare: prepare::Instance::d128,
    backward: backward::Instance::d128,
    finish: finish::Instance::d128,
    queries: 64,
};

/// Keys of a block.
const KEYS: u32 = 128;

/// The plan for a call, if the kernels take it: rows of 64 or 128 elements, no cap, no bias, no cumulative lengths, and sums in any
/// order.
pub(in crate::attention) fn plan<T>(
    stream: StreamRef<'_>,
    options: &Attention<'_, T>,
    saved: &Saved<'_, T>,
    problem: &Problem,
) -> Result<Option<Plan>> {
    let plain = options.soft_cap == 0.0 && options.bias.is_none() && options.lengths.is_none();
    let maps = [saved.q, saved.k, saved.v, saved.out_grad].iter().all(has_map);
    if options.portable || options.deterministic || !plain || !maps {
        return Ok(None);
    }
    if !matches!(stream.properties()?.capability, None | Some(90)) {
        return Ok(None);
    }
    Ok(match problem.dims() {
        (64, 64) => Some(D64),
        (128, 128) => Some(D128),
        _ => None,
    })
}

impl Plan {
    /// Bytes of scratch memory: for each query of each head, in whole tiles, two numbers and a row of sums.
    pub(in crate::attention) fn scratch(&self, problem: &Problem) -> u64 {
        let rows = u64::from(problem.tokens_q.next_multiple_of(self.queries));
        rows * u64::from(problem.batch) * u64::from(problem.heads) * (8 + 4 * u64::from(problem.dim))
    }

    /// Launches the three kernels.
    pub(in crate::attention) fn run<T: TensorElement + 'static>(
        self,
        stream: StreamRef<'_>,
        options: &Attention<'_, T>,
        saved: &Saved<'_, T>,
        mut grads: Grads<'_, T>,
        scratch: &mut Buffer<u8>,
        (p, g): (Problem, Gradients),
    ) -> Result<()>
    where
        prepare::Types<T>: prepare::Exists,
        backward::Types<T>: backward::Exists,
        finish::Types<T>: finish::Exists,
    {
        let Saved { q, k, v, out, lse, out_grad } = saved;
        let map = |tensor, rows| tensor_map(stream, options, tensor, [rows, 64]);
        let (q_map, k_map, v_map) = (map(q, self.queries)?, map(k, KEYS)?, map(v, KEYS)?);
        let grad_map = map(out_grad, self.queries)?;
        // With some heads at a time, those keys that few queries see come last if causal, and all multiprocessors end at about the same time.
        let section = [4, 2].into_iter().find(|heads| g.heads_k % heads == 0 && p.right == 0).unwrap_or(1);
        // SAFETY: the maps are those of tensors that are bound to the stream by the same launch; what the kernels write lies in
        // tensors and scratch memory that `Problem` and `Gradients` cover.
        unsafe {
            prepare::launch(self.prepare, stream, out, lse, out_grad, &mut *scratch, p, g)?;
            backward::launch(
                self.backward,
                stream,
                &q_map,
                &k_map,
                &v_map,
                &grad_map,
                q,
                k,
                v,
                out_grad,
                &mut *scratch,
                &mut grads.k,
                &mut grads.v,
                p,
                g,
                section,
            )?;
            finish::launch(self.finish, stream, &mut grads.q, &*scratch, p, g)
        }
    }
}
