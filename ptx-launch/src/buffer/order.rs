//! Which stream must wait for which: the events of one buffer, by cudarc's protocol, without those that the order of a
//! stream makes superfluous.
//!
//! cudarc gives every slice two events, of its last read and of its last write, and lets every use wait for them. A buffer
//! of ours remembers besides which streams used it, so that a stream does not wait for itself, and readers on several
//! streams are all waited for. Whoever gets the memory as cudarc's (`lend`, `lend_mut`) finds its two events as it expects.
#![allow(unsafe_code, reason = "events are recorded and waited for by their handles")]

use crate::driver::cudarc_error;
use crate::error::Result;
use crate::load::Handle;
use cudarc::driver::sys::{CUevent, CUevent_wait_flags};
use cudarc::driver::{CudaEvent, CudaSlice, CudaStream, DevicePtr, DevicePtrMut, DriverError, SyncOnDrop, result};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The uses of a buffer.
pub(crate) struct Order {
    /// The stream that frees it.
    home: Arc<CudaStream>,
    /// cudarc's events, which live as long as the slice; none where the user turned them off.
    events: Option<[Handle<CUevent>; 2]>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// A stream that comes after the last write. Weak: it keeps the address from being used for another stream.
    after: Weak<CudaStream>,
    /// The stream whose read cudarc's event stands for.
    reader: Option<Weak<CudaStream>>,
    /// Whether cudarc may have recorded that event for a read of its own.
    lent: bool,
    /// Other streams that read.
    others: Vec<Reader>,
}

/// A stream that reads beside others, with an event of its own.
struct Reader {
    stream: Weak<CudaStream>,
    event: CudaEvent,
    /// Whether it has read since the last write.
    has_read: bool,
}

fn is(stream: &Weak<CudaStream>, other: &Arc<CudaStream>) -> bool {
    std::ptr::eq(stream.as_ptr(), Arc::as_ptr(other))
}

/// Records a use when it is dropped, after the work was submitted.
pub(crate) struct Recorded<'s> {
    event: Handle<CUevent>,
    on: &'s Arc<CudaStream>,
}

impl Drop for Recorded<'_> {
    #[inline]
    fn drop(&mut self) {
        let context = self.on.context();
        // SAFETY: the event is the buffer's, which is borrowed; the stream is alive.
        let record = || unsafe { result::event::record(self.event.0, self.on.cu_stream()) };
        context.record_err(context.bind_to_thread().and_then(|()| record()));
    }
}

impl Order {
    /// Of a slice whose uses cudarc's events know; and its address.
    pub(super) fn of(slice: &mut CudaSlice<u8>) -> (Order, u64) {
        let home = slice.stream().clone();
        let (address, read) = slice.device_ptr(&home);
        let read = event(read);
        let write = event(slice.device_ptr_mut(&home).1);
        let events = read.zip(write).map(|(read, write)| [read, write]);
        (Order { home, events, state: Mutex::default() }, address)
    }

    /// The stream that it was allocated on.
    pub(super) fn home(&self) -> &Arc<CudaStream> {
        &self.home
    }

