//! Grid, block, cluster and the other choices of one launch, and nothing about what a device allows.

use crate::error::{Error, ErrorKind, Result};
use crate::int::{Int, ToInt};
use std::fmt;

/// Three extents: x, y, z. A missing one is 1. Kept wide, so that a value that no device takes is reported, not cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dim(pub(crate) [i64; 3]);

impl Dim {
    /// x, y, z.
    #[inline]
    pub fn extents(self) -> [i64; 3] {
        self.0
    }

    /// As the driver takes it, or nothing when an extent is negative or does not fit 32 bits.
    #[inline]
    pub(crate) fn to_u32(self) -> Option<[u32; 3]> {
        let [x, y, z] = self.0;
        Some([u32::try_from(x).ok()?, u32::try_from(y).ok()?, u32::try_from(z).ok()?])
    }

    /// x · y · z.
    #[inline]
    pub(crate) fn volume(self) -> i64 {
        self.0.iter().fold(1, |product: i64, extent| product.saturating_mul(*extent))
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, extent) in self.0.iter().enumerate() {
            f.write_str(if at > 0 { "×" } else { "" })?;
            match *extent {
                // Such an extent is the largest of those that are kept.
                i64::MAX => f.write_str("2^63 or more")?,
                extent => write!(f, "{extent}")?,
            }
        }
        Ok(())
    }
}

/// Size of a grid, a block or a cluster: an integer, or a tuple or array of one to three.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a grid, block or cluster size",
    label = "expected an integer, or a tuple or array of up to three"
)]
pub trait IntoDim {
    /// As extents.
    fn into_dim(self) -> Dim;
}

#[inline]
fn extent(value: impl ToInt) -> i64 {
    let Int(value) = value.to_int();
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

impl IntoDim for Dim {
    #[inline]
    fn into_dim(self) -> Dim {
        self
    }
}

impl<X: ToInt> IntoDim for X {
    #[inline]
    fn into_dim(self) -> Dim {
        Dim([extent(self), 1, 1])
    }
}

impl<X: ToInt> IntoDim for (X,) {
    #[inline]
    fn into_dim(self) -> Dim {
        self.0.into_dim()
    }
}

impl<X: ToInt, Y: ToInt> IntoDim for (X, Y) {
    #[inline]
    fn into_dim(self) -> Dim {
        Dim([extent(self.0), extent(self.1), 1])
    }
}

impl<X: ToInt, Y: ToInt, Z: ToInt> IntoDim for (X, Y, Z) {
    #[inline]
    fn into_dim(self) -> Dim {
        Dim([extent(self.0), extent(self.1), extent(self.2)])
    }
}

impl<X: ToInt> IntoDim for [X; 1] {
    #[inline]
    fn into_dim(self) -> Dim {
        let [x] = self;
        x.into_dim()
    }
}

impl<X: ToInt> IntoDim for [X; 2] {
    #[inline]
    fn into_dim(self) -> Dim {
        Dim([extent(self[0]), extent(self[1]), 1])
    }
}

impl<X: ToInt> IntoDim for [X; 3] {
    #[inline]
    fn into_dim(self) -> Dim {
        Dim([extent(self[0]), extent(self[1]), extent(self[2])])
    }
}

/// Configuration of a launch. What is not set here comes from the kernel's attribute.
///
/// ```
/// use ptx_launch::Config;
/// let config = Config::grid((64, 2)).block(256).shared(96 * 1024);
/// # let _ = config;
/// ```
///
/// A grid with an extent of zero is a launch of no blocks: it succeeds and does nothing, as a loop over an empty range
/// does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Config {
    pub(crate) grid: Option<Dim>,
    pub(crate) block: Option<Dim>,
    pub(crate) cluster: Option<Dim>,
    pub(crate) shared: Option<i64>,
    pub(crate) spread: Option<Spread>,
    pub(crate) priority: Option<i32>,
    pub(crate) cooperative: bool,
    pub(crate) pdl: bool,
}

/// Placement of the blocks of a cluster on the SMs of a GPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// As evenly as possible.
    Even,
    /// On SMs with room.
    LoadBalance,
}

/// The sizes that a [`Config`] has set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Blocks.
    pub grid: Option<Dim>,
    /// Threads of a block.
    pub block: Option<Dim>,
    /// Blocks of a cluster.
    pub cluster: Option<Dim>,
    /// Bytes of dynamic shared memory.
    pub shared: Option<i64>,
    /// True if all blocks are resident at once.
    pub cooperative: bool,
}

