//! Fast GPU kernels as a library: matrix products, attention, norms, activations, losses. Forward and backward, on CUDA devices
//! and on the CPU device.
//!
//! One module per operation, and inside it one file per architecture. Functions take a stream first, then the tensors that are
//! read, then those that are written. A tensor is a [`Tile`](ptx_launch::Tile) of a buffer, or a
//! [`TensorRef`](ptx_launch::TensorRef) with strides.

#[cfg(feature = "activation")]
pub mod activation;
#[cfg(feature = "attention_forward")]
pub mod attention;
#[cfg(feature = "cross_entropy")]
pub mod cross_entropy;
pub mod float8;
#[cfg(feature = "gemm")]
pub mod gemm;
#[cfg(feature = "gemm")]
pub mod grouped_gemm;
#[cfg(any(feature = "gemm", feature = "attention_forward"))]
mod maps;
#[cfg(feature = "norm")]
pub mod norm;
#[cfg(feature = "rotary")]
pub mod rotary;
#[cfg(any(feature = "activation", feature = "cross_entropy", feature = "norm", feature = "softmax"))]
#[allow(dead_code, reason = "each operation uses a part")]
mod rows;
#[cfg(feature = "softmax")]
pub mod softmax;
pub mod workspace;
