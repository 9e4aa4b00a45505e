//! Forks. A child has the memory of its parent and one thread: a lock that another thread held stays taken. So a fork waits until the calls of other
//! threads have returned, and calls that begin meanwhile wait for the fork.
#![allow(unsafe_code, reason = "a C interface")]

use std::cell::{Cell, RefCell};
use std::sync::{Once, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Shared by calls, and taken alone by a fork.
static CALLS: RwLock<()> = RwLock::new(());

thread_local! {
    /// Calls of this thread, one inside of the other.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// The lock of a fork that this thread has begun.
    static FORKING: RefCell<Option<RwLockWriteGuard<'static, ()>>> = const { RefCell::new(None) };
}

/// A call that is under way.
pub(crate) struct Calling {
    _lock: Option<RwLockReadGuard<'static, ()>>,
}

impl Calling {
    /// Begins a call. One inside of another has its lock.
    #[inline]
    pub(crate) fn begin() -> Calling {
        static HANDLERS: Once = Once::new();
        HANDLERS.call_once(set_handlers);
        let depth = DEPTH.get();
        DEPTH.set(depth + 1);
        Calling { _lock: (depth == 0).then(|| CALLS.read().unwrap_or_else(PoisonError::into_inner)) }
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

#[cfg(unix)]
fn set_handlers() {
    unsafe extern "C" {
        fn pthread_atfork(
            prepare: Option<extern "C" fn()>,
            parent: Option<extern "C" fn()>,
            child: Option<extern "C" fn()>,
        ) -> std::ffi::c_int;
    }
    // SAFETY: the handlers are functions of this library; the C library drops them when it is unloaded. Without memory for them nothing changes.
    unsafe { pthread_atfork(Some(prepare), Some(forked), Some(forked)) };
}

#[cfg(not(unix))]
fn set_handlers() {}

/// Before a fork. A call that forks cannot wait for itself.
#[cfg(unix)]
extern "C" fn prepare() {
    if DEPTH.get() == 0 {
        let lock = CALLS.write().unwrap_or_else(PoisonError::into_inner);
        FORKING.with_borrow_mut(|forking| *forking = Some(lock));
    }
}

/// After it, in the parent and in the child.
#[cfg(unix)]
extern "C" fn forked() {
    FORKING.with_borrow_mut(|forking| drop(forking.take()));
}
