//! Attention: forward, backward, decode.
