//! The operations of `ptx-kernels` for candle: tensors in, tensors out, with gradients.
//!
//! [`rms_norm`], [`layer_norm`], [`softmax`], [`cross_entropy`], [`gelu`], [`gelu_tanh`], [`silu`], [`relu`], [`swiglu`], [`geglu`], [`matmul`],
//! [`linear`], [`rotary`], [`attention`], [`flash_attn`], [`flash_attn_windowed`] and [`flash_attn_varlen`] have gradients. [`RmsNorm`], [`LayerNorm`] and [`Linear`]
//! are layers with the constructors of `candle_nn`; [`KvCache`] is attention to a cache of keys and values, for inference.
//!
//! On CUDA devices they run on candle's own stream and memory, without copies, and no event is recorded that candle does not record. Tensors
//! in host memory are interpreted by the CPU device, for tests.
//!
//! ```
//! use candle_core::{Device, Tensor, Var};
//! # fn main() -> candle_core::Result<()> {
//! let x = Var::new(&[[3.0f32, 4.0]], &Device::Cpu)?;
//! let weight = Tensor::new(&[1.0f32, 0.5], &Device::Cpu)?;
//! let y = ptx_candle::rms_norm(&x, &weight, 1e-6)?;
//! let gradients = y.sum_all()?.backward()?;
//! assert_eq!(gradients.get(&x).map(|gradient| gradient.dims().to_vec()), Some(vec![1, 2]));
//! # Ok(())
//! # }
//! ```
//!
//! Elements are `f32`, `f16` or `bf16`; those of attention `f16` or `bf16`. The feature `cuda` is candle's.

#![deny(unsafe_code)]

mod attention;
mod cross_entropy;
#[cfg(feature = "cuda")]
mod cuda;
mod linear;
mod matmul;
mod memory;
mod norm;
mod rotary;
mod rows;
mod run;

pub use attention::{KvCache, attention, flash_attn, flash_attn_varlen, flash_attn_windowed};
pub use cross_entropy::cross_entropy;
pub use linear::{Linear, linear};
pub use matmul::matmul;
pub use norm::{LayerNorm, RmsNorm, layer_norm, rms_norm};
pub use rotary::rotary;
pub use rows::{geglu, gelu, gelu_tanh, relu, silu, softmax, swiglu};
