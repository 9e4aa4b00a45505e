//! The functions that Python calls: those of the module, and those of a door, which have its capsule as `self`.

use crate::door::{Door, Infer, Invoke, Operator};
use crate::object::{Object, Other, Outcome, Ptr, give, items, tuple};
use crate::torch::keep;
use ptx_ffi::rt::PARAMS;
use pyo3_ffi::{
    METH_FASTCALL, METH_O, Py_False, Py_True, Py_ssize_t, PyCFunction, PyCFunction_NewEx, PyCFunctionFast,
    PyCapsule_GetPointer, PyCapsule_New, PyErr_SetString, PyExc_RuntimeError, PyList_GetItem, PyList_Size,
    PyLong_AsVoidPtr, PyMethodDef, PyMethodDefPointer,
};
use std::ffi::{CStr, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

const CAPSULE: &CStr = c"ptx_kernels door";

/// The functions of a module. Python reads them.
pub struct Methods<const N: usize>(pub [PyMethodDef; N]);

// SAFETY: nobody writes to them.
unsafe impl<const N: usize> Sync for Methods<N> {}

/// The functions of the module: `use_torch`, `door`, `metaclass` and `forward`.
pub static METHODS: Methods<5> = Methods([
    plain(c"use_torch", use_torch, c"Keeps what calls need of PyTorch: True if its class has the exchange interface."),
    plain(c"door", door, c"The ways into a function: by values, by arguments, its operators, and the door itself."),
    plain(c"metaclass", metaclass, c"The metaclass of classes that record calls, below that of PyTorch's functions."),
    fast(c"forward", forward, c"The forward function of a recorded call."),
    PyMethodDef::zeroed(),
]);

/// The functions of a door, in the order in which `door` returns them.
static OF_DOOR: Methods<5> = Methods([
    plain(
        c"call",
        call,
        c"Calls the function with the values of all parameters; NotImplemented if Python's code has to.",
    ),
    fast(c"op", operate_plain, c"The operator that makes its outputs."),
    fast(c"op_saved", operate_saved, c"The operator that makes its outputs, and what the gradient reads."),
    fast(c"op_out", operate_out, c"The operator that writes into tensors."),
    fast(
        c"apply",
        apply,
        c"Calls the function with a tuple of arguments and a dictionary of others; NotImplemented if Python's code has to.",
    ),
]);

const fn plain(name: &'static CStr, function: PyCFunction, doc: &'static CStr) -> PyMethodDef {
    let ml_meth = PyMethodDefPointer { PyCFunction: function };
    PyMethodDef { ml_name: name.as_ptr(), ml_meth, ml_flags: METH_O, ml_doc: doc.as_ptr() }
}

const fn fast(name: &'static CStr, function: PyCFunctionFast, doc: &'static CStr) -> PyMethodDef {
    let ml_meth = PyMethodDefPointer { PyCFunctionFast: function };
    PyMethodDef { ml_name: name.as_ptr(), ml_meth, ml_flags: METH_FASTCALL, ml_doc: doc.as_ptr() }
}

/// The result of work; a panic is an exception.
fn guard(work: impl FnOnce() -> Outcome<Object>) -> Ptr {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(outcome) => give(outcome),
        Err(_) => {
            // SAFETY: the lock is held.
            unsafe { PyErr_SetString(PyExc_RuntimeError, c"ptx_kernels: panicked".as_ptr()) };
            null_mut()
        }
    }
}

/// The door of a capsule.
fn door_of(capsule: Ptr) -> Outcome<&'static Door> {
    // SAFETY: a capsule of this name holds a door, which lives as long as the process.
    unsafe { PyCapsule_GetPointer(capsule, CAPSULE.as_ptr()).cast::<Door>().as_ref() }.ok_or(Other::Raised)
}

/// # Safety
/// `args` has `count` references.
unsafe fn arguments<'a>(args: *const Ptr, count: Py_ssize_t) -> &'a [Ptr] {
    // SAFETY: passed on.
    if args.is_null() { &[] } else { unsafe { std::slice::from_raw_parts(args, count.unsigned_abs()) } }
}

unsafe extern "C" fn use_torch(_: Ptr, dictionary: Ptr) -> Ptr {
    guard(|| {
        let kept = keep(dictionary)?;
        // SAFETY: the singletons live as long as the interpreter.
        Ok(Object::share(unsafe { if kept { Py_True() } else { Py_False() } }))
    })
}

