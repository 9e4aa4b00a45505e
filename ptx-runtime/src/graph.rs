//! Graphs: a sequence of launches, recorded once, submitted as one.
#![allow(unsafe_code, reason = "calls of the driver")]

mod retained;

use crate::buffer::{Access, CudaMemory, patiently};
use crate::context::{Event, bound, note as note_error, within};
use crate::driver::{Driver, cudarc_error};
use crate::error::{Error, ErrorKind, Result};
use crate::stream::{Capture, Entered, Queue, Stream, StreamRef, Submission, Turn, begin_capture, end_capture};
use cudarc::driver::sys::{CUgraph, CUgraphExec, CUresult};
use cudarc::driver::{CudaStream, DriverError};
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
/// reaches a kernel as a bare address the graph has no record, as a launch has none: a [`TensorMap`](crate::TensorMap), a
/// `u64`. Nor does it know cudarc's own slices: a graph with them has [`launch_untracked`](Graph::launch_untracked).
#[derive(Debug)]
pub struct Graph {
    captured: Captured,
    executable: CUgraphExec,
    memory: Noted,
}

/// The memory that a capture has seen.
#[derive(Default)]
struct Noted {
    /// Recorded when the capture began.
    fence: Option<Arc<Event>>,
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

/// A capture of ours that goes on.
struct Running {
    /// The handle of its stream.
    stream: usize,
    /// The driver's number; zero from a driver that does not tell.
    id: u64,
    noted: Noted,
}

/// The captures of ours that go on in this process.
static RUNNING: Mutex<Vec<Running>> = Mutex::new(Vec::new());

fn running() -> MutexGuard<'static, Vec<Running>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Running {
    /// Returns true if work that a stream gives to this capture is recorded here. A driver that returns no numbers leaves open what another
    /// stream, which joined a capture by an event, belongs to: it counts for all.
    fn records(&self, stream: &CudaStream, capture: &Capture, known: bool) -> bool {
        match capture.id {
            0 => !known || self.stream == stream.cu_stream().addr(),
            id => self.id == id,
        }
    }
}

/// Calls `act` with the memory that each capture of ours has seen that records the work of the stream. Returns false if there is none: the
/// capture is somebody else's.
fn each_recorder(stream: &CudaStream, capture: &Capture, mut act: impl FnMut(&mut Noted)) -> bool {
    let (mut captures, at) = (running(), stream.cu_stream().addr());
    let known = captures.iter().any(|running| running.stream == at);
    let recorders = captures.iter_mut().filter(|running| running.records(stream, capture, known));
    recorders.map(|running| act(&mut running.noted)).count() > 0
}

/// Returns true if [`Stream::capture`] began the capture.
pub(crate) fn is_ours(stream: &CudaStream, capture: &Capture) -> bool {
    each_recorder(stream, capture, |_| ())
}

/// Notes memory that a captured stream uses; `None` stands for memory of cudarc's. The graph of another library holds the memory itself.
///
/// # Errors
/// Those of the driver.
#[cold]
pub(crate) fn note(on: &CudaStream, capture: &Capture, memory: Option<(&Arc<CudaMemory>, Access)>) -> Result<()> {
    // Before the list is locked: an order of uses that is locked looks into it.
    memory.iter().for_each(|(memory, _)| memory.hold());
    let noted = each_recorder(on, capture, |noted| match memory {
        Some((memory, access)) => noted.hold(memory, access),
        None => noted.cudarc = true,
    });
    match memory {
        Some((memory, _)) if !noted => {
            let memory: Arc<dyn Any + Send + Sync> = memory.clone();
            retained::retain(capture, &memory)
        }
        _ => Ok(()),
    }
}

/// The work that an event stands for if it is recorded on a stream now.
pub(crate) enum Fence {
    /// All that was submitted to it, as long as the turn is kept.
    None(Option<Turn>),
    /// The stream is in a capture, to which the event would belong. This one was recorded when the capture began, and nothing that was
    /// submitted since has run.
    At(Arc<Event>),
}

