//! Matrix products on Hopper, `sm_90a`: TMA, `wgmma` and thread block clusters. C (M × N) = A (M × K) · B (K × N), sums in `f32`.
//!
//! Three kernels: [`gemm`], whole tiles; [`stream_k`], which shares the tiles of the last round; [`split_k`], which shares K of
//! every tile. [`pick`] estimates the time of each [`Variant`] for a shape. Element types: `bf16`, `f16`, and `e4m3` with results in `bf16`.
//! Operands are dense, rows or columns of multiples of 16 bytes; [`Layout::of`] returns `None` for others.
//!
//! Error: products are exact and sums are those of the tensor core in `f32` (`e4m3`: with 13 bits behind the point of the largest
//! product), rounded once to the type of C. The order of the sums depends on a tile's place and on the number of blocks; it is the same
//! in each launch, except that clusters claim tiles by the GPC on which they run, and every other tile of a cluster goes backward along K.

pub mod gemm;
mod gpcs;
mod pick;
mod scratch;
pub mod split_k;
pub mod stream_k;
mod variant;

pub use gpcs::{CLAIM_WORDS, GPC_WORDS};
pub(crate) use pick::estimate;
pub use pick::{Pick, pick};
pub use scratch::Scratch;
pub use variant::{Layout, Operand, Order, Variant, variants};
