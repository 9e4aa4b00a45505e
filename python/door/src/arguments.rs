//! The arguments of a call as the library reads them, the outputs that are made for it, and the call.

use crate::door::{Door, is_none};
use crate::object::{Object, Other, Outcome, Ptr, int};
use crate::shapes::Kinds;
use crate::torch::Torch;
use ptx_ffi::rt::{Any, DlTensor, Made, PARAMS};
use pyo3_ffi::{
    Py_None, Py_TYPE, Py_True, PyBool_Type, PyErr_SetObject, PyEval_RestoreThread, PyEval_SaveThread,
    PyExc_MemoryError, PyExc_NotImplementedError, PyExc_RuntimeError, PyExc_TypeError, PyExc_ValueError,
    PyFloat_AsDouble, PyFloat_Type, PyLong_Type, PyUnicode_AsUTF8AndSize, PyUnicode_DecodeUTF8, PyUnicode_Type,
};
use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::rc::Rc;

/// A launch counts fewer elements than this.
const MOST: i64 = 1 << 31;

/// Arguments. The tensors and texts live as long as the values that they are from.
pub(crate) struct Arguments {
    values: [Any; PARAMS],
    tensors: [MaybeUninit<DlTensor>; PARAMS],
    /// A bit for each tensor that is there.
    present: u32,
    /// The number of the first tensor.
    first: usize,
    made: Vec<Object>,
}

impl Arguments {
    /// No arguments.
    pub(crate) fn new() -> Arguments {
        Arguments {
            values: [Any::NONE; PARAMS],
            tensors: [const { MaybeUninit::uninit() }; PARAMS],
            present: 0,
            first: 0,
            made: Vec::new(),
        }
    }

    /// Reads the values of all parameters. They stay where they are from then on: values are addresses of tensors here.
    pub(crate) fn read(&mut self, door: &Door, torch: &Torch, values: &[Ptr]) -> Outcome<()> {
        for (at, (param, value)) in door.params.iter().zip(values).enumerate() {
            if param.is_tensor {
                // Python's code has the message for one that is missing.
                if is_none(*value) && param.is_required() {
                    return Err(Other::Elsewhere);
                }
                self.tensor(torch, at, *value)?;
                if !is_none(*value) && torch.is_negative(*value)? {
                    return Err(Other::Elsewhere);
                }
            } else {
                self.values[at] = scalar(*value)?;
            }
        }
        if self.present == 0 { Err(Other::Elsewhere) } else { Ok(()) }
    }

    fn tensor(&mut self, torch: &Torch, at: usize, value: Ptr) -> Outcome<()> {
        if is_none(value) {
            return Ok(());
        }
        if !torch.is_plain(value) {
            return Err(Other::Elsewhere);
        }
        let tensor = torch.describe(value, &mut self.tensors[at]).ok_or(Other::Elsewhere)?;
        // Of the host or of CUDA, pinned or managed, and no part of a tensor that some functions have to copy.
        let is_aligned = tensor.data.addr() % 16 == 0;
        if !matches!(tensor.device_type, 1 | 2 | 3 | 13) || !is_aligned || !is_contiguous(tensor) {
            return Err(Other::Elsewhere);
        }
        // Wrappers of transforms have none.
        if tensor.data.is_null() && count(tensor) > 0 {
            return Err(Other::Elsewhere);
        }
        if self.present == 0 {
            self.first = at;
        }
        self.present |= 1 << at;
        self.values[at] = Any::tensor(tensor);
        Ok(())
    }

    fn described(&self, at: usize) -> &DlTensor {
        // SAFETY: the callers name tensors that are there.
        unsafe { self.tensors[at].assume_init_ref() }
    }

    /// The value of a parameter.
    pub(crate) fn value(&self, at: usize) -> Any {
        self.values[at]
    }

    /// The type of a tensor that is there, a float?
    pub(crate) fn is_floating(&self, at: usize) -> bool {
        self.present & 1 << at != 0 && matches!(self.described(at).code, 2 | 4)
    }

    /// Makes the outputs with a bit in `wanted`, and puts them among the values.
    pub(crate) fn make(&mut self, door: &Door, torch: &Torch, values: &mut [Ptr], wanted: u32) -> Outcome<()> {
        if wanted == 0 {
            return Ok(());
        }
        let shapes = door.shapes.find(wanted, self.kinds().as_ref(), || self.infer(door, wanted));
        let shapes = shapes.ok_or(Other::Elsewhere)?;
        let outputs = (0..door.params.len()).filter(|at| wanted & 1 << at != 0);
        let first = self.first;
        let device = [self.described(first).device_type, self.described(first).device_id];
        for (at, shape) in outputs.zip(shapes.iter()) {
            let made = match self.is_like(first, shape) {
                true => torch.make_like(values[first])?,
                false => door.params[at].pattern.make(torch, values[first], (*shape, device))?,
            };
            values[at] = made.get();
            self.made.push(made);
            self.tensor(torch, at, values[at])?;
        }
        Ok(())
    }

    /// The shapes of the outputs with a bit in `wanted`.
    fn infer(&self, door: &Door, wanted: u32) -> Option<Rc<[Made]>> {
        let mut shapes = [const { MaybeUninit::<Made>::uninit() }; PARAMS];
        // SAFETY: the function is one of its library, and the arguments live during the call, which fills as many shapes as it returns.
        unsafe {
            let count = door.params.len() as c_int;
            let made =
                (door.infer)(door.function, self.values.as_ptr(), count, wanted, shapes.as_mut_ptr().cast::<Made>());
            let made = shapes.get(..usize::try_from(made).ok()?)?;
            Some(made.iter().map(|shape| shape.assume_init()).collect())
        }
    }

