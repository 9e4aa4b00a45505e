//! The GPC of each SM, so that clusters of one GPC can take neighboring tiles (`scheduler::claim`). No query tells; but no cluster spans two
//! GPCs, so clusters of several sizes show it.

use ptx_launch::prelude::*;
use ptx_launch::{Config, Result};
use std::cmp::Reverse;

/// GPCs that `scheduler::claim` distinguishes; any others count as one of them.
const GPCS: usize = 16;
/// SMs that it distinguishes.
const SMS: usize = 256;
/// The first number of a GPC without numbers, and the end of the last one: more than there are clusters.
const NOWHERE: u32 = 1 << 31;

/// Words of the table of GPCs.
pub const GPC_WORDS: usize = GPCS + 1 + SMS;
/// Words of the claimed numbers.
pub const CLAIM_WORDS: usize = GPCS + 1;

/// The kernel that looks.
#[ptx_module(arch = "sm_90")]
pub mod kernels {
    /// So much that no two blocks share an SM.
    struct WholeSm {
        bytes: [u8; 200 * 1024],
    }

    /// Stores the SM of each block, and stays a while, so that all blocks run at the same time.
    #[ptx_kernel(
        block = 32,
        cluster = BLOCKS,
        grid = blocks,
        instances = [eight = (8), seven = (7), five = (5), three = (3)],
        unsafe(requires(blocks % BLOCKS == 0, blocks > 0, at.len() >= blocks))
    )]
    pub fn whereabouts<const BLOCKS: u32>(at: &mut [u32], blocks: u32) {
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

/// The table for SMs with these GPCs, which may have any names.
fn numbering(gpcs: &[u32], blocks: u32) -> Vec<u32> {
    let size = |gpc: u32| gpcs.iter().filter(|other| **other == gpc).count();
    let mut names = gpcs.to_vec();
    names.sort_by_key(|gpc| (Reverse(size(*gpc)), *gpc));
    names.dedup();
    let mut words = vec![NOWHERE; GPCS + 1];
    let mut first = 0;
    for (word, gpc) in words.iter_mut().zip(&names).take(GPCS) {
        *word = first;
        first += size(*gpc) as u32 / blocks;
    }
    let number = |gpc: &u32| names.iter().position(|name| name == gpc).unwrap_or(0).min(GPCS - 1) as u32;
    words.extend(gpcs.iter().take(SMS).map(number));
    words.resize(GPC_WORDS, 0);
    words
}

/// A name for the GPC of each SM: the same where clusters of several sizes show that it is the same.
fn gpcs(device: &Device) -> Result<Vec<u32>> {
    use kernels::whereabouts::{INSTANCES, launch};
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

/// Gives the GPCs of these SMs one name.
fn join(gpcs: &mut [u32], cluster: &[u32]) {
    for sm in cluster {
        let (Some(one), Some(other)) = (gpcs.get(cluster[0] as usize).copied(), gpcs.get(*sm as usize).copied()) else {
            continue;
        };
        gpcs.iter_mut().filter(|gpc| **gpc == other).for_each(|gpc| *gpc = one);
    }
}
#[cfg(test)]
mod tests {
    use super::{GPCS, NOWHERE, join, numbering};

    #[test]
    fn clusters_that_overlap_are_one_gpc() {
        let mut gpcs: Vec<u32> = (0..8).collect();
        for cluster in [[0, 2, 4], [1, 3, 5], [4, 6, 2], [9, 9, 9]] {
            join(&mut gpcs, &cluster);
        }
        assert_eq!(gpcs, [0, 1, 0, 1, 0, 1, 0, 7]);
    }

    #[test]
    fn the_largest_gpc_has_the_first_numbers() {
        let words = numbering(&[7, 3, 7, 3, 3, 3, 9, 9], 2);
        assert_eq!(words[..GPCS + 1], [&[0, 2, 3][..], &[NOWHERE; GPCS - 2]].concat());
        assert_eq!(words[GPCS + 1..][..9], [1, 0, 1, 0, 0, 0, 2, 2, 0]);
    }

    #[test]
    fn gpcs_that_are_too_many_are_one() {
        let words = numbering(&(0..40).collect::<Vec<u32>>(), 1);
        assert_eq!(words[..GPCS + 1], [(0..16).collect(), vec![NOWHERE]].concat());
        assert_eq!(words[GPCS + 1 + 39], 15);
    }
}
