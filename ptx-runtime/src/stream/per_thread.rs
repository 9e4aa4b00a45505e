//! The driver's per-thread default stream: one handle, another queue on each thread.
#![allow(unsafe_code, reason = "the stream is waited for by its handle")]

use crate::context::{note, within};
use cudarc::driver::{CudaContext, CudaStream, result};
use std::cell::RefCell;
use std::sync::{Arc, Weak};

/// `CU_STREAM_PER_THREAD`.
pub(crate) const PER_THREAD: usize = 2;

/// Returns true for the stream of whichever thread uses it.
#[inline]
pub(crate) fn is_per_thread(stream: &CudaStream) -> bool {
    stream.cu_stream().addr() == PER_THREAD
}

thread_local! {
    /// The contexts in which this thread may have work in its stream.
    static USED: Used = const { Used(RefCell::new(Vec::new())) };
}

/// Waits for the streams when the thread ends.
///
/// With memory of the stream-ordered allocator, the driver (580.159, and a program of a hundred lines without this crate) never
/// returns from the end of a thread whose per-thread stream has unfinished work.
struct Used(RefCell<Vec<Weak<CudaContext>>>);

/// Notes that this thread is about to submit work to its stream in a context.
#[cold]
pub(super) fn wait_at_thread_end(context: &Arc<CudaContext>) {
    // While the thread's variables are dropped, nothing can be noted any more.
    let _ = USED.try_with(|used| {
        let mut contexts = used.0.borrow_mut();
        if !contexts.iter().any(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(context))) {
            contexts.push(Arc::downgrade(context));
        }
    });
}

impl Drop for Used {
    fn drop(&mut self) {
        for context in self.0.get_mut().drain(..).filter_map(|context| context.upgrade()) {
            let own = std::ptr::without_provenance_mut(PER_THREAD);
            // SAFETY: the handle is valid in every context.
            note(&context, within(&context, || unsafe { result::stream::synchronize(own) }));
        }
    }
}
