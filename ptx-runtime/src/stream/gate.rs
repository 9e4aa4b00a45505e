//! The gate between work and the beginnings and ends of captures: whether a stream is captured is decided before work is bound to it, and
//! stays true until the work is submitted.
//!
//! Each stream that can be captured has a counter of the turns that are open; some streams share one. A capture begins only while no other
//! thread has one of these turns, and waits for them before it ends.

use super::patience;
use cudarc::driver::CudaStream;
use std::cell::Cell;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

const GATES: usize = 64;

/// Set in a counter while a capture begins or ends.
const CLOSED: usize = 1 << 30;

/// The turns that are open, by gates.
static OPEN: [AtomicUsize; GATES] = [const { AtomicUsize::new(0) }; GATES];

/// Threads that want to close a gate, for which others make room.
static WAITING: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The turns of this thread, by gates, and their sum.
    static OWN: ([Cell<usize>; GATES], Cell<usize>) = const { ([const { Cell::new(0) }; GATES], Cell::new(0)) };
}

fn gate_of(stream: &CudaStream) -> usize {
    // Handles are addresses of objects of some hundred bytes.
    let at = stream.cu_stream().addr();
    (at >> 4 ^ at >> 10) % GATES
}

/// An address that no other living thread has.
fn this_thread() -> usize {
    OWN.with(|own| std::ptr::from_ref(own).addr())
}

/// While this is alive, no capture of ours begins or ends on its stream, except by this thread.
pub(crate) struct Turn {
    gate: usize,
    thread: usize,
}

impl Turn {
    pub(super) fn take(stream: &CudaStream) -> Turn {
        let (gate, thread) = (gate_of(stream), this_thread());
        let [own, all] = OWN.with(|(own, all)| [own[gate].get(), all.get()]);
        // A thread that has a turn may be waited for, and waits for nobody itself.
        if all == 0 && WAITING.load(Relaxed) > 0 {
            std::thread::yield_now();
        }
        while OPEN[gate].fetch_add(1, SeqCst) & CLOSED != 0 {
            OPEN[gate].fetch_sub(1, SeqCst);
            std::thread::yield_now();
        }
        OWN.with(|(owns, sum)| (owns[gate].set(own + 1), sum.set(all + 1)));
        Turn { gate, thread }
    }
}

impl Drop for Turn {
    #[inline]
    fn drop(&mut self) {
        OPEN[self.gate].fetch_sub(1, SeqCst);
        if self.thread == this_thread() {
            OWN.with(|(owns, sum)| {
                owns[self.gate].set(owns[self.gate].get().saturating_sub(1));
                sum.set(sum.get().saturating_sub(1));
            });
        }
    }
}

/// While this is alive, no other thread has a turn on the stream.
pub(crate) struct Closed(usize);

impl Closed {
    /// Closes the gate of a stream; `None` if another thread keeps its turn for ever.
    pub(super) fn close(stream: &CudaStream) -> Option<Closed> {
        let gate = gate_of(stream);
        let own = OWN.with(|(own, _)| own[gate].get());
        WAITING.fetch_add(1, Relaxed);
        let close = || OPEN[gate].compare_exchange(own, own | CLOSED, SeqCst, Relaxed).ok();
        let closed = patience::until(close);
        WAITING.fetch_sub(1, Relaxed);
        closed.map(|_| Closed(gate))
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        OPEN[self.0].fetch_and(!CLOSED, SeqCst);
    }
}
