//! Matrix products on Blackwell, `sm_100a`: TMA, tensor memory and `tcgen05`. C (M × N) = A (M × K) · Bᵀ (N × K), 16-bit operands, sums in
//! `f32`, any M, and any N and K that are multiples of 8. Not tuned: the kernels run on the CPU device, and no chip has measured them.

pub mod gemm;
pub mod gemm_pair;
