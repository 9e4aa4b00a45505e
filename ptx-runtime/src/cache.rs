//! A list that only grows and is read without a lock: what is loaded, one entry per context.

use crate::error::Result;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Entries in the order in which they were made. Almost always there is one.
#[derive(Debug)]
pub(crate) struct Cache<T> {
    first: Slot<T>,
    making: Mutex<()>,
}

#[derive(Debug)]
struct Slot<T>(OnceLock<Box<Entry<T>>>);

#[derive(Debug)]
struct Entry<T> {
    value: T,
    next: Slot<T>,
}

impl<T> Cache<T> {
    /// Empty.
    pub(crate) const fn new() -> Self {
        Cache { first: Slot(OnceLock::new()), making: Mutex::new(()) }
    }

    /// The first entry that `is` accepts. Takes no lock.
    #[inline]
    pub(crate) fn find(&self, is: impl Fn(&T) -> bool) -> Option<&T> {
        let mut slot = &self.first;
        while let Some(entry) = slot.0.get() {
            if is(&entry.value) {
                return Some(&entry.value);
            }
            slot = &entry.next;
        }
        None
    }

    /// All entries.
    #[cfg(feature = "check")]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let entries = std::iter::successors(self.first.0.get(), |entry| entry.next.0.get());
        entries.map(|entry| &entry.value)
    }

    /// The first entry that `is` accepts, or else what `make` makes. Of several threads one makes it, the others wait.
    ///
    /// # Errors
    /// Those of `make`; nothing is kept then.
    #[cold]
    pub(crate) fn find_or_make(&self, is: impl Fn(&T) -> bool, make: impl FnOnce() -> Result<T>) -> Result<&T> {
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        match self.find(is) {
            Some(found) => Ok(found),
            None => Ok(self.first.append(make()?)),
        }
    }
}

impl<T> Slot<T> {
    /// Puts `value` at the end. Only the holder of `making` may.
    fn append(&self, value: T) -> &T {
        match self.0.get() {
            Some(entry) => entry.next.append(value),
            None => &self.0.get_or_init(|| Box::new(Entry { value, next: Slot(OnceLock::new()) })).value,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    #[test]
    fn every_key_is_made_once() {
        let (cache, made) = (Cache::new(), AtomicU32::new(0));
        let get = |key: u32| {
            let make = || {
                made.fetch_add(1, SeqCst);
                Ok(key)
            };
            *cache.find(|k| *k == key).unwrap_or_else(|| cache.find_or_make(|k| *k == key, make).unwrap())
        };
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..100).for_each(|i| assert_eq!(get(i % 10), i % 10)));
            }
        });
        assert_eq!(made.load(SeqCst), 10);
    }
}
