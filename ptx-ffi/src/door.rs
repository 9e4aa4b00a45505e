//! The symbols that a native door of a framework calls: it has read the arguments as TVM-FFI's values, makes the outputs, and passes the stream
//! and a function that takes the error. Nothing is looked up, and no library of TVM-FFI is needed.
#![allow(unsafe_code, reason = "a C interface")]

use crate::call::{choose, run};
use crate::describe::functions;
use crate::error::{Exception, Raised};
use crate::function::{Dim, Element, Function, NAMES, Param, TensorKind};
use crate::tvm::{Any, read_all};
use crate::value::{RANK, Tensor, Value};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null;

/// A tensor to be made: its extents, and the type of its elements as DLPack has it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// The extents; the rest is zero.
    pub shape: [i64; RANK],
    /// The number of dimensions.
    pub rank: u32,
    /// The code of the type.
    pub code: u8,
    /// The bits of an element.
    pub bits: u8,
}

/// Takes the class of an error and its message, which has so many bytes: 0 is a `TypeError`, 1 a `ValueError`, 2 a `MemoryError`, 3 a
/// `NotImplementedError`, 4 a `RuntimeError`.
pub type Raise = unsafe extern "C" fn(*mut c_void, c_int, *const c_char, usize);

/// The function of this name, or null.
///
/// # Safety
/// The name ends in a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __ptx_ffi_function(name: *const c_char) -> *const Function {
    // SAFETY: passed on.
    let name = unsafe { CStr::from_ptr(name) };
    let find = || functions().into_iter().find(|function| function.name.as_bytes() == name.to_bytes());
    catch_unwind(find).ok().flatten().map_or(null(), std::ptr::from_ref)
}

/// Computes the tensors with a bit in `wanted` from the tensors that are passed. Returns their number, or -1 where the arguments do not fit the
/// function or it has no shape for one of them.
///
/// # Safety
/// `function` is one of this library, `args` has `count` values that live during the call, and `made` has room for as many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __ptx_ffi_infer(
    function: *const Function,
    args: *const Any,
    count: c_int,
    wanted: u32,
    made: *mut Made,
) -> c_int {
    let work = || {
        // SAFETY: passed on.
        let (function, args) = unsafe { (&*function, std::slice::from_raw_parts(args, usize::try_from(count).ok()?)) };
        let mut values = Value::none();
        // SAFETY: passed on.
        unsafe { read_all(function, args, &mut values) }.ok()?;
        let mut number = 0;
        for at in (0..args.len()).filter(|at| wanted & 1 << at != 0) {
            let shape = infer(function, &values[..args.len()], at)?;
            // SAFETY: passed on.
            unsafe { made.add(number).write(shape) };
            number += 1;
        }
        c_int::try_from(number).ok()
    };
    catch_unwind(AssertUnwindSafe(work)).ok().flatten().unwrap_or(-1)
}

/// Calls a function on a stream of the GPU that has its tensors. Returns 0, or -1 after `raise` took the error.
///
/// # Safety
/// `function` is one of this library; `args` has `count` values that live during the call; `raise` takes `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __ptx_ffi_invoke(
    function: *const Function,
    args: *const Any,
    count: c_int,
    stream: *mut c_void,
    context: *mut c_void,
    raise: Raise,
) -> c_int {
    // SAFETY: passed on; functions live as long as the process.
    let (function, args): (&'static Function, _) =
        unsafe { (&*function, std::slice::from_raw_parts(args, usize::try_from(count).unwrap_or(0))) };
    let mut values = Value::none();
    // SAFETY: passed on.
    let read = unsafe { read_all(function, args, &mut values) };
    match read.and_then(|()| run(function, &mut values, args.len(), |_| Ok(stream))) {
        Ok(()) => 0,
        Err(Raised { class, message }) => {
            let class = match class {
                Exception::Type => 0,
                Exception::Value => 1,
                Exception::Memory => 2,
                Exception::NotImplemented => 3,
                Exception::Runtime => 4,
            };
            // SAFETY: passed on.
            unsafe { raise(context, class, message.as_ptr().cast(), message.len()) };
            -1
        }
    }
}

/// The tensor of the parameter `wanted`, by the shapes of those that are passed. `None` where these do not fit.
fn infer(function: &'static Function, values: &[Value<'_>], wanted: usize) -> Option<Made> {
    let (mut leading, mut names): (Option<&[usize]>, [Option<usize>; NAMES]) = (None, [None; NAMES]);
    for (param, value) in function.params.iter().zip(values) {
        let (Some(kind), Value::Tensor(tensor)) = (param.tensor(), value) else { continue };
        let (front, rest, dims) = split(kind, tensor)?;
        if kind.dims.iter().any(|dim| matches!(dim, Dim::Leading)) {
            let known = *leading.get_or_insert(front);
            (product(known)? == product(front)?).then_some(())?;
        }
        for (dim, extent) in dims.iter().zip(rest) {
            match dim {
                Dim::Name(_, number) => {
                    let known = names.get_mut(*number)?.get_or_insert(*extent);
                    (known == extent).then_some(())?;
                }
                Dim::Size(size) => (size == extent).then_some(())?,
                Dim::Leading | Dim::Flat | Dim::Any => {}
            }
        }
    }
    made(function, values, function.params.get(wanted)?, leading, &names)
}

