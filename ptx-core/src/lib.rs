//! PTX as a library.

pub mod check;
pub mod diag;
pub mod emit;
mod hash;
#[cfg(feature = "interp")]
pub mod interp;
pub mod ir;
pub mod isa;
pub mod kernel;
pub mod lex;
pub mod lower;
pub mod parse;
pub mod span;
pub mod syntax;
pub mod token;
pub mod transpile;
