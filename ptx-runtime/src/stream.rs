//! Streams: queues of work on a device. Ours, and cudarc's own, through one trait.
#![allow(unsafe_code, reason = "streams of others are borrowed")]

mod captures;
mod gate;
mod patience;
mod per_thread;
mod submission;

pub(crate) use captures::{
    Capture, Entered, after_captures, begin_capture, beside_captures, end_capture, synchronize_context,
};
pub(crate) use gate::Turn;
pub(crate) use patience::until;
pub(crate) use per_thread::{PER_THREAD, is_per_thread};
pub use submission::Submission;

use crate::context;
use crate::device::cpu::CpuDevice;
use crate::device::cuda::CudaDevice;
use crate::device::{Device, Inner};
use crate::driver::cudarc_error;
use crate::error::{Error, ErrorKind, Result};
use cudarc::driver::{CudaContext, CudaStream, DriverError};
use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

/// A queue of work on a device: what is submitted to it runs in order. On the CPU device work runs while it is
/// submitted.
///
/// Dropping the last clone ends no work: it runs to its end, and buffers, pinned memory and graphs that it uses wait for it.
///
/// A clone is the same queue.
#[derive(Clone)]
pub struct Stream(pub(crate) Queue);

#[derive(Clone)]
pub(crate) enum Queue {
    Cuda(CudaDevice, Arc<CudaStream>),
    Cpu(CpuDevice),
}

impl Stream {
    /// A stream that somebody else made and keeps: a `CUstream` of the device's context, as another library gives it. A null pointer
    /// is the default stream. [`Device::cuda`] has the primary context of a GPU, in which PyTorch, JAX, CuPy and the CUDA runtime work.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] for the CPU device, which has one stream.
    ///
    /// # Safety
    /// `raw` is a stream of the device's context, or null, and exists until all work that was submitted to this stream has ended, and
    /// as long as a [`Buffer`](crate::Buffer) lives that was used on it.
    pub unsafe fn borrowed(device: &Device, raw: *mut c_void) -> Result<Stream> {
        match &device.0 {
            Inner::Cuda(device) => {
                // SAFETY: the caller vouches that it is a stream of this context, and that it lives.
                let stream = unsafe { device.context().wrap_borrowed_stream(raw.cast()) };
                Ok(Stream(Queue::Cuda(device.clone(), stream)))
            }
            Inner::Cpu(_) => Err(no_streams()),
        }
    }

    /// The device it belongs to.
    pub fn device(&self) -> Device {
        match &self.0 {
            Queue::Cuda(device, _) => Device(Inner::Cuda(device.clone())),
            Queue::Cpu(device) => Device(Inner::Cpu(device.clone())),
        }
    }

    /// cudarc's stream, or `None` on the CPU device.
    ///
    /// A graph that cudarc's `begin_capture` records holds the buffers that are used meanwhile, but nothing orders its launches among
    /// other uses of them. While it is called, no other thread may submit to the stream: [`capture`](Stream::capture) waits for them, and
    /// cudarc does not.
    pub fn as_cuda(&self) -> Option<&Arc<CudaStream>> {
        match &self.0 {
            Queue::Cuda(_, stream) => Some(stream),
            Queue::Cpu(_) => None,
        }
    }

    /// Makes work submitted to it from now on start after the current work of `other` has ended. The host does not
    /// wait.
    ///
    /// # Errors
    /// [`ErrorKind::WrongDevice`] when they belong to different devices, or an error of the driver.
    pub fn join(&self, other: &Stream) -> Result<()> {
        match (&self.0, &other.0) {
            (Queue::Cuda(_, stream), Queue::Cuda(_, other)) => {
                context::join(stream, other).map_err(|e| cudarc_error("a stream waits for another one", e))
            }
            // On a CPU device what was submitted runs in order.
            (Queue::Cpu(device), Queue::Cpu(other)) => match device.is(other) {
                true => Ok(()),
                false => other.finish().map(drop),
            },
            _ => Err(no_order(self, other)),
        }
    }

    /// A borrow of it.
    pub(crate) fn as_stream_ref(&self) -> StreamRef<'_> {
        match &self.0 {
            Queue::Cuda(_, stream) => StreamRef::cuda(stream),
            Queue::Cpu(device) => StreamRef::cpu(device),
        }
    }

    /// Waits until all work in it has ended.
    ///
    /// # Errors
    /// The error of a kernel that failed while it ran ([`ErrorKind::Fault`]), or of the driver.
    pub fn synchronize(&self) -> Result<()> {
        match &self.0 {
            Queue::Cuda(device, stream) => device.synchronize_stream(stream),
            Queue::Cpu(device) => device.finish().map(drop),
        }
    }
}

