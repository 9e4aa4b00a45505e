//! The launch of a kernel with the arguments of a call, which were compared with the kernel's description.
#![allow(unsafe_code, reason = "memory of other languages; callers of kernels from Python vouch for them")]

use super::describe::dtype;
use crate::call::{Call, not_dense, unexpected};
use crate::value::{Tensor, Value};
use half::{bf16, f16};
use ptx_jit::describe::Kind;
use ptx_jit::{JitKernel, JitLaunch};
use ptx_launch::{Result, View, ViewMut};

/// An argument as a launch takes it.
enum Passed<'a> {
    Read(View<'a, u8>, &'a Tensor),
    Write(ViewMut<'a, u8>, &'a Tensor),
    Value,
}

/// Launches a kernel on the stream of a call.
pub(super) fn launch(kernel: &JitKernel, call: &Call<'_>) -> Result<()> {
    let params = &kernel.description().params;
    let passed = params.iter().enumerate().map(|(at, param)| passed(call, at, &param.kind));
    let mut passed: Vec<Passed<'_>> = passed.collect::<Result<_>>()?;
    let mut launch = kernel.launch();
    for (at, (param, passed)) in params.iter().zip(&mut passed).enumerate() {
        launch = match (&param.kind, passed) {
            (Kind::Slice { element, .. } | Kind::Tile { element, .. }, Passed::Read(view, tensor)) => {
                launch.read_bytes(&*view, (element, tensor.dtype.bytes()), tensor.extents())?
            }
            (Kind::Slice { element, .. } | Kind::Tile { element, .. }, Passed::Write(view, tensor)) => {
                launch.write_bytes(view, (element, tensor.dtype.bytes()), tensor.extents())?
            }
            (Kind::Value(ty), _) => value(launch, call, at, ty)?,
            _ => return Err(unexpected(call, at)),
        };
    }
    // SAFETY: the CPU device checks every access. On a GPU the caller vouches for the kernel, as for every kernel that it writes: the call has
    // checked types, shapes, devices and overlaps, and the launch checks the kernel's conditions.
    unsafe { launch.submit(call.stream()) }
}

fn passed<'a>(call: &Call<'a>, at: usize, kind: &Kind) -> Result<Passed<'a>> {
    let (Kind::Slice { element, written } | Kind::Tile { element, written, .. }) = kind else {
        return Ok(Passed::Value);
    };
    let (name, value) = call.param(at);
    let Value::Tensor(tensor) = value else { return Err(unexpected(call, at)) };
    if dtype(element) != Some(tensor.dtype) {
        return Err(unexpected(call, at));
    }
    if !tensor.is_dense() {
        return Err(not_dense(name, tensor));
    }
    let bytes = tensor.span * tensor.dtype.bytes();
    // SAFETY: as for `TensorRef` and `TensorMut`: the caller passes memory of this type and shape, which lives until the work on the stream has ended, and
    // no written tensor shares memory with another one.
    Ok(unsafe {
        match written {
            false => Passed::Read(View::from_raw(call.stream(), tensor.address, bytes), tensor),
            true => Passed::Write(ViewMut::from_raw(call.stream(), tensor.address, bytes), tensor),
        }
    })
}

/// The next argument is a number, or the bytes of a struct.
fn value<'l>(launch: JitLaunch<'l>, call: &Call<'_>, at: usize, ty: &str) -> Result<JitLaunch<'l>> {
    /// The lower bits of a number, which the check of the call has found to fit.
    macro_rules! int {
        ($ty:ty, $value:expr) => {
            match <$ty>::try_from(*$value) {
                Ok(value) => launch.value(value),
                Err(_) => Err(unexpected(call, at)),
            }
        };
    }
    match (ty, call.param(at).1) {
        ("i8", Value::Int(value)) => int!(i8, value),
        ("i16", Value::Int(value)) => int!(i16, value),
        ("i32", Value::Int(value)) => int!(i32, value),
        ("i64", Value::Int(value)) => launch.value(*value),
        ("u8" | "e4m3", Value::Int(value)) => int!(u8, value),
        ("u16", Value::Int(value)) => int!(u16, value),
        ("u32" | "f16x2" | "bf16x2", Value::Int(value)) => int!(u32, value),
        ("u64", Value::Int(value)) => int!(u64, value),
        ("f16", Value::Float(value)) => launch.value(f16::from_f64(*value)),
        ("bf16", Value::Float(value)) => launch.value(bf16::from_f64(*value)),
        ("f32", Value::Float(value)) => launch.value(*value as f32),
        ("f64", Value::Float(value)) => launch.value(*value),
        (_, Value::Str(digits)) => match bytes(digits) {
            Some(bytes) => launch.bytes(&bytes),
            None => Err(unexpected(call, at)),
        },
        _ => Err(unexpected(call, at)),
    }
}

/// The bytes that hexadecimal digits stand for.
pub(crate) fn bytes(digits: &str) -> Option<Vec<u8>> {
    let digit = |digit: &u8| char::from(*digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(pair.first()?)? << 4 | digit(pair.get(1)?)?)).collect()
}
