//! Waits for other threads that are about to submit work.

use std::time::{Duration, Instant};

/// The longest time for which a thread waits for another one to submit what it has begun.
const PATIENCE: Duration = Duration::from_secs(60);

/// Calls `attempt` until it gives a value; `None` if it never does.
pub(crate) fn until<R>(mut attempt: impl FnMut() -> Option<R>) -> Option<R> {
    let start = Instant::now();
    loop {
        match attempt() {
            Some(value) => return Some(value),
            None if start.elapsed() > PATIENCE => return None,
            None => std::thread::yield_now(),
        }
    }
}
