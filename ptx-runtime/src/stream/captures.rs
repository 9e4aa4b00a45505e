//! The captures of this process, and work that waits for a whole context: such a wait breaks every capture, also one on another thread.

use cudarc::driver::sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
use cudarc::driver::{CudaContext, DriverError};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of captures in this process. Only while there are any is the driver asked about a stream.
static CAPTURES: AtomicUsize = AtomicUsize::new(0);

/// Work that was put off until no capture goes on. Locked while a capture begins or ends.
static PUT_OFF: Mutex<Vec<PutOff>> = Mutex::new(Vec::new());

type PutOff = Box<dyn FnOnce() + Send>;

fn lock() -> MutexGuard<'static, Vec<PutOff>> {
    PUT_OFF.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns true if a capture goes on.
#[inline]
pub(crate) fn any_capture() -> bool {
    CAPTURES.load(Relaxed) > 0
}

/// Calls `begin`, and counts a capture if that succeeds.
pub(crate) fn begin_capture<E>(begin: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
    let _others_wait = lock();
    begin()?;
    CAPTURES.fetch_add(1, Relaxed);
    Ok(())
}

/// One capture less. After the last one, the work that was put off is done, before another one begins.
pub(crate) fn end_capture() {
    let mut put_off = lock();
    if CAPTURES.fetch_sub(1, Relaxed) == 1 {
        put_off.drain(..).for_each(|work| work());
    }
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
        false => context.synchronize(),
    })
}
