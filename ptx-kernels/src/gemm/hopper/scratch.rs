//! Memory that the kernels share between launches.

use super::gpcs;
use super::variant::{Layout, variants};
use half::bf16;
use ptx_launch::prelude::*;
use ptx_launch::{Config, Result};

/// The blocks of a cluster: all variants have two.
pub(super) const CLUSTER: u32 = 2;

/// The blocks that the CPU device is given.
const CPU_BLOCKS: u32 = 8;

/// Memory that the kernels share between launches, for one launch at a time: partial sums, flags, and the numbers of clusters. About
/// 27 MB on an H200.
#[derive(Debug)]
pub struct Scratch {
    /// A tile of each block.
    pub(super) partials: Buffer<f32>,
    /// Flags of the partial sums: zeros between launches.
    pub(super) flags: Buffer<u32>,
    /// The first number of each GPC, and the GPC of each SM.
    pub(super) gpcs: Buffer<u32>,
    /// Numbers that are taken: zeros between launches.
    pub(super) claims: Buffer<u32>,
    /// Blocks that run at the same time.
    num_blocks: u32,
}

impl Scratch {
    /// Allocates the memory, and launches a small kernel to find the GPCs.
    ///
    /// # Errors
    /// Those of loading and launching a kernel, and [`ErrorKind::OutOfMemory`](ptx_launch::ErrorKind::OutOfMemory).
    pub fn new(device: &Device) -> Result<Scratch> {
        let num_blocks = resident_blocks(device)?;
        let largest = |size: fn(&Variant) -> usize| variants::<bf16>().map(|variant| size(&variant)).max().unwrap_or(0);
        let blocks = num_blocks as usize;
        Ok(Scratch {
            partials: device.zeros(blocks * largest(Variant::partial_sums))?,
            flags: device.zeros(blocks * largest(Variant::flags))?,
            gpcs: device.upload(&gpcs::table(device, CLUSTER)?)?,
            claims: device.zeros(gpcs::CLAIM_WORDS)?,
            num_blocks,
        })
    }

    /// Blocks that the device runs at the same time: each variant takes a whole SM for a block. 8 on the CPU device.
    pub fn num_blocks(&self) -> u32 {
        self.num_blocks
    }
}

type Variant = super::Variant<bf16>;

/// Clusters that run at the same time, times their blocks.
fn resident_blocks(device: &Device) -> Result<u32> {
    if !device.is_cuda() {
        return Ok(CPU_BLOCKS);
    }
    let Some(variant) = variants::<bf16>().find(|variant| variant.layout() == Layout::K_MAJOR) else { return Ok(0) };
    let kernel = variant.kernel();
    let config = Config::grid(CLUSTER).block(variant.threads()).cluster(CLUSTER).shared(kernel.dynamic_shared());
    let occupancy = kernel.occupancy(device, &config)?;
    Ok(occupancy.clusters.map_or(occupancy.multiprocessors, |clusters| clusters * CLUSTER))
}
