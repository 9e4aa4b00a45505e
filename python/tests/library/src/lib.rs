//! A library as users write it, for the tests: a norm with its gradient, element types, scalars, in all ways to fail.

mod failures;
mod norm;
mod plain;
