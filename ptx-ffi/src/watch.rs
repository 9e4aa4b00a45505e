//! The switch that runs all calls of the process on the watched CPU device, on copies of their tensors.
#![allow(unsafe_code, reason = "a symbol of the library")]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The number of those who have turned it on.
static WATCHING: AtomicUsize = AtomicUsize::new(0);

/// Returns true while it is on, and where the environment has `PTX_DEVICE=cpu`.
#[inline]
pub(crate) fn is_watching() -> bool {
    static ALWAYS: OnceLock<bool> = OnceLock::new();
    let always = || std::env::var("PTX_DEVICE").is_ok_and(|device| device.trim().eq_ignore_ascii_case("cpu"));
    WATCHING.load(Relaxed) > 0 || *ALWAYS.get_or_init(always)
}

/// Turns it on, or off once for each time that it was turned on.
#[unsafe(no_mangle)]
pub extern "C" fn __ptx_ffi_watch(begin: bool) {
    if begin {
        WATCHING.fetch_add(1, Relaxed);
    } else {
        let _ = WATCHING.fetch_update(Relaxed, Relaxed, |count| count.checked_sub(1));
    }
}
