//! The libraries that kernels are measured by, in this process. Each is looked for when it is asked for; a machine without it
//! has no such rival. Besides ptx-launch this is the one place with `unsafe`: it calls C. What can only be had from Python or
//! C++ (torch.compile, cuDNN's attention, pyptx, CUTLASS) is a companion: `companion.py`, `cutlass.cu`.

pub mod cublas;
pub mod cublaslt;

/// A type of operands, under the names of the libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// bf16
    Bf16,
    /// f16
    F16,
    /// 8 bits, 4 of them the exponent's.
    E4m3,
}
