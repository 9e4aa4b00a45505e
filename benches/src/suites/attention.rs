//! Attention through the library's public functions, against FlashAttention-3, FlashMLA and cuDNN, and against PyTorch and FlashInfer, which run
//! in the companion (`benches/companion.py`) under the same names and sizes.

mod accuracy;
mod backward;
mod decode;
mod e4m3;
mod exact;
mod forward;
mod host;
mod latent;
mod row;

pub use accuracy::accuracy;
pub use backward::bf16 as backward_bf16;
pub use decode::bf16 as decode_bf16;
pub use e4m3::e4m3;
pub use forward::bf16;
pub use host::host;
pub use latent::bf16 as decode_latent_bf16;