fn made(
    function: &'static Function,
    values: &[Value<'_>],
    param: &Param,
    leading: Option<&[usize]>,
    names: &[Option<usize>; NAMES],
) -> Option<Made> {
    let kind = param.tensor().filter(|kind| kind.dims.len() == kind.rank)?;
    let dtype = match kind.element {
        Element::Fixed(dtype) => dtype,
        Element::Generic(number) => *choose(function, values).ok()?.types.get(number)?,
    };
    let (code, bits) = dtype.to_dlpack();
    let mut made = Made { shape: [0; RANK], rank: 0, code, bits };
    let mut push = |extent: usize| {
        *made.shape.get_mut(made.rank as usize)? = i64::try_from(extent).ok()?;
        made.rank += 1;
        Some(())
    };
    for dim in kind.dims {
        match dim {
            Dim::Leading => leading?.iter().try_for_each(|extent| push(*extent))?,
            Dim::Name(_, number) => push((*names.get(*number)?)?)?,
            Dim::Size(size) => push(*size)?,
            Dim::Flat | Dim::Any => return None,
        }
    }
    Some(made)
}

/// The extents for which `..` stands, the others, and the dimensions that these have.
fn split<'t>(kind: &TensorKind, tensor: &'t Tensor) -> Option<(&'t [usize], &'t [usize], &'static [Dim])> {
    let leading = kind.has_leading();
    let own = kind.rank - usize::from(leading);
    let front = tensor.rank.checked_sub(own)?;
    if !leading && front > 0 {
        return None;
    }
    let (first, rest) = tensor.extents().split_at_checked(front)?;
    Some((first, rest, if leading { kind.dims.get(1..)? } else { kind.dims }))
}

fn product(extents: &[usize]) -> Option<usize> {
    extents.iter().try_fold(1usize, |product, extent| product.checked_mul(*extent))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::dtype::DType;
    use crate::function::{Instance, Kind};
    use crate::value::Place;

    const fn tensor(name: &'static str, written: bool, rank: usize, dims: &'static [Dim]) -> Param {
        let kind = TensorKind { written, element: Element::Generic(0), rank, dims, align: 1 };
        Param { name, kind: Kind::Tensor(kind), optional: false, default: None }
    }

    static NORM: Function = Function {
        name: "norm",
        label: "norm",
        doc: "",
        params: &[
            tensor("x", false, 2, &[Dim::Leading, Dim::Name("n", 1)]),
            tensor("w", false, 1, &[Dim::Name("n", 1)]),
            tensor("out", true, 2, &[Dim::Leading, Dim::Name("n", 1)]),
            tensor("sums", true, 2, &[Dim::Size(3), Dim::Name("n", 1)]),
            tensor("any", true, 1, &[Dim::Any]),
        ],
        instances: &[
            Instance { types: &[DType::F32], call: &|_| Ok(()) },
            Instance { types: &[DType::BF16], call: &|_| Ok(()) },
        ],
        backward: None,
        parallel: &[],
    };

    fn value(dtype: DType, shape: &[i64]) -> Value<'static> {
        Value::Tensor(Tensor::new((4096, dtype, Place::Host), shape, None).unwrap())
    }

    fn shape(values: &[Value<'_>], wanted: usize) -> Option<Vec<i64>> {
        infer(&NORM, values, wanted).map(|made| made.shape[..made.rank as usize].to_vec())
    }

    #[test]
    fn outputs_have_the_extents_of_the_inputs() {
        let given = |x: &[i64], w: &[i64]| [value(DType::F32, x), value(DType::F32, w), Value::Missing];
        assert_eq!(shape(&given(&[2, 3, 5], &[5]), 2), Some(vec![2, 3, 5]));
        assert_eq!(shape(&given(&[5], &[5]), 2), Some(vec![5]));
        assert_eq!(shape(&given(&[0, 5], &[5]), 3), Some(vec![3, 5]));
        assert_eq!(shape(&given(&[2, 5], &[4]), 2), None);
        assert_eq!(shape(&given(&[], &[4]), 2), None);
        assert_eq!(shape(&given(&[2, 5], &[1, 5]), 2), None);
        assert_eq!(shape(&given(&[2, 5], &[5]), 4), None);
    }

    #[test]
    fn their_types_are_those_of_the_instance() {
        let (x, w) = (value(DType::BF16, &[2, 5]), value(DType::BF16, &[5]));
        let made = infer(&NORM, &[x, w, Value::Missing], 2).unwrap();
        assert_eq!((made.code, made.bits), (4, 16));
        assert_eq!(infer(&NORM, &[x, value(DType::F32, &[5]), Value::Missing], 2), None);
        assert_eq!(infer(&NORM, &[value(DType::F64, &[2, 5]), Value::Missing, Value::Missing], 2), None);
    }
}
