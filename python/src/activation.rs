//! Activations and gated activations, each under its own name.

use ptx_ffi::prelude::*;
use ptx_kernels::activation::{Activation, Float, GatedGrads};

/// GELU, or its approximation by tanh.
fn gelu_by(approximate: &str) -> Result<Activation> {
    match approximate {
        "none" => Ok(Activation::Gelu),
        "tanh" => Ok(Activation::GeluTanh),
        other => {
            let message = format!("approximate: expected none or tanh, found {other}");
            Err(Error::new(ErrorKind::Condition, message))
        }
    }
}

/// Exports activations and their gradients: names, the parameter that chooses an approximation, and the activation.
macro_rules! activations {
    ($($name:ident $backward:ident ($($option:ident)?) $activation:expr;)*) => { $(
        /// An activation, element by element.
        #[ptx_ffi::export(types = [f32, f16, bf16], shapes(x = [.., n], out = [.., n]), parallel(n), backward = $backward)]
        fn $name<T: Float>(
            stream: &Stream,
            x: TensorRef<'_, T, 2>,
            out: TensorMut<'_, T, 2>,
            $($option: &str,)?
        ) -> Result<()> {
            $activation.apply(stream, x, out)
        }

        /// The gradient of an activation.
        #[ptx_ffi::export(types = [f32, f16, bf16], shapes(x = [.., n], grad_out = [.., n], grad_x = [.., n]), parallel(n))]
        fn $backward<T: Float>(
            stream: &Stream,
            x: TensorRef<'_, T, 2>,
            grad_out: TensorRef<'_, T, 2>,
            grad_x: TensorMut<'_, T, 2>,
            $($option: &str,)?
        ) -> Result<()> {
            $activation.backward(stream, x, grad_out, grad_x)
        }
    )* };
}

activations! {
    gelu gelu_backward (approximate) gelu_by(approximate)?;
    silu silu_backward () Activation::Silu;
    relu relu_backward () Activation::Relu;
}

/// The gradients of a gated activation.
#[derive(ptx_ffi::Args)]
struct Grads<'a, T> {
    grad_gate: TensorMut<'a, T, 2>,
    grad_up: TensorMut<'a, T, 2>,
}

/// Exports gated activations, `f(gate) · up`, and their gradients.
macro_rules! gated {
    ($($name:ident $backward:ident ($($option:ident)?) $activation:expr;)*) => { $(
        /// A gated activation: f(`gate`) · `up`.
        #[ptx_ffi::export(
            types = [f32, f16, bf16],
            shapes(gate = [.., n], up = [.., n], out = [.., n]),
            parallel(n),
            backward = $backward
        )]
        fn $name<T: Float>(
            stream: &Stream,
            gate: TensorRef<'_, T, 2>,
            up: TensorRef<'_, T, 2>,
            out: TensorMut<'_, T, 2>,
            $($option: &str,)?
        ) -> Result<()> {
            $activation.gate(stream, gate, up, out)
        }

        /// The gradients of a gated activation.
        #[ptx_ffi::export(
            types = [f32, f16, bf16],
            shapes(gate = [.., n], up = [.., n], grad_out = [.., n], grad_gate = [.., n], grad_up = [.., n]),
            parallel(n)
        )]
        fn $backward<T: Float>(
            stream: &Stream,
            gate: TensorRef<'_, T, 2>,
            up: TensorRef<'_, T, 2>,
            grad_out: TensorRef<'_, T, 2>,
            Grads { grad_gate, grad_up }: Grads<'_, T>,
            $($option: &str,)?
        ) -> Result<()> {
            let grads = GatedGrads { dgate: grad_gate, dup: grad_up };
            $activation.gate_backward(stream, gate, up, grad_out, grads)
        }
    )* };
}

gated! {
    swiglu swiglu_backward () Activation::Silu;
    geglu geglu_backward (approximate) gelu_by(approximate)?;
}
