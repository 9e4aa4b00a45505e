//! The instances of the sm_90 kernels as rows of the table, and their launches.

use super::kernels::{self, Config, claimed, generic, split_k, static_tiles, stream_k};
use super::scratch::Scratch;
use crate::float8::E5m2;
use crate::gemm::instance::{Axes, Family, Instance};
use crate::gemm::launch::Call;
use crate::gemm::maps::BOX;
use crate::gemm::params::{self, BF16, E4M3, E5M2, F16, I8, Raster, TF32, TileGrid};
use crate::gemm::problem::size;
use half::{bf16, f16};
use ptx_launch::prelude::e4m3;
use ptx_launch::{Error, KernelParam, Result, StreamRef, TensorMap};
use std::fmt::Debug;

/// The rows of all kernels.
pub(crate) fn instances() -> impl Iterator<Item = Instance> {
    let claimed = rows_of_claimed::<bf16, bf16>(BF16, BF16)
        .chain(rows_of_claimed::<f16, f16>(F16, F16))
        .chain(rows_of_claimed::<e4m3, bf16>(E4M3, BF16));
    let stream_k = rows_of_stream_k::<bf16, bf16>(BF16, BF16)
        .chain(rows_of_stream_k::<f16, f16>(F16, F16))
        .chain(rows_of_stream_k::<e4m3, bf16>(E4M3, BF16));
    let split_k = rows_of_split_k::<bf16, bf16>(BF16, BF16)
        .chain(rows_of_split_k::<f16, f16>(F16, F16))
        .chain(rows_of_split_k::<e4m3, bf16>(E4M3, BF16));
    let static_tiles = rows_of_static::<bf16>(BF16).chain(rows_of_static::<f16>(F16));
    let generic = rows_of_generic::<bf16, f32>(BF16)
        .chain(rows_of_generic::<f16, f32>(F16))
        .chain(rows_of_generic::<f32, f32>(TF32))
        .chain(rows_of_generic::<e4m3, f32>(E4M3))
        .chain(rows_of_generic::<E5m2, f32>(E5M2))
        .chain(rows_of_generic::<i8, i32>(I8));
    claimed.chain(stream_k).chain(split_k).chain(static_tiles).chain(generic)
}

/// The row of an instance.
fn row(
    ident: &dyn Debug,
    (kind, output): (u32, Option<u32>),
    config: Config,
    submit: impl Fn(&Instance, Call<'_>) -> Result<()> + Send + Sync + 'static,
) -> Instance {
    let family = match (config.epilogue, config.scheduler) {
        (kernels::GENERIC, _) => Family::Generic,
        (_, kernels::CLAIMED) => Family::Claimed,
        (_, kernels::STREAM_K) => Family::StreamK,
        (_, kernels::SPLIT_K) => Family::SplitK,
        _ => Family::Static,
    };
    let axes = Axes {
        tile: config.tile,
        depth: 128 / size(kind) as u32,
        cluster: config.cluster,
        splits: config.splits,
        raster: config.raster,
        majors: config.majors.map(|major| Some(major == 0)),
    };
    Instance::new(ident, (family, 90), (kind, output), axes, submit)
}

/// The instances of a kernel for some types, with their axes.
fn configs<I: Copy + PartialEq, K>(all: &[(I, Config)], existing: &[(I, K)]) -> Vec<(I, Config)> {
    all.iter().filter(|(instance, _)| existing.iter().any(|(known, _)| known == instance)).copied().collect()
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
        let grid = ptx_launch::Config::grid(scratch.num_blocks_of(row));
        Ok(Scheduled { stream: call.stream, maps, raster, grid, scratch })
    }
}

fn rows_of_claimed<T, O>(kind: u32, output: u32) -> impl Iterator<Item = Instance>
where
    T: KernelParam,
    O: KernelParam,
    claimed::Types<T, O>: claimed::Exists,
{
    let all = configs(claimed::INSTANCES, <claimed::Types<T, O> as claimed::Exists>::kernels());
    all.into_iter().map(move |(instance, config)| {
        row(&instance, (kind, Some(output)), config, move |row, call| {
            let Scheduled { stream, maps: [a, b, c], raster, grid, scratch } = Scheduled::new(row, call, &config)?;
            let Scratch { gpcs, claims, .. } = scratch;
            // SAFETY: the maps describe memory that is bound to the stream, in the layouts of the instance; the scratch memory has the words of the GPCs
            // and of the claims.
            unsafe { claimed::launch::<T, O>(instance, stream, grid, &a, &b, &c, &*gpcs, claims, raster) }
        })
    })
}

