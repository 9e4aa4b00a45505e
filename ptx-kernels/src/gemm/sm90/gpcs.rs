//! The GPC of each SM, so that clusters of one GPC can take neighboring tiles (`scheduler::claim`). The driver has no query for it; but no cluster spans two
//! GPCs, so clusters of several sizes show it.

mod table;

use ptx_launch::prelude::*;
use ptx_launch::{Config, Result};
use table::{join, numbering};

pub(super) use table::COUNTER_WORDS;

/// The probe kernel.
#[ptx_module(arch = "sm_90")]
pub mod kernels {
    /// Enough shared memory for one block per SM.
    struct WholeSm {
        bytes: [u8; 200 * 1024],
    }

    /// Stores the SM of each block, and keeps the SM busy, so that all blocks run at the same time.
    #[ptx_kernel(
        block = 32,
        cluster = BLOCKS,
        grid = blocks,
        instances = [eight = (8), seven = (7), five = (5), three = (3)],
        unsafe(requires(blocks % BLOCKS == 0, blocks > 0, at.len() >= blocks))
    )]
    pub fn probe<const BLOCKS: u32>(at: &mut [u32], blocks: u32) {
        #[shared(dynamic)]
        let whole: WholeSm;
        if tid.x == 0 {
            let (to, sm): (GlobalMut<u32>, u32) = (at.at(ctaid.x), smid);
            ptx! {
                st.global.u32 [to], sm;
                st.shared.u8 [whole.bytes], 0;
                nanosleep.u32 200000;
            }
        }
    }
}

/// The table of `scheduler::claim` for clusters of `blocks` blocks, one on each SM: the first number of each GPC, the largest GPC first,
/// and the GPC of each SM.
///
/// # Errors
/// Those of the launches that find it.
pub(super) fn table(device: &Device, blocks: u32) -> Result<Vec<u32>> {
    Ok(numbering(&gpcs(device)?, blocks))
}

/// A name for the GPC of each SM: the same where clusters of several sizes show that it is the same.
fn gpcs(device: &Device) -> Result<Vec<u32>> {
    use kernels::probe::{INSTANCES, launch};
    if !device.is_cuda() {
        return Ok(vec![0]);
    }
    let mut gpcs = Vec::new();
    // Clusters of one size cover a GPC side by side; those of the next size overlap them.
    for (instance, size) in INSTANCES.iter().copied() {
        let kernel = instance.kernel()?;
        let config = Config::grid(size).block(32).cluster(size).shared(kernel.dynamic_shared());
        let occupancy = kernel.occupancy(device, &config)?;
        gpcs.extend(gpcs.len() as u32..occupancy.multiprocessors);
        let blocks = occupancy.clusters.unwrap_or(0) * size;
        if blocks > 0 {
            let mut at = device.zeros(blocks as usize)?;
            launch(instance, device, &mut at, blocks)?;
            at.download()?.chunks(size as usize).for_each(|cluster| join(&mut gpcs, cluster));
        }
    }
    Ok(gpcs)
}
