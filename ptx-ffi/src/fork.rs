//! Forks. A child has the memory of its parent and one thread: a lock that another thread held stays taken. So a fork waits until the calls of other
//! threads have returned, and calls that begin meanwhile wait for the fork.
//!
//! The end of an interpreter is similar: it ends its other threads where they come back to it, and C++ in between ends the process for that. So a call
//! of such a thread that ends after it comes back no more. Threads of others, as of XLA, come back: the end waits for them. An end that has begun and
//! does not come waits for one of its own threads: in a function of `atexit` that runs later, or in XLA, which has called back to Python.
#![allow(unsafe_code, reason = "a C interface")]

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Once, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

/// Shared by calls, and taken alone by a fork.
static CALLS: RwLock<()> = RwLock::new(());

/// The interpreter is about to end.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The interpreter ends in this thread.
    static ENDS: Cell<bool> = const { Cell::new(false) };
    /// Calls of this thread, one inside of the other.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// The time that a call of this thread waits for the end.
    static PATIENCE: Cell<Duration> = const { Cell::new(Duration::from_secs(1)) };
    /// The lock of a fork that this thread has begun.
    static FORKING: RefCell<Option<RwLockWriteGuard<'static, ()>>> = const { RefCell::new(None) };
}

/// A call that is under way.
pub(crate) struct Calling {
    lock: Option<RwLockReadGuard<'static, ()>>,
    /// It returns to Python's interpreter.
    returns_to_interpreter: bool,
}

impl Calling {
    /// Begins a call. One inside of another has its lock.
    #[inline]
    pub(crate) fn begin() -> Calling {
        static HANDLERS: Once = Once::new();
        HANDLERS.call_once(set_handlers);
        let depth = DEPTH.get();
        DEPTH.set(depth + 1);
        Calling {
            lock: (depth == 0).then(|| CALLS.read().unwrap_or_else(PoisonError::into_inner)),
            returns_to_interpreter: depth == 0 && is_of_interpreter(),
        }
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        drop(self.lock.take());
        if self.returns_to_interpreter && IS_ENDING.load(Relaxed) && !ENDS.get() && !has_interpreter() {
            wait_for_end();
        }
    }
}

/// Waits for the end of the interpreter, and for ever once it has come. A machine under load needs some time from its beginning on; where it has not come
/// by then, it waits for this thread.
#[cold]
fn wait_for_end() {
    let begun = Instant::now();
    while has_ended() || begun.elapsed() < PATIENCE.get() {
        std::thread::sleep(Duration::from_millis(1));
    }
    PATIENCE.set(Duration::from_millis(50));
}

/// Returns true once the interpreter ends threads that come back to it.
fn has_ended() -> bool {
    type Check = unsafe extern "C" fn() -> c_int;
    static CHECK: OnceLock<Option<Check>> = OnceLock::new();
    // The second name is that of versions before 3.13.
    let find = || crate::symbol::symbol("Py_IsFinalizing").or_else(|| crate::symbol::symbol("_Py_IsFinalizing"));
    // SAFETY: that is its type; it reads a variable of the process.
    CHECK.get_or_init(find).is_some_and(|check| unsafe { check() } != 0)
}

/// Returns true if this thread has a state of Python's interpreter.
fn is_of_interpreter() -> bool {
    type State = unsafe extern "C" fn() -> *const c_void;
    static STATE: OnceLock<Option<State>> = OnceLock::new();
    let state = STATE.get_or_init(|| crate::symbol::symbol("PyGILState_GetThisThreadState"));
    // SAFETY: that is its type; it reads a variable of the thread.
    state.is_some_and(|state| !unsafe { state() }.is_null())
}

/// Returns true if this thread holds the lock of Python's interpreter, for which the end would wait.
#[cold]
fn has_interpreter() -> bool {
    type Check = unsafe extern "C" fn() -> c_int;
    // SAFETY: that is its type; it reads a variable of the thread.
    crate::symbol::symbol::<Check>("PyGILState_Check").is_some_and(|check| unsafe { check() } != 0)
}

/// The interpreter is about to end, in this thread. Returns true when no other thread is in a call.
#[unsafe(no_mangle)]
pub extern "C" fn __ptx_ffi_end() -> bool {
    ENDS.set(true);
    IS_ENDING.store(true, Relaxed);
    CALLS.try_write().is_ok()
}

#[cfg(unix)]
fn set_handlers() {
    unsafe extern "C" {
        fn pthread_atfork(
            prepare: Option<extern "C" fn()>,
            parent: Option<extern "C" fn()>,
            child: Option<extern "C" fn()>,
        ) -> c_int;
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
