//! References of the row-wise kernels, in `f64`. No kernel lives here.

use super::Task;

/// Constant that RMSNorm adds to the mean of the squares.
pub const RMS_EPSILON: f32 = 1e-6;
/// Constant that LayerNorm adds to the variance.
pub const LAYER_EPSILON: f32 = 1e-5;

/// x · weight / sqrt(mean(x²) + ε)
pub const fn rms_norm(name: &'static str) -> Task {
    Task { name, inputs: &[true, false], reference: rms_norm_of }
}

/// (x - mean(x)) / sqrt(variance(x) + ε) · weight + bias
pub const fn layer_norm(name: &'static str) -> Task {
    Task { name, inputs: &[true, false, false], reference: layer_norm_of }
}

/// exp(x) / sum of exp(x)
pub const fn softmax(name: &'static str) -> Task {
    Task { name, inputs: &[true], reference: softmax_of }
}

/// gate / (1 + exp(-gate)) · up
pub const fn swiglu(name: &'static str) -> Task {
    Task { name, inputs: &[true, true], reference: swiglu_of }
}

fn rms_norm_of(rows: &[&[f64]]) -> Vec<f64> {
    let [x, weight] = rows else { return Vec::new() };
    let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
    let scale = 1.0 / (mean + f64::from(RMS_EPSILON)).sqrt();
    x.iter().zip(*weight).map(|(x, w)| x * scale * w).collect()
}

fn layer_norm_of(rows: &[&[f64]]) -> Vec<f64> {
    let [x, weight, bias] = rows else { return Vec::new() };
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64;
    let scale = 1.0 / (variance + f64::from(LAYER_EPSILON)).sqrt();
    x.iter().zip(*weight).zip(*bias).map(|((x, w), b)| (x - mean) * scale * w + b).collect()
}

fn softmax_of(rows: &[&[f64]]) -> Vec<f64> {
    let [x] = rows else { return Vec::new() };
    let top = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = x.iter().map(|x| (x - top).exp()).sum();
    x.iter().map(|x| (x - top).exp() / total).collect()
}

fn swiglu_of(rows: &[&[f64]]) -> Vec<f64> {
    let [gate, up] = rows else { return Vec::new() };
    gate.iter().zip(*up).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect()
}
