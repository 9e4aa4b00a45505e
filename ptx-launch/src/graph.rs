//! Graphs: a sequence of launches, recorded once, submitted as one.
#![allow(unsafe_code, reason = "calls of the driver")]

use crate::driver::{Driver, cudarc_error};
use crate::error::{Error, ErrorKind, Result};
use crate::stream::{CAPTURES, Queue, Stream};
use cudarc::driver::CudaStream;
use cudarc::driver::sys::{CUgraph, CUgraphExec};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A recorded sequence of launches.
///
/// ```no_run
/// # use ptx_launch::prelude::*;
/// # fn step(stream: &Stream) -> ptx_launch::Result<()> { Ok(()) }
/// # fn main() -> ptx_launch::Result<()> {
/// let stream = Device::cuda(0)?.new_stream()?;
/// let graph = stream.capture(|stream| (0..1000).try_for_each(|_| step(stream)))?;
/// // SAFETY: the buffers that `step` uses are alive, and nothing else touches them until `synchronize` returns.
/// unsafe { graph.launch()? };
/// stream.synchronize()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Graph {
    stream: Arc<CudaStream>,
    driver: &'static Driver,
    graph: CUgraph,
    executable: CUgraphExec,
}

// SAFETY: the handles may be used from any thread, one at a time; every use takes `&mut self` or drops.
unsafe impl Send for Graph {}

impl Stream {
    /// Records what `work` submits to this stream, instead of running it. Kernels that are launched in it for the first
    /// time are loaded first with [`Kernel::load`](crate::Kernel::load), or by a run of `work` before.
    ///
    /// The events by which cudarc orders different streams are left out while recording.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] on the CPU device and on a device's default stream, which cannot be recorded; those of
    /// `work`; and what the driver says.
    pub fn capture(&self, work: impl FnOnce(&Stream) -> Result<()>) -> Result<Graph> {
        let Queue::Cuda(_, stream) = &self.0 else { return Err(no_graphs()) };
        if stream.cu_stream().is_null() {
            return Err(default_stream());
        }
        let driver = Driver::get()?;
        stream.context().bind_to_thread().map_err(|e| cudarc_error("an earlier call left an error", e))?;
        // SAFETY: the stream is alive; 1 is CU_STREAM_CAPTURE_MODE_THREAD_LOCAL.
        driver.check(unsafe { (driver.cuStreamBeginCapture_v2)(stream.cu_stream(), 1) }, "a capture begins")?;
        CAPTURES.fetch_add(1, Relaxed);
        let counted = Counted;
        let worked = work(self);
        drop(counted);
        let mut graph = std::ptr::null_mut();
        // SAFETY: the capture was begun above, by this thread. It ends whether `work` succeeded or not.
        let code = unsafe { (driver.cuStreamEndCapture)(stream.cu_stream(), &raw mut graph) };
        let captured = Captured { driver, graph };
        worked?;
        driver.check(code, "a capture ends")?;
        captured.instantiate(stream)
    }
}

/// One of the [`CAPTURES`], also when `work` panics.
struct Counted;

impl Drop for Counted {
    fn drop(&mut self) {
        CAPTURES.fetch_sub(1, Relaxed);
    }
}

/// A graph that cannot be launched yet.
struct Captured {
    driver: &'static Driver,
    graph: CUgraph,
}

impl Captured {
    fn instantiate(mut self, stream: &Arc<CudaStream>) -> Result<Graph> {
        let (driver, mut executable) = (self.driver, std::ptr::null_mut());
        // SAFETY: the graph is whole.
        let code = unsafe { (driver.cuGraphInstantiateWithFlags)(&raw mut executable, self.graph, 0) };
        driver.check(code, "a graph is made ready")?;
        let graph = std::mem::replace(&mut self.graph, std::ptr::null_mut());
        Ok(Graph { stream: stream.clone(), driver, graph, executable })
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        if !self.graph.is_null() {
            // SAFETY: it is ours, and nobody else has it. A failure leaves nothing to do.
            unsafe { (self.driver.cuGraphDestroy)(self.graph) };
        }
    }
}

impl Graph {
    /// Submits the whole sequence to the stream that it was recorded on.
    ///
    /// # Errors
    /// What the driver says.
    ///
    /// # Safety
    /// The graph holds addresses, not borrows: every buffer that it was recorded with must still be alive, and until
    /// the sequence has ended nothing else may write what it reads, or touch what it writes, on the host or on another
    /// stream. [`Stream::synchronize`] waits for it.
    pub unsafe fn launch(&self) -> Result<()> {
        self.stream.context().bind_to_thread().map_err(|e| cudarc_error("an earlier call left an error", e))?;
        // SAFETY: both belong to the current context; the caller vouches for the memory.
        let code = unsafe { (self.driver.cuGraphLaunch)(self.executable, self.stream.cu_stream()) };
        self.driver.check(code, "a graph is launched")
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.stream.context().bind_to_thread().is_ok() {
            // SAFETY: both are ours. The driver keeps what still runs. A failure leaves nothing to do.
            unsafe {
                (self.driver.cuGraphExecDestroy)(self.executable);
                (self.driver.cuGraphDestroy)(self.graph);
            }
        }
    }
}

#[cold]
fn no_graphs() -> Error {
    Error::new(ErrorKind::Unsupported, "a stream of the CPU device is captured")
        .possible("streams of CUDA devices can be captured")
        .help("call the launches directly on the CPU device: they run at once")
}

#[cold]
fn default_stream() -> Error {
    Error::new(ErrorKind::Unsupported, "the default stream is captured")
        .possible("any other stream can be captured")
        .help("make one with `device.new_stream()`")
}
