//! Work that uses several pieces of memory and is submitted at once.

use super::StreamRef;
use cudarc::driver::CudaEvent;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, OnceLock};

/// Work on one stream, such as a launch or a copy. All memory that is bound to its stream shares one event: the first guard that is
/// dropped records it, and the others have nothing to do. Therefore all of the work is submitted before any guard is dropped.
pub struct Submission<'a> {
    stream: StreamRef<'a>,
    /// Behind the work; only if another stream may have to wait for it.
    event: OnceLock<Arc<CudaEvent>>,
    is_recorded: AtomicBool,
}

impl<'a> Submission<'a> {
    /// Work that will be submitted to this stream.
    #[inline]
    pub fn on(stream: StreamRef<'a>) -> Submission<'a> {
        let stream = StreamRef { submission: None, ..stream };
        Submission { stream, event: OnceLock::new(), is_recorded: AtomicBool::new(false) }
    }

    /// The stream, for the memory that the work uses.
    #[inline]
    pub fn stream(&self) -> StreamRef<'_> {
        StreamRef { submission: Some(self), ..self.stream }
    }

    /// The event behind the work, made by the first use that needs one; `None` once it is recorded.
    pub(crate) fn event<E>(
        &self,
        make: impl FnOnce() -> Result<Arc<CudaEvent>, E>,
    ) -> Result<Option<&Arc<CudaEvent>>, E> {
        if self.is_recorded() {
            return Ok(None);
        }
        match self.event.get() {
            Some(event) => Ok(Some(event)),
            None => make().map(|event| Some(self.event.get_or_init(|| event))),
        }
    }

    /// The event, if it has yet to be recorded.
    pub(crate) fn unrecorded(&self) -> Option<&CudaEvent> {
        self.event.get().filter(|_| !self.is_recorded()).map(|event| &**event)
    }

    fn is_recorded(&self) -> bool {
        self.is_recorded.load(Acquire)
    }

    pub(crate) fn set_recorded(&self) {
        self.is_recorded.store(true, Release);
    }
}
