//! Codes and bits of the kernels' parameters, for kernels and host.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod codes {
    /// The greatest numbers of rows, of columns and along K where kernels count in tiles and parts, as conditions of launches have it.
    pub(crate) const MOST_EXTENT: u32 = 0xffff0000;

    /// Codes of element types.
    pub(crate) const F32: u32 = 0;
    pub(crate) const F16: u32 = 1;
    pub(crate) const BF16: u32 = 2;
    pub(crate) const E4M3: u32 = 3;
    pub(crate) const E5M2: u32 = 4;
    pub(crate) const I8: u32 = 5;
    pub(crate) const TF32: u32 = 6;
    pub(crate) const I32: u32 = 7;

    /// Element types of C with four bytes; the others have two.
    pub(crate) const WORDS: [u32; 2] = [F32, I32];

    /// Bits of `Epilogue::flags`: four neighboring columns of C, of the residual, of the bias per column are one aligned
    /// access.
    pub(crate) const C_WIDE: u32 = 1;
    pub(crate) const RESIDUAL_WIDE: u32 = 2;
    pub(crate) const BIAS_WIDE: u32 = 4;
    pub(crate) const WIDE: [u32; 3] = [C_WIDE, RESIDUAL_WIDE, BIAS_WIDE];
    /// The parts of the epilogue that there are.
    pub(crate) const SCALE_ROWS: u32 = 1 << 4;
    pub(crate) const SCALE_COLUMNS: u32 = 1 << 5;
    pub(crate) const ACCUMULATE: u32 = 1 << 6;
    pub(crate) const BIAS_ROWS: u32 = 1 << 7;
    pub(crate) const BIAS_COLUMNS: u32 = 1 << 8;
    pub(crate) const RESIDUAL: u32 = 1 << 9;
    pub(crate) const RELU: u32 = 1 << 10;
    pub(crate) const GELU: u32 = 1 << 11;
    pub(crate) const GELU_TANH: u32 = 1 << 12;
    pub(crate) const SILU: u32 = 1 << 13;
    pub(crate) const ACTIVATION: u32 = 15 << 10;
    /// All of them.
    pub(crate) const OPTIONS: u32 = 0x3ff << 4;

    /// Bits of `Problem::flags`: neighbors along K are neighbors in memory.
    pub(crate) const A_ALONG_K: u32 = 1;
    pub(crate) const B_ALONG_K: u32 = 2;
    /// Every run of 16 bytes is aligned; otherwise every run of 4 is.
    pub(crate) const A_WIDE: u32 = 4;
    pub(crate) const B_WIDE: u32 = 8;
    /// The first and the second operand of `wgmma` have a matrix for each batch.
    pub(crate) const A_BATCHES: u32 = 16;
    pub(crate) const B_BATCHES: u32 = 32;
}
