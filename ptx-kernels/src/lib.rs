#![doc = include_str!("../README.md")]

#[cfg(feature = "activation")]
pub mod activation;
#[cfg(feature = "attention_forward")]
pub mod attention;
#[cfg(feature = "comm")]
pub mod comm;
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
