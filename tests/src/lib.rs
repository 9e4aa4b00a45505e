//! Shared parts of the tests: finding ptxas, the corpus, and rendering diagnostics.

pub mod agreement;
pub mod corpus;
pub mod device_code;
pub mod disturb;
pub mod harvest;
pub mod instance;
pub mod instruction;
pub mod judge;
pub mod kinds;
pub mod modules;
pub mod mutate;
pub mod own;
pub mod point;
pub mod ptxas;
pub mod random;
pub mod recombine;
pub mod scratch;
pub mod signatures;
pub mod spelling;
pub mod template;
pub mod vocabulary;

/// The kernels of the README compile and run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
