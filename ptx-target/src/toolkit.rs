//! CUDA toolkits: the newest PTX that each reads, and the driver that it needs.

use crate::Version;
use std::fmt;

/// A release of the CUDA toolkit, and the drivers that have its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Toolkit {
    /// (12, 8): its version, as `nvidia-smi` and `cuDriverGetVersion` show that of a driver.
    pub cuda: (u32, u32),
    /// The newest `.version` that its ptxas and its drivers read.
    pub ptx: Version,
    /// The first Linux driver with this version of CUDA; empty for a release whose number this table does not have yet.
    pub driver: &'static str,
}

/// The releases that read a new version of PTX, ascending. The toolkit's release notes have the drivers, and PTX's the versions.
pub const TOOLKITS: &[Toolkit] = &[
    toolkit((9, 0), (6, 0), "384.81"),
    toolkit((9, 1), (6, 1), "390.46"),
    toolkit((9, 2), (6, 2), "396.26"),
    toolkit((10, 0), (6, 3), "410.48"),
    toolkit((10, 1), (6, 4), "418.39"),
    toolkit((10, 2), (6, 5), "440.33"),
    toolkit((11, 0), (7, 0), "450.36.06"),
    toolkit((11, 1), (7, 1), "455.23"),
    toolkit((11, 2), (7, 2), "460.27.03"),
    toolkit((11, 3), (7, 3), "465.19.01"),
    toolkit((11, 4), (7, 4), "470.42.01"),
    toolkit((11, 5), (7, 5), "495.29.05"),
    toolkit((11, 6), (7, 6), "510.39.01"),
    toolkit((11, 7), (7, 7), "515.43.04"),
    toolkit((11, 8), (7, 8), "520.61.05"),
    toolkit((12, 0), (8, 0), "525.60.13"),
    toolkit((12, 1), (8, 1), "530.30.02"),
    toolkit((12, 2), (8, 2), "535.54.03"),
    toolkit((12, 3), (8, 3), "545.23.06"),
    toolkit((12, 4), (8, 4), "550.54.14"),
    toolkit((12, 5), (8, 5), "555.42.02"),
    toolkit((12, 7), (8, 6), "565.57.01"),
    toolkit((12, 8), (8, 7), "570.26"),
    toolkit((12, 9), (8, 8), "575.51.03"),
    toolkit((13, 0), (9, 0), "580.65.06"),
    toolkit((13, 1), (9, 1), "590.44.01"),
    toolkit((13, 2), (9, 2), ""),
    toolkit((13, 3), (9, 3), ""),
    toolkit((13, 4), (9, 4), ""),
    toolkit((13, 5), (9, 5), ""),
];

const fn toolkit(cuda: (u32, u32), (major, minor): (u8, u8), driver: &'static str) -> Toolkit {
    Toolkit { cuda, ptx: Version { major, minor }, driver }
}

impl Toolkit {
    /// The first that reads a version of PTX; `None` for one that is newer than the table.
    ///
    /// ```
    /// use ptx_target::{Toolkit, Version};
    /// let first = Toolkit::first_with(Version { major: 8, minor: 6 });
    /// assert_eq!(first.map(|toolkit| toolkit.to_string()).as_deref(), Some("CUDA 12.7 (driver 565.57.01)"));
    /// assert!(Toolkit::first_with(Version::NEWEST).is_some());
    /// ```
    pub fn first_with(ptx: Version) -> Option<&'static Toolkit> {
        TOOLKITS.iter().find(|toolkit| toolkit.ptx >= ptx)
    }

    /// The newest PTX that a driver of this version of CUDA reads; `None` for a driver that is older or newer than the table.
    ///
    /// ```
    /// use ptx_target::{Toolkit, Version};
    /// assert_eq!(Toolkit::newest_ptx((12, 6)), Some(Version { major: 8, minor: 5 }));
    /// assert_eq!(Toolkit::newest_ptx((8, 0)).or(Toolkit::newest_ptx((99, 0))), None);
    /// ```
    pub fn newest_ptx(cuda: (u32, u32)) -> Option<Version> {
        let known = TOOLKITS.last().is_some_and(|last| cuda <= last.cuda);
        let newest = TOOLKITS.iter().rev().find(|toolkit| cuda >= toolkit.cuda)?;
        known.then_some(newest.ptx)
    }
}

/// `CUDA 12.8 (driver 570.26)`
impl fmt::Display for Toolkit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.cuda;
        write!(f, "CUDA {major}.{minor}")?;
        if self.driver.is_empty() { Ok(()) } else { write!(f, " (driver {})", self.driver) }
    }
}
