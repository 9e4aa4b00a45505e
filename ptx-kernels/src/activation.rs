//! Activations and gated activations: GELU, SiLU, SwiGLU.
