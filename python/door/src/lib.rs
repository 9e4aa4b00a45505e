//! Calls of exported functions with PyTorch's tensors: arguments are read, outputs made and functions called without a line of Python between.
//!
//! A [`door::Door`] takes the calls that nothing looks into: plain, contiguous tensors, no modes, no transforms. Every other call is
//! `NotImplemented`, and Python's code takes it, which has the messages. Tensors come through DLPack's exchange interface, which PyTorch's class has;
//! new ones are made by PyTorch's own functions. `ptx-ffi` computes shapes and calls (`ptx-ffi/src/door.rs`).

mod arguments;
mod class;
mod door;
mod entry;
mod object;
mod pattern;
mod recorder;
mod shapes;
mod torch;

pub use entry::{METHODS, Methods};