/// Returns what an event that is recorded on `stream` now would stand for.
///
/// # Errors
/// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED` in a capture that something else began, and those of the driver.
pub(crate) fn fence(stream: &CudaStream) -> Result<Fence, DriverError> {
    let Entered { capture, turn } = Entered::on(stream)?;
    if capture.is_none() {
        return Ok(Fence::None(turn));
    }
    let (captures, at) = (running(), stream.cu_stream().addr());
    let fence = captures.iter().find(|running| running.stream == at).and_then(|running| running.noted.fence.clone());
    fence.map(Fence::At).ok_or(DriverError(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED))
}

/// Lets the graph keep a texture or surface alive whose handle a captured stream gets.
///
/// # Errors
/// Those of the driver.
#[cold]
pub(crate) fn keep(on: &CudaStream, capture: &Capture, object: &Arc<dyn Any + Send + Sync>) -> Result<()> {
    let noted = each_recorder(on, capture, |noted| noted.keep(object));
    if noted { Ok(()) } else { retained::retain(capture, object) }
}

impl Noted {
    fn hold(&mut self, memory: &Arc<CudaMemory>, access: Access) {
        match self.ours.iter_mut().find(|(held, _)| Arc::ptr_eq(held, memory)) {
            Some((_, noted)) if access == Access::Write => *noted = access,
            Some(_) => {}
            None => self.ours.push((memory.clone(), access)),
        }
    }

    fn keep(&mut self, object: &Arc<dyn Any + Send + Sync>) {
        if !self.objects.iter().any(|kept| Arc::ptr_eq(kept, object)) {
            self.objects.push(object.clone());
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
    /// `work`; and errors of the driver.
    pub fn capture(&self, work: impl FnOnce(&Stream) -> Result<()>) -> Result<Graph> {
        let Queue::Cuda(_, stream) = &self.0 else { return Err(no_graphs()) };
        if stream.cu_stream().is_null() {
            return Err(default_stream());
        }
        let driver = Driver::get()?;
        let mut capture = Recording::begin(driver, stream)?;
        let worked = work(self);
        let (captured, memory) = capture.end();
        worked?;
        captured?.instantiate(memory)
    }
}

/// A capture that goes on. It ends when this is dropped, also by a panic.
struct Recording<'a> {
    driver: &'static Driver,
    stream: &'a Arc<CudaStream>,
    is_over: bool,
}

impl<'a> Recording<'a> {
    fn begin(driver: &'static Driver, stream: &'a Arc<CudaStream>) -> Result<Recording<'a>> {
        let failed = |e| cudarc_error("a capture begins", e);
        begin_capture(stream, || -> Result<()> {
            // No thread is between its choice and its submission: all that the stream has got is behind the event.
            let fence = Some(Arc::new(Event::behind(stream).map_err(failed)?));
            // SAFETY: the stream is alive, and its context current; 1 is CU_STREAM_CAPTURE_MODE_THREAD_LOCAL.
            driver.check(unsafe { (driver.cuStreamBeginCapture_v2)(stream.cu_stream(), 1) }, "a capture begins")?;
            let (noted, id) = (Noted { fence, ..Noted::default() }, Capture::of(stream).id);
            running().push(Running { stream: stream.cu_stream().addr(), id, noted });
            Ok(())
        })?;
        Ok(Recording { driver, stream, is_over: false })
    }

    /// The graph, and the memory that the capture has seen.
    fn end(&mut self) -> (Result<Captured>, Noted) {
        self.is_over = true;
        let (driver, stream) = (self.driver, self.stream);
        let mut captured = Captured { driver, stream: stream.clone(), graph: std::ptr::null_mut() };
        end_capture(stream, || {
            let at = stream.cu_stream().addr();
            let seen = running().extract_if(.., |running| running.stream == at).next();
            // What the caller has done may have made another context current.
            let ended = bound(stream.context()).and_then(|()| {
                // SAFETY: the capture was begun by this thread, which alone has `self`, a local value of `Stream::capture`.
                let code = unsafe { (driver.cuStreamEndCapture)(stream.cu_stream(), &raw mut captured.graph) };
                driver.check(code, "a capture ends")
            });
            (ended.map(|()| captured), seen.map(|running| running.noted).unwrap_or_default())
        })
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            // The graph is destroyed, and there is nobody to tell an error.
            drop(self.end());
        }
    }
}

