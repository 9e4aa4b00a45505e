//! Triton's softmax, transpiled and launched from Rust.

use ptx_launch::prelude::*;

include!("../transpiled/softmax.rs");

// ANCHOR: main
pub fn main() -> ptx_launch::Result<()> {
    let device = Device::best()?;
    let (rows, columns) = (4, 1000);
    let x: Vec<f32> = (0..rows * columns).map(|i| (i % 17) as f32).collect();
    let (input, unused) = (device.upload(&x)?, device.zeros::<u32>(1)?);
    let mut out = device.zeros::<f32>(x.len())?;
    // One program of Triton is one block; 16 bytes are what its kernel needs (`metadata.shared`).
    let config = Config::grid(rows as u32).shared(16);
    let (stride, width) = (columns as u32, columns as u32);
    // SAFETY: the rows lie in both buffers, and the kernel does not touch its last two parameters.
    unsafe { softmax::softmax(&device, config, &mut out, &input, stride, width, &unused, &unused)? };
    for (found, row) in out.download()?.chunks(columns).zip(x.chunks(columns)) {
        let sum: f32 = row.iter().map(|x| x.exp()).sum();
        assert!(found.iter().zip(row).all(|(found, x)| (found - x.exp() / sum).abs() < 1e-6));
    }
    Ok(())
}
// ANCHOR_END: main
