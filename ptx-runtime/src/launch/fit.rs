//! Checks a configuration against a device and a kernel. Comparisons only; the sentences are made when one fails.

use crate::config::{Config, Dim};
use crate::error::{Error, ErrorKind, Result};
use std::fmt::Display;

/// Limits of a kernel's launches, on either kind of device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) grid: [i64; 3],
    pub(crate) block: [i64; 3],
    /// Threads of a block that the device takes, and that this kernel's registers leave.
    pub(crate) threads: i64,
    pub(crate) kernel_threads: i64,
    /// Bytes of shared memory of a block; static bytes of this kernel.
    pub(crate) shared: i64,
    pub(crate) kernel_shared: i64,
    /// Blocks of a cluster; 1 where there are none.
    pub(crate) cluster: i64,
}

/// A configuration that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) cluster: Option<[u32; 3]>,
    pub(crate) shared: u32,
}

impl Shape {
    /// Returns true if there is nothing to run.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.grid.contains(&0)
    }
}

#[cold]
fn no_block(entry: &str) -> Error {
    Error::new(ErrorKind::Limits, format!("`{entry}` is launched, and nothing says with how many threads a block"))
        .help("write `block = 256` in the kernel's attribute, or launch it with `Config::grid(…).block(256)`")
}

impl Bounds {
    /// The configuration as the driver takes it. The names are those of the entry and the device, for errors.
    ///
    /// # Errors
    /// [`ErrorKind::Limits`] with what is asked and what is possible.
    #[inline]
    pub(crate) fn fit(&self, config: &Config, entry: &str, device: &dyn Display) -> Result<Shape> {
        let Some(block) = config.block else { return Err(no_block(entry)) };
        let grid = config.grid.unwrap_or(Dim([1, 1, 1]));
        let shared = config.shared.unwrap_or(0);
        let fits = within(grid, 0, self.grid)
            && within(block, 1, self.block)
            && block.volume() <= self.threads.min(self.kernel_threads)
            && (0..=self.shared - self.kernel_shared).contains(&shared)
            && config.cluster.is_none_or(|cluster| self.takes_cluster(cluster, grid));
        match (fits, grid.to_u32(), block.to_u32(), u32::try_from(shared)) {
            (true, Some(grid), Some(block), Ok(shared)) => {
                Ok(Shape { grid, block, shared, cluster: config.cluster.and_then(Dim::to_u32) })
            }
            _ if self.lacks_clusters(config) => Err(no_clusters(config, entry, device)),
            _ => {
                let (asked, possible, help) = self.explain(grid, block, shared, config.cluster);
                Err(refused(&format!("`{entry}` is launched with {asked} on {device}"), possible, help))
            }
        }
    }

    fn lacks_clusters(&self, config: &Config) -> bool {
        self.cluster == 1 && config.cluster.is_some_and(|cluster| cluster.volume() > 1)
    }

    #[inline]
    fn takes_cluster(&self, cluster: Dim, grid: Dim) -> bool {
        within(cluster, 1, [self.cluster; 3])
            && cluster.volume() <= self.cluster
            && grid.0.iter().zip(cluster.0).all(|(blocks, of)| blocks % of == 0)
    }

    /// Which comparison failed, in words.
    #[cold]
    fn explain(&self, grid: Dim, block: Dim, shared: i64, cluster: Option<Dim>) -> (String, String, &'static str) {
        let volume = block.volume();
        if !within(grid, 0, self.grid) {
            let most = format!("at most {} blocks", Dim(self.grid));
            (format!("a grid of {grid} blocks"), most, "let each block do more, or launch in several parts")
        } else if !within(block, 1, self.block) || volume > self.threads {
            let most = format!("1 to {} threads a block, at most {}", self.threads, Dim(self.block));
            (format!("a block of {block} = {volume} threads"), most, "use smaller blocks and a larger grid")
        } else if volume > self.kernel_threads {
            let most = format!("at most {} threads a block with this kernel's registers", self.kernel_threads);
            let help =
                "use smaller blocks, or set `max_regs` or `block` in the attribute, so that fewer registers are used";
            (format!("a block of {block} = {volume} threads"), most, help)
        } else if !(0..=self.shared - self.kernel_shared).contains(&shared) {
            let free = self.shared - self.kernel_shared;
            let most = format!("{free} bytes: {} of a block, less {} static ones", self.shared, self.kernel_shared);
            let help = "use fewer pipeline stages, smaller tiles, or a device with more shared memory";
            (format!("{shared} bytes of dynamic shared memory"), most, help)
        } else {
            let cluster = cluster.unwrap_or(Dim([1, 1, 1]));
            let most = format!("at most {} blocks a cluster, and a grid of whole clusters", self.cluster);
            (
                format!("clusters of {cluster} blocks in a grid of {grid}"),
                most,
                "make the grid a multiple of the cluster",
            )
        }
    }
}

