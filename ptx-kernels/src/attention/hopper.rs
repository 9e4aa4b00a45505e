//! Attention on Hopper (`sm_90a`): which calls its kernel takes, and their tensor maps.
#![allow(unsafe_code, reason = "a launch with tensor maps is vouched for here")]

#[cfg(feature = "attention_backward")]
pub(super) mod backward;
mod dense;
pub(super) mod e4m3;
pub(super) mod forward;

use super::maps::Boxes;
use super::options::Attention;
use super::problem::Problem;
use super::types::Results;
use crate::workspace;
use forward::kernels;
use forward::kernels::forward::{Exists, INSTANCES, Instance, Types, launch};
use ptx_launch::{Result, StreamRef, Swizzle, TensorElement, TensorMap, TensorRef};

/// The instance for a call, if the kernel takes it: all calls but packed sequences with a bias. Those of rows of 64 or 128 elements (or 256 if causal), where a
/// query sees all keys or those before its own, have instances of their own; else the smallest one that holds the rows, whose other columns are zeros.
pub(super) fn instance<T>(
    stream: StreamRef<'_>,
    options: &Attention<'_, T>,
    inputs: &[TensorRef<'_, T, 4>; 3],
    problem: &Problem,
) -> Result<Option<Instance>> {
    let possible = takes_operands(stream, options, inputs)? && problem.tiles(64) < MAX_WORK_TILES;
    if !possible || (options.bias.is_some() && options.lengths.is_some()) {
        return Ok(None);
    }
    Ok(Some(match (problem.dims(), dense(options)) {
        ((64, 64), Some(false)) => Instance::d64,
        ((64, 64), Some(true)) => Instance::d64_causal,
        ((128, 128), Some(false)) => Instance::d128,
        ((128, 128), Some(true)) => Instance::d128_causal,
        ((256, 256), Some(true)) => Instance::d256_causal,
        ((..=64, ..=64), _) => Instance::d64_masked,
        ((..=96, ..=96), _) => Instance::d96_masked,
        ((..=128, ..=128), _) => Instance::d128_masked,
        ((..=192, ..=128), _) => Instance::d192_masked,
        _ => Instance::d256_masked,
    }))
}

/// Returns true if the chip has these kernels, and the call has no bias and operands that tensor maps can describe.
fn has_kernels<T, I>(
    stream: StreamRef<'_>,
    options: &Attention<'_, T>,
    inputs: &[TensorRef<'_, I, 4>],
) -> Result<bool> {
    Ok(options.bias.is_none() && takes_operands(stream, options, inputs)?)
}

/// The same with a bias or without.
pub(super) fn takes_operands<T, I>(
    stream: StreamRef<'_>,
    options: &Attention<'_, T>,
    inputs: &[TensorRef<'_, I, 4>],
) -> Result<bool> {
    let possible = !options.portable && inputs.iter().all(has_map);
    Ok(possible && matches!(stream.properties()?.capability, None | Some(90)))
}

/// `Some(false)` if every query sees all keys, `Some(true)` if those before its own; `None` with any other option.
fn dense<T>(options: &Attention<'_, T>) -> Option<bool> {
    if options.left.is_some() || options.soft_cap != 0.0 || options.lengths.is_some() || options.bias.is_some() {
        return None;
    }
    match options.right {
        None => Some(false),
        Some(right) => (right == 0).then_some(true),
    }
}

/// Returns true if a tensor map can describe a tensor: it has elements, does not repeat any, and its strides are below 2^40 bytes.
fn has_map<T>(tensor: &TensorRef<'_, T, 4>) -> bool {
    let mut dims = tensor.shape().into_iter().zip(tensor.strides());
    dims.all(|(extent, stride)| extent == 1 || (extent > 1 && stride > 0 && stride < 1 << 39))
}

/// The limit of work tiles, which the kernels count in 32 bits.
const MAX_WORK_TILES: u64 = 1 << 31;

/// MB of keys and values of a head block. More than the second-level cache holds: that blocks end at the same time is worth more.
const HEAD_BLOCK: u64 = 128;

/// Launches an instance.
pub(super) fn run<T: TensorElement + 'static>(
    stream: StreamRef<'_>,
    instance: Instance,
    options: &Attention<'_, T>,
    inputs: [TensorRef<'_, T, 4>; 3],
    Results { mut out, mut lse }: Results<'_, T>,
    problem: Problem,
) -> Result<()>
where
    Types<T>: Exists,
{
    let Some((_, config)) = INSTANCES.iter().find(|(name, _)| *name == instance) else { return Ok(()) };
    // A head block of packed sequences, or in a window, is of one sequence.
    let sequences = if config.masked == 1 { 1 } else { problem.batch };
    let limited = options.left.or(options.right).is_some();
    let head_block = if limited { head_block::<T>(&problem, problem.heads * sequences) } else { 1 };
    let map = |tensor, rows| tensor_map(stream, options, tensor, [rows, 64]);
    let [q, k, v] = &inputs;
    let (q_map, k_map, v_map) = (map(q, 64)?, map(k, config.keys)?, map(v, config.keys)?);
    let tiles = problem.tiles(config.rows());
    if tiles == 0 {
        return Ok(());
    }
    let blocks = tiles.min(stream.properties()?.multiprocessors.into()).max(1) as u32;
    let starts = options.lengths.as_ref();
    let (starts_q, starts_k) = (starts.map(|lengths| &lengths.starts_q), starts.map(|lengths| &lengths.starts_k));
    workspace::with(stream, None, 0, |workspace| {
        let (_, tile_counter) = workspace.parts();
        // SAFETY: the maps are those of `q`, `k` and `v`, which are bound to the stream by the same launch; what the kernel writes lies
        // in `out` and `lse`, as `Problem::covers` checks; head blocks of masked instances divide the heads of a sequence.
        unsafe {
            launch(
                instance,
                stream,
                kernels::Maps { q_map: &q_map, k_map: &k_map, v_map: &v_map },
                kernels::Tensors { q, k, v, bias: options.bias.as_ref(), out: &mut out, lse: lse.as_mut() },
                tile_counter,
                problem,
                kernels::Schedule { head_block, blocks, starts_q, starts_k },
            )
        }
    })
}

/// The map of a tensor in boxes of tokens of a head and elements, 128 bytes of them or 64.
fn tensor_map<T, I: TensorElement>(
    stream: StreamRef<'_>,
    options: &Attention<'_, T>,
    tensor: &TensorRef<'_, I, 4>,
    [rows, columns]: [u32; 2],
) -> Result<TensorMap> {
    let (shape, strides) = (options.layout.order(tensor.shape()), options.layout.order(tensor.strides()));
    let swizzle = if columns as usize * size_of::<I>() == 64 { Swizzle::B64 } else { Swizzle::B128 };
    let tile = [1, rows as usize, 1, columns as usize];
    Boxes::new(I::TYPE, tensor.address(), shape, strides, tile).swizzle(swizzle).map(stream)
}

/// Heads of Q that blocks take at a time, the longest tiles of all of them first: of those that share keys and values of at most [`HEAD_BLOCK`] MB, as
/// many as divide `heads`.
fn head_block<T>(problem: &Problem, heads: u32) -> u32 {
    let bytes = size_of::<T>() as u64 * u64::from(problem.keys) * u64::from(problem.dim + problem.dim_v);
    let most = (HEAD_BLOCK << 20) / bytes.max(1) * u64::from(problem.kv_group);
    let most = u32::try_from(most.max(1)).unwrap_or(u32::MAX);
    (1..=heads.min(most)).rev().find(|head_block| heads.is_multiple_of(*head_block)).unwrap_or(1)
}
