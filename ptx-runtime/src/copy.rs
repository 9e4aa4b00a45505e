//! Work on a stream that is no kernel: copies between device memory, pinned host memory and devices, and fills.
#![allow(unsafe_code, reason = "calls of the driver")]

use crate::buffer::{Access, Element, Host, Pinned};
use crate::buffer::{Bound, ReadSlice, WriteSlice};
use crate::context::{Event, bind, bound, synchronize, wait_for};
use crate::driver::{Driver, cudarc_error};
use crate::error::{Error, ErrorKind, Result};
use crate::param::{bytes as bytes_of, bytes_mut};
use crate::stream::{Capture, Stream, StreamKind, Submission};
use cudarc::driver::{CudaStream, result};
use std::sync::Arc;

impl Stream {
    /// Copies device memory, in the order of this stream; the host does not wait. `from` may lie on another CUDA device.
    ///
    /// ```
    /// # use ptx_launch::prelude::*;
    /// # fn main() -> ptx_launch::Result<()> {
    /// let device = Device::cpu();
    /// let (x, mut y) = (device.upload(&[1u32, 2, 3])?, device.zeros::<u32>(5)?);
    /// device.stream().copy(&x, &mut y.slice_mut(1..4)?)?;
    /// assert_eq!(y.download()?, [0, 1, 2, 3, 0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Condition`] if the lengths differ, [`ErrorKind::WrongDevice`] if `to` is not on this stream's device or
    /// one of them is on the CPU device alone, or an error of the driver.
    pub fn copy<T: Element>(&self, from: impl ReadSlice<T>, mut to: impl WriteSlice<T>) -> Result<()> {
        let (stream, bytes) = (self.as_stream_ref(), same_length(from.len(), to.len())? * size_of::<T>());
        match (from.home().map(|home| (home, home.kind)), stream.kind) {
            _ if bytes == 0 => Ok(()),
            (Some((at, StreamKind::Cuda(home))), StreamKind::Cuda(on)) if differ(home, on) => {
                let (source, copy) = (Submission::on(at), Submission::on(stream));
                let states = [source.stream().capture(home)?, copy.stream().capture(on)?];
                if states.iter().any(Option::is_some) {
                    return Err(captured_peer());
                }
                let (read, written) = (from.bind(source.stream())?, to.bind(copy.stream())?);
                peer(home, on, &read, &written, bytes)
            }
            (_, StreamKind::Cuda(on)) => {
                let copy = Submission::on(stream);
                let (read, written) = (from.bind(copy.stream())?, to.bind(copy.stream())?);
                bound(on.context())?;
                // SAFETY: both are as long, and lie in the current context.
                let copied =
                    unsafe { result::memcpy_dtod_async(written.address(), read.address(), bytes, on.cu_stream()) };
                copied.map_err(|e| cudarc_error("device memory is copied", e))
            }
            (Some((at, StreamKind::Cpu(home))), StreamKind::Cpu(device))
                if !home.is(device) && home.reaches(device) =>
            {
                let (read, written) = (from.bind(at)?, to.bind(stream)?);
                home.finish().map(drop)?;
                device.copy(read.address(), written.address(), bytes)
            }
            (_, StreamKind::Cpu(device)) => {
                let (read, written) = (from.bind(stream)?, to.bind(stream)?);
                device.copy(read.address(), written.address(), bytes)
            }
        }
    }

    /// Fills device memory with a value, in the order of this stream; the host does not wait. A value of 1, 2 or 4 bytes is
    /// the quickest, or one whose pieces of 4 bytes are all the same, like zero.
    ///
    /// # Errors
    /// [`ErrorKind::WrongDevice`] if it is not on this stream's device, or an error of the driver.
    pub fn fill<T: Element>(&self, mut to: impl WriteSlice<T>, value: T) -> Result<()> {
        let (stream, len) = (self.as_stream_ref(), to.len());
        let written = to.bind(stream)?;
        match stream.kind {
            _ if len == 0 || size_of::<T>() == 0 => Ok(()),
            StreamKind::Cuda(on) => {
                bound(on.context())?;
                Pattern::of(bytes_of(&[value])).fill(on, written.address(), len)
            }
            StreamKind::Cpu(device) => device.write(written.address(), &bytes_of(&[value]).repeat(len)),
        }
    }

