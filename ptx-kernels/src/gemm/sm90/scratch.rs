//! Memory that the kernels share between launches.

use super::gpcs;
use super::kernels::{claimed, stream_k};
use crate::workspace::{self, Workspace};
use half::bf16;
use ptx_launch::prelude::*;
use ptx_launch::{Config, Result, StreamRef};

/// The blocks of a cluster of the kernels that claim their numbers.
const CLUSTER: u32 = 2;

/// The threads of a block.
const THREADS: u32 = 384;

/// The blocks that the CPU device is given.
const CPU_BLOCKS: u32 = 8;

/// The numbers of clusters, for kernels that claim them.
#[derive(Debug)]
pub(crate) struct ClusterIds {
    /// The first number of each GPC, and the GPC of each SM.
    pub(crate) gpcs: Buffer<u32>,
    /// Counters of the numbers that are taken, one for each GPC: zeros between launches.
    pub(crate) counters: Buffer<u32>,
    /// Blocks that run at the same time.
    pub(crate) num_blocks: u32,
}

impl ClusterIds {
    /// Launches a small kernel to find the GPCs.
    ///
    /// # Errors
    /// Those of loading and launching a kernel.
    pub(crate) fn new(device: &Device) -> Result<ClusterIds> {
        let num_blocks = resident_blocks(device)?;
        let gpcs = device.upload(&gpcs::table(device, CLUSTER)?)?;
        Ok(ClusterIds { gpcs, counters: device.zeros(gpcs::COUNTER_WORDS)?, num_blocks })
    }
}

/// Memory that the kernels share between launches, for one launch at a time. About 27 MB on an H200.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// The partial sums of a tile of each block.
    pub(super) partials: Buffer<f32>,
    /// Flags of the partial sums, two for each block: zeros between launches.
    pub(super) flags: Buffer<u32>,
    pub(super) ids: ClusterIds,
}

impl Scratch {
    /// Allocates the memory, and launches a small kernel to find the GPCs.
    ///
    /// # Errors
    /// Those of loading and launching a kernel, and [`ErrorKind::OutOfMemory`](ptx_launch::ErrorKind::OutOfMemory).
    pub(crate) fn new(device: &Device) -> Result<Scratch> {
        let ids = ClusterIds::new(device)?;
        let blocks = ids.num_blocks as usize;
        let tiles = stream_k::INSTANCES.iter().map(|(_, config)| (config.tile[0] * config.tile[1]) as usize);
        let partials = device.zeros(blocks * tiles.max().unwrap_or(0))?;
        Ok(Scratch { partials, flags: device.zeros(2 * blocks)?, ids })
    }
}

/// True if the scratch memory of the stream is there, or may be allocated: no capture allocates it.
pub(crate) fn is_ready(stream: StreamRef<'_>, given: Option<&Workspace>) -> bool {
    !stream.is_captured() || !stream.is_captured_elsewhere() && workspace::has::<Scratch>(stream, given)
}

/// Clusters that run at the same time, times their blocks.
fn resident_blocks(device: &Device) -> Result<u32> {
    if !device.is_cuda() {
        return Ok(CPU_BLOCKS);
    }
    let kernel = claimed::Instance::m128n256k64_2x1_kk.kernel::<bf16, bf16>()?;
    let config = Config::grid(CLUSTER).block(THREADS).cluster(CLUSTER).shared(kernel.dynamic_shared());
    let occupancy = kernel.occupancy(device, &config)?;
    Ok(occupancy.clusters.map_or(occupancy.multiprocessors, |clusters| clusters * CLUSTER))
}
