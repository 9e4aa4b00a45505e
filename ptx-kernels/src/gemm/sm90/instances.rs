//! The instances of the sm_90 kernels as rows of the table, and their launches.

use super::kernels::{self, Config, claimed, generic, static_tiles, stream_k};
use super::scratch::{ClusterIds, Scratch};
use crate::float8::E5m2;
use crate::gemm::instance::{Axes, Family, Instance, Submit, rows};
use crate::gemm::launch::Call;
use crate::gemm::maps::BOX;
use crate::gemm::params::{self, BF16, E4M3, E5M2, F16, I8, Problem, Raster, TF32, TileGrid};
use crate::gemm::problem::size;
use half::{bf16, f16};
use ptx_launch::prelude::e4m3;
use ptx_launch::{Error, Result, StreamRef, TensorMap};
use std::fmt::Debug;

/// The rows of all kernels.
pub(crate) fn instances() -> impl Iterator<Item = Instance> {
    let claimed = rows!(
        claimed: [bf16, bf16] (BF16, BF16), [f16, f16] (F16, F16), [e4m3, bf16] (E4M3, BF16);
        row {
            |row, call, config|
            let Scheduled { stream, maps: [a, b, c], raster, grid, scratch } = Scheduled::new(row, call, &config)?;
            let ClusterIds { gpcs, counters, .. } = &mut scratch.ids;
        }
        (stream, grid, &a, &b, &c, &*gpcs, counters, raster)
    );
    let stream_k = rows!(
        stream_k: [bf16, bf16] (BF16, BF16), [f16, f16] (F16, F16), [e4m3, bf16] (E4M3, BF16);
        row {
            |row, call, config|
            let Scheduled { stream, maps: [a, b, c], raster, scratch, .. } = Scheduled::new(row, call, &config)?;
            let Scratch { partials, flags, ids: ClusterIds { gpcs, counters, .. } } = scratch;
            let scratch = kernels::StreamKScratch { partials, flags, gpcs: &*gpcs, counters };
        }
        (stream, &a, &b, &c, scratch, raster)
    );
    let static_tiles = rows!(
        static_tiles: [bf16] (BF16, BF16), [f16] (F16, F16);
        row {
            |row, call, config|
            let ([a, b, c], all) = (maps(row, &call, &config)?, tile_grid(row, &call, &config));
            let grid = TileGrid { clusters: all.tiles.min(call.capacity()?), ..all };
        }
        (call.stream, &a, &b, &c, grid)
    );
    let generic = rows!(
        generic: [bf16, f32] BF16, [f16, f32] F16, [f32, f32] TF32, [e4m3, f32] E4M3, [E5m2, f32] E5M2, [i8, i32] I8;
        row_of_any_result {
            |row, call, config|
            let ([a, b], problem) = (operands(row, &call, &config)?, problem_of(row, &call, &config));
            let units = row.cluster_tiles(problem.m, problem.n).into_iter().chain([problem.splits, problem.batches]);
            let clusters = units.map(u64::from).product::<u64>().min(u64::from(call.capacity()?));
            let grid = ptx_launch::Config::grid(clusters * u64::from(row.blocks()));
        }
        (call.stream, grid, &a, &b, call.product.output(), problem)
    );
    claimed.chain(stream_k).chain(static_tiles).chain(generic)
}

/// The row of an instance whose result has the type of code `output`.
fn row(ident: &dyn Debug, (kind, output): (u32, u32), config: &Config, submit: Submit) -> Instance {
    let family = match config.scheduler {
        kernels::CLAIMED => Family::Claimed,
        kernels::STREAM_K => Family::StreamK,
        _ => Family::Static,
    };
    Instance::new(ident, (family, 90), (kind, Some(output)), axes(kind, config), submit)
}

fn row_of_any_result(ident: &dyn Debug, kind: u32, config: &Config, submit: Submit) -> Instance {
    Instance::new(ident, (Family::Generic, 90), (kind, None), axes(kind, config), submit)
}

fn axes(kind: u32, config: &Config) -> Axes {
    let Config { tile, cluster, raster, majors, .. } = *config;
    Axes { tile, depth: 128 / size(kind) as u32, cluster, raster, majors: majors.map(|major| Some(major == 0)) }
}

/// A launch of a kernel whose clusters claim tiles or share them.
struct Scheduled<'c> {
    stream: StreamRef<'c>,
    maps: [TensorMap; 3],
    raster: Raster,
    grid: ptx_launch::Config,
    scratch: &'c mut Scratch,
}

impl<'c> Scheduled<'c> {
    fn new(row: &Instance, call: Call<'c>, config: &Config) -> Result<Scheduled<'c>> {
        let (maps, raster) = (maps(row, &call, config)?, call.raster());
        let scratch = call.scratch.ok_or_else(no_scratch)?;
        let grid = ptx_launch::Config::grid(scratch.ids.num_blocks / row.blocks() * row.blocks());
        Ok(Scheduled { stream: call.stream, maps, raster, grid, scratch })
    }
}

/// What belongs to A and to B, in the order in which the kernel multiplies.
fn in_order<T>(config: &Config, (a, b): (T, T)) -> (T, T) {
    if config.swap_ab == 1 { (b, a) } else { (a, b) }
}

/// The maps of the operands, in the order in which the kernel multiplies.
fn operands(row: &Instance, call: &Call<'_>, config: &Config) -> Result<[TensorMap; 2]> {
    let (first, second) = in_order(config, (call.operand_map(row, 0)?, call.operand_map(row, 1)?));
    Ok([first, second])
}

/// The same, and that of C.
fn maps(row: &Instance, call: &Call<'_>, config: &Config) -> Result<[TensorMap; 3]> {
    let [first, second] = operands(row, call, config)?;
    let rows = if config.swap_ab == 1 { config.subtile() } else { BOX };
    Ok([first, second, call.result_map(row, rows)?])
}

/// The problem of a product, with the operands that have a matrix for each batch.
fn problem_of(row: &Instance, call: &Call<'_>, config: &Config) -> Problem {
    let TileGrid { a_batches, b_batches, .. } = tile_grid(row, call, config);
    let mut problem = call.problem();
    problem.flags |= params::all_of(&[(params::A_BATCHES, a_batches == 1), (params::B_BATCHES, b_batches == 1)]);
    problem
}

/// The tiles of a product.
fn tile_grid(row: &Instance, call: &Call<'_>, config: &Config) -> TileGrid {
    let product = call.product;
    let [tiles_m, tiles_n] = row.cluster_tiles(product.m, product.n);
    let (rows, columns) = in_order(config, (tiles_m, tiles_n));
    let (first, second) = in_order(config, (&product.a, &product.b));
    let tiles = rows * columns * product.batches as u32;
    let is_short = u64::from(tiles) * u64::from(rows) < 1 << 31;
    let per_row = if is_short { (1u32 << 31).div_ceil(rows) } else { 0 };
    let [a_batches, b_batches] = [first, second].map(|operand| u32::from(operand.batch > 0));
    TileGrid { rows, columns, tiles, per_row, k: product.k, a_batches, b_batches, clusters: tiles }
}

#[cold]
fn no_scratch() -> Error {
    Error::other("a kernel with scratch memory is launched without it")
}
