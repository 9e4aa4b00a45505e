//! The table of GPCs that `scheduler::claim` reads, from a name for the GPC of each SM. No kernels: `tests/units.rs` builds this file alone.

use std::cmp::Reverse;

/// GPCs that `scheduler::claim` distinguishes; any others count as one of them.
const GPCS: usize = 16;
/// SMs that it distinguishes.
const SMS: usize = 256;
/// The first number of a GPC without numbers, and the end of the last one: more than there are clusters.
const NOWHERE: u32 = 1 << 31;

/// Words of the table of GPCs.
pub(super) const GPC_WORDS: usize = GPCS + 1 + SMS;
/// Words of the claimed numbers.
pub(crate) const COUNTER_WORDS: usize = GPCS + 1;

/// The table for SMs with these GPCs, which may have any names.
pub(super) fn numbering(gpcs: &[u32], blocks: u32) -> Vec<u32> {
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

/// Gives the GPCs of these SMs one name.
pub(super) fn join(gpcs: &mut [u32], cluster: &[u32]) {
    for sm in cluster {
        let (Some(one), Some(other)) = (gpcs.get(cluster[0] as usize).copied(), gpcs.get(*sm as usize).copied()) else {
            continue;
        };
        gpcs.iter_mut().filter(|gpc| **gpc == other).for_each(|gpc| *gpc = one);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
