//! PTX as a library.

pub mod diag;
pub mod ir;
pub mod isa;
pub mod kernel;
pub mod span;
pub mod syntax;
pub mod token;