    /// The types and the extents of the tensors that are there.
    fn kinds(&self) -> Option<Kinds> {
        let mut kinds = Kinds::default();
        for at in (0..PARAMS).filter(|at| self.present & 1 << at != 0) {
            let tensor = self.described(at);
            kinds.add(at, tensor, extents(tensor))?;
        }
        Some(kinds)
    }

    fn is_like(&self, at: usize, shape: &Made) -> bool {
        let tensor = self.described(at);
        let same = |at: usize| {
            // SAFETY: the tensor has as many extents as dimensions.
            unsafe { *tensor.shape.add(at) == shape.shape[at] }
        };
        (tensor.code, tensor.bits) == (shape.code, shape.bits)
            && tensor.ndim == shape.rank as i32
            && (0..shape.rank as usize).all(same)
    }

    /// Calls the function, without the lock of the interpreter.
    pub(crate) fn invoke(&self, door: &Door, torch: &Torch) -> Outcome<()> {
        let first = self.described(self.first);
        if count(first) >= MOST {
            return Err(Other::Elsewhere);
        }
        let stream = match first.device_type {
            2 | 13 => torch.stream(2, first.device_id)?,
            _ => null_mut(),
        };
        let mut error: Option<(c_int, Vec<u8>)> = None;
        let context: *mut c_void = (&raw mut error).cast();
        // SAFETY: as in `make`; the lock is held, and given back.
        let done = unsafe {
            let thread = PyEval_SaveThread();
            let count = door.params.len() as c_int;
            let done = (door.invoke)(door.function, self.values.as_ptr(), count, stream, context, take);
            PyEval_RestoreThread(thread);
            done
        };
        match (done, error) {
            (0, _) => Ok(()),
            // Nothing has run. Autocast may change the types, and Python's code has more to say of tensors.
            (_, Some((0, _))) => Err(Other::Elsewhere),
            (_, error) => Err(raise(error.unwrap_or_default())),
        }
    }
}

/// Takes an error of a call.
unsafe extern "C" fn take(context: *mut c_void, class: c_int, message: *const c_char, bytes: usize) {
    // SAFETY: the context is that of `invoke`, and the message has so many bytes.
    unsafe {
        let message = std::slice::from_raw_parts(message.cast::<u8>(), bytes).to_vec();
        *context.cast::<Option<(c_int, Vec<u8>)>>() = Some((class, message));
    }
}

/// Sets the exception.
fn raise((class, message): (c_int, Vec<u8>)) -> Other {
    // SAFETY: the classes live as long as the interpreter, and the lock is held.
    unsafe {
        let class = match class {
            0 => PyExc_TypeError,
            1 => PyExc_ValueError,
            2 => PyExc_MemoryError,
            3 => PyExc_NotImplementedError,
            _ => PyExc_RuntimeError,
        };
        let text = PyUnicode_DecodeUTF8(message.as_ptr().cast(), message.len() as isize, c"replace".as_ptr());
        if let Ok(text) = Object::own(text) {
            PyErr_SetObject(class, text.get());
        }
    }
    Other::Raised
}

/// A number, a truth value, a text or `None`.
pub(crate) fn scalar(value: Ptr) -> Outcome<Any> {
    // SAFETY: the value and the types are alive.
    unsafe {
        let class = Py_TYPE(value);
        if value == Py_None() {
            Ok(Any::NONE)
        } else if class == &raw mut PyFloat_Type {
            Ok(Any::float(PyFloat_AsDouble(value)))
        } else if class == &raw mut PyBool_Type {
            Ok(Any::bool(value == Py_True()))
        } else if class == &raw mut PyLong_Type {
            int(value).map(Any::int).ok_or(Other::Elsewhere)
        } else if class == &raw mut PyUnicode_Type {
            text(value)
        } else {
            Err(Other::Elsewhere)
        }
    }
}

fn text(value: Ptr) -> Outcome<Any> {
    let mut bytes = 0;
    // SAFETY: the value is a text, which keeps its encoded form, with a zero at its end.
    unsafe {
        let text = PyUnicode_AsUTF8AndSize(value, &raw mut bytes);
        if text.is_null() {
            pyo3_ffi::PyErr_Clear();
            return Err(Other::Elsewhere);
        }
        let has_zero = std::slice::from_raw_parts(text.cast::<u8>(), bytes.unsigned_abs()).contains(&0);
        if has_zero { Err(Other::Elsewhere) } else { Ok(Any::text(text)) }
    }
}

fn extents(tensor: &DlTensor) -> &[i64] {
    match usize::try_from(tensor.ndim) {
        // SAFETY: it has as many extents as dimensions.
        Ok(rank @ 1..) if !tensor.shape.is_null() => unsafe { std::slice::from_raw_parts(tensor.shape, rank) },
        _ => &[],
    }
}

fn count(tensor: &DlTensor) -> i64 {
    extents(tensor).iter().fold(1, |count: i64, extent| count.saturating_mul(*extent))
}

fn is_contiguous(tensor: &DlTensor) -> bool {
    let extents = extents(tensor);
    if tensor.strides.is_null() || extents.contains(&0) {
        return true;
    }
    let mut step = 1;
    extents.iter().enumerate().rev().all(|(at, extent)| {
        // SAFETY: it has as many strides as extents.
        let fits = *extent == 1 || unsafe { *tensor.strides.add(at) } == step;
        step *= extent;
        fits
    })
}
