//! Work of the host on all cores: data and references of large problems. No kernel lives here.

use crate::turns::aside;
use std::num::NonZero;
use std::ops::Range;
use std::thread;

/// Work on less is not worth the threads.
const LEAST: usize = 1 << 14;

/// The size of the parts of so many elements, of which each costs about as much as `cost` numbers.
fn part(count: usize, cost: usize) -> usize {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    if count.saturating_mul(cost) < LEAST { count } else { count.div_ceil(cores) }.max(1)
}

/// A vector of so many elements, each made from its index.
pub fn generate<T: Copy + Default + Send>(count: usize, element: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let part = part(count, 1);
    let fill = |first: usize, chunk: &mut [T]| {
        chunk.iter_mut().zip(first..).for_each(|(to, at)| *to = element(at));
    };
    aside(|| {
        let mut all = vec![T::default(); count];
        if part >= count {
            fill(0, &mut all);
        } else {
            thread::scope(|scope| {
                for (chunk, n) in all.chunks_mut(part).zip(0..) {
                    scope.spawn(move || fill(n * part, chunk));
                }
            });
        }
        all
    })
}

/// Splits `count` rows of `width` numbers among the cores. Returns the results of the parts, in order.
pub fn split<R: Send>(count: usize, width: usize, work: impl Fn(Range<usize>) -> R + Sync) -> Vec<R> {
    let part = part(count, width);
    if part >= count {
        return vec![work(0..count)];
    }
    let (work, parts) = (&work, (0..count).step_by(part).map(|first| first..count.min(first + part)));
    aside(|| {
        thread::scope(|scope| {
            let running: Vec<_> = parts.map(|rows| scope.spawn(move || work(rows))).collect();
            running.into_iter().map(|one| one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        })
    })
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