    /// Copies pinned host memory to the device, in the order of this stream; the host does not wait, unless it looks at
    /// `from` or drops it.
    ///
    /// # Errors
    /// [`ErrorKind::Condition`] if the lengths differ, [`ErrorKind::WrongDevice`] if one of them is not of this stream's
    /// device, [`ErrorKind::Unsupported`] in a capture, or an error of the driver.
    pub fn upload<T: Element>(&self, from: &Pinned<T>, mut to: impl WriteSlice<T>) -> Result<()> {
        let (stream, bytes) = (self.as_stream_ref(), same_length(from.len(), to.len())? * size_of::<T>());
        let copy = Submission::on(stream);
        let written = to.bind(copy.stream())?;
        match (&from.host, stream.kind) {
            (Host::Cuda(host), StreamKind::Cuda(on)) if !differ_from(host.context(), on) => {
                not_captured(copy.stream().capture(on)?)?;
                let _after = host.begin(on, Access::Read, &copy)?;
                bound(on.context())?;
                // SAFETY: both are as long; whoever writes or frees the host's waits for the event that `_after` records.
                let copied = unsafe {
                    let host = std::slice::from_raw_parts(host.at(), bytes);
                    result::memcpy_htod_async(written.address(), host, on.cu_stream())
                };
                copied.map_err(|e| cudarc_error("pinned memory is uploaded", e))
            }
            (Host::Cpu(host), StreamKind::Cpu(device)) => device.write(written.address(), bytes_of(host)),
            _ => Err(other_home(self)),
        }
    }

    /// Copies device memory to pinned host memory, in the order of this stream; the host does not wait, unless it looks at
    /// `to` or drops it.
    ///
    /// # Errors
    /// As [`upload`](Stream::upload).
    pub fn download<T: Element>(&self, from: impl ReadSlice<T>, to: &mut Pinned<T>) -> Result<()> {
        let (stream, bytes) = (self.as_stream_ref(), same_length(from.len(), to.len())? * size_of::<T>());
        let copy = Submission::on(stream);
        let read = from.bind(copy.stream())?;
        match (&mut to.host, stream.kind) {
            (Host::Cuda(host), StreamKind::Cuda(on)) if !differ_from(host.context(), on) => {
                not_captured(copy.stream().capture(on)?)?;
                let _after = host.begin(on, Access::Write, &copy)?;
                bound(on.context())?;
                // SAFETY: both are as long; whoever looks at the host's or frees it waits for the event that `_after` records.
                let copied = unsafe {
                    let host = std::slice::from_raw_parts_mut(host.at(), bytes);
                    result::memcpy_dtoh_async(host, read.address(), on.cu_stream())
                };
                copied.map_err(|e| cudarc_error("pinned memory is downloaded to", e))
            }
            (Host::Cpu(host), StreamKind::Cpu(device)) => device.read(read.address(), bytes_mut(host)),
            _ => Err(other_home(self)),
        }
    }
}

/// Between devices: the copy waits for all that the home stream of the source was given, and that stream for the copy.
fn peer(home: &CudaStream, on: &CudaStream, read: &Bound<'_>, written: &Bound<'_>, bytes: usize) -> Result<()> {
    let failed = |e| cudarc_error("memory is copied from another device", e);
    let before = Event::behind(home).map_err(failed)?;
    wait_for(on, before.handle()).map_err(failed)?;
    let (from, to) = (home.context().cu_ctx(), on.context().cu_ctx());
    // The default stream is that of the current context: the destination's.
    bind(on.context()).map_err(failed)?;
    // SAFETY: both are as long, each in its context; the stream belongs to the current one.
    unsafe { result::memcpy_peer_async(to, written.address(), from, read.address(), bytes, on.cu_stream()) }
        .map_err(failed)?;
    let waits = Event::behind(on).and_then(|copied| wait_for(home, copied.handle()));
    // Whoever writes the source next waits for its stream, which must not go on before the copy has ended.
    waits.or_else(|_| synchronize(on)).map_err(failed)
}

