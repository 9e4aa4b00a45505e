//! The forward kernel from its text: its conditions and its grid are functions of its structs of parameters.

use crate::from_text::library;
use ptx_jit::{JitModule, Source};
use ptx_launch::Result;
use ptx_launch::prelude::*;

/// Queries and keys, and elements of a row.
const TOKENS: u64 = 4;
const DIM: u64 = 64;

/// The bytes of a `Problem` of one head, whose strides are those of contiguous rows.
fn problem() -> Vec<u8> {
    let (row, all) = (2 * DIM, TOKENS * DIM);
    let strides = [[all * 2, row, row]; 4].concat();
    let reach = [all, all, all, all, TOKENS, 0];
    let wide = strides.into_iter().chain([4 * TOKENS, 4, 4 * TOKENS]).chain([0; 4]).chain(reach);
    let (tokens, dim) = (TOKENS as u32, DIM as u32);
    // Sequences, heads, tokens, lengths, heads that share one, elements of rows; logarithms, and no window.
    let narrow = [1, 1, tokens, tokens, tokens, tokens, 1, dim, dim, 0, 0, 1, 0, 1 << 30, 1 << 30];
    let factors = [0.125f32, 0.0, 0.125 * std::f32::consts::LOG2_E];
    let narrow = narrow.into_iter().chain(factors.map(f32::to_bits)).flat_map(u32::to_le_bytes);
    wide.flat_map(u64::to_le_bytes).chain(narrow).collect()
}

/// The bytes of a `Paging` of keys in tensors of one head.
fn no_cache() -> Vec<u8> {
    [0u32, 1, 1, 0, 1].into_iter().flat_map(u32::to_le_bytes).collect()
}

/// Launches it with so many elements of the output.
fn forward(device: &Device, module: &JitModule, out_len: usize) -> Result<(Vec<u8>, Vec<f32>)> {
    let all = (TOKENS * DIM) as usize;
    let (zeros, ones) = (device.zeros::<u8>(2 * all)?, device.upload(&[0x80u8, 0x3f].repeat(all))?);
    let (empty, no_bytes, no_factors) = (device.zeros::<i32>(0)?, device.zeros::<u8>(0)?, device.zeros::<f32>(0)?);
    let (mut out, mut lse) = (device.zeros::<u8>(2 * out_len)?, device.zeros::<f32>(TOKENS as usize)?);
    let element = ("bf16", 2);
    let mut launch = module.kernel("forward")?.launch();
    for rows in [&zeros, &zeros, &ones] {
        launch = launch.read_bytes(rows, element, &[all])?;
    }
    launch = launch.read_bytes(&no_bytes, element, &[0])?;
    for _ in 0..4 {
        launch = launch.read(&empty)?;
    }
    for _ in 0..3 {
        launch = launch.read(&no_factors)?;
    }
    let launch = launch.write_bytes(&mut out, element, &[out_len])?.write(&mut lse)?;
    launch.bytes(&problem())?.bytes(&no_cache())?.bytes(&[0; 72])?.run(device)?;
    Ok((out.download()?, lse.download()?))
}

#[test]
fn the_forward_kernel_is_launched_from_text() -> Result<()> {
    let device = Device::cpu();
    let config = "Config { head: 64, head_v: 64, warps: 4, tiles_m: 2, block_n: 64 }";
    // Those of Hopper have the same name.
    let text = library(&["attention"]).replace("pub fn forward<T, const C", "pub fn forward_hopper<T, const C");
    let source = Source::text("attention.rs", text).only("forward").target("sm_80");
    let module = JitModule::load(&device, &source.with("I", "bf16").with("T", "bf16").with("C", config))?;
    let all = (TOKENS * DIM) as usize;
    // Equal scores: the output is the mean of equal rows.
    let (out, lse) = forward(&device, &module, all)?;
    assert_eq!(out, [0x80u8, 0x3f].repeat(all));
    assert!(lse.iter().all(|lse| (lse - 4f32.ln()).abs() < 1e-5), "{lse:?}");
    let refused = forward(&device, &module, all - 1).unwrap_err().to_string();
    let expected = [
        "p = Problem { batch: 1, tokens_q: 4, heads: 1, .. }, outputs.out.len() = 255",
        "its condition must hold: p.holds_queries(2 * outputs.out.len(), p.out, p.dim_v, 2)",
    ];
    for part in expected {
        assert!(refused.contains(part), "{part} is missing in {refused}");
    }
    Ok(())
}
