//! Properties of the device behind a stream, for libraries that choose among kernels, and the identity of a stream.
//! Read once per context; nothing here launches.

use crate::cache::Cache;
use crate::device::cuda::{CudaDevice, Limits};
use crate::device::{Device, Inner};
use crate::error::Result;
use crate::graph;
use crate::load::Home;
use crate::stream::{Entered, PER_THREAD, StreamKind, StreamRef};
use cudarc::driver::CudaContext;
use std::sync::Arc;
use std::thread::{self, ThreadId};

/// Properties of a device by which a library chooses among its kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Properties {
    /// The compute capability, ten times the major number and the minor one: 90 is `sm_90`. `None` on the CPU device, which
    /// runs kernels of every target.
    pub capability: Option<u16>,
    /// Number of SMs; 1 on the CPU device.
    pub multiprocessors: u32,
}

impl Properties {
    /// Those of a device that need not be here: its compute capability, ten times the major number and the minor one, and its SMs.
    pub const fn of_chip(capability: u16, multiprocessors: u32) -> Properties {
        Properties { capability: Some(capability), multiprocessors }
    }
}

/// The identity of a stream: equal for all handles of one queue of a device, and for no other queue that is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamId {
    device: usize,
    stream: usize,
    /// For the per-thread stream, which is another queue on each thread.
    thread: Option<ThreadId>,
}

/// The side whose capture records the work of a stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Recorder {
    Nobody,
    Ours,
    Other,
}

/// The properties of each context's device.
static KNOWN: Cache<(Home, Properties)> = Cache::new();

impl StreamRef<'_> {
    /// Properties of its device. The first call for a context reads the driver; the others take no lock and allocate nothing.
    ///
    /// # Errors
    /// An error of the driver when it reads the device's properties.
    #[inline]
    pub fn properties(self) -> Result<Properties> {
        match self.kind {
            StreamKind::Cuda(stream) => of_context(stream.context()),
            StreamKind::Cpu(_) => Ok(Properties { capability: None, multiprocessors: 1 }),
        }
    }

    /// Its device.
    ///
    /// # Errors
    /// An error of the driver when it reads the device's properties.
    pub fn device(self) -> Result<Device> {
        match self.kind {
            StreamKind::Cuda(stream) => CudaDevice::of_context(stream.context()).map(|d| Device(Inner::Cuda(d))),
            StreamKind::Cpu(device) => Ok(Device(Inner::Cpu(device.clone()))),
        }
    }

    /// Returns true while [`Stream::capture`](crate::Stream::capture) records its work in a graph; also if the driver fails, as the next
    /// use of the stream will.
    pub fn is_captured(self) -> bool {
        self.recorder().is_none_or(|recorder| recorder == Recorder::Ours)
    }

    /// Returns true while another library, or cudarc, records its work in a graph.
    pub fn is_captured_elsewhere(self) -> bool {
        self.recorder() == Some(Recorder::Other)
    }

    /// Returns the side that records its work now; `None` if the driver fails.
    fn recorder(self) -> Option<Recorder> {
        let StreamKind::Cuda(stream) = self.kind else { return Some(Recorder::Nobody) };
        let entered = Entered::on(stream).ok()?;
        Some(entered.capture.map_or(Recorder::Nobody, |capture| match graph::is_ours(stream, &capture) {
            true => Recorder::Ours,
            false => Recorder::Other,
        }))
    }

    /// Its identity.
    pub fn id(self) -> StreamId {
        match self.kind {
            StreamKind::Cuda(on) => {
                let stream = on.cu_stream().addr();
                let thread = (stream == PER_THREAD).then(|| thread::current().id());
                StreamId { device: Arc::as_ptr(on.context()).addr(), stream, thread }
            }
            StreamKind::Cpu(device) => StreamId { device: device.addr(), stream: 0, thread: None },
        }
    }
}

#[inline]
fn of_context(context: &Arc<CudaContext>) -> Result<Properties> {
    let is = |(home, _): &(Home, Properties)| home.is(context);
    let found = match KNOWN.find(is) {
        Some(found) => found,
        None => KNOWN.find_or_make(is, || Ok((Home::of(context), read(context)?)))?,
    };
    Ok(found.1)
}

fn read(context: &CudaContext) -> Result<Properties> {
    let limits = Limits::read(context)?;
    Ok(Properties { capability: Some(limits.arch.number), multiprocessors: limits.multiprocessors })
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::stream::AsStream;

    #[test]
    fn a_stream_of_the_cpu_device_is_its_device() {
        let (one, other) = (Device::cpu(), Device::cpu());
        let id = |device: &Device| device.as_stream().id();
        assert_eq!(id(&one), one.stream().as_stream_ref().id());
        assert_ne!(id(&one), id(&other));
        let stream = one.stream();
        let stream = stream.as_stream_ref();
        assert_eq!(stream.properties().unwrap().capability, None);
        assert_eq!(id(&stream.device().unwrap()), id(&one));
    }
}
