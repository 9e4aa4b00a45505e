//! Memory spaces, and layouts of fragments and swizzles, as pictures: which threads see a space, which thread and register hold an element.
//!
//! Memory spaces:
//!
#![doc = include_str!("../docs/figures/memory_spaces.svg")]
//!
//! A cell of the following pictures names the thread of the warp (T0 to T31) and its register, in the order of the instruction's operands. The pictures are
//! drawn from the functions that the CPU device uses.
//!
//! A of mma.m16n8k16:
//!
#![doc = include_str!("../docs/figures/mma_m16n8k16_a.svg")]
//!
//! B of mma.m16n8k16:
//!
#![doc = include_str!("../docs/figures/mma_m16n8k16_b.svg")]
//!
//! C and D of mma.m16n8k16:
//!
#![doc = include_str!("../docs/figures/mma_m16n8k16_c.svg")]
//!
//! D of wgmma:
//!
#![doc = include_str!("../docs/figures/wgmma_d.svg")]
//!
//! tcgen05.ld.32x32b:
//!
#![doc = include_str!("../docs/figures/tcgen05_ld_32x32b.svg")]
//!
//! tcgen05.ld.16x64b:
//!
#![doc = include_str!("../docs/figures/tcgen05_ld_16x64b.svg")]
//!
//! tcgen05.ld.16x128b:
//!
#![doc = include_str!("../docs/figures/tcgen05_ld_16x128b.svg")]
//!
//! tcgen05.ld.16x256b:
//!
#![doc = include_str!("../docs/figures/tcgen05_ld_16x256b.svg")]
//!
//! Swizzle of 128 bytes:
//!
#![doc = include_str!("../docs/figures/swizzle_128.svg")]
//!
//! Swizzle of 64 bytes:
//!
#![doc = include_str!("../docs/figures/swizzle_64.svg")]
//!
//! Swizzle of 32 bytes:
//!
#![doc = include_str!("../docs/figures/swizzle_32.svg")]
