//! The question whether something exists on a target, in a version.

pub use ptx_target::{Arch, Suffix, TOOLKITS, Toolkit, Version};

/// Targets and versions that have a feature: one of these targets, each from a PTX version on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// In the order of the file.
    pub anyof: Vec<(Arch, Version)>,
}

impl Gate {
    /// Returns true if it exists for this target and version.
    pub fn admits(&self, arch: Arch, version: Version) -> bool {
        self.anyof.iter().any(|(a, v)| arch.provides(*a) && version >= *v)
    }

    /// The lowest version that takes it on this target.
    pub fn since(&self, arch: Arch) -> Option<Version> {
        self.anyof.iter().filter(|(a, _)| arch.provides(*a)).map(|(_, v)| *v).min()
    }
}

impl Gate {
    /// Reads a version column and a target column: `8.6` and `sm_100a sm_103a:8.8`; `all` is every target.
    pub fn read(since: &str, targets: &str) -> Option<Gate> {
        let since: Version = since.trim_ascii().parse().ok()?;
        let one = |word: &str| {
            let (name, version) = word.split_once(':').map_or((word, Ok(since)), |(n, v)| (n, v.parse()));
            let arch = if name == "all" { Ok(Arch::base(0)) } else { name.parse() };
            Some((arch.ok()?, version.ok()?))
        };
        let anyof: Option<Vec<_>> = targets.split_ascii_whitespace().map(one).collect();
        anyof.filter(|a| !a.is_empty()).map(|anyof| Gate { anyof })
    }
}
