//! The uses of one piece of memory that may still be running: which streams, and the event behind which each has ended.
//!
//! A use keeps its stream alive, so that an event can be recorded at any time later: it covers everything that was submitted until
//! then. `order` decides when an event is recorded at once, and what a use waits for in device memory, `pinned` in host memory.
//! The uses of one submission share an event. It is recorded again only for guards that are alive at the same time, whose order of
//! submission is unknown: they record the same one, so that the last of them covers all.

use super::events::EventPool;
use crate::context::{Event, note, record, wait_for};
use crate::driver::Handle;
use crate::graph::{self, Fence};
use crate::stream::{PER_THREAD, Submission, synchronize_context};
use cudarc::driver::sys::CUevent;
use cudarc::driver::{CudaStream, DriverError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Release};
use std::thread::{self, ThreadId};

/// The access of a use to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// The borrow that a use holds, which determines which other uses may be submitted at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Borrow {
    /// A buffer or a part of it, as in Rust: other threads may submit reads beside a read, and nothing beside a write.
    Whole,
    /// A part that was split off: other threads may submit writes to other elements.
    Part,
    /// A graph, which holds the memory and borrows nothing. It runs alone: see `Order::begin_graph`.
    Graph,
}

/// A queue of the driver. Several of cudarc's streams may be the same one, as all default streams of a GPU are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Queue {
    handle: usize,
    /// For the per-thread stream.
    thread: Option<ThreadId>,
}

impl Queue {
    #[inline]
    pub(super) fn of(stream: &CudaStream) -> Queue {
        let handle = stream.cu_stream().addr();
        Queue { handle, thread: (handle == PER_THREAD).then(|| thread::current().id()) }
    }

    /// The handle alone, for a queue that every thread can submit to.
    pub(super) fn shared(self) -> Option<usize> {
        self.thread.is_none().then_some(self.handle)
    }

    /// Returns true if this thread can submit to it.
    fn is_here(self) -> bool {
        self.thread.is_none_or(|thread| thread == thread::current().id())
    }
}

/// A stream that uses the memory.
struct Use {
    stream: Arc<CudaStream>,
    queue: Queue,
    /// Always recorded on this queue, also for other memory that shares it.
    event: Option<Arc<Event>>,
    /// Uses were submitted, or will be, that no guard records.
    late: bool,
    /// It has written since all others were waited for.
    wrote: bool,
    /// It comes after this number of writes.
    after: Option<u64>,
    /// Uses that began.
    count: u64,
    /// A queue that has waited for this number of uses.
    followed: Option<(Queue, u64)>,
}

/// The uses of one piece of memory since the last one that came after all others.
#[derive(Default)]
pub(super) struct Uses {
    list: Vec<Use>,
    events: EventPool,
    /// Uses that began.
    begun: u64,
    /// Writes that began.
    writes: u64,
    /// The length of the list at which it is searched for uses that have ended.
    limit: usize,
}

/// The streams that wrote.
pub(super) enum Writers {
    Nobody,
    /// On which this thread can record an event.
    One(Arc<CudaStream>),
    Several,
}

/// Records a use when it is dropped, after the work was submitted.
pub(crate) struct Recorded<'s> {
    pub(super) on: &'s Arc<CudaStream>,
    pub(super) queue: Queue,
    /// The number of these that are alive.
    pub(super) open: &'s AtomicUsize,
    pub(super) mark: Mark<'s>,
    /// cudarc's event of writes, where a view of cudarc's may be alive; and the home stream, where cudarc does not wait for it.
    pub(super) theirs: Option<(Handle<CUevent>, Option<&'s Arc<CudaStream>>)>,
    /// Set while a graph is being launched.
    pub(super) busy: Option<&'s AtomicBool>,
}

/// The event that a guard records.
pub(super) enum Mark<'s> {
    /// None: it is recorded when somebody waits.
    Late,
    /// That of its submission, unless another guard has recorded it.
    Shared(&'s Submission<'s>),
    Own(Arc<Event>),
}

impl Mark<'_> {
    fn event(&self) -> Option<Handle<CUevent>> {
        match self {
            Mark::Late => None,
            Mark::Shared(submission) => submission.unrecorded().map(Event::handle),
            Mark::Own(event) => Some(event.handle()),
        }
    }

    pub(super) fn is_late(&self) -> bool {
        matches!(self, Mark::Late)
    }

    /// Records it.
    pub(super) fn record(&self, on: &CudaStream) -> Result<(), DriverError> {
        let Some(event) = self.event() else { return Ok(()) };
        record(event, on)?;
        if let Mark::Shared(submission) = self {
            submission.set_recorded();
        }
        Ok(())
    }
}

