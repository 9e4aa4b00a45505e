//! The order of work, as vector clocks: for each stream, event and the host, how much of every stream's work has ended for certain. A
//! use of memory that conflicts with an earlier one, and does not come after it, is a race, whenever it happens to run.
//!
//! The default stream and the streams of threads have no order here, although the driver gives them one: nothing may rely on it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Completed work of each stream.
pub type Clock = HashMap<u64, u64>;

fn join(clock: &mut Clock, other: &Clock) {
    for (stream, count) in other {
        let known = clock.entry(*stream).or_default();
        *known = (*known).max(*count);
    }
}

/// Uses of a range of bytes by one stream: the last of them.
struct Use {
    stream: u64,
    count: u64,
    bytes: std::ops::Range<u64>,
    writes: bool,
}

#[derive(Default)]
pub struct Order {
    streams: HashMap<u64, Clock>,
    /// The contexts of streams.
    contexts: HashMap<u64, u64>,
    events: HashMap<u64, Clock>,
    /// Work that some thread of the host has waited for.
    host: Clock,
    /// By the first address of the allocation, or the handle of the object.
    uses: BTreeMap<u64, Vec<Use>>,
    /// Streams and events that are no more.
    gone: HashSet<u64>,
    pub races: u64,
    /// Calls with a stream, an event or memory that is no more, or never was.
    pub misuses: u64,
    asked: u64,
}

/// A stream: every context has a default stream, and every thread a per-thread stream in each.
pub fn queue(stream: u64) -> u64 {
    static THREADS: AtomicU64 = AtomicU64::new(1 << 40);
    thread_local!(static OWN: u64 = THREADS.fetch_add(16, SeqCst));
    match stream {
        // Of the context, which is the same for all of cudarc's contexts of a GPU.
        0 => crate::CURRENT.get(),
        2 => OWN.with(|own| *own) + crate::CURRENT.get() % 16,
        _ => stream,
    }
}

impl Order {
    /// What comes before the next work of a stream of the current context.
    fn stream(&mut self, stream: u64) -> &mut Clock {
        self.contexts.insert(stream, crate::CURRENT.get());
        let (host, clock) = (&self.host, self.streams.entry(stream).or_default());
        join(clock, host);
        clock
    }

    /// Returns true if a stream or an event is alive.
    pub fn is_alive(&mut self, handle: u64) -> bool {
        let alive = !self.gone.contains(&handle);
        self.misuses += u64::from(!alive);
        alive
    }

    /// A stream is destroyed: what was submitted to it still runs, in its order.
    pub fn destroy(&mut self, handle: u64) {
        if self.is_alive(handle) {
            self.gone.insert(handle);
            self.events.remove(&handle);
        }
    }

    /// Work of a stream on a part of an allocation.
    pub fn work(&mut self, stream: u64, allocation: u64, bytes: std::ops::Range<u64>, writes: bool) {
        let clock = self.stream(stream);
        *clock.entry(stream).or_default() += 1;
        let count = clock[&stream];
        let clock = &self.streams[&stream];
        let ordered = |used: &Use| clock.get(&used.stream).is_some_and(|known| *known >= used.count);
        let uses = self.uses.entry(allocation).or_default();
        let touches = |used: &Use| used.bytes.start < bytes.end && bytes.start < used.bytes.end;
        let races = uses.iter().any(|used| touches(used) && (writes || used.writes) && !ordered(used));
        self.races += u64::from(races);
        if races && std::env::var_os("STUB_TRACE").is_some() {
            eprintln!("race: {}", std::backtrace::Backtrace::force_capture());
        }
        let covers = |used: &Use| bytes.start <= used.bytes.start && used.bytes.end <= bytes.end;
        uses.retain(|used| {
            !(writes && covers(used) && ordered(used) || used.stream == stream && used.writes == writes && covers(used))
        });
        uses.push(Use { stream, count, bytes, writes });
    }

    /// The host touches memory, or takes it back.
    pub fn touch_by_host(&mut self, allocation: u64, writes: bool) {
        let host = &self.host;
        let ordered = |used: &Use| host.get(&used.stream).is_some_and(|known| *known >= used.count);
        let uses = self.uses.get(&allocation).map_or(&[][..], Vec::as_slice);
        let races = uses.iter().any(|used| (writes || used.writes) && !ordered(used));
        self.races += u64::from(races);
        if races && std::env::var_os("STUB_TRACE").is_some() {
            eprintln!("race: {}", std::backtrace::Backtrace::force_capture());
        }
    }

    /// An allocation is no more.
    pub fn forget(&mut self, allocation: u64) {
        self.uses.remove(&allocation);
    }

    pub fn record(&mut self, event: u64, stream: u64) {
        if self.is_alive(event) && self.is_alive(stream) {
            let clock = self.stream(queue(stream)).clone();
            self.events.insert(event, clock);
        }
    }

    pub fn wait(&mut self, stream: u64, event: u64) {
        if self.is_alive(event) && self.is_alive(stream) {
            let clock = self.events.get(&event).cloned().unwrap_or_default();
            join(self.stream(queue(stream)), &clock);
        }
    }

    pub fn wait_on_host(&mut self, event: u64) {
        if self.is_alive(event) {
            let clock = self.events.get(&event).cloned().unwrap_or_default();
            join(&mut self.host, &clock);
        }
    }

    pub fn synchronize_stream(&mut self, stream: u64) {
        if self.is_alive(stream) {
            let clock = self.stream(queue(stream)).clone();
            join(&mut self.host, &clock);
        }
    }

    /// All work of a context has ended. When nothing else runs, nothing has to be known any more.
    pub fn synchronize_context(&mut self, context: u64) {
        let (host, contexts) = (&mut self.host, &self.contexts);
        self.streams.retain(|stream, clock| {
            let ended = contexts.get(stream) == Some(&context);
            if ended {
                join(host, clock);
            }
            !ended
        });
        let ended = |used: &Use| host.get(&used.stream).is_some_and(|known| *known >= used.count);
        self.uses.retain(|_, uses| {
            uses.retain(|used| !ended(used));
            !uses.is_empty()
        });
        if self.uses.is_empty() {
            self.streams.clear();
            self.events.clear();
            self.host.clear();
            self.contexts.clear();
        }
    }

    /// Returns true if the work before an event has ended: if it has, as it happens every other time, the host has seen it.
    pub fn has_ended(&mut self, event: u64) -> bool {
        self.asked += 1;
        let clock = self.events.get(&event).cloned().unwrap_or_default();
        let known = clock.iter().all(|(stream, count)| self.host.get(stream).is_some_and(|known| known >= count));
        if !known && self.asked.is_multiple_of(2) {
            return false;
        }
        join(&mut self.host, &clock);
        true
    }
}
