//! Targets and versions by chance.

use crate::random::Random;
use ptx_core::isa::{Arch, Version, table};

/// A target and a version that has it: mostly the newest.
pub fn point(random: &mut Random) -> Option<(Arch, Version)> {
    let targets: Vec<_> = table().targets.iter().filter(|t| t.assembled).collect();
    let target = random.pick(&targets)?;
    let versions: Vec<Version> = versions().into_iter().filter(|v| *v >= target.since).collect();
    let version = if random.once_in(3) { random.pick(&versions) } else { versions.last() };
    Some((target.arch, *version?))
}

fn versions() -> Vec<Version> {
    const LAST: &[(u8, u8)] = &[(6, 5), (7, 8), (8, 8), (9, 5)];
    LAST.iter().flat_map(|&(major, last)| (0..=last).map(move |minor| Version { major, minor })).collect()
}