#[cold]
fn no_clusters(config: &Config, entry: &str, device: &dyn Display) -> Error {
    let cluster = config.cluster.unwrap_or(Dim([1, 1, 1]));
    let asked = format!("`{entry}` is launched with clusters of {cluster} blocks on {device}, which has no clusters");
    Error::new(ErrorKind::Unsupported, asked)
        .possible("clusters on devices of sm_90 and later")
        .help("launch a kernel without clusters on this device")
}

#[cold]
fn refused(asked: &str, possible: String, help: &str) -> Error {
    Error::new(ErrorKind::Limits, asked).possible(possible).help(help)
}

#[inline]
fn within(dim: Dim, least: i64, most: [i64; 3]) -> bool {
    dim.0.iter().zip(most).all(|(extent, most)| (least..=most).contains(extent))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const H200: Bounds = Bounds {
        grid: [2_147_483_647, 65_535, 65_535],
        block: [1024, 1024, 64],
        threads: 1024,
        kernel_threads: 512,
        shared: 232_448,
        kernel_shared: 1024,
        cluster: 16,
    };

    #[test]
    fn what_fits() {
        let shape = H200.fit(&Config::grid((4, 2)).block(512).cluster(2).shared(231_424), "k", &"H200").unwrap();
        assert_eq!((shape.grid, shape.block, shape.cluster), ([4, 2, 1], [512, 1, 1], Some([2, 1, 1])));
        assert!(H200.fit(&Config::grid(0).block(1), "k", &"H200").unwrap().is_empty());
    }

    #[test]
    fn devices_without_clusters_say_so() {
        let old = Bounds { cluster: 1, ..H200 };
        let error = old.fit(&Config::grid(4).block(1).cluster(2), "k", &"A100 (sm_80)").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("on A100 (sm_80), which has no clusters"), "{error}");
        assert!(old.fit(&Config::grid(4).block(1).cluster(1), "k", &"A100 (sm_80)").is_ok());
    }

    #[test]
    fn what_does_not_and_why() {
        let wrong: [(Config, &str); 10] = [
            (Config::grid((1, 70_000)).block(1), "a grid of 1×70000×1 blocks"),
            (Config::grid(-1).block(1), "a grid of -1×1×1 blocks"),
            (Config::grid(u64::MAX).block(1), "at most 2147483647×65535×65535 blocks"),
            (Config::grid(1).block(2048), "a block of 2048×1×1 = 2048 threads"),
            (Config::grid(1).block((1, 1, 128)), "a block of 1×1×128 = 128 threads"),
            (Config::grid(1).block(0), "1 to 1024 threads a block"),
            (Config::grid(1).block(1024), "at most 512 threads a block with this kernel's registers"),
            (Config::grid(1).block(1).shared(231_425), "231424 bytes: 232448 of a block, less 1024 static ones"),
            (Config::grid(3).block(1).cluster(2), "clusters of 2×1×1 blocks in a grid of 3×1×1"),
            (Config::grid(32).block(1).cluster(32), "at most 16 blocks a cluster"),
        ];
        for (config, text) in wrong {
            let error = H200.fit(&config, "k", &"H200").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Limits);
            assert!(error.to_string().contains(text), "{error}\nlacks: {text}");
        }
    }
}
