//! The order of the uses of one buffer's memory: what a use waits for, and when its event is recorded.
//!
//! A buffer remembers the streams that may still use it (`uses`). While one stream uses it alone, and the context has no other, a use is
//! one comparison: its event is recorded late, when another stream uses the memory, or when it is lent or freed. Otherwise a guard
//! records the event when the work is submitted, so that others wait for nothing that comes later in the stream.
//!
//! cudarc's two events are recorded when the memory is lent to cudarc, and waited for when it comes back, also when cudarc's
//! context no longer manages several streams.

use super::uses::{Access, Borrow, Queue, Recorded, Uses, Writers};
use crate::context::{self, join, record, wait_for};
use crate::driver::Handle;
use crate::driver::cudarc_error;
use crate::error::{Error, ErrorKind, Result};
use crate::graph::{self, Fence};
use crate::stream::{Entered, Submission, Turn, synchronize_context, until};
use cudarc::driver::sys::CUevent;
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr, DevicePtrMut, DriverError, SyncOnDrop};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The uses of a buffer.
pub(crate) struct Order {
    /// The stream that frees it.
    home: Arc<CudaStream>,
    /// cudarc's events of reads and of writes, which live as long as the slice; none where the user turned them off.
    theirs: Option<Theirs>,
    /// The handle of the stream that alone has used it, without an event; else `NO_STREAM`.
    sole: AtomicUsize,
    /// Guards that are alive.
    open: AtomicUsize,
    /// A graph that uses the memory is being launched.
    busy: AtomicBool,
    state: Mutex<State>,
}

/// cudarc's events of reads and of writes.
type Theirs = [Handle<CUevent>; 2];

/// A handle that no stream has.
const NO_STREAM: usize = usize::MAX;

#[derive(Default)]
struct State {
    uses: Uses,
    lent: Lent,
    /// The number of writes that cudarc's event of writes stands for.
    told: Option<u64>,
    /// A graph may hold the memory, and use it beside any borrow.
    held: bool,
}

/// Possible actions of cudarc on the memory since our last write that borrowed all of it.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Lent {
    #[default]
    Nothing,
    Read,
    Written,
}

fn managed(stream: &CudaStream) -> bool {
    stream.context().is_managing_stream_synchronization()
}

impl Order {
    /// The order of a new slice, which its home stream has written; and its address.
    pub(super) fn of(slice: &mut CudaSlice<u8>) -> Result<(Order, u64)> {
        let home = slice.stream().clone();
        let (address, theirs) = parts(slice).map_err(unordered)?;
        let mut state = State::default();
        let late = Queue::of(&home).shared().is_some();
        let entered =
            state.uses.enter(&home, (Access::Write, Borrow::Whole), (late, false), None).map_err(unordered)?;
        entered.record(&home).map_err(unordered)?;
        let (sole, open, busy) = (AtomicUsize::new(NO_STREAM), AtomicUsize::new(0), AtomicBool::new(false));
        let order = Order { home, theirs, sole, open, busy, state: Mutex::new(state) };
        order.publish(&order.state());
        Ok((order, address))
    }

    /// The order of memory that nobody has used, and that is never freed. `home` is the stream on which nobody has to wait for it.
    pub(super) fn of_module(home: Arc<CudaStream>) -> Order {
        let (sole, open, busy) = (AtomicUsize::new(NO_STREAM), AtomicUsize::new(0), AtomicBool::new(false));
        Order { home, theirs: None, sole, open, busy, state: Mutex::default() }
    }

    /// The stream that it was allocated on.
    pub(super) fn home(&self) -> &Arc<CudaStream> {
        &self.home
    }

