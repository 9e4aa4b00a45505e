//! Kernels for Hopper (`sm_90a`), whose files stand in `hopper/`.

#[path = "../hopper/gemm.rs"]
pub mod gemm;
