//! The door to a context of the driver. A call that needs a current context comes after [`bind`], a drop works inside of [`within`], and
//! no error of one call reaches another: cudarc parks the errors of its drops in the context and returns them from the next call, so they
//! are taken out here first. `Device::take_late_errors` returns them, and those of our own drops.
#![allow(unsafe_code, reason = "calls of the driver")]

use crate::driver::{Driver, Handle, cudarc_error};
use crate::error::{Error, Result};
use cudarc::driver::sys::{CUevent, CUevent_flags, CUevent_wait_flags, CUresult};
use cudarc::driver::{CudaContext, CudaStream, DriverError, result};
use std::any::Any;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most errors that are kept for one context; the first ones say more than later ones.
const KEPT: usize = 64;

/// Errors that no call could return, by the context.
static LATE: Mutex<Vec<(usize, DriverError)>> = Mutex::new(Vec::new());

fn late() -> MutexGuard<'static, Vec<(usize, DriverError)>> {
    LATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the context current in this thread.
#[inline]
pub(crate) fn bind(context: &CudaContext) -> Result<(), DriverError> {
    collect(context);
    if result::ctx::get_current()? != Some(context.cu_ctx()) {
        // SAFETY: the context is alive.
        unsafe { result::ctx::set_current(context.cu_ctx()) }?;
    }
    Ok(())
}

/// The same, for calls that return our errors.
#[inline]
pub(crate) fn bound(context: &CudaContext) -> Result<()> {
    bind(context).map_err(|error| cudarc_error("the context of a device cannot be made current", error))
}

/// Calls `work`, and then makes the CUDA context current again that was current in this thread before. Launches make the context of their
/// stream current; libraries of the CUDA runtime take the current context for the current device.
///
/// ```
/// assert_eq!(ptx_launch::keep_current_context(|| 5), 5);
/// ```
pub fn keep_current_context<R>(work: impl FnOnce() -> R) -> R {
    if Driver::get().is_ok() { restore_after(work) } else { work() }
}

/// The same, when there is a driver.
fn restore_after<R>(work: impl FnOnce() -> R) -> R {
    let before = result::ctx::get_current();
    let result = work();
    if let Ok(before) = before
        && result::ctx::get_current() != Ok(before)
    {
        // SAFETY: the context was current before; null leaves the thread without one. It is still there, unless `work` destroyed it, which
        // the driver answers with an error.
        let _ = unsafe { result::ctx::set_current(before.unwrap_or(null_mut())) };
    }
    result
}

/// Calls `work` with the context current, and then makes the one current again that was before: a drop leaves no trace in its thread.
pub(crate) fn within<R>(
    context: &CudaContext,
    work: impl FnOnce() -> Result<R, DriverError>,
) -> Result<R, DriverError> {
    let result = restore_after(|| bind(context).and_then(|()| work()));
    collect(context);
    result
}

/// Takes out the error that cudarc has parked in the context.
#[inline]
fn collect(context: &CudaContext) {
    note(context, context.check_err());
}

/// Keeps an error of a call that cannot return it.
#[inline]
pub(crate) fn note<T>(context: &CudaContext, result: Result<T, DriverError>) {
    if let Err(error) = result {
        keep(context, error);
    }
}

#[cold]
fn keep(context: &CudaContext, error: DriverError) {
    let (at, mut late) = (context.cu_ctx().addr(), late());
    if late.iter().filter(|(home, _)| *home == at).count() < KEPT {
        late.push((at, error));
    }
}

/// The errors that were kept since the last call, in their order.
pub(crate) fn take_late(context: &CudaContext) -> Vec<Error> {
    collect(context);
    let at = context.cu_ctx().addr();
    let taken: Vec<_> = late().extract_if(.., |(home, _)| *home == at).collect();
    taken.into_iter().map(|(_, error)| cudarc_error("memory, a stream or an event was dropped", error)).collect()
}

/// Values that cannot be dropped now: a capture goes on, the driver fails, or the driver is calling us.
static ASIDE: Mutex<Vec<Aside>> = Mutex::new(Vec::new());

type Aside = Box<dyn Any + Send>;

fn aside() -> MutexGuard<'static, Vec<Aside>> {
    ASIDE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a value until the next allocation, drop or wait for a device.
pub(crate) fn set_aside(it: Aside) {
    aside().push(it);
}

/// Drops the values that were set aside. Those that still cannot be dropped come back.
pub(crate) fn drop_aside() {
    let all = std::mem::take(&mut *aside());
    drop(all);
}

