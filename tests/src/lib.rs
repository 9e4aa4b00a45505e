//! What the tests share: finding ptxas, the corpus, and rendering diagnostics.

pub mod agreement;
pub mod corpus;
pub mod disturb;
pub mod instance;
pub mod judge;
pub mod kinds;
pub mod modules;
pub mod mutate;
pub mod own;
pub mod ptxas;
pub mod random;
pub mod scratch;
pub mod spelling;

/// The kernels of the README compile and run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
