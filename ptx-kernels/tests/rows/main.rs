//! Row-wise operations against `f64`: random shapes, strides and alignments, special values, and memory that nothing may write.
//!
//! `PTX_ROWS_PROBLEMS` is the number of random problems of each operation, `PTX_ROWS_SEED` the first one; `PTX_DEVICE=cuda` runs them on a GPU.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::panic, reason = "tests")]

mod activation;
mod assemble;
mod bandwidth;
mod cross_entropy;
mod edges;
#[path = "../from_text/mod.rs"]
mod from_text;
mod norm;
mod rotary;
mod softmax;
mod support;
#[path = "../thorough/mod.rs"]
mod thorough;
