//! The launch of a kernel with the arguments of a call, which were compared with the kernel's description.
#![allow(unsafe_code, reason = "memory of other languages; callers of kernels from Python vouch for them")]

use super::describe::dtype;
use crate::call::{Call, PARAMS, not_dense, unexpected};
use crate::dtype::DType;
use crate::value::{Tensor, Value};
use ptx_jit::describe::{Kernel, Kind};
use ptx_jit::{JitKernel, Number, Passed};
use ptx_launch::Result;
use ptx_launch::expansion::int;

/// A parameter of a kernel as a launch fills it, found once: the check of a call has compared the argument with its name and type.
#[derive(Clone, Copy, Debug)]
pub(super) enum Slot {
    Memory,
    Number(DType),
    Struct,
}

/// The parameters of a kernel.
pub(super) fn slots(kernel: &Kernel) -> Vec<Slot> {
    let slot = |kind: &Kind| match kind {
        Kind::Slice { .. } | Kind::Tile { .. } => Slot::Memory,
        Kind::Value(ty) => dtype(ty).map_or(Slot::Struct, Slot::Number),
        // No function has such a parameter.
        Kind::Map | Kind::Object(_) => Slot::Struct,
    };
    kernel.params.iter().map(|param| slot(&param.kind)).collect()
}

/// Launches a kernel on the stream of a call.
pub(super) fn launch(kernel: &JitKernel, slots: &[Slot], call: &Call<'_>) -> Result<()> {
    let structs: Vec<Vec<u8>> = match slots.iter().any(|slot| matches!(slot, Slot::Struct)) {
        true => slots.iter().enumerate().map(|(at, slot)| structure(call, at, slot)).collect::<Result<_>>()?,
        false => Vec::new(),
    };
    let mut every = [Passed::Struct(&[]); PARAMS];
    for (at, (passed, slot)) in every.iter_mut().zip(slots).enumerate() {
        *passed = match slot {
            Slot::Memory => memory(call, at)?,
            Slot::Number(ty) => number(*ty, call.param(at).1).ok_or_else(|| unexpected(call, at))?,
            Slot::Struct => Passed::Struct(structs.get(at).map_or(&[], Vec::as_slice)),
        };
    }
    // SAFETY: the CPU device checks every access. On a GPU the caller vouches for the kernel, as for every kernel that it writes: the call has
    // checked types, shapes, devices and overlaps, and the launch checks the kernel's conditions. The memory is the caller's, which lives until the
    // work on the stream has ended.
    unsafe { kernel.launch_with(call.stream(), every.get(..slots.len()).unwrap_or_default()) }
}

fn memory<'a>(call: &Call<'a>, at: usize) -> Result<Passed<'a>> {
    let (name, Value::Tensor(tensor)) = call.param(at) else { return Err(unexpected(call, at)) };
    let tensor: &'a Tensor = tensor;
    match tensor.is_dense() {
        true => Ok(Passed::Memory(tensor.address, tensor.span, tensor.extents())),
        false => Err(not_dense(name, tensor)),
    }
}

/// A number, which the check of the call has found to fit its type.
fn number<'a>(ty: DType, value: &Value<'_>) -> Option<Passed<'a>> {
    match (ty, *value) {
        (_, Value::Float(value)) => {
            let (bits, rounded) = ty.rounded(value)?;
            Some(Passed::Number(bits.to_le_bytes(), Number::Float(rounded)))
        }
        // The bytes of a shorter integer are the first ones.
        (_, Value::Int(value)) => {
            let number = i64::try_from(value).map(int).or_else(|_| u64::try_from(value).map(int)).ok()?;
            Some(Passed::Number((value as u64).to_le_bytes(), Number::Int(number)))
        }
        _ => None,
    }
}

/// The bytes of a struct; none for another parameter.
fn structure(call: &Call<'_>, at: usize, slot: &Slot) -> Result<Vec<u8>> {
    match (slot, call.param(at).1) {
        (Slot::Struct, Value::Str(digits)) => bytes(digits).ok_or_else(|| unexpected(call, at)),
        (Slot::Struct, _) => Err(unexpected(call, at)),
        _ => Ok(Vec::new()),
    }
}

/// The bytes that hexadecimal digits stand for.
fn bytes(digits: &str) -> Option<Vec<u8>> {
    let digit = |digit: &u8| char::from(*digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(pair.first()?)? << 4 | digit(pair.get(1)?)?)).collect()
}
