//! Activations and gated activations.

use ptx_ffi::prelude::*;
use ptx_kernels::activation::{Activation, Float};

/// The activation of this name: "gelu", "gelu_tanh", "silu" or "relu".
fn named(name: &str) -> Result<Activation> {
    match name {
        "gelu" => Ok(Activation::Gelu),
        "gelu_tanh" => Ok(Activation::GeluTanh),
        "silu" => Ok(Activation::Silu),
        "relu" => Ok(Activation::Relu),
        other => {
            let message = format!("kind: expected gelu, gelu_tanh, silu or relu, found {other}");
            Err(Error::new(ErrorKind::Condition, message))
        }
    }
}

/// An activation, element by element.
#[ptx_ffi::export(types = [f32, f16, bf16], shapes(x = [.., n], out = [.., n]), backward = activation_backward)]
fn activation<T: Float>(stream: &Stream, x: TensorRef<'_, T, 2>, out: TensorMut<'_, T, 2>, kind: &str) -> Result<()> {
    named(kind)?.apply(stream, x, out)
}

/// The gradient of `activation`.
#[ptx_ffi::export(types = [f32, f16, bf16], shapes(x = [.., n], grad_out = [.., n], grad_x = [.., n]))]
fn activation_backward<T: Float>(
    stream: &Stream,
    x: TensorRef<'_, T, 2>,
    grad_out: TensorRef<'_, T, 2>,
    grad_x: TensorMut<'_, T, 2>,
    kind: &str,
) -> Result<()> {
    named(kind)?.backward(stream, x, grad_out, grad_x)
}

/// A gated activation: f(`gate`) · `up`.
#[ptx_ffi::export(types = [f32, f16, bf16], shapes(gate = [.., n], up = [.., n], out = [.., n]), backward = gated_backward)]
fn gated<T: Float>(
    stream: &Stream,
    gate: TensorRef<'_, T, 2>,
    up: TensorRef<'_, T, 2>,
    out: TensorMut<'_, T, 2>,
    kind: &str,
) -> Result<()> {
    named(kind)?.gate(stream, gate, up, out)
}

/// The gradients of `gated`.
#[ptx_ffi::export(
    types = [f32, f16, bf16],
    shapes(gate = [.., n], up = [.., n], grad_out = [.., n], grad_gate = [.., n], grad_up = [.., n])
)]
fn gated_backward<T: Float>(
    stream: &Stream,
    gate: TensorRef<'_, T, 2>,
    up: TensorRef<'_, T, 2>,
    grad_out: TensorRef<'_, T, 2>,
    grad_gate: TensorMut<'_, T, 2>,
    grad_up: TensorMut<'_, T, 2>,
    kind: &str,
) -> Result<()> {
    named(kind)?.gate_backward(stream, gate, up, grad_out, grad_gate, grad_up)
}