/// From a tuple: an `Operators` of Python, and the addresses of the function, `__ptx_ffi_infer` and `__ptx_ffi_invoke`.
unsafe extern "C" fn door(_: Ptr, parts: Ptr) -> Ptr {
    guard(|| {
        let parts = items(parts)?;
        let [state, addresses @ ..] = parts.as_slice() else { return Err(Other::Elsewhere) };
        // SAFETY: the references are alive.
        let addresses: Vec<*mut c_void> =
            addresses.iter().map(|part| unsafe { PyLong_AsVoidPtr(part.get()) }).collect();
        let &[function, infer, invoke] = addresses.as_slice() else { return Err(Other::Elsewhere) };
        if function.is_null() || infer.is_null() || invoke.is_null() {
            return Err(Other::Elsewhere);
        }
        // SAFETY: Python has looked up the symbols of these names, in a library that stays loaded.
        let (infer, invoke) = unsafe {
            (std::mem::transmute::<*mut c_void, Infer>(infer), std::mem::transmute::<*mut c_void, Invoke>(invoke))
        };
        let door: *mut Door = Box::leak(Box::new(Door::new(state.get(), function, infer, invoke)?));
        // SAFETY: the door and the descriptions of its functions live as long as the process.
        unsafe {
            let capsule = Object::own(PyCapsule_New(door.cast(), CAPSULE.as_ptr(), None))?;
            let made = OF_DOOR.0.iter().map(|method| {
                let method = std::ptr::from_ref(method).cast_mut();
                Object::own(PyCFunction_NewEx(method, capsule.get(), null_mut()))
            });
            let made: Vec<Object> = made.collect::<Outcome<_>>()?;
            let every: Vec<Ptr> = made.iter().chain([&capsule]).map(Object::get).collect();
            tuple(every.into_iter())
        }
    })
}

unsafe extern "C" fn metaclass(_: Ptr, base: Ptr) -> Ptr {
    guard(|| crate::recorder::metaclass(base))
}

unsafe extern "C" fn forward(_: Ptr, args: *mut Ptr, count: Py_ssize_t) -> Ptr {
    // SAFETY: Python passes so many: the context, and the tensors that the call has read already.
    let args = unsafe { arguments(args, count) };
    guard(|| crate::door::forward(*args.first().ok_or(Other::Elsewhere)?))
}

unsafe extern "C" fn call(capsule: Ptr, list: Ptr) -> Ptr {
    guard(|| {
        let door = door_of(capsule)?;
        let mut values = [null_mut(); PARAMS];
        let values = &mut values[..door.params.len()];
        // SAFETY: the list is alive; it lends its items, which its caller keeps during the call.
        unsafe {
            if PyList_Size(list) != values.len() as Py_ssize_t {
                return Err(Other::Elsewhere);
            }
            for (at, value) in values.iter_mut().enumerate() {
                *value = PyList_GetItem(list, at as Py_ssize_t);
            }
        }
        door.call(values)
    })
}

unsafe extern "C" fn apply(capsule: Ptr, args: *mut Ptr, count: Py_ssize_t) -> Ptr {
    // SAFETY: Python passes so many.
    let args = unsafe { arguments(args, count) };
    guard(|| {
        let (door, &[positional, named]) = (door_of(capsule)?, args) else { return Err(Other::Elsewhere) };
        let mut values = door.bind(positional, named)?;
        door.call(values.get_mut(..door.params.len()).unwrap_or(&mut []))
    })
}

/// # Safety
/// As [`arguments`].
unsafe fn operate(capsule: Ptr, operator: Operator, args: *mut Ptr, count: Py_ssize_t) -> Ptr {
    // SAFETY: passed on.
    let args = unsafe { arguments(args, count) };
    guard(|| door_of(capsule)?.operate(operator, args))
}

macro_rules! operators {
    ($($name:ident $operator:ident)*) => { $(
        unsafe extern "C" fn $name(capsule: Ptr, args: *mut Ptr, count: Py_ssize_t) -> Ptr {
            // SAFETY: Python passes so many.
            unsafe { operate(capsule, Operator::$operator, args, count) }
        }
    )* };
}
operators! { operate_plain Plain operate_saved Saved operate_out Out }
