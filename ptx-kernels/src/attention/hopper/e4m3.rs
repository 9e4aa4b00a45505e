//! Forward with operands of `e4m3` on Hopper: which calls the kernel takes, and its launch.

mod flash8;
pub(in crate::attention) mod kernel;

use super::{
    Attention, MAX_WORK_TILES, Problem, Result, Results, StreamRef, TensorElement, TensorRef, dense, has_kernels,
    head_block, tensor_map,
};
use crate::attention::factors::Factors;
use crate::workspace;
use kernel::kernels;
use kernel::kernels::forward::{Exists, INSTANCES, Instance, Types, launch};

/// The instance for a call, if the kernel takes it: rows of 64, 128 or 256 elements, and all keys or those before the query's own.
pub(in crate::attention) fn instance<T, I>(
    stream: StreamRef<'_>,
    options: &Attention<'_, T>,
    inputs: &[TensorRef<'_, I, 4>; 3],
    problem: &Problem,
) -> Result<Option<Instance>> {
    let Some(causal) = dense(options) else { return Ok(None) };
    if !has_kernels(stream, options, inputs)? || problem.tiles(64) >= MAX_WORK_TILES {
        return Ok(None);
    }
    Ok(match (problem.dims(), causal) {
        ((64, 64), false) => Some(Instance::d64),
        ((64, 64), true) => Some(Instance::d64_causal),
        ((128, 128), false) => Some(Instance::d128),
        ((128, 128), true) => Some(Instance::d128_causal),
        ((256, 256), false) => Some(Instance::d256),
        ((256, 256), true) => Some(Instance::d256_causal),
        _ => None,
    })
}

/// Launches an instance.
pub(in crate::attention) fn run<T: TensorElement + 'static>(
    stream: StreamRef<'_>,
    instance: Instance,
    options: &Attention<'_, T>,
    [q, k, v]: [TensorRef<'_, u8, 4>; 3],
    Results { mut out, mut lse }: Results<'_, T>,
    (problem, factors): (Problem, Factors),
) -> Result<()>
where
    Types<T>: Exists,
{
    let Some((_, config)) = INSTANCES.iter().find(|(name, _)| *name == instance) else { return Ok(()) };
    let map = |tensor, rows| tensor_map(stream, options, tensor, [rows, config.width()]);
    let (q_map, k_map, v_map) = (map(&q, 64)?, map(&k, config.keys)?, map(&v, config.keys)?);
    let tiles = problem.tiles(config.rows());
    if tiles == 0 {
        return Ok(());
    }
    let blocks = tiles.min(stream.properties()?.multiprocessors.into()).max(1) as u32;
    let heads = problem.heads * problem.batch;
    let head_block = if options.right.is_some() { head_block::<u8>(&problem, heads) } else { 1 };
    let [q_factors, k_factors, v_factors] = &options.descale;
    workspace::with(stream, None, 0, |workspace| {
        let (_, tile_counter) = workspace.parts();
        // SAFETY: the maps are those of `q`, `k` and `v`, which are bound to the stream by the same launch; what the kernel writes lies
        // in `out` and `lse`, as `Problem::covers` checks.
        unsafe {
            launch(
                instance,
                stream,
                kernels::Maps { q_map: &q_map, k_map: &k_map, v_map: &v_map },
                kernels::Tensors {
                    q: &q,
                    k: &k,
                    v: &v,
                    q_factors: q_factors.as_ref(),
                    k_factors: k_factors.as_ref(),
                    v_factors: v_factors.as_ref(),
                    out: &mut out,
                    lse: lse.as_mut(),
                },
                tile_counter,
                problem,
                factors,
                kernels::Schedule { head_block, blocks },
            )
        }
    })
}
