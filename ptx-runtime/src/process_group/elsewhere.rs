//! Groups of processes on other systems than Linux, and without the feature `processes`: a type without values, so that no code runs for it.

#[path = "rendezvous.rs"]
mod rendezvous;

pub use rendezvous::Rendezvous;

use crate::device::Device;
use crate::error::{Error, ErrorKind, Result};
use crate::stream::Stream;
use std::time::Duration;

/// A rank of a group of processes on one machine; none exists on this system, or without the feature `processes`.
#[derive(Clone, Copy, Debug)]
pub enum ProcessGroup {}

impl ProcessGroup {
    /// Meets the other ranks.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`]
    pub fn join(_: &Device, _: &Rendezvous) -> Result<ProcessGroup> {
        Err(Error::new(ErrorKind::Unsupported, "processes are to share the memory of devices")
            .possible("Linux, with the feature `processes` of `ptx-launch`"))
    }

    /// The rank of this process.
    pub fn rank(&self) -> usize {
        match *self {}
    }

    /// Number of ranks.
    pub fn ranks(&self) -> usize {
        match *self {}
    }

    /// The device of this rank.
    pub fn device(&self) -> &Device {
        match *self {}
    }

    /// Time that this rank waits for others.
    pub fn patience(&self) -> Duration {
        match *self {}
    }

    /// Waits until all ranks have called it.
    ///
    /// # Errors
    /// None here.
    pub fn meet(&self) -> Result<()> {
        match *self {}
    }

    /// The bytes of all ranks.
    ///
    /// # Errors
    /// None here.
    pub fn gather(&self, _: &[u8]) -> Result<Vec<Vec<u8>>> {
        match *self {}
    }

    /// Waits until all work in a stream of this rank has ended.
    ///
    /// # Errors
    /// None here.
    pub fn finish(&self, _: &Stream) -> Result<()> {
        match *self {}
    }

    pub(crate) fn check(&self) -> Result<()> {
        match *self {}
    }

    pub(crate) fn is(&self, _: &ProcessGroup) -> bool {
        match *self {}
    }
}