/// Calls a function of cudarc's that parks its error instead of returning it; returns that error.
pub(crate) fn returning<R>(context: &CudaContext, call: impl FnOnce() -> R) -> Result<R, DriverError> {
    bind(context)?;
    let result = call();
    context.check_err().map(|()| result)
}

/// An event of the driver, with its context, in which it is destroyed.
#[derive(Debug)]
pub(crate) struct Event {
    handle: Handle<CUevent>,
    context: Arc<CudaContext>,
}

impl Event {
    /// An event without a time.
    pub(crate) fn new(context: &Arc<CudaContext>) -> Result<Event, DriverError> {
        Event::with_flags(context, CUevent_flags::CU_EVENT_DISABLE_TIMING)
    }

    fn with_flags(context: &Arc<CudaContext>, flags: CUevent_flags) -> Result<Event, DriverError> {
        bind(context)?;
        let handle = Handle(result::event::create(flags)?);
        Ok(Event { handle, context: context.clone() })
    }

    /// An event behind all that was submitted to a stream.
    pub(crate) fn behind(stream: &CudaStream) -> Result<Event, DriverError> {
        let event = Event::new(stream.context())?;
        record(event.handle, stream).map(|()| event)
    }

    /// The same, with a time.
    pub(crate) fn timed(stream: &CudaStream) -> Result<Event, DriverError> {
        let event = Event::with_flags(stream.context(), CUevent_flags::CU_EVENT_DEFAULT)?;
        record(event.handle, stream).map(|()| event)
    }

    pub(crate) fn handle(&self) -> Handle<CUevent> {
        self.handle
    }

    /// The host waits for it.
    pub(crate) fn synchronize(&self) -> Result<(), DriverError> {
        bind(&self.context)?;
        // SAFETY: the event is alive.
        unsafe { result::event::synchronize(self.handle.0) }
    }

    /// Returns true if the work before it goes on: neither has it happened, nor is there an error.
    pub(crate) fn is_pending(&self) -> bool {
        // SAFETY: the event is alive.
        let found = within(&self.context, || unsafe { result::event::query(self.handle.0) });
        found.is_err_and(|error| error.0 == CUresult::CUDA_ERROR_NOT_READY)
    }

    /// Returns true if it is known to have happened.
    pub(crate) fn has_happened(&self) -> bool {
        // SAFETY: the event is alive.
        within(&self.context, || unsafe { result::event::query(self.handle.0) }).is_ok()
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the event is ours.
        let destroyed = within(&self.context, || unsafe { result::event::destroy(self.handle.0) });
        note(&self.context, destroyed);
    }
}

/// Records an event of the stream's own context. The caller keeps the event.
pub(crate) fn record(event: Handle<CUevent>, on: &CudaStream) -> Result<(), DriverError> {
    bind(on.context())?;
    // SAFETY: the caller keeps the event; the stream is alive.
    unsafe { result::event::record(event.0, on.cu_stream()) }
}

/// Lets a stream wait for an event of any context. The caller keeps the event.
pub(crate) fn wait_for(on: &CudaStream, event: Handle<CUevent>) -> Result<(), DriverError> {
    bind(on.context())?;
    // SAFETY: the caller keeps the event; the stream is alive.
    unsafe { result::stream::wait_event(on.cu_stream(), event.0, CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT) }
}

/// Lets `on` wait for all that was submitted to another stream.
pub(crate) fn join(on: &CudaStream, other: &CudaStream) -> Result<(), DriverError> {
    wait_for(on, Event::behind(other)?.handle)
}

/// The host waits for a stream.
pub(crate) fn synchronize(stream: &CudaStream) -> Result<(), DriverError> {
    bind(stream.context())?;
    // SAFETY: the stream is alive.
    unsafe { result::stream::synchronize(stream.cu_stream()) }
}

/// Frees memory that was allocated on a stream, whose context is current, in the order of that stream.
///
/// # Safety
/// The memory belongs to nobody else, and whatever uses it comes before the end of the stream.
pub(crate) unsafe fn free(address: u64, home: &CudaStream) -> Result<(), DriverError> {
    if home.context().has_async_alloc() {
        // SAFETY: passed on.
        return unsafe { result::free_async(address, home.cu_stream()) };
    }
    // SAFETY: the stream is alive.
    unsafe { result::stream::synchronize(home.cu_stream()) }?;
    // SAFETY: passed on; all work of the stream has ended.
    unsafe { result::free_sync(address) }
}
