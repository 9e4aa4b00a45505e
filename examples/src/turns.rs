//! Examples that run beside each other: one at a time has the GPU, so that no other kernel or copy disturbs a measurement. An example gives
//! the GPU up while the host computes its data and references.

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError};

static GPU: Mutex<()> = Mutex::new(());

thread_local! {
    /// The turn of the example that runs on this thread.
    static TURN: Cell<Option<MutexGuard<'static, ()>>> = const { Cell::new(None) };
}

/// Waits until no other example has the GPU, and takes it for this thread, which does not have it yet.
pub fn begin() {
    let turn = GPU.lock().unwrap_or_else(PoisonError::into_inner);
    TURN.set(Some(turn));
}

/// Gives the GPU up if this thread has it. Returns true if it had.
pub fn end() -> bool {
    TURN.take().is_some()
}

/// Runs work of the host. Other examples may use the GPU meanwhile.
pub fn aside<R>(work: impl FnOnce() -> R) -> R {
    let had = end();
    let result = work();
    if had {
        begin();
    }
    result
}

#[cfg(test)]
mod tests {
    use super::{aside, begin, end};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    #[test]
    fn one_thread_at_a_time_has_the_gpu() {
        let inside = AtomicUsize::new(0);
        let example = || {
            begin();
            for _ in 0..100 {
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                thread::yield_now();
                inside.fetch_sub(1, Ordering::SeqCst);
                aside(thread::yield_now);
            }
            assert!(end());
            assert!(!end());
        };
        thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(example))));
    }
}
