//! The captures of this process, and work that waits for a whole context: such a wait breaks every capture, also one on another thread.
//!
//! Only the driver can tell whether a stream is captured, since cudarc and other libraries begin captures, too. It is asked at each use,
//! except of the default stream, which nobody can capture.
#![allow(unsafe_code, reason = "the driver is asked about captures")]

use super::gate::{Closed, Turn};
use crate::context::{bind, within};
use crate::driver::{Driver, Handle};
use crate::error::{Error, ErrorKind, Result};
use cudarc::driver::sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
use cudarc::driver::sys::{CUgraph, CUstreamCaptureStatus};
use cudarc::driver::{CudaContext, CudaStream, DriverError, result};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of captures of ours in this process.
static CAPTURES: AtomicUsize = AtomicUsize::new(0);

/// Work that was put off until no capture goes on. Locked while a capture begins or ends.
static PUT_OFF: Mutex<Vec<PutOff>> = Mutex::new(Vec::new());

type PutOff = Box<dyn FnOnce() + Send>;

fn lock() -> MutexGuard<'static, Vec<PutOff>> {
    PUT_OFF.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A capture that a stream is in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capture {
    /// The driver's number of it; zero from a driver that does not tell.
    pub(crate) id: u64,
    /// The graph that it records; null likewise.
    pub(crate) graph: Handle<CUgraph>,
}

/// The state of a stream for work that is about to be bound to it.
#[derive(Default)]
pub(crate) struct Entered {
    pub(crate) capture: Option<Capture>,
    /// Keeps the state as it is.
    pub(crate) turn: Option<Turn>,
}

impl Entered {
    /// The state of `stream` from now until this is dropped. Its context is current afterwards, unless it is the default stream.
    ///
    /// # Errors
    /// Those of the driver.
    #[inline]
    pub(crate) fn on(stream: &CudaStream) -> Result<Entered, DriverError> {
        if stream.cu_stream().is_null() { Ok(Entered::default()) } else { Entered::ask(stream) }
    }

    fn ask(stream: &CudaStream) -> Result<Entered, DriverError> {
        let turn = Some(Turn::take(stream));
        bind(stream.context())?;
        // SAFETY: the stream is alive.
        let capture = match unsafe { result::stream::is_capturing(stream.cu_stream()) }? {
            CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE => None,
            _ => Some(Capture::of(stream)),
        };
        Ok(Entered { capture, turn })
    }
}

impl Capture {
    /// The capture that the stream is in. Its context is current.
    #[cold]
    pub(crate) fn of(stream: &CudaStream) -> Capture {
        let (mut status, mut id, mut graph) = (0, 0, null_mut());
        let ask = Driver::get().and_then(Driver::cuStreamGetCaptureInfo_v2);
        let told = ask.is_ok_and(|ask| {
            // SAFETY: writes three values; the list of nodes is optional.
            0 == unsafe {
                ask(stream.cu_stream(), &raw mut status, &raw mut id, &raw mut graph, null_mut(), null_mut())
            }
        });
        if told { Capture { id, graph: Handle(graph) } } else { Capture { id: 0, graph: Handle(null_mut()) } }
    }
}

/// Returns true if a capture of ours goes on.
#[inline]
fn any_capture() -> bool {
    CAPTURES.load(Relaxed) > 0
}

/// Calls `begin` while no other thread submits to the stream, and counts a capture if that succeeds.
///
/// # Errors
/// Those of `begin`, and [`ErrorKind::Unsupported`] if another thread never submits what it has begun.
pub(crate) fn begin_capture(stream: &CudaStream, begin: impl FnOnce() -> Result<()>) -> Result<()> {
    let _closed = Closed::close(stream).ok_or_else(never_submitted)?;
    let _others_wait = lock();
    begin()?;
    CAPTURES.fetch_add(1, Relaxed);
    Ok(())
}

/// Calls `end` while no other thread submits to the stream, and counts one capture less. After the last one, the work that was put off is
/// done, before another one begins.
pub(crate) fn end_capture<R>(stream: &CudaStream, end: impl FnOnce() -> R) -> R {
    // Who keeps a turn for ever does not submit anything.
    let closed = Closed::close(stream);
    let result = end();
    drop(closed);
    let mut put_off = lock();
    if CAPTURES.fetch_sub(1, Relaxed) == 1 {
        put_off.drain(..).for_each(|work| work());
    }
    result
}

/// Calls `work`, during which no capture begins, with `true` if there is one already.
pub(crate) fn beside_captures<R>(work: impl FnOnce(bool) -> R) -> R {
    let _none_begins = lock();
    work(any_capture())
}

/// Does `work` now, or when the last capture has ended. No capture begins during it.
pub(crate) fn after_captures(work: impl FnOnce() + Send + 'static) {
    let mut put_off = lock();
    if any_capture() {
        put_off.push(Box::new(work));
    } else {
        work();
    }
}

/// Waits for all work of the context.
///
/// # Errors
/// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED` while a capture goes on, which the driver would break; and those of the driver.
pub(crate) fn synchronize_context(context: &CudaContext) -> Result<(), DriverError> {
    beside_captures(|any| match any {
        true => Err(DriverError(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)),
        false => within(context, result::ctx::synchronize),
    })
}

#[cold]
fn never_submitted() -> Error {
    Error::new(ErrorKind::Unsupported, "a capture begins while another thread has memory bound to the stream")
        .possible("a capture when the launches of other threads on this stream have returned")
        .help("drop every `Bound` of the stream")
}