    /// cudarc's events, if they are kept now.
    #[inline]
    fn kept(&self, on: &CudaStream) -> Option<[Handle<CUevent>; 2]> {
        let managed = |stream: &CudaStream| stream.context().is_managing_stream_synchronization();
        self.events.filter(|_| managed(&self.home) || managed(on))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets `on` wait for the last write, unless it comes after it anyhow.
    #[inline]
    pub(super) fn read<'s>(&'s self, on: &'s Arc<CudaStream>) -> Result<Option<Recorded<'s>>> {
        let Some([read, write]) = self.kept(on) else { return Ok(None) };
        let mut state = self.state();
        if !is(&state.after, on) {
            wait(on, write)?;
            state.after = Arc::downgrade(on);
        }
        let event = match &state.reader {
            Some(reader) if is(reader, on) => read,
            None if !state.lent => {
                state.reader = Some(Arc::downgrade(on));
                read
            }
            _ => state.beside(on).map_err(|e| cudarc_error("an event could not be made", e))?,
        };
        Ok(Some(Recorded { event, on }))
    }

    /// Lets `on` wait for the last write and all reads since, as far as they are of other streams.
    #[inline]
    pub(super) fn write<'s>(&'s self, on: &'s Arc<CudaStream>) -> Result<Option<Recorded<'s>>> {
        let Some([read, write]) = self.kept(on) else { return Ok(None) };
        let mut state = self.state();
        if state.lent || state.reader.as_ref().is_some_and(|reader| !is(reader, on)) {
            wait(on, read)?;
        }
        if !is(&state.after, on) {
            wait(on, write)?;
            state.after = Arc::downgrade(on);
        }
        state.wait_for_others(on)?;
        (state.reader, state.lent) = (None, false);
        Ok(Some(Recorded { event: write, on }))
    }

    /// Before the memory is read as cudarc's, which records its event of reads: what it stands for until then is kept by
    /// another one.
    pub(super) fn lend(&self) {
        let Some([read, _]) = self.kept(&self.home) else { return };
        let mut state = self.state();
        if state.lent || state.reader.take().is_some() {
            self.note(self.keep(&mut state, read));
        }
        state.lent = true;
    }

    /// The home stream waits for the reads, and counts as a reader from then on.
    fn keep(&self, state: &mut State, read: Handle<CUevent>) -> Result<(), DriverError> {
        let home = &self.home;
        home.context().bind_to_thread()?;
        wait_for(home, read)?;
        let event = state.beside(home)?;
        // SAFETY: the event is the buffer's; the stream is alive.
        unsafe { result::event::record(event.0, home.cu_stream()) }
    }

    /// Before the memory is written, given away or freed as cudarc's: its event of reads comes to stand for all of them.
    pub(super) fn lend_mut(&self) {
        let Some([read, _]) = self.kept(&self.home) else { return };
        let mut state = self.state();
        if state.others.iter().any(|other| other.has_read) {
            self.note(self.gather(&mut state, read));
        }
        (state.after, state.reader, state.lent) = (Weak::new(), None, true);
    }

    fn gather(&self, state: &mut State, read: Handle<CUevent>) -> Result<(), DriverError> {
        let home = &self.home;
        home.context().bind_to_thread()?;
        wait_for(home, read)?;
        for other in state.others.iter_mut().filter(|other| other.has_read) {
            wait_for(home, Handle(other.event.cu_event()))?;
            other.has_read = false;
        }
        // SAFETY: the event is the slice's; the stream is alive.
        unsafe { result::event::record(read.0, home.cu_stream()) }
    }

    /// An error of a call that cannot return it: the context tells it at the next one, as cudarc's do.
    fn note(&self, result: Result<(), DriverError>) {
        self.home.context().record_err(result);
    }
}

impl Drop for Order {
    /// The stream that frees the memory waits for the reads that cudarc does not know of.
    fn drop(&mut self) {
        self.lend_mut();
    }
}

impl State {
    /// The event of a stream that reads beside others.
    #[cold]
    fn beside(&mut self, on: &Arc<CudaStream>) -> Result<Handle<CUevent>, DriverError> {
        if let Some(other) = self.others.iter_mut().find(|other| is(&other.stream, on)) {
            other.has_read = true;
            return Ok(Handle(other.event.cu_event()));
        }
        self.others.retain(|other| other.has_read || other.stream.strong_count() > 0);
        let event = on.context().new_event(None)?;
        let handle = Handle(event.cu_event());
        self.others.push(Reader { stream: Arc::downgrade(on), event, has_read: true });
        Ok(handle)
    }

    fn wait_for_others(&mut self, on: &Arc<CudaStream>) -> Result<()> {
        for other in self.others.iter_mut().filter(|other| other.has_read) {
            if !is(&other.stream, on) {
                wait(on, Handle(other.event.cu_event()))?;
            }
            other.has_read = false;
        }
        Ok(())
    }
}

/// The event that cudarc would record.
fn event(sync: SyncOnDrop<'_>) -> Option<Handle<CUevent>> {
    let event = match &sync {
        SyncOnDrop::Record(Some((event, _))) => Some(Handle(event.cu_event())),
        _ => None,
    };
    std::mem::forget(sync);
    event
}

#[cold]
fn wait(on: &Arc<CudaStream>, event: Handle<CUevent>) -> Result<()> {
    let waited = on.context().bind_to_thread().and_then(|()| wait_for(on, event));
    waited.map_err(|e| cudarc_error("a stream waits for an earlier use of a buffer", e))
}

/// The stream's context is current.
fn wait_for(on: &CudaStream, event: Handle<CUevent>) -> Result<(), DriverError> {
    // SAFETY: the event belongs to the buffer, which is borrowed; the stream is alive.
    unsafe { result::stream::wait_event(on.cu_stream(), event.0, CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT) }
}
