//! Printing. One file per output; what is printed is made elsewhere.

pub mod fmt;
pub mod ptx;
pub mod rust;
pub mod tree;