/// A value as the driver fills memory with it: pieces of 1, 2 or 4 bytes.
struct Pattern {
    /// Bytes of a piece.
    unit: usize,
    pieces: Vec<u32>,
}

impl Pattern {
    fn of(value: &[u8]) -> Pattern {
        let unit = [4, 2, 1].into_iter().find(|unit| value.len().is_multiple_of(*unit)).unwrap_or(1);
        let piece = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
        Pattern { unit, pieces: value.chunks(unit).map(piece).collect() }
    }

    /// The one piece that it consists of.
    fn uniform(&self) -> Option<u32> {
        let first = *self.pieces.first()?;
        self.pieces.iter().all(|piece| *piece == first).then_some(first)
    }

    /// `len` values from `address` on; the stream's context is current.
    fn fill(&self, on: &CudaStream, address: u64, len: usize) -> Result<()> {
        match self.uniform() {
            Some(piece) => self.row(on, address, piece, len * self.pieces.len()),
            None => {
                let each = |(at, piece): (usize, &u32)| self.column(on, address + (at * self.unit) as u64, *piece, len);
                self.pieces.iter().enumerate().try_for_each(each)
            }
        }
    }

    /// `count` pieces side by side.
    fn row(&self, on: &CudaStream, address: u64, piece: u32, count: usize) -> Result<()> {
        let (driver, stream) = (Driver::get()?, on.cu_stream());
        // SAFETY: the memory is bound to the stream, whose context is current, and has that many pieces.
        let code = unsafe {
            match self.unit {
                4 => (driver.cuMemsetD32Async)(address, piece, count, stream),
                2 => (driver.cuMemsetD16Async)(address, piece as u16, count, stream),
                _ => (driver.cuMemsetD8Async)(address, piece as u8, count, stream),
            }
        };
        driver.check(code, "device memory is filled")
    }

    /// The same piece of each of `len` values.
    fn column(&self, on: &CudaStream, address: u64, piece: u32, len: usize) -> Result<()> {
        let (driver, stream, pitch) = (Driver::get()?, on.cu_stream(), self.unit * self.pieces.len());
        // SAFETY: as above.
        let code = unsafe {
            match self.unit {
                4 => (driver.cuMemsetD2D32Async)(address, pitch, piece, 1, len, stream),
                2 => (driver.cuMemsetD2D16Async)(address, pitch, piece as u16, 1, len, stream),
                _ => (driver.cuMemsetD2D8Async)(address, pitch, piece as u8, 1, len, stream),
            }
        };
        driver.check(code, "device memory is filled")
    }
}

fn differ(home: &CudaStream, on: &CudaStream) -> bool {
    differ_from(home.context(), on)
}

fn differ_from(home: &Arc<cudarc::driver::CudaContext>, on: &CudaStream) -> bool {
    home.cu_ctx() != on.context().cu_ctx()
}

fn same_length(from: usize, to: usize) -> Result<usize> {
    if from == to { Ok(from) } else { Err(other_length(from, to)) }
}

fn not_captured(capture: Option<Capture>) -> Result<()> {
    if capture.is_none() { Ok(()) } else { Err(captured()) }
}

#[cold]
fn other_length(from: usize, to: usize) -> Error {
    Error::new(ErrorKind::Condition, format!("{from} elements are copied to {to}"))
        .possible("as many elements on both sides")
        .help("take a part of the longer one, with `slice(..)` or `slice_mut(..)`")
}

#[cold]
fn captured() -> Error {
    Error::new(ErrorKind::Unsupported, "pinned memory is copied in a capture")
        .possible("launches, fills, and copies between device memory can be captured")
        .help("copy before the capture, or after the graph")
}

#[cold]
fn captured_peer() -> Error {
    Error::new(ErrorKind::Unsupported, "memory is copied from another device in a capture")
        .possible("launches, fills, and copies between memory of one device can be captured")
        .help("copy before the capture, or after the graph")
}

#[cold]
fn other_home(stream: &Stream) -> Error {
    Error::new(
        ErrorKind::WrongDevice,
        format!("pinned memory of another device is copied on {}", stream.as_stream_ref()),
    )
    .possible("pinned memory of the stream's own device")
    .help("make it with `stream.device().pinned(…)`")
}