/// The driver's graph, and the stream that it was recorded on.
#[derive(Debug)]
struct Captured {
    driver: &'static Driver,
    stream: Arc<CudaStream>,
    /// Null until the capture ends.
    graph: CUgraph,
}

impl Captured {
    fn instantiate(self, memory: Noted) -> Result<Graph> {
        let mut executable = std::ptr::null_mut();
        bound(self.stream.context())?;
        // SAFETY: the graph is whole.
        let code = unsafe { (self.driver.cuGraphInstantiateWithFlags)(&raw mut executable, self.graph, 0) };
        self.driver.check(code, "a graph is made ready")?;
        Ok(Graph { captured: self, executable, memory })
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        if !self.graph.is_null() {
            // SAFETY: it is ours, and nobody else has it. A failure leaves nothing to do.
            let destroyed = within(self.stream.context(), || Ok(unsafe { (self.driver.cuGraphDestroy)(self.graph) }));
            note_error(self.stream.context(), destroyed);
        }
    }
}

impl Graph {
    /// Submits the whole sequence to the stream that it was recorded on, in order with all other uses of its buffers.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if it was recorded with memory of cudarc's, or an error of the driver.
    pub fn launch(&self) -> Result<()> {
        if self.memory.cudarc {
            return Err(not_held());
        }
        let stream = &self.captured.stream;
        let submission = Submission::on(StreamRef::cuda(stream));
        if let Some(capture) = submission.stream().capture(stream)? {
            return self.record_in(&capture);
        }
        // All of it or nothing: otherwise this would wait for a thread that waits for this.
        let begin = || {
            let ours = self.memory.ours.iter();
            ours.map(|(memory, access)| memory.begin_graph(stream, *access, Some(&submission)).transpose())
                .collect::<Option<Result<Vec<_>>>>()
                .transpose()
        };
        let _recorded = patiently(begin)?;
        // SAFETY: the memory is held, and all other uses of it are ordered.
        unsafe { self.launch_untracked() }
    }

    /// Adds the sequence to the graph that is being recorded, which holds its memory from now on, too.
    #[cold]
    fn record_in(&self, capture: &Capture) -> Result<()> {
        let (stream, Noted { ours, objects, .. }) = (&self.captured.stream, &self.memory);
        ours.iter().try_for_each(|(memory, access)| note(stream, capture, Some((memory, *access))))?;
        objects.iter().try_for_each(|object| keep(stream, capture, object))?;
        // SAFETY: the memory is held by the other graph, which orders its uses.
        unsafe { self.launch_untracked() }
    }

    /// Submits the whole sequence to the stream that it was recorded on, and nothing else.
    ///
    /// # Errors
    /// An error of the driver.
    ///
    /// # Safety
    /// The memory that it was recorded with must still be alive, and until the sequence has ended nothing else may write
    /// what it reads, or touch what it writes, on the host or on another stream. [`Stream::synchronize`] waits for it.
    pub unsafe fn launch_untracked(&self) -> Result<()> {
        let Captured { driver, stream, .. } = &self.captured;
        bound(stream.context())?;
        // SAFETY: both belong to the current context; the caller vouches for the memory.
        let code = unsafe { (driver.cuGraphLaunch)(self.executable, stream.cu_stream()) };
        driver.check(code, "a graph is launched")
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let Captured { driver, stream, .. } = &self.captured;
        // SAFETY: it is ours. The driver keeps what still runs. A failure leaves nothing to do.
        let destroyed = within(stream.context(), || Ok(unsafe { (driver.cuGraphExecDestroy)(self.executable) }));
        note_error(stream.context(), destroyed);
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
