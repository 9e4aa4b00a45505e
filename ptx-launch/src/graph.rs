//! Graphs: a sequence of launches, recorded once, submitted as one.
#![allow(unsafe_code, reason = "calls of the driver")]

use crate::buffer::{Access, CudaMemory};
use crate::driver::{Driver, cudarc_error};
use crate::error::{Error, ErrorKind, Result};
use crate::stream::{CAPTURES, Queue, Stream};
use cudarc::driver::CudaStream;
use cudarc::driver::sys::{CUgraph, CUgraphExec};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A recorded sequence of launches, copies and fills.
///
/// ```no_run
/// # use ptx_launch::prelude::*;
/// # fn step(stream: &Stream, x: &mut Buffer<f32>) -> ptx_launch::Result<()> { Ok(()) }
/// # fn main() -> ptx_launch::Result<()> {
/// let stream = Device::cuda(0)?.new_stream()?;
/// let mut x = stream.device().zeros::<f32>(1024)?;
/// let graph = stream.capture(|stream| (0..1000).try_for_each(|_| step(stream, &mut x)))?;
/// graph.launch()?;
/// println!("{:?}", x.download()?);
/// # Ok(())
/// # }
/// ```
///
/// A graph holds addresses. The memory of the buffers that it was recorded with is held, too, and freed when both buffer
/// and graph are gone; each launch waits for the uses of these buffers on other streams, and they wait for it. Of what
/// reaches a kernel as a bare address the graph knows nothing, as a launch does not: a [`TensorMap`](crate::TensorMap), a
/// `u64`. Nor does it know cudarc's own slices: a graph with them has [`launch_untracked`](Graph::launch_untracked).
#[derive(Debug)]
pub struct Graph {
    stream: Arc<CudaStream>,
    driver: &'static Driver,
    graph: CUgraph,
    executable: CUgraphExec,
    memory: Noted,
}

/// The memory that a capture has seen.
#[derive(Default)]
struct Noted {
    ours: Vec<(Arc<CudaMemory>, Access)>,
    /// Whether there was memory of cudarc's, which nobody can hold.
    cudarc: bool,
}

impl std::fmt::Debug for Noted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} buffers", self.ours.len())
    }
}

/// What the captures that are going on have seen, by the handles of their streams.
static NOTED: Mutex<Vec<(usize, Noted)>> = Mutex::new(Vec::new());

fn noted() -> MutexGuard<'static, Vec<(usize, Noted)>> {
    NOTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A captured stream uses memory; of cudarc's nothing is known. What another stream than the one of [`Stream::capture`]
/// does, which joined the capture by an event, counts for all that are going on.
#[cold]
pub(crate) fn note(on: &CudaStream, memory: Option<(&Arc<CudaMemory>, Access)>) {
    let (mut captures, stream) = (noted(), on.cu_stream().addr());
    let known = captures.iter().any(|(at, _)| *at == stream);
    for (_, noted) in captures.iter_mut().filter(|(at, _)| !known || *at == stream) {
        match memory {
            Some((memory, access)) => noted.hold(memory, access),
            None => noted.cudarc = true,
        }
    }
}

impl Noted {
    fn hold(&mut self, memory: &Arc<CudaMemory>, access: Access) {
        match self.ours.iter_mut().find(|(held, _)| Arc::ptr_eq(held, memory)) {
            Some((_, noted)) if access == Access::Write => *noted = access,
            Some(_) => {}
            None => self.ours.push((memory.clone(), access)),
        }
    }
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
        let counted = Counted::new(stream);
        let worked = work(self);
        let memory = counted.end();
        let mut graph = std::ptr::null_mut();
        // SAFETY: the capture was begun above, by this thread. It ends whether `work` succeeded or not.
        let code = unsafe { (driver.cuStreamEndCapture)(stream.cu_stream(), &raw mut graph) };
        let captured = Captured { driver, graph };
        worked?;
        driver.check(code, "a capture ends")?;
        captured.instantiate(stream, memory)
    }
}

/// One of the [`CAPTURES`], also when `work` panics. The handle of its stream.
struct Counted(usize);

impl Counted {
    fn new(stream: &CudaStream) -> Counted {
        let stream = stream.cu_stream().addr();
        noted().push((stream, Noted::default()));
        CAPTURES.fetch_add(1, Relaxed);
        Counted(stream)
    }

    /// What the capture has seen.
    fn end(self) -> Noted {
        let mut captures = noted();
        let seen = captures.iter_mut().find(|(at, _)| *at == self.0);
        seen.map(|(_, seen)| std::mem::take(seen)).unwrap_or_default()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        noted().retain(|(at, _)| *at != self.0);
        CAPTURES.fetch_sub(1, Relaxed);
    }
}

/// A graph that cannot be launched yet.
struct Captured {
    driver: &'static Driver,
    graph: CUgraph,
}

impl Captured {
    fn instantiate(mut self, stream: &Arc<CudaStream>, memory: Noted) -> Result<Graph> {
        let (driver, mut executable) = (self.driver, std::ptr::null_mut());
        // SAFETY: the graph is whole.
        let code = unsafe { (driver.cuGraphInstantiateWithFlags)(&raw mut executable, self.graph, 0) };
        driver.check(code, "a graph is made ready")?;
        let graph = std::mem::replace(&mut self.graph, std::ptr::null_mut());
        Ok(Graph { stream: stream.clone(), driver, graph, executable, memory })
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
    /// Submits the whole sequence to the stream that it was recorded on, in order with all other uses of its buffers.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if it was recorded with memory of cudarc's, or what the driver says.
    pub fn launch(&self) -> Result<()> {
        if self.memory.cudarc {
            return Err(not_held());
        }
        let ours = self.memory.ours.iter();
        let _recorded: Vec<_> =
            ours.map(|(memory, access)| memory.ordered(&self.stream, *access)).collect::<Result<_>>()?;
        // SAFETY: the memory is held, and all other uses of it are ordered.
        unsafe { self.launch_untracked() }
    }

    /// Submits the whole sequence to the stream that it was recorded on, and nothing else.
    ///
    /// # Errors
    /// What the driver says.
    ///
    /// # Safety
    /// The memory that it was recorded with must still be alive, and until the sequence has ended nothing else may write
    /// what it reads, or touch what it writes, on the host or on another stream. [`Stream::synchronize`] waits for it.
    pub unsafe fn launch_untracked(&self) -> Result<()> {
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
fn not_held() -> Error {
    Error::new(ErrorKind::Unsupported, "a graph with cudarc's slices or views is launched")
        .possible("graphs of buffers, which it can hold: `Buffer::from_cuda` makes one of a slice")
        .help("or `unsafe { graph.launch_untracked() }`, when the slices are alive and nothing else uses them")
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
