//! Backward on `sm_80` and newer, as in FlashAttention-2, without atomic additions: a kernel whose blocks own queries makes dQ, one
//! whose blocks own keys makes dK and dV. Both compute P again from the scores and the logarithms of their sums, so the result
//! is the same each time.
//!
//! With dP = dO · Vᵀ and delta = rowsum(dO ∘ O): dS = P ∘ (dP - delta), dQ = scale · dS · K, dK = scale · dSᵀ · Q, dV = Pᵀ · dO.
//! The first kernel computes delta, the second one reads it.

pub(super) mod keys;
pub(super) mod queries;
