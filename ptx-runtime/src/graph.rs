//! Graphs: a sequence of launches, recorded once, submitted as one.
#![allow(unsafe_code, reason = "calls of the driver")]

use crate::buffer::{Access, CudaMemory, patiently};
use crate::driver::{Driver, cudarc_error};
use crate::error::{Error, ErrorKind, Result};
use crate::stream::{Events, Queue, Stream, StreamRef, Submission, begin_capture, end_capture};
use cudarc::driver::sys::{CUgraph, CUgraphExec, CUresult};
use cudarc::driver::{CudaEvent, CudaStream, DriverError};
use std::any::Any;
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
/// A graph holds addresses. The memory of the buffers that it was recorded with, its textures and its surfaces are held, too, and
/// freed when both they and the graph are gone; each launch waits for the uses of these buffers on other streams, and they wait for it.
/// Threads may launch a graph and use its buffers at the same time: one of them goes first. Of what
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
    /// Recorded when the capture began.
    fence: Option<Arc<CudaEvent>>,
    ours: Vec<(Arc<CudaMemory>, Access)>,
    /// True if there was memory of cudarc's, which nobody can hold.
    cudarc: bool,
    /// Textures and surfaces, whose handles the recorded launches have.
    objects: Vec<Arc<dyn Any + Send + Sync>>,
}

impl std::fmt::Debug for Noted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} buffers", self.ours.len())
    }
}

/// Memory that the running captures have seen, by the handles of their streams.
static NOTED: Mutex<Vec<(usize, Noted)>> = Mutex::new(Vec::new());

fn noted() -> MutexGuard<'static, Vec<(usize, Noted)>> {
    NOTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A captured stream uses memory; of cudarc's nothing is known. What another stream than the one of [`Stream::capture`]
/// does, which joined the capture by an event, counts for all that are going on.
#[cold]
pub(crate) fn note(on: &CudaStream, memory: Option<(&Arc<CudaMemory>, Access)>) {
    // Before the list is locked: an order of uses that is locked looks into it.
    memory.iter().for_each(|(memory, _)| memory.hold());
    let (mut captures, stream) = (noted(), on.cu_stream().addr());
    let known = captures.iter().any(|(at, _)| *at == stream);
    for (_, noted) in captures.iter_mut().filter(|(at, _)| !known || *at == stream) {
        match memory {
            Some((memory, access)) => noted.hold(memory, access),
            None => noted.cudarc = true,
        }
    }
}

/// The event of the beginning of the capture that `stream` is in, if it is in one: nothing that was submitted since has run, and an event
/// that is recorded now would belong to the capture.
///
/// # Errors
/// Of a capture that something else began.
pub(crate) fn fence(stream: &CudaStream) -> Result<Option<Arc<CudaEvent>>, DriverError> {
    if Events::of(stream) == Events::Kept {
        return Ok(None);
    }
    let (captures, at) = (noted(), stream.cu_stream().addr());
    let fence = captures.iter().find(|(stream, _)| *stream == at).and_then(|(_, noted)| noted.fence.clone());
    fence.map(Some).ok_or(DriverError(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED))
}

/// The same for a texture or surface: the graph keeps it alive.
#[cold]
pub(crate) fn keep(on: &CudaStream, object: &Arc<dyn Any + Send + Sync>) {
    let (mut captures, stream) = (noted(), on.cu_stream().addr());
    let known = captures.iter().any(|(at, _)| *at == stream);
    for (_, noted) in captures.iter_mut().filter(|(at, _)| !known || *at == stream) {
        if !noted.objects.iter().any(|kept| Arc::ptr_eq(kept, object)) {
            noted.objects.push(object.clone());
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
    /// The events that order different streams are left out while recording. If `work` panics, the recording ends and nothing is kept.
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
        let capture = Capture::begin(driver, stream)?;
        let worked = work(self);
        let (captured, memory) = capture.end();
        worked?;
        captured?.instantiate(stream, memory)
    }
}

/// A capture that goes on. It ends when this is dropped, also by a panic.
struct Capture<'a> {
    driver: &'static Driver,
    stream: &'a CudaStream,
    is_over: bool,
}

impl<'a> Capture<'a> {
    fn begin(driver: &'static Driver, stream: &'a CudaStream) -> Result<Capture<'a>> {
        let fence = stream.record_event(None).map_err(|e| cudarc_error("a capture begins", e))?;
        begin_capture(|| {
            // SAFETY: the stream is alive; 1 is CU_STREAM_CAPTURE_MODE_THREAD_LOCAL.
            driver.check(unsafe { (driver.cuStreamBeginCapture_v2)(stream.cu_stream(), 1) }, "a capture begins")
        })?;
        noted().push((stream.cu_stream().addr(), Noted { fence: Some(Arc::new(fence)), ..Noted::default() }));
        Ok(Capture { driver, stream, is_over: false })
    }

    /// The graph, and the memory that the capture has seen.
    fn end(mut self) -> (Result<Captured>, Noted) {
        let at = self.stream.cu_stream().addr();
        let seen = noted().iter_mut().find(|(stream, _)| *stream == at).map(|(_, seen)| std::mem::take(seen));
        (self.end_on_stream(), seen.unwrap_or_default())
    }

    fn end_on_stream(&mut self) -> Result<Captured> {
        self.is_over = true;
        let (driver, mut graph) = (self.driver, std::ptr::null_mut());
        // SAFETY: the capture was begun by this thread, which alone has `self`, a local value of `Stream::capture`.
        let code = unsafe { (driver.cuStreamEndCapture)(self.stream.cu_stream(), &raw mut graph) };
        let captured = Captured { driver, graph };
        driver.check(code, "a capture ends").map(|()| captured)
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            // The graph is destroyed, and there is nobody to tell an error.
            drop(self.end_on_stream());
        }
        let at = self.stream.cu_stream().addr();
        noted().retain(|(stream, _)| *stream != at);
        end_capture();
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
        // All of it or nothing: otherwise this would wait for a thread that waits for this.
        let submission = Submission::on(StreamRef::cuda(&self.stream));
        let begin = || {
            let ours = self.memory.ours.iter();
            ours.map(|(memory, access)| memory.begin_graph(&self.stream, *access, Some(&submission)).transpose())
                .collect::<Option<Result<Vec<_>>>>()
                .transpose()
        };
        let _recorded = patiently(begin)?;
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
