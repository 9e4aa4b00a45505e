//! Work that uses several pieces of memory and is submitted at once.

use super::{Capture, Entered, StreamRef};
use crate::context::Event;
use cudarc::driver::{CudaStream, DriverError};
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, OnceLock};

/// Work on one stream, such as a launch or a copy. All memory that is bound to its stream shares one event: the first guard that is
/// dropped records it, and the others have nothing to do. Therefore all of the work is submitted before any guard is dropped.
pub struct Submission<'a> {
    stream: StreamRef<'a>,
    /// The state of the stream when the first piece of memory was bound, which it keeps.
    entered: OnceLock<Entered>,
    /// Behind the work; only if another stream may have to wait for it.
    event: OnceLock<Arc<Event>>,
    is_recorded: AtomicBool,
}

impl<'a> Submission<'a> {
    /// Work that will be submitted to this stream.
    #[inline]
    pub fn on(stream: StreamRef<'a>) -> Submission<'a> {
        let stream = StreamRef { submission: None, ..stream };
        Submission { stream, entered: OnceLock::new(), event: OnceLock::new(), is_recorded: AtomicBool::new(false) }
    }

    /// The stream, for the memory that the work uses.
    #[inline]
    pub fn stream(&self) -> StreamRef<'_> {
        StreamRef { submission: Some(self), ..self.stream }
    }

    /// The capture that the stream is in, as the first piece of memory has found it.
    #[inline]
    pub(crate) fn capture(&self, stream: &CudaStream) -> Result<Option<Capture>, DriverError> {
        if let Some(entered) = self.entered.get() {
            return Ok(entered.capture);
        }
        let entered = Entered::on(stream)?;
        Ok(self.entered.get_or_init(|| entered).capture)
    }

    /// The event behind the work, made by the first use that needs one; `None` once it is recorded.
    pub(crate) fn event<E>(&self, make: impl FnOnce() -> Result<Arc<Event>, E>) -> Result<Option<&Arc<Event>>, E> {
        if self.is_recorded() {
            return Ok(None);
        }
        match self.event.get() {
            Some(event) => Ok(Some(event)),
            None => make().map(|event| Some(self.event.get_or_init(|| event))),
        }
    }

    /// The event, if it has yet to be recorded.
    pub(crate) fn unrecorded(&self) -> Option<&Event> {
        self.event.get().filter(|_| !self.is_recorded()).map(|event| &**event)
    }

    fn is_recorded(&self) -> bool {
        self.is_recorded.load(Acquire)
    }

    pub(crate) fn set_recorded(&self) {
        self.is_recorded.store(true, Release);
    }
}
