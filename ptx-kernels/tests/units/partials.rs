//! Partial results that several blocks leave of one problem: the last block adds them up, at once or in two steps.

use ptx_launch::Result;
use ptx_launch::prelude::*;

/// Rows and columns of a part: vectors of four words, and single ones.
const ROWS: usize = 4;
const COLUMNS: usize = 160;

#[ptx_module(arch = "sm_80", modules(crate::{attention::attention, kv_cache::kv_cache}))]
mod kernels {
    /// Block b leaves rows of b, with b + row as the logarithm of their sums in powers of 2. There are three rows, one for each head.
    #[ptx_kernel(
        block = 64,
        grid = blocks,
        unsafe(requires(
            out.len() >= 3 * 160,
            lse.len() >= 3,
            scratch.len() >= 2 * blocks * (4 * 161),
            flags.len() >= 2 * blocks
        ))
    )]
    pub fn add_up(out: &mut [bf16], lse: &mut [f32], scratch: &mut [f32], flags: &mut [u32], blocks: u32, steps: u32) {
        #[shared]
        let slot: [u32; 1];
        let (out_to, lse_to, scratch_to, flags_to, slot_at): (u64, u64, u64, u64, u32) =
            (out, lse, scratch, flags, slot);
        let (out_strides, lse_strides): ([u64; 3], [u64; 3]) = ([0, 0, 320], [0, 0, 4]);
        let output = kv_cache::Output { out: out_to, lse: lse_to, out_strides, lse_strides, dim: 160, logged: 1 };
        let packed = kv_cache::Packed { sequence: 0, first: 0, count: 3, tokens: 1, kv_group: 3, head: 0, heads: 3 };
        let parts = kv_cache::Parts::<4, 160> { scratch: scratch_to, first: 0, count: blocks };
        let value: f32;
        let own: u32 = ctaid.x;
        ptx! { cvt.rn.f32.u32 value, own; }
        let columns: [f32; 5] = [value, value, value, value, value];
        let mut row: u32 = tid.x / 32;
        while row < 3 {
            let more: f32;
            ptx! { cvt.rn.f32.u32 more, row; }
            parts.store(own, row, &columns, value + more);
            row += 2;
        }
        if steps == 1 {
            let both: [u64; 2] = [flags_to, flags_to + wide(blocks) * 4];
            parts.reduce_in_steps::<bf16, 2>(own, &output, &packed, both, slot_at);
        } else {
            parts.reduce::<bf16, 2>(&output, &packed, flags_to, slot_at);
        }
    }
}

#[ptx_test(seeds = 3)]
fn the_last_block_adds_up_all_parts(device: &Device) -> Result<()> {
    for (blocks, steps) in [2, 8, 9, 17, 40].into_iter().flat_map(|blocks| [(blocks, 0), (blocks, 1)]) {
        let (mut out, mut lse) = (device.zeros::<bf16>(3 * COLUMNS)?, device.zeros::<f32>(3)?);
        let mut scratch = device.zeros::<f32>(2 * blocks * ROWS * (COLUMNS + 1))?;
        let mut flags = device.zeros::<u32>(2 * blocks)?;
        kernels::add_up(device, &mut out, &mut lse, &mut scratch, &mut flags, blocks as u32, steps)?;
        let weights: Vec<f64> = (0..blocks).map(|block| (block as f64).exp2()).collect();
        let total: f64 = weights.iter().sum();
        let sum: f64 = weights.iter().enumerate().map(|(block, weight)| block as f64 * weight).sum();
        for x in out.download()? {
            assert!((x.to_f64() - sum / total).abs() <= sum / total / 256.0, "{x}, {blocks} blocks, steps {steps}");
        }
        for (row, log) in lse.download()?.into_iter().enumerate() {
            let expected = total.ln() + row as f64 * std::f64::consts::LN_2;
            assert!((f64::from(log) - expected).abs() < 1e-5 * expected, "{log}, not {expected}, {blocks} blocks");
        }
        assert_eq!(flags.download()?, vec![0; 2 * blocks]);
    }
    Ok(())
}