impl Recorded<'_> {
    /// `false` on a thread that does not reach the queue.
    fn record(&self) -> Result<bool, DriverError> {
        if self.mark.event().is_none() && self.theirs.is_none() {
            return Ok(true);
        }
        if !self.queue.is_here() {
            return Ok(false);
        }
        self.mark.record(self.on)?;
        if let Some((event, home)) = self.theirs {
            record(event, self.on)?;
            home.map_or(Ok(()), |home| wait_for(home, event))?;
        }
        Ok(true)
    }
}

impl Drop for Recorded<'_> {
    #[inline]
    fn drop(&mut self) {
        match self.record() {
            Ok(true) => drop(self.open.fetch_sub(1, Release)),
            // As long as the use counts as open, whoever waits for it records an event of its own, or lets the host wait.
            Ok(false) => {}
            Err(error) => note(self.on.context(), Err::<(), _>(error)),
        }
        if let Some(busy) = self.busy {
            busy.store(false, Release);
        }
    }
}

/// The end of the uses of a stream.
enum End {
    /// The use's own event.
    Event(Arc<Event>),
    /// The event of the beginning of a capture: nothing that was submitted to the stream since has run.
    Fence(Arc<Event>),
    /// They have ended already.
    Past,
}

impl End {
    fn event(&self) -> Option<&Event> {
        match self {
            End::Event(event) | End::Fence(event) => Some(event),
            End::Past => None,
        }
    }
}

impl Use {
    fn new(stream: &Arc<CudaStream>, queue: Queue) -> Use {
        let stream = stream.clone();
        Use { stream, queue, event: None, late: false, wrote: false, after: None, count: 0, followed: None }
    }

    /// The event to record for this use alone. While guards are `open` it stays the same, otherwise nobody else has it.
    fn own_event(&mut self, events: &mut EventPool, open: bool) -> Result<&Arc<Event>, DriverError> {
        let event = match self.event.take_if(|event| open || Arc::get_mut(event).is_some()) {
            Some(event) => event,
            None => {
                events.put(self.event.take());
                events.take(self.stream.context())?
            }
        };
        Ok(self.event.insert(event))
    }

    /// The event that the guard of a use records. Beside `open` guards it is the one that these record.
    fn mark<'s>(
        &mut self,
        events: &mut EventPool,
        open: bool,
        submission: Option<&'s Submission<'s>>,
    ) -> Result<Mark<'s>, DriverError> {
        if let Some(submission) = submission.filter(|_| !open)
            && let Some(event) = submission.event(|| events.take(self.stream.context()))?
        {
            events.put(self.event.replace(event.clone()));
            return Ok(Mark::Shared(submission));
        }
        self.own_event(events, open).cloned().map(Mark::Own)
    }

    /// The event behind all that was submitted, recorded now if `stale` or if no guard has recorded it.
    fn end(&mut self, events: &mut EventPool, stale: bool) -> Result<End, DriverError> {
        if let Some(event) = self.event.as_ref().filter(|_| !stale && !self.late) {
            return Ok(End::Event(event.clone()));
        }
        if !self.queue.is_here() {
            // Nobody else can record an event on a thread's own stream.
            synchronize_context(self.stream.context())?;
            return Ok(End::Past);
        }
        let _turn = match graph::fence(&self.stream)? {
            Fence::None(turn) => turn,
            Fence::At(fence) => return Ok(End::Fence(fence)),
        };
        let event = self.own_event(events, stale)?.clone();
        record(event.handle(), &self.stream)?;
        Ok(End::Event(event))
    }
}

impl Uses {
    pub(super) fn writes(&self) -> u64 {
        self.writes
    }

    /// A write of somebody who is not in the list.
    pub(super) fn add_write(&mut self) {
        self.writes += 1;
    }

    /// Uses that began.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// Forgets all uses, which have ended, and their events.
    pub(super) fn clear(&mut self) {
        self.retire_others(None);
        self.events.release();
    }

    /// The one stream that has uses, if no event is recorded for them.
    pub(super) fn sole(&self) -> Option<usize> {
        match &self.list[..] {
            [sole] if sole.late && sole.wrote => sole.queue.shared(),
            _ => None,
        }
    }

