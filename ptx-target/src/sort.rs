//! Sorting in little code. Each type and each order of std's sorts has four kilobytes of machine code: those of this project's crates were a
//! thirtieth of the Python library.
//!
//! ```
//! use ptx_target::sort::SortSmall;
//!
//! for len in [0, 1, 2, 16, 17, 1000] {
//!     let mixed: Vec<_> = (0..len).map(|i| (i * 7919 % 31, i)).collect();
//!     let (mut ours, mut theirs) = (mixed.clone(), mixed);
//!     ours.sort_small_by_key(|(key, _)| *key);
//!     theirs.sort_by_key(|(key, _)| *key);
//!     assert_eq!(ours, theirs);
//! }
//! ```

use std::cmp::Ordering;

/// Sorts of slices, all of them stable.
pub trait SortSmall<T> {
    /// As `sort` does.
    fn sort_small(&mut self)
    where
        T: Ord;

    /// As `sort_by_key` does.
    fn sort_small_by_key<K: Ord>(&mut self, key: impl FnMut(&T) -> K);
}

impl<T> SortSmall<T> for [T] {
    fn sort_small(&mut self)
    where
        T: Ord,
    {
        sort_by(self, &mut T::cmp);
    }

    fn sort_small_by_key<K: Ord>(&mut self, mut key: impl FnMut(&T) -> K) {
        sort_by(self, &mut |a, b| key(a).cmp(&key(b)));
    }
}

/// Slices up to this length are sorted in place, without memory of their own.
const SHORT: usize = 16;

fn sort_by<T>(all: &mut [T], compare: &mut dyn FnMut(&T, &T) -> Ordering) {
    if all.len() > SHORT {
        let mut sources = order(all.len(), &mut |a, b| compare(&all[a], &all[b]));
        permute(all, &mut sources);
        return;
    }
    for end in 1..all.len() {
        let mut at = end;
        while at > 0 && compare(&all[at], &all[at - 1]).is_lt() {
            all.swap(at, at - 1);
            at -= 1;
        }
    }
}

/// The places of the elements in their order.
fn order(len: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut places: Vec<usize> = (0..len).collect();
    places.sort_by(|a, b| compare(*a, *b));
    places
}

/// Brings the element of each source to its place, cycle by cycle.
fn permute<T>(all: &mut [T], sources: &mut [usize]) {
    for start in 0..all.len() {
        let mut at = start;
        loop {
            let source = std::mem::replace(&mut sources[at], at);
            if source == start {
                break;
            }
            all.swap(at, source);
            at = source;
        }
    }
}
