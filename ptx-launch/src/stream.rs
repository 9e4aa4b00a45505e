//! Streams: queues of work on a device. Ours, and cudarc's own, through one trait.

use crate::device::cpu::CpuDevice;
use crate::device::cuda::CudaDevice;
use crate::device::{Device, Inner};
use crate::error::Result;
use cudarc::driver::CudaStream;
use std::fmt;
use std::sync::Arc;

/// A queue of work on a device: what is submitted to it runs in order. On the CPU device work runs while it is
/// submitted.
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
    /// The device it belongs to.
    pub fn device(&self) -> Device {
        match &self.0 {
            Queue::Cuda(device, _) => Device(Inner::Cuda(device.clone())),
            Queue::Cpu(device) => Device(Inner::Cpu(device.clone())),
        }
    }

    /// cudarc's stream, or `None` on the CPU device.
    pub fn as_cuda(&self) -> Option<&Arc<CudaStream>> {
        match &self.0 {
            Queue::Cuda(_, stream) => Some(stream),
            Queue::Cpu(_) => None,
        }
    }

    /// Waits until all work in it has ended.
    ///
    /// # Errors
    /// The error of a kernel that failed while it ran ([`ErrorKind::Fault`](crate::ErrorKind::Fault)), or of the driver.
    pub fn synchronize(&self) -> Result<()> {
        match &self.0 {
            Queue::Cuda(device, stream) => device.synchronize_stream(stream),
            Queue::Cpu(_) => Ok(()),
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({})", AsStream::as_stream(&self))
    }
}

/// Something that work can be submitted to: a [`Stream`], a [`Device`] (its default stream), or cudarc's [`CudaStream`],
/// by reference.
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
}

#[derive(Clone, Copy)]
pub(crate) enum StreamKind<'a> {
    Cuda(&'a CudaStream),
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

#[inline]
fn cuda(stream: &CudaStream) -> StreamRef<'_> {
    StreamRef { kind: StreamKind::Cuda(stream) }
}

impl AsStream for &Stream {
    #[inline]
    fn as_stream(&self) -> StreamRef<'_> {
        match &self.0 {
            Queue::Cuda(_, stream) => cuda(stream),
            Queue::Cpu(device) => StreamRef { kind: StreamKind::Cpu(device) },
        }
    }
}

impl AsStream for &Device {
    #[inline]
    fn as_stream(&self) -> StreamRef<'_> {
        match &self.0 {
            Inner::Cuda(device) => cuda(device.default_stream()),
            Inner::Cpu(device) => StreamRef { kind: StreamKind::Cpu(device) },
        }
    }
}

impl AsStream for &CudaStream {
    #[inline]
    fn as_stream(&self) -> StreamRef<'_> {
        cuda(self)
    }
}

impl AsStream for &Arc<CudaStream> {
    #[inline]
    fn as_stream(&self) -> StreamRef<'_> {
        cuda(self)
    }
}
