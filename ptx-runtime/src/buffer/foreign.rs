//! Memory that somebody else owns: an address, and the stream that has its device. Nothing here orders its uses or frees it.
#![allow(unsafe_code, reason = "calls of the driver")]

use super::Bound;
use super::cuda::outside_of_captures;
use crate::context::{bind, synchronize};
use crate::driver::cudarc_error;
use crate::error::{Error, ErrorKind, Result};
use crate::stream::{Stream, StreamKind, StreamRef};
use cudarc::driver::result;

/// Bytes on the device of a stream. Whoever made it vouches for them.
#[derive(Clone, Copy)]
pub(super) struct Foreign<'a> {
    stream: &'a Stream,
    address: u64,
}

impl<'a> Foreign<'a> {
    pub(super) fn new(stream: &'a Stream, address: u64) -> Self {
        Foreign { stream, address }
    }

    pub(super) fn address(&self) -> u64 {
        self.address
    }

    /// The stream on which the host copies.
    pub(super) fn home(&self) -> StreamRef<'a> {
        self.stream.as_stream_ref()
    }

    /// Ready to be used by work on `stream`: its device is compared, and nothing waits.
    #[inline]
    pub(super) fn bind<'s>(&self, offset: usize, stream: StreamRef<'s>) -> Result<Bound<'s>> {
        match self.home().kind {
            StreamKind::Cuda(home) => Bound::foreign(self.address, home, stream),
            StreamKind::Cpu(home) => Bound::cpu(self.address, home, stream),
        }
        .map(|bound| bound.plus(offset))
    }

    /// Copies out on the home stream, and waits.
    pub(super) fn read(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        let from = self.address + offset as u64;
        match self.home().kind {
            StreamKind::Cpu(device) => device.read(from, into),
            StreamKind::Cuda(home) => {
                let _turn = outside_of_captures(home, captured)?;
                let failed = |e| cudarc_error("memory from a raw address is downloaded", e);
                bind(home.context()).map_err(failed)?;
                // SAFETY: the view lies in memory that its maker vouches for; `into` is borrowed until the stream was waited for.
                unsafe { result::memcpy_dtoh_async(into, from, home.cu_stream()) }.map_err(failed)?;
                synchronize(home).map_err(failed)
            }
        }
    }

    /// Copies in on the home stream, and waits, since `from` may be pinned memory.
    pub(super) fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        let to = self.address + offset as u64;
        match self.home().kind {
            StreamKind::Cpu(device) => device.write(to, from),
            StreamKind::Cuda(home) => {
                let _turn = outside_of_captures(home, captured)?;
                let failed = |e| cudarc_error("memory at a raw address is written", e);
                bind(home.context()).map_err(failed)?;
                // SAFETY: as in `read`.
                unsafe { result::memcpy_htod_async(to, from, home.cu_stream()) }.map_err(failed)?;
                synchronize(home).map_err(failed)
            }
        }
    }
}

#[cold]
fn captured() -> Error {
    Error::new(ErrorKind::Unsupported, "memory is copied from or to the host in a capture of its own stream")
        .possible("launches, fills, and copies between device memory can be captured")
        .help("copy before the capture, or after the graph")
}