#[cold]
pub(crate) fn unknown_state(error: DriverError) -> Error {
    cudarc_error("the driver does not tell whether a stream is captured", error)
}

#[cold]
fn no_streams() -> Error {
    Error::new(ErrorKind::Unsupported, "a raw stream is given for the CPU device")
        .possible("streams of CUDA devices")
        .help("the CPU device has one stream: `device.stream()`")
}

#[cold]
fn no_order(stream: &Stream, other: &Stream) -> Error {
    Error::new(ErrorKind::WrongDevice, format!("{stream:?} waits for {other:?}"))
        .possible("streams of the same kind of device wait for each other")
        .help("wait on the host, with `synchronize`")
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({})", AsStream::as_stream(&self))
    }
}

/// Something that work can be submitted to: a [`Stream`], a [`Device`] (its default stream), or cudarc's
/// `Arc<CudaStream>`, by reference.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a stream",
    label = "expected a stream: the first argument of a launch says where it runs",
    note = "pass `&device.stream()`, `&device`, or cudarc's `&Arc<CudaStream>`"
)]
pub trait AsStream {
    /// A borrow of the stream.
    fn as_stream(&self) -> StreamRef<'_>;
}

/// A borrowed stream of either kind.
#[derive(Clone, Copy)]
pub struct StreamRef<'a> {
    pub(crate) kind: StreamKind<'a>,
    /// The work that will be submitted to it, whose memory shares an event.
    pub(crate) submission: Option<&'a Submission<'a>>,
}

impl<'a> StreamRef<'a> {
    /// A stream of cudarc's.
    #[inline]
    pub(crate) fn cuda(stream: &'a Arc<CudaStream>) -> StreamRef<'a> {
        if is_per_thread(stream) {
            per_thread::wait_at_thread_end(stream.context());
        }
        StreamRef { kind: StreamKind::Cuda(stream), submission: None }
    }

    /// The one stream of a CPU device.
    #[inline]
    pub(crate) fn cpu(device: &'a CpuDevice) -> StreamRef<'a> {
        StreamRef { kind: StreamKind::Cpu(device), submission: None }
    }

    /// Returns true on the CPU device.
    pub fn is_cpu(self) -> bool {
        matches!(self.kind, StreamKind::Cpu(_))
    }

    /// The state of this stream, cudarc's `on`, for work that is about to be bound to it. A submission keeps the state that it found first.
    ///
    /// # Errors
    /// Those of the driver.
    #[inline]
    pub(crate) fn enter(self, on: &CudaStream) -> Result<Entered> {
        match self.submission {
            Some(submission) => submission.capture(on).map(|capture| Entered { capture, turn: None }),
            None => Entered::on(on),
        }
        .map_err(unknown_state)
    }

    /// The capture that records the work of this stream, if there is one.
    ///
    /// # Errors
    /// Those of the driver.
    pub(crate) fn capture(self, on: &CudaStream) -> Result<Option<Capture>> {
        self.enter(on).map(|entered| entered.capture)
    }

    /// The CPU device, if it is a stream of one.
    pub(crate) fn as_cpu(self) -> Option<&'a CpuDevice> {
        match self.kind {
            StreamKind::Cuda(_) => None,
            StreamKind::Cpu(device) => Some(device),
        }
    }

    /// cudarc's context, unless it is a stream of a CPU device.
    pub(crate) fn context(self) -> Option<&'a Arc<CudaContext>> {
        match self.kind {
            StreamKind::Cuda(stream) => Some(stream.context()),
            StreamKind::Cpu(_) => None,
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) enum StreamKind<'a> {
    Cuda(&'a Arc<CudaStream>),
    Cpu(&'a CpuDevice),
}

impl fmt::Display for StreamRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            StreamKind::Cuda(stream) => write!(f, "CUDA device {}", stream.context().ordinal()),
            StreamKind::Cpu(device) => f.write_str(device.name()),
        }
    }
}

impl AsStream for StreamRef<'_> {
    #[inline]
    fn as_stream(&self) -> StreamRef<'_> {
        *self
    }
}

impl AsStream for &Stream {
    #[inline]
    fn as_stream(&self) -> StreamRef<'_> {
        self.as_stream_ref()
    }
}

impl AsStream for &Device {
    #[inline]
    fn as_stream(&self) -> StreamRef<'_> {
        match &self.0 {
            Inner::Cuda(device) => StreamRef::cuda(device.default_stream()),
            Inner::Cpu(device) => StreamRef::cpu(device),
        }
    }
}

impl AsStream for &Arc<CudaStream> {
    #[inline]
    fn as_stream(&self) -> StreamRef<'_> {
        StreamRef::cuda(self)
    }
}
