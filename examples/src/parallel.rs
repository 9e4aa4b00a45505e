//! Work of the host on all cores: data and references of large problems. No kernel lives here.

use crate::turns::aside;
use std::num::NonZero;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Work on less is not worth the threads.
const LEAST: usize = 1 << 14;

/// The size of the parts of so many elements, of which each costs about as much as `cost` numbers.
fn part(count: usize, cost: usize) -> usize {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    if count.saturating_mul(cost) < LEAST { count } else { count.div_ceil(cores) }.max(1)
}

/// A vector of so many elements, each made from its index.
pub fn generate<T: Copy + Send>(count: usize, element: impl Fn(usize) -> T + Sync) -> Vec<T> {
    split(count, 1, |some| some.map(&element).collect::<Vec<T>>()).concat()
}

/// Splits `count` rows of `width` numbers among the cores. Returns the results of the parts, in order.
pub fn split<R: Send>(count: usize, width: usize, work: impl Fn(Range<usize>) -> R + Sync) -> Vec<R> {
    let part = part(count, width);
    let results: Vec<Mutex<Option<R>>> = (0..count.div_ceil(part).max(1)).map(|_| Mutex::new(None)).collect();
    let one = |at: usize| {
        let result = work(at * part..count.min((at + 1) * part));
        *results[at].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
    };
    aside(|| on_cores(results.len(), &one));
    results.into_iter().filter_map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
}

/// A thread for each part. No type is generic here: code for threads is long, and stands once.
fn on_cores(parts: usize, one: &(dyn Fn(usize) + Sync)) {
    if parts == 1 {
        return one(0);
    }
    thread::scope(|scope| (0..parts).for_each(|at| drop(scope.spawn(move || one(at)))));
}

/// The number of indices below `count` for which the condition holds.
pub fn count(count: usize, is: impl Fn(usize) -> bool + Sync) -> usize {
    split(count, 1, |some| some.filter(|at| is(*at)).count()).into_iter().sum()
}

#[cfg(test)]
mod tests {
    use super::{LEAST, generate, split};

    #[test]
    fn parts_are_whole_and_in_order() {
        for count in [0, 1, 7, LEAST - 1, LEAST, LEAST + 1] {
            assert_eq!(generate(count, |at| at), (0..count).collect::<Vec<_>>());
            let parts = split(count, 1, |rows| rows.collect::<Vec<_>>());
            assert_eq!(parts.concat(), (0..count).collect::<Vec<_>>());
            assert_eq!(super::count(count, |at| at % 3 == 0), count.div_ceil(3));
        }
    }
}