    /// Lets `on` wait for the uses that an access of this kind must come after. `is_alone` is true if no graph holds the memory.
    #[inline]
    pub(super) fn begin<'s>(
        &'s self,
        on: &'s Arc<CudaStream>,
        (access, borrow): (Access, Borrow),
        submission: Option<&'s Submission<'s>>,
        is_alone: impl FnOnce() -> bool,
    ) -> Result<Option<Recorded<'s>>> {
        if self.sole.load(Relaxed) == on.cu_stream().addr() && borrow == Borrow::Whole && !managed(on) {
            return Ok(None);
        }
        let mut state = self.idle();
        if (access, borrow) == (Access::Write, Borrow::Whole) && state.held && is_alone() {
            state.held = false;
        }
        self.admit(&mut state, on, (access, borrow), submission).map_err(unordered)
    }

    /// The same for a graph, which needs the memory alone from here until its guard is dropped: `None` if another thread is about to
    /// submit work on it.
    pub(super) fn begin_graph<'s>(
        &'s self,
        on: &'s Arc<CudaStream>,
        access: Access,
        submission: Option<&'s Submission<'s>>,
    ) -> Result<Option<Recorded<'s>>> {
        let mut state = self.state();
        if self.busy.load(Acquire) || self.open.load(Acquire) > 0 {
            return Ok(None);
        }
        let mut admitted = self.admit(&mut state, on, (access, Borrow::Graph), submission).map_err(unordered)?;
        if let Some(recorded) = &mut admitted {
            self.busy.store(true, Relaxed);
            recorded.busy = Some(&self.busy);
        }
        Ok(admitted)
    }

    /// Uses that began.
    pub(super) fn begun(&self) -> u64 {
        self.state().uses.begun()
    }

    /// The host has waited for all uses up to this number. If there were no others, nothing is left to remember.
    pub(super) fn ended(&self, begun: u64) {
        let mut state = self.state();
        if state.uses.begun() == begun && self.open.load(Acquire) == 0 {
            state.uses.clear();
        }
    }

    /// From now on a graph may use the memory at any time.
    pub(super) fn hold(&self) {
        let mut state = self.state();
        state.held = true;
        self.publish(&state);
    }

    fn admit<'s>(
        &'s self,
        state: &mut State,
        on: &'s Arc<CudaStream>,
        (access, borrow): (Access, Borrow),
        submission: Option<&'s Submission<'s>>,
    ) -> Result<Option<Recorded<'s>>, DriverError> {
        let (queue, open) = (Queue::of(on), self.open.load(Acquire) > 0);
        self.follow(state, on, access, open)?;
        if (access, borrow) == (Access::Write, Borrow::Whole) {
            // Nobody else can have begun anything: what still counts as open was never recorded, and has been waited for.
            state.uses.retire_others(Some(queue));
            state.lent = Lent::Nothing;
            self.open.store(0, Relaxed);
        }
        let shared = queue.shared().is_some() && !state.held && !state.uses.has_others(queue);
        let late = shared && state.lent == Lent::Nothing && !managed(on) && !managed(&self.home);
        let mark = state.uses.enter(on, (access, borrow), (late, open), submission)?;
        self.publish(state);
        if mark.is_late() && borrow == Borrow::Whole && !state.held {
            return Ok(None);
        }
        let theirs = self.theirs.filter(|_| access == Access::Write && state.lent > Lent::Nothing);
        self.open.fetch_add(1, Relaxed);
        let theirs = theirs.map(|[_, write]| (write, (!self.is_awaited(on)).then_some(&self.home)));
        Ok(Some(Recorded { on, queue, open: &self.open, mark, theirs, busy: None }))
    }

    /// Lets `on` wait for the uses of other streams, and of cudarc.
    fn follow(&self, state: &mut State, on: &Arc<CudaStream>, access: Access, open: bool) -> Result<(), DriverError> {
        if access == Access::Read && state.uses.knows(Queue::of(on)) {
            return Ok(());
        }
        state.uses.follow(on, access, open)?;
        let [read, write] = match (self.theirs, access, state.lent) {
            (Some([read, write]), Access::Write, Lent::Written) => [Some(read), Some(write)],
            (Some([_, write]), Access::Read, Lent::Written) => [None, Some(write)],
            (Some([read, _]), Access::Write, Lent::Read) => [Some(read), None],
            _ => return Ok(()),
        };
        read.into_iter().chain(write).try_for_each(|event| wait_for(on, event))?;
        // On the stream that it has alone, cudarc records nothing.
        if !managed(&self.home) && Queue::of(&self.home) != Queue::of(on) { join(on, &self.home) } else { Ok(()) }
    }

    /// Before the memory is read as cudarc's: its event of writes comes to stand for all writes. `false` if that fails.
    pub(super) fn lend(&self) -> bool {
        let mut state = self.idle();
        let open = self.open.load(Acquire) > 0;
        let told = self.tell(&mut state, open);
        let is_told = told.is_ok();
        note_unless_captured(self.home.context(), told);
        self.publish(&state);
        is_told
    }

    fn tell(&self, state: &mut State, open: bool) -> Result<(), DriverError> {
        let home = &self.home;
        let Some([_, write]) = self.theirs.filter(|_| home.context().is_event_tracking()) else {
            // The user orders what cudarc does; it has the memory in the order of the home stream.
            self.follow(state, home, Access::Read, open)?;
            return state.uses.enter(home, (Access::Read, Borrow::Whole), (true, open), None).map(drop);
        };
        if !managed(home) {
            // cudarc uses the memory on the home stream, without a wait.
            self.follow(state, home, Access::Read, open)?;
        }
        if state.lent == Lent::Nothing || state.told != Some(state.uses.writes()) {
            match state.uses.writers() {
                // All writes that have not ended are cudarc's.
                Writers::Nobody => {}
                writers => {
                    let is_awaited = |writer: &Arc<CudaStream>| state.lent < Lent::Written && self.is_awaited(writer);
                    let one = match writers {
                        Writers::One(writer) if is_awaited(&writer) => Some(writer),
                        _ => None,
                    };
                    let fence = one.as_ref().map(|writer| graph::fence(writer)).transpose()?;
                    if let (Some(writer), Some(Fence::None(_turn))) = (&one, fence) {
                        record(write, writer)?;
                    } else {
                        let _turn = self.home_outside_of_captures()?;
                        state.uses.follow(home, Access::Read, open)?;
                        wait_for(home, write)?;
                        record(write, home)?;
                    }
                }
            }
            state.told = (!open).then(|| state.uses.writes());
        }
        if state.lent > Lent::Nothing {
            self.keep_reads(state, open)?;
        }
        state.lent = state.lent.max(Lent::Read);
        Ok(())
    }

    /// Returns true if cudarc waits for events of this stream: only while the context of the memory has streams that
    /// it counts.
    fn is_awaited(&self, writer: &Arc<CudaStream>) -> bool {
        let counted = managed(&self.home) && Arc::ptr_eq(writer.context(), self.home.context());
        counted || Queue::of(writer) == Queue::of(&self.home)
    }

    /// cudarc records the same event for every read: what it stands for is kept by the home stream, which waits for it and counts as a
    /// reader from then on.
    fn keep_reads(&self, state: &mut State, open: bool) -> Result<(), DriverError> {
        let (home, Some([read, _])) = (&self.home, self.theirs) else { return Ok(()) };
        let _turn = self.home_outside_of_captures()?;
        wait_for(home, read)?;
        state.uses.enter(home, (Access::Read, Borrow::Part), (false, open), None)?.record(home)
    }

    /// Before the memory is written or given away as cudarc's, by whoever has it alone: its event of writes comes to stand for all uses,
    /// on the home stream.
    ///
    /// # Errors
    /// Those of the driver; the memory is not lent then.
    pub(super) fn lend_mut(&mut self) -> Result<(), DriverError> {
        self.gather()?;
        let (home, _turn) = (&self.home, self.home_outside_of_captures()?);
        if let Some([_, write]) = self.theirs {
            record(write, home)?;
        }
        let mut state = self.state();
        let uses = &mut state.uses;
        uses.retire_others(None);
        if self.theirs.is_none() || !home.context().is_event_tracking() {
            uses.enter(home, (Access::Write, Borrow::Whole), (true, false), None)?;
        }
        uses.add_write();
        state.told = Some(state.uses.writes());
        state.lent = if self.theirs.is_some() { Lent::Written } else { Lent::Nothing };
        self.open.store(0, Relaxed);
        self.sole.store(NO_STREAM, Relaxed);
        Ok(())
    }

    /// The home stream waits for all uses. Where that fails, the host does.
    ///
    /// # Errors
    /// Those of waiting on the host, after which uses may still run.
    pub(super) fn gather(&self) -> Result<(), DriverError> {
        let (home, mut state) = (&self.home, self.state());
        let open = self.open.load(Acquire) > 0;
        let followed =
            self.home_outside_of_captures().and_then(|_turn| self.follow(&mut state, home, Access::Write, open));
        followed.or_else(|error| wait_for_all(home.context(), error))
    }

    /// Keeps the home stream out of captures: what a capture records has no order with what runs.
    ///
    /// # Errors
    /// If it is in one, and those of the driver.
    pub(super) fn home_outside_of_captures(&self) -> Result<Option<Turn>, DriverError> {
        match Entered::on(&self.home)? {
            Entered { capture: None, turn } => Ok(turn),
            _ => Err(captured_home()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, when no graph is being launched.
    fn idle(&self) -> MutexGuard<'_, State> {
        loop {
            let state = self.state();
            if !self.busy.load(Acquire) {
                return state;
            }
            drop(state);
            std::thread::yield_now();
        }
    }

    /// Lets the stream that is alone pass without a look at the state.
    fn publish(&self, state: &State) {
        let sole = if state.held || state.lent > Lent::Nothing { None } else { state.uses.sole() };
        self.sole.store(sole.unwrap_or(NO_STREAM), Release);
    }
}

/// Calls `begin` until it gives a value, as long as other threads may be about to submit work on the same memory.
///
/// # Errors
/// Those of `begin`, and [`ErrorKind::Unsupported`] when they never submit it.
pub(crate) fn patiently<R>(mut begin: impl FnMut() -> Result<Option<R>>) -> Result<R> {
    until(|| begin().transpose()).unwrap_or_else(|| Err(never_submitted()))
}

/// The address of a slice, and the events that cudarc records for its reads and writes. Its home stream waits for both, if cudarc
/// keeps them now.
///
/// # Errors
/// Those of the waits.
pub(super) fn parts<T>(slice: &mut CudaSlice<T>) -> Result<(u64, Option<Theirs>), DriverError> {
    let home = slice.stream().clone();
    context::returning(home.context(), || {
        let (address, read) = slice.device_ptr(&home);
        let read = event(read);
        let write = event(slice.device_ptr_mut(&home).1);
        (address, read.zip(write).map(|(read, write)| [read, write]))
    })
}

fn event(sync: SyncOnDrop<'_>) -> Option<Handle<CUevent>> {
    let event = match &sync {
        SyncOnDrop::Record(Some((event, _))) => Some(Handle(event.cu_event())),
        _ => None,
    };
    std::mem::forget(sync);
    event
}

fn captured_home() -> DriverError {
    DriverError(cudarc::driver::sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
}

/// Returns true for the error of a wait that a capture forbids.
fn is_captured(error: DriverError) -> bool {
    error == captured_home()
}

/// Keeps an error of a call that cannot return it. What a capture forbids is done when it has ended.
pub(super) fn note_unless_captured(context: &CudaContext, result: Result<(), DriverError>) {
    if !result.is_err_and(is_captured) {
        context::note(context, result);
    }
}

/// Waits on the host for all work of the context, since a wait for some of it failed with `error`, which is kept.
///
/// # Errors
/// `error` if it comes from a capture, which a wait for all work would break; and those of the wait.
pub(super) fn wait_for_all(context: &CudaContext, error: DriverError) -> Result<(), DriverError> {
    if is_captured(error) {
        return Err(error);
    }
    synchronize_context(context).map(|()| context::note(context, Err::<(), _>(error)))
}

#[cold]
pub(super) fn unordered(error: DriverError) -> Error {
    cudarc_error("a stream waits for an earlier use of a buffer", error)
}

#[cold]
fn never_submitted() -> Error {
    Error::new(ErrorKind::Unsupported, "a graph is launched while a buffer of it is bound to a stream")
        .possible("a launch when the other launches with its buffers have returned")
        .help("drop every `Bound` of the graph's buffers")
}
