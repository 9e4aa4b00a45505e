//! Backward on Hopper (`sm_90a`): the calls that its kernels take, and their launches. `passes` has what comes before and behind the
//! kernels of `grads` and `wide`, which compute all gradients.
#![allow(unsafe_code, reason = "launches with tensor maps are vouched for here")]

mod flash_grad;
mod flash_grad_loads;
pub(in crate::attention) mod grads;
pub(in crate::attention) mod passes;
mod shared;
pub(in crate::attention) mod wide;

use super::{MAX_WORK_TILES, takes_operands, tensor_map};
use crate::attention::options::Attention;
use crate::attention::problem::{Gradients, Problem};
use crate::attention::{Grads, Saved};
use grads::kernels::{self as narrow, backward};
use passes::kernels::{finish, prepare};
use ptx_launch::{Buffer, Result, StreamRef, TensorElement};
use wide::kernels::{self as wide_rows, wide_backward};

/// Most bytes of sums of dQ that work tiles at about the same time add to in a fixed order.
const MOST_SUMS: u64 = 16 << 20;

/// The instances for a call, and the extents of their tiles.
#[derive(Clone, Copy, Debug)]
pub(in crate::attention) struct Plan {
    prepare: prepare::Instance,
    kernel: Kernel,
    finish: finish::Instance,
    /// Elements of a row, keys of a block and queries of a tile.
    head: u32,
    keys: u32,
    queries: u32,
}

/// Heads of Q, those of all sequences counted, whose sums of dQ the launch before the kernel clears, and those whose sums the kernel rounds.
#[derive(Clone, Copy, Debug)]
struct Shares {
    cleared: u32,
    rounded: u32,
}

/// The kernel that computes the gradients.
#[derive(Clone, Copy, Debug)]
enum Kernel {
    Narrow(backward::Instance),
    Wide(wide_backward::Instance),
}

const D64: Plan = Plan {
    prepare: prepare::Instance::d64,
    kernel: Kernel::Narrow(backward::Instance::d64),
    finish: finish::Instance::d64,
    head: 64,
    keys: 128,
    queries: 128,
};
const D128: Plan = Plan {
    prepare: prepare::Instance::d128,
    kernel: Kernel::Narrow(backward::Instance::d128),
    finish: finish::Instance::d128,
    head: 128,
    keys: 128,
    queries: 64,
};
const D256: Plan = Plan {
    prepare: prepare::Instance::d256,
    kernel: Kernel::Wide(wide_backward::Instance::d256),
    finish: finish::Instance::d256,
    head: 256,
    keys: 64,
    queries: 64,
};

/// The plan for a call, if the kernels take it. Calls with rows of 64 or 128 elements in tensors of one length, without a cap or a bias, have instances of
/// their own; else the smallest one that holds the rows, whose other columns are zeros.
pub(in crate::attention) fn plan<T>(
    stream: StreamRef<'_>,
    options: &Attention<'_, T>,
    saved: &Saved<'_, T>,
    problem: &Problem,
) -> Result<Option<Plan>> {
    // Without a query nothing would clear the tile counter.
    let work_tiles = u64::from(problem.keys.div_ceil(64)) * u64::from(problem.heads) * u64::from(problem.batch);
    let patches = u64::from(problem.queries.div_ceil(64)) * u64::from(problem.heads) * u64::from(problem.batch) * 4;
    let possible = problem.queries > 0 && work_tiles < MAX_WORK_TILES && patches < MAX_WORK_TILES;
    if !possible || !takes_operands(stream, options, &[saved.q, saved.k, saved.v, saved.out_grad])? {
        return Ok(None);
    }
    let plain = options.soft_cap == 0.0 && options.lengths.is_none() && options.bias.is_none();
    Ok(match (problem.dims(), plain) {
        ((64, 64), true) => Some(D64),
        ((128, 128), true) => Some(D128),
        ((..=64, ..=64), _) => Some(Plan { kernel: Kernel::Narrow(backward::Instance::d64_masked), ..D64 }),
        ((..=128, ..=128), _) => Some(Plan { kernel: Kernel::Narrow(backward::Instance::d128_masked), ..D128 }),
        ((..=192, ..=128), _) => Some(Plan { kernel: Kernel::Wide(wide_backward::Instance::d192), ..D256 }),
        _ => Some(D256),
    })
}

impl Plan {
    /// Bytes of scratch memory: for each query of each head, in whole tiles, two numbers and a row of sums, for each tile two
    /// numbers more, and for each head of K and V one, behind four counters.
    pub(in crate::attention) fn scratch(&self, problem: &Problem) -> u64 {
        let (tokens, batch, tile) = (u64::from(problem.tokens_q), u64::from(problem.batch), u64::from(self.queries));
        // Packed sequences begin at whole tiles.
        let tiles = if problem.variable == 1 { tokens / tile + batch } else { tokens.div_ceil(tile) * batch };
        let ended = 4 * u64::from(problem.heads / problem.kv_group) * u64::from(problem.batch);
        tiles * u64::from(problem.heads) * (tile * (8 + 4 * u64::from(self.head)) + 8) + 16 + ended
    }

