//! Programs over the real numbers: what a kernel computes apart from rounding.
//!
//! Equality of sums, products and quotients of real numbers is decided by random tests in finite fields (Schwartz–Zippel): a program
//! runs with an element of a [`Field`](super::field::Field) in the place of each number. The memory that holds a number, and everything that moves its
//! bits, stays as it is, so that the layouts of fragments, swizzles and copies are those of the engine. `ops::reals` has the
//! operations; the [`Observer`](observer::Numbers) follows which bytes and registers hold numbers, and objects where their bits decide
//! something else.

pub(crate) mod class;
pub(crate) mod observer;
