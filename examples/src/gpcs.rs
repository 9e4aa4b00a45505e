//! The GPC of each SM, so that blocks that share operands can take tiles side by side (`scheduler::claim`). Nothing
//! tells; but no cluster spans two GPCs, so those of several sizes say it.

use ptx_launch::prelude::*;
use ptx_launch::{Config, Result};

/// GPCs that `scheduler::claim` tells apart; more are taken for one.
const GPCS: usize = 16;
/// Multiprocessors that it knows.
const MULTIPROCESSORS: usize = 256;
/// Start of the numbers of GPCs without any, and the end of the last one: more than there are workers.
const NOWHERE: u32 = 1 << 31;

/// Words of [`Numbering::gpcs`].
pub const WORDS: usize = GPCS + 1 + MULTIPROCESSORS;
/// Words of [`Numbering::claims`].
pub const CLAIMS: usize = GPCS + 1;

/// So much that no two blocks share a multiprocessor.
const SHARED: u32 = 200 * 1024;

/// The kernel that looks.
#[ptx_module(arch = "sm_90")]
pub mod kernels {
    /// Says where each block runs, and stays a while, so that all are there at the same time.
    #[ptx_kernel(
        block = 32,
        cluster = BLOCKS,
        grid = blocks,
        shared = super::SHARED,
        instances = [(8), (7), (5), (3)],
        unsafe(requires(blocks % BLOCKS == 0, blocks > 0, at.len() >= blocks))
    )]
    pub fn whereabouts<const BLOCKS: u32>(at: &mut [u32], blocks: u32) {
        if tid.x == 0 {
            let (to, sm): (GlobalMut<u32>, u32) = (at.at(ctaid.x), smid);
            ptx! {
                st.global.u32 [to], sm;
                nanosleep.u32 200000;
            }
        }
    }
}

/// Arguments of `scheduler::claim`: a numbering of workers, and the owner of each number.
#[derive(Debug)]
pub struct Numbering {
    /// Start of each GPC's numbers, and the GPC of each SM.
    pub gpcs: Buffer<u32>,
    /// Numbers that are taken; zeros between launches.
    pub claims: Buffer<u32>,
}

impl Numbering {
    /// Those of a device, for workers of `blocks` blocks, one on each multiprocessor.
    ///
    /// # Errors
    /// Those of the launches that find them.
    pub fn find(device: &Device, blocks: u32) -> Result<Numbering> {
        let gpcs = device.upload(&numbering(&gpcs(device)?, blocks))?;
        Ok(Numbering { gpcs, claims: device.zeros(CLAIMS)? })
    }
}

/// The first number of each GPC, the largest GPC first, and the GPC of each multiprocessor, whose GPCs may have any names.
fn numbering(gpcs: &[u32], blocks: u32) -> Vec<u32> {
    let size = |gpc: u32| gpcs.iter().filter(|other| **other == gpc).count();
    let mut names = gpcs.to_vec();
    names.sort_by_key(|gpc| (std::cmp::Reverse(size(*gpc)), *gpc));
    names.dedup();
    let mut words = vec![NOWHERE; GPCS + 1];
    let mut first = 0;
    for (word, gpc) in words.iter_mut().zip(&names).take(GPCS) {
        *word = first;
        first += size(*gpc) as u32 / blocks;
    }
    let number = |gpc: &u32| names.iter().position(|name| name == gpc).unwrap_or(0).min(GPCS - 1) as u32;
    words.extend(gpcs.iter().take(MULTIPROCESSORS).map(number));
    words.resize(WORDS, 0);
    words
}

/// A name for the GPC of each multiprocessor: the same where clusters of several sizes show that it is the same.
fn gpcs(device: &Device) -> Result<Vec<u32>> {
    if !device.is_cuda() {
        return Ok(vec![0]);
    }
    let mut gpcs = Vec::new();
    // Clusters of one size cover a GPC side by side; those of the next lie across.
    macro_rules! look {
        ($($blocks:literal)*) => {$(
            let kernel = <kernels::whereabouts::Instance<$blocks> as kernels::whereabouts::Exists>::KERNEL;
            let config = Config::grid($blocks).block(32).cluster($blocks).shared(SHARED);
            let occupancy = kernel.occupancy(device, &config)?;
            gpcs.extend(gpcs.len() as u32..occupancy.multiprocessors);
            let blocks = occupancy.clusters.unwrap_or(0) * $blocks;
            if blocks > 0 {
                let mut at = device.zeros(blocks as usize)?;
                kernels::whereabouts::<$blocks>(device, &mut at, blocks)?;
                at.download()?.chunks($blocks).for_each(|cluster| join(&mut gpcs, cluster));
            }
        )*};
    }
    look!(8 7 5 3);
    Ok(gpcs)
}

/// Gives the GPCs of these multiprocessors one name.
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