impl Config {
    /// The sizes that were set.
    #[inline]
    pub fn sizes(&self) -> Sizes {
        let Config { grid, block, cluster, shared, cooperative, .. } = *self;
        Sizes { grid, block, cluster, shared, cooperative }
    }

    /// Nothing set.
    #[inline]
    pub fn new() -> Config {
        Config::default()
    }

    /// This many blocks.
    #[inline]
    pub fn grid(blocks: impl IntoDim) -> Config {
        Config { grid: Some(blocks.into_dim()), ..Config::default() }
    }

    /// This many threads in a block.
    #[inline]
    pub fn block(self, threads: impl IntoDim) -> Config {
        Config { block: Some(threads.into_dim()), ..self }
    }

    /// This many blocks in a cluster (compute capability 9.0 and later).
    #[inline]
    pub fn cluster(self, blocks: impl IntoDim) -> Config {
        Config { cluster: Some(blocks.into_dim()), ..self }
    }

    /// This many bytes of dynamic shared memory; above 48 KiB the kernel is opted in by the launch.
    #[inline]
    pub fn shared(self, bytes: impl ToInt) -> Config {
        Config { shared: Some(extent(bytes)), ..self }
    }

    /// Sets the placement of the blocks of clusters.
    #[inline]
    pub fn spread(self, spread: Spread) -> Config {
        Config { spread: Some(spread), ..self }
    }

    /// The priority of this launch among those that wait; lower numbers go first.
    #[inline]
    pub fn priority(self, priority: i32) -> Config {
        Config { priority: Some(priority), ..self }
    }

    /// All blocks run at the same time, so that they may wait for each other.
    #[inline]
    pub fn cooperative(self, on: bool) -> Config {
        Config { cooperative: on, ..self }
    }

    /// Programmatic dependent launch: may start before the kernel in front of it has ended; the kernel itself waits
    /// with `griddepcontrol.wait`. A kernel that waits before all its accesses to global memory is launched so without this. A safe launch takes it
    /// from the kernel alone. Devices before `sm_90` launch without it.
    #[inline]
    pub fn pdl(self, on: bool) -> Config {
        Config { pdl: on, ..self }
    }

    /// The caller's choices, completed by the kernel's attribute.
    ///
    /// # Errors
    /// [`ErrorKind::Limits`] when both set a value and the values differ.
    #[inline]
    pub fn over(self, attribute: Config) -> Result<Config> {
        Ok(Config {
            grid: agree("grid", self.grid, attribute.grid, Dim::to_string)?,
            block: agree("block", self.block, attribute.block, Dim::to_string)?,
            cluster: agree("cluster", self.cluster, attribute.cluster, Dim::to_string)?,
            shared: agree("dynamic shared memory", self.shared, attribute.shared, bytes)?,
            spread: self.spread.or(attribute.spread),
            priority: self.priority.or(attribute.priority),
            cooperative: self.cooperative || attribute.cooperative,
            pdl: self.pdl || attribute.pdl,
        })
    }

    /// The same for a launch that is safe: the caller cannot add what only the author of the kernel can vouch for.
    ///
    /// # Errors
    /// [`ErrorKind::Limits`] also for [`pdl`](Config::pdl) where the attribute does not have it.
    #[inline]
    pub fn safely_over(self, attribute: Config) -> Result<Config> {
        if self.pdl && !attribute.pdl { Err(no_pdl()) } else { self.over(attribute) }
    }
}

#[inline]
fn agree<T: Copy + PartialEq>(
    what: &str,
    chosen: Option<T>,
    fixed: Option<T>,
    text: fn(&T) -> String,
) -> Result<Option<T>> {
    match (chosen, fixed) {
        (Some(chosen), Some(fixed)) if chosen != fixed => Err(disagree(what, &text(&chosen), &text(&fixed))),
        _ => Ok(chosen.or(fixed)),
    }
}

fn bytes(bytes: &i64) -> String {
    format!("{bytes} bytes")
}

#[cold]
fn no_pdl() -> Error {
    Error::new(ErrorKind::Limits, "a safe kernel is launched with `.pdl(true)`")
        .possible("kernels that wait for the one before them, with `griddepcontrol.wait`, are launched so without it")
        .help("leave it out of the `Config`; `pdl` in the attribute is for kernels that wait after some of their accesses")
}

#[cold]
fn disagree(what: &str, chosen: &str, fixed: &str) -> Error {
    Error::new(ErrorKind::Limits, format!("the launch sets the {what} to {chosen}"))
        .possible(format!("the kernel's attribute sets it to {fixed}"))
        .help(format!("leave the {what} out of the `Config`, or out of the attribute"))
}
