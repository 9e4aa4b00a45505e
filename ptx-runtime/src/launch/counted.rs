//! The kernels that a thread launches on CPU devices, for tests that look at all of them.

use crate::kernel::{Kernel, Module};
use ptx_target::Contract;
use std::cell::RefCell;

/// A kernel that was launched: its module, its entry and its promises.
pub(crate) type Launched = (&'static Module, &'static str, Contract);

thread_local! {
    /// The kernels that the thread launched, each once, while they are counted.
    static LAUNCHED: RefCell<Option<Vec<Launched>>> = const { RefCell::new(None) };
}

/// The result of `work`, and the kernels that it launched from this thread.
pub(crate) fn launched_by<R>(work: impl FnOnce() -> R) -> (R, Vec<Launched>) {
    LAUNCHED.set(Some(Vec::new()));
    let result = work();
    (result, LAUNCHED.take().unwrap_or_default())
}

/// Adds a kernel to those of the thread, if they are counted.
pub(super) fn note_launch(kernel: &Kernel) {
    LAUNCHED.with_borrow_mut(|launched| {
        let Some(launched) = launched else { return };
        if !launched.iter().any(|(module, entry, _)| std::ptr::eq(*module, kernel.module) && *entry == kernel.entry) {
            launched.push((kernel.module, kernel.entry, *kernel.contract()));
        }
    });
}
