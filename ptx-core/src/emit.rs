//! Printing. One file per output; what is printed is made elsewhere.

pub mod ptx;
