//! The host's side of every matrix product in the tutorial: operands, a reference, and the comparison.

use ptx_launch::prelude::*;

/// Rows of A and C, columns of C, and the dimension that is summed over.
pub type Shape = [u32; 3];

/// Computes C (M × N, `f32`) = A (M × K) · Bᵀ (B is N × K) in row-major `bf16`.
pub type Gemm = fn(&Stream, &Buffer<bf16>, &Buffer<bf16>, &mut Buffer<f32>, Shape) -> ptx_launch::Result<()>;

/// Small integers, so that every sum is exact and results compare equal.
fn operand(count: u32, seed: u32) -> Vec<bf16> {
    (0..count)
        .map(|i| bf16::from_f32(((i.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 13) % 7) as f32 - 3.0))
        .collect()
}

/// Runs `gemm`, and compares every element of C with a triple loop.
pub fn check(device: &Device, shape: Shape, gemm: Gemm) -> ptx_launch::Result<()> {
    let [m, n, k] = shape;
    let (a, b) = (operand(m * k, 1), operand(n * k, 2));
    let mut c = device.zeros::<f32>((m * n) as usize)?;
    gemm(&device.stream(), &device.upload(&a)?, &device.upload(&b)?, &mut c, shape)?;
    let c = c.download()?;
    let k = k as usize;
    for (i, row) in a.chunks(k).enumerate() {
        for (j, column) in b.chunks(k).enumerate() {
            let sum: f32 = row.iter().zip(column).map(|(x, y)| x.to_f32() * y.to_f32()).sum();
            assert_eq!(c[i * n as usize + j], sum, "row {i}, column {j}");
        }
    }
    Ok(())
}