    /// The streams that wrote.
    pub(super) fn writers(&self) -> Writers {
        let mut writers = self.list.iter().filter(|used| used.wrote);
        match (writers.next(), writers.next()) {
            (None, _) => Writers::Nobody,
            (Some(used), None) if used.queue.is_here() => Writers::One(used.stream.clone()),
            _ => Writers::Several,
        }
    }

    /// Returns true if `queue` comes after all writes.
    pub(super) fn knows(&self, queue: Queue) -> bool {
        self.list.iter().any(|used| used.queue == queue && used.after == Some(self.writes))
    }

    /// Returns true if another stream than this one has uses.
    pub(super) fn has_others(&self, queue: Queue) -> bool {
        self.list.iter().any(|used| used.queue != queue)
    }

    /// Lets `on` wait for the uses of other streams that an access of this kind conflicts with. While guards are `open`, other uses
    /// may be submitted any time, and nothing is known of the streams afterwards.
    pub(super) fn follow(&mut self, on: &CudaStream, access: Access, open: bool) -> Result<(), DriverError> {
        let (queue, events) = (Queue::of(on), &mut self.events);
        for used in self.list.iter_mut().filter(|used| used.queue != queue) {
            if access == Access::Read && !used.wrote {
                continue;
            }
            let settled = !open && !used.late;
            if settled && used.followed == Some((queue, used.count)) {
                continue;
            }
            let end = used.end(events, open)?;
            if let Some(event) = end.event() {
                wait_for(on, event.handle())?;
            }
            // Beside a write nothing is submitted that no guard counts.
            if access == Access::Write && !open && matches!(end, End::Event(_)) {
                used.late = false;
            }
            if !open && !used.late {
                used.followed = Some((queue, used.count));
            }
        }
        Ok(())
    }

    /// Waits on the host for the writes, or for all uses.
    pub(super) fn wait(&mut self, access: Access, open: bool) -> Result<(), DriverError> {
        for used in self.list.iter_mut().filter(|used| access == Access::Write || used.wrote) {
            if let Some(event) = used.end(&mut self.events, open)?.event() {
                event.synchronize()?;
            }
        }
        Ok(())
    }

    /// Nothing is left to wait for but what `queue` does.
    pub(super) fn retire_others(&mut self, queue: Option<Queue>) {
        self.keep(|used| Some(used.queue) == queue);
    }

    fn keep(&mut self, stays: impl Fn(&Use) -> bool) {
        let events = &self.events;
        self.list.retain_mut(|used| {
            let stays = stays(used);
            if !stays {
                events.put(used.event.take());
            }
            stays
        });
    }

    /// Notes a use that begins, and gives the event that its guard records, unless it is recorded `late`. Uses of a stream that some
    /// guard does not count are all recorded late.
    pub(super) fn enter<'s>(
        &mut self,
        on: &Arc<CudaStream>,
        (access, borrow): (Access, Borrow),
        (late, open): (bool, bool),
        submission: Option<&'s Submission<'s>>,
    ) -> Result<Mark<'s>, DriverError> {
        let queue = Queue::of(on);
        let at = match self.list.iter().position(|used| used.queue == queue) {
            Some(at) => at,
            None => {
                self.prune(open);
                self.list.push(Use::new(on, queue));
                self.list.len() - 1
            }
        };
        let alone = self.list.len() == 1;
        let Some(used) = self.list.get_mut(at) else { return Ok(Mark::Late) };
        used.count += 1;
        self.begun += 1;
        // A stream that is alone is not asked again, also before it writes.
        let writes = access == Access::Write || late && alone;
        self.writes += u64::from(writes);
        used.wrote |= writes;
        used.late = match (access, borrow) {
            (Access::Write, Borrow::Whole) => late,
            _ => used.late || late,
        };
        if !open && (access == Access::Read || borrow == Borrow::Whole) {
            used.after = Some(self.writes);
        }
        if used.late { Ok(Mark::Late) } else { used.mark(&mut self.events, open, submission) }
    }

    /// Forgets uses that have ended, if there are many.
    fn prune(&mut self, open: bool) {
        const FEW: usize = 8;
        if open || self.list.len() < self.limit.max(FEW) {
            return;
        }
        self.keep(|used| used.late || !used.event.as_deref().is_some_and(Event::has_happened));
        self.limit = 2 * self.list.len();
    }
}

impl Drop for Uses {
    fn drop(&mut self) {
        self.clear();
    }
}