fn rows_of_stream_k<T, O>(kind: u32, output: u32) -> impl Iterator<Item = Instance>
where
    T: KernelParam,
    O: KernelParam,
    stream_k::Types<T, O>: stream_k::Exists,
{
    let all = configs(stream_k::INSTANCES, <stream_k::Types<T, O> as stream_k::Exists>::kernels());
    all.into_iter().map(move |(instance, config)| {
        row(&instance, (kind, Some(output)), config, move |row, call| {
            let Scheduled { stream, maps: [a, b, c], raster, grid, scratch } = Scheduled::new(row, call, &config)?;
            let Scratch { partials, flags, gpcs, claims, .. } = scratch;
            // SAFETY: as above; the scratch memory has a tile and the flags of each block.
            unsafe {
                let scratch = kernels::StreamKScratch { partials, flags, gpcs: &*gpcs, claims };
                stream_k::launch::<T, O>(instance, stream, grid, &a, &b, &c, scratch, raster)
            }
        })
    })
}

fn rows_of_split_k<T, O>(kind: u32, output: u32) -> impl Iterator<Item = Instance>
where
    T: KernelParam,
    O: KernelParam,
    split_k::Types<T, O>: split_k::Exists,
{
    let all = configs(split_k::INSTANCES, <split_k::Types<T, O> as split_k::Exists>::kernels());
    all.into_iter().map(move |(instance, config)| {
        row(&instance, (kind, Some(output)), config, move |row, call| {
            let Scheduled { stream, maps: [a, b, c], raster, grid, scratch } = Scheduled::new(row, call, &config)?;
            let Scratch { partials, flags, .. } = scratch;
            // SAFETY: as above.
            unsafe { split_k::launch::<T, O>(instance, stream, grid, &a, &b, &c, partials, flags, raster) }
        })
    })
}

fn rows_of_static<T>(kind: u32) -> impl Iterator<Item = Instance>
where
    T: KernelParam,
    static_tiles::Types<T>: static_tiles::Exists,
{
    let all = configs(static_tiles::INSTANCES, <static_tiles::Types<T> as static_tiles::Exists>::kernels());
    all.into_iter().map(move |(instance, config)| {
        row(&instance, (kind, Some(kind)), config, move |row, call| {
            let [a, b, c] = maps(row, &call, &config)?;
            let grid = tile_grid(row, &call, &config);
            let blocks = ptx_launch::Config::grid(grid.tiles.min(call.capacity()?) * row.blocks());
            // SAFETY: the maps describe memory that is bound to the stream, in the layouts of the instance.
            unsafe { static_tiles::launch::<T>(instance, call.stream, blocks, &a, &b, &c, grid) }
        })
    })
}

fn rows_of_generic<T, S>(kind: u32) -> impl Iterator<Item = Instance>
where
    T: KernelParam,
    S: KernelParam,
    generic::Types<T, S>: generic::Exists,
{
    let all = configs(generic::INSTANCES, <generic::Types<T, S> as generic::Exists>::kernels());
    all.into_iter().map(move |(instance, config)| {
        row(&instance, (kind, None), config, move |row, call| {
            let [a, b] = operands(row, &call, &config)?;
            let mut problem = call.problem();
            let [rows, columns] = row.cluster_tiles(problem.m, problem.n).map(u64::from);
            let units = rows * columns * u64::from(problem.splits) * u64::from(problem.batches);
            let (first, second) = in_order(&config, (&call.product.a, &call.product.b));
            problem.flags |=
                params::all_of(&[(params::A_BATCHES, first.batch > 0), (params::B_BATCHES, second.batch > 0)]);
            let grid = ptx_launch::Config::grid(units.min(u64::from(call.capacity()?)) * u64::from(row.blocks()));
            let output = call.product.output();
            // SAFETY: all memory is bound to the stream, and has elements for the extents of the problem; the workspace has the bytes that the plan has counted.
            unsafe { generic::launch::<T, S>(instance, call.stream, grid, &a, &b, output, problem) }
        })
    })
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
    TileGrid { rows, columns, tiles, per_row, k: product.k, a_batches, b_batches }
}

#[cold]
fn no_scratch() -> Error {
    Error::other("a kernel with scratch memory is launched without it")
}
