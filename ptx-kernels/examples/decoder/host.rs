//! Weights and inputs, and the same decoder on the host in `f64`.

use super::Extents;
use super::layer::{BASE, EPSILON};
use half::bf16;
use ptx_launch::{Error, Result};
use std::ops::Range;

/// The weights of a layer: N x K, the first two of several parts.
pub(crate) const QKV: u64 = 0;
pub(crate) const OUT: u64 = 1;
pub(crate) const GATE_UP: u64 = 2;
pub(crate) const DOWN: u64 = 3;
const INPUTS: u64 = 4;

/// Between -1 and 1.
fn value(key: u64, row: usize, column: usize) -> f32 {
    let at = key << 48 ^ (row as u64) << 24 ^ column as u64;
    let mixed = (at ^ at >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 40) as f32 / (1 << 23) as f32 - 1.0
}

/// So many rows and columns of each of `parts` matrices below each other.
pub(crate) fn weights(
    extents: Extents,
    layer: usize,
    which: u64,
    parts: usize,
    rows: Range<usize>,
    columns: Range<usize>,
) -> Vec<bf16> {
    let Extents { hidden, inner, .. } = extents;
    // All rows of a part, all columns.
    let (of_part, k) = match which {
        GATE_UP => (inner, hidden),
        DOWN => (hidden, inner),
        _ => (hidden, hidden),
    };
    let (key, scale) = (layer as u64 * 8 + which, (3.0 / k as f32).sqrt());
    let row = |part: usize, row: usize| {
        columns.clone().map(move |column| bf16::from_f32(value(key, part * of_part + row, column) * scale))
    };
    (0..parts).flat_map(|part| rows.clone().flat_map(move |at| row(part, at))).collect()
}

/// Some rows of a batch.
pub(crate) fn inputs(extents: Extents, batch: usize, rows: Range<usize>) -> Vec<bf16> {
    let first = batch * extents.tokens;
    let row = |row| (0..extents.hidden).map(move |column| bf16::from_f32(value(INPUTS, first + row, column)));
    rows.flat_map(row).collect()
}

/// Compares the residual stream behind the last layer.
pub(crate) fn compare(extents: Extents, batch: usize, found: &[bf16]) -> Result<()> {
    let found = found.iter().copied().map(f64::from);
    let want = decode(extents, inputs(extents, batch, 0..extents.tokens).into_iter().map(f64::from).collect());
    let norm = |all: &mut dyn Iterator<Item = f64>| all.map(|x| x * x).sum::<f64>().sqrt();
    let error = norm(&mut found.zip(&want).map(|(a, b)| a - b)) / norm(&mut want.iter().copied());
    println!("batch {batch}: relative error {error:.1e}");
    // Each rounding to 8 bits adds up to 2^-9; a layer has about ten.
    let is_near = error < 0.02;
    if is_near { Ok(()) } else { Err(Error::other(format!("batch {batch} differs from f64 by {error:.1e}"))) }
}

/// X times the transposed weights: rows of K by N x K.
fn multiply(x: &[f64], weights: &[bf16], k: usize) -> Vec<f64> {
    let weights: Vec<f64> = weights.iter().copied().map(f64::from).collect();
    let dot = |row: &[f64], column: &[f64]| row.iter().zip(column).map(|(a, b)| a * b).sum();
    x.chunks(k).flat_map(|row| weights.chunks(k).map(move |column| dot(row, column))).collect()
}

fn normalize(x: &[f64], columns: usize) -> Vec<f64> {
    let row = |row: &[f64]| {
        let mean = row.iter().map(|x| x * x).sum::<f64>() / columns as f64;
        let by = (mean + f64::from(EPSILON)).sqrt();
        row.iter().map(|x| x / by).collect::<Vec<_>>()
    };
    x.chunks(columns).flat_map(row).collect()
}

fn decode(extents: Extents, mut x: Vec<f64>) -> Vec<f64> {
    let Extents { hidden, inner, .. } = extents;
    for layer in 0..extents.layers {
        let of = |which, parts, rows, columns| weights(extents, layer, which, parts, 0..rows, 0..columns);
        let qkv = multiply(&normalize(&x, hidden), &of(QKV, 3, hidden, hidden), hidden);
        let heads = attend(extents, &qkv);
        let sum = multiply(&heads, &of(OUT, 1, hidden, hidden), hidden);
        x.iter_mut().zip(sum).for_each(|(x, sum)| *x += sum);
        let both = multiply(&normalize(&x, hidden), &of(GATE_UP, 2, inner, hidden), hidden);
        let gated = both.chunks(2 * inner).flat_map(|row| {
            let (gate, up) = row.split_at(inner);
            gate.iter().zip(up).map(|(gate, up)| gate / (1.0 + (-gate).exp()) * up).collect::<Vec<_>>()
        });
        let sum = multiply(&gated.collect::<Vec<_>>(), &of(DOWN, 1, hidden, inner), inner);
        x.iter_mut().zip(sum).for_each(|(x, sum)| *x += sum);
    }
    x
}

/// Rotates a head in place, the first half of its elements with the second one.
fn rotate(head: &mut [f64], position: usize) {
    let (first, second) = head.split_at_mut(head.len() / 2);
    let pairs = first.len() as f64;
    for (i, (a, b)) in first.iter_mut().zip(second).enumerate() {
        let (sin, cos) = (position as f64 * BASE.powf(-(i as f64) / pairs)).sin_cos();
        (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
    }
}

/// Causal attention of all heads; a row has Q, K and V.
fn attend(extents: Extents, qkv: &[f64]) -> Vec<f64> {
    let Extents { tokens, hidden, heads, .. } = extents;
    let dim = extents.dim();
    let mut qkv = qkv.to_vec();
    for (position, row) in qkv.chunks_mut(3 * hidden).enumerate() {
        row[..2 * hidden].chunks_mut(dim).for_each(|head| rotate(head, position));
    }
    let mut out = vec![0.0; tokens * hidden];
    for (row, head) in (0..tokens).flat_map(|row| (0..heads).map(move |head| (row, head))) {
        let part = |row: usize, which: usize| &qkv[(row * 3 + which) * hidden + head * dim..][..dim];
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let scores: Vec<f64> =
            (0..=row).map(|key| (dot(part(row, 0), part(key, 1)) / (dim as f64).sqrt()).exp()).collect();
        let sum: f64 = scores.iter().sum();
        for (key, score) in scores.iter().enumerate() {
            let to = &mut out[row * hidden + head * dim..][..dim];
            to.iter_mut().zip(part(key, 2)).for_each(|(to, v)| *to += score / sum * v);
        }
    }
    out
}