    /// The shares of the launches, of all heads of Q. A kernel without masks, lengths and order clears those sums that its blocks do not add to in their first
    /// four work tiles, and rounds those that are complete when its blocks begin with their last ones.
    fn shares(&self, ordered: bool, [blocks, head_block]: [u32; 2], p: &Problem) -> Shares {
        let all = p.heads * p.batch;
        let dense = matches!(self.kernel, Kernel::Narrow(backward::Instance::d64 | backward::Instance::d128));
        if ordered || !dense {
            return Shares { cleared: all, rounded: 0 };
        }
        let heads = |work_tiles: u32| {
            work_tiles.div_ceil(p.keys.div_ceil(self.keys).max(1)).next_multiple_of(head_block) * p.kv_group
        };
        Shares {
            cleared: heads(4 * blocks).min(all),
            rounded: all.saturating_sub(heads(blocks) + head_block * p.kv_group),
        }
    }

    /// Heads of K and V whose work tiles take turns. If causal, those keys that few queries see come last then, and all multiprocessors end at about
    /// the same time. In a fixed order, additions wait for those before them, which take longer if the sums have left the second-level cache.
    fn head_block(&self, p: &Problem, g: &Gradients, ordered: bool) -> u32 {
        let sums = |heads: u32| u64::from(heads * p.kv_group) * u64::from(p.queries) * u64::from(4 * self.head);
        let fits = |heads: u32| if ordered { sums(heads) <= MOST_SUMS } else { p.right == 0 };
        [4, 2].into_iter().find(|&heads| g.heads_k.is_multiple_of(heads) && fits(heads)).unwrap_or(1)
    }

    /// Launches the three kernels.
    pub(in crate::attention) fn run<T: TensorElement + 'static>(
        self,
        stream: StreamRef<'_>,
        options: &Attention<'_, T>,
        (saved, mut grads, scratch): (&Saved<'_, T>, Grads<'_, T>, &mut Buffer<u8>),
        (p, g): (Problem, Gradients),
    ) -> Result<()>
    where
        prepare::Types<T>: prepare::Exists,
        backward::Types<T>: backward::Exists,
        wide_backward::Types<T>: wide_backward::Exists,
        finish::Types<T>: finish::Exists,
    {
        let Saved { q, k, v, out, lse, out_grad } = saved;
        let map = |tensor, rows| tensor_map(stream, options, tensor, [rows, 64]);
        let (q_map, k_map, v_map) = (map(q, self.queries)?, map(k, self.keys)?, map(v, 64)?);
        let grad_map = map(out_grad, self.queries)?;
        let head_block = self.head_block(&p, &g, options.deterministic);
        let starts = options.lengths.as_ref();
        let (starts_q, starts_k) = (starts.map(|lengths| &lengths.starts_q), starts.map(|lengths| &lengths.starts_k));
        let ordered = u32::from(options.deterministic);
        let work_tiles = p.keys.div_ceil(self.keys) * g.heads_k * p.batch;
        let blocks = work_tiles.min(stream.properties()?.multiprocessors).max(1);
        let Shares { cleared, rounded } = self.shares(options.deterministic, [blocks, head_block], &p);
        // Both kernels have these parameters.
        macro_rules! keys {
            ($module:ident::$kernel:ident, $instance:expr, $blocks:expr $(, $own:expr)*) => {
                $kernel::launch(
                    $instance,
                    stream,
                    $module::Maps { q_map: &q_map, k_map: &k_map, v_map: &v_map, grad_map: &grad_map },
                    $module::Tensors {
                        q,
                        k,
                        v,
                        bias: options.bias.as_ref(),
                        out_grad,
                        scratch: &mut *scratch,
                        k_grad: &mut grads.k,
                        v_grad: &mut grads.v,
                    },
                    p,
                    g,
                    $module::Schedule { head_block, ordered, blocks: $blocks, starts_q, starts_k },
                    $($own),*
                )?
            };
        }
        // SAFETY: the maps are those of tensors that are bound to the stream by the same launch; what the kernels write lies in
        // tensors and scratch memory that `Problem` and `Gradients` cover.
        unsafe {
            let saved = passes::kernels::Tensors { out, lse, out_grad, scratch: &mut *scratch };
            prepare::launch(self.prepare, stream, saved, p, g, starts_q, cleared)?;
            match self.kernel {
                _ if work_tiles == 0 => {}
                Kernel::Narrow(instance) => {
                    let idle_work = narrow::IdleWork { q_grad: &mut grads.q, cleared, rounded };
                    keys!(narrow::backward, instance, blocks, idle_work);
                }
                Kernel::Wide(instance) => keys!(wide_rows::wide_backward, instance, work_tiles),
            }
            finish::launch(self.finish, stream, &mut grads.q, &*scratch, p, g, starts_q, rounded)
        }
    }
}
