//! PTX as a library.

pub mod diag;
#[cfg(feature = "interp")]
pub mod interp;
pub mod ir;
pub mod isa;
pub mod kernel;
pub mod span;
pub mod syntax;
pub mod token;
