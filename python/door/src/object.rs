//! Python's objects: references, attributes, calls. The caller of every function holds the lock of the interpreter.

use pyo3_ffi::{
    Py_DECREF, Py_INCREF, Py_NotImplemented, PyErr_Clear, PyErr_Occurred, PyLong_AsLongLong, PyLong_AsSize_t, PyObject,
    PyObject_CallFunctionObjArgs, PyObject_CallObject, PyObject_GetAttr, PyObject_GetAttrString, PySequence_GetItem,
    PySequence_Size, PyTuple_New, PyTuple_SetItem, PyUnicode_InternFromString,
};
use std::ffi::CStr;
use std::ptr::null_mut;

/// A borrowed reference.
pub(crate) type Ptr = *mut PyObject;

/// An owned reference.
pub(crate) struct Object(Ptr);

/// The reason why a call has no result.
#[derive(Debug)]
pub(crate) enum Other {
    /// An exception is set.
    Raised,
    /// Python's code takes the call.
    Elsewhere,
}

/// The result of a call.
pub(crate) type Outcome<T> = Result<T, Other>;

impl Object {
    /// A new reference, as Python's functions return it: null is an exception.
    pub(crate) fn own(pointer: Ptr) -> Outcome<Object> {
        if pointer.is_null() { Err(Other::Raised) } else { Ok(Object(pointer)) }
    }

    /// A reference beside that of the caller.
    pub(crate) fn share(pointer: Ptr) -> Object {
        // SAFETY: the caller's reference is alive.
        unsafe { Py_INCREF(pointer) };
        Object(pointer)
    }

    pub(crate) fn get(&self) -> Ptr {
        self.0
    }

    /// The reference for the caller.
    pub(crate) fn release(self) -> Ptr {
        let pointer = self.0;
        std::mem::forget(self);
        pointer
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: it is this object's reference.
        unsafe { Py_DECREF(self.0) };
    }
}

/// The result of a builtin function.
pub(crate) fn give(outcome: Outcome<Object>) -> Ptr {
    match outcome {
        Ok(object) => object.release(),
        Err(Other::Raised) => null_mut(),
        // SAFETY: it lives as long as the interpreter.
        Err(Other::Elsewhere) => Object::share(unsafe { Py_NotImplemented() }).release(),
    }
}

/// The text as an interned object, which lives as long as the interpreter.
pub(crate) fn name(text: &CStr) -> Outcome<Ptr> {
    // SAFETY: the text ends in a zero.
    Object::own(unsafe { PyUnicode_InternFromString(text.as_ptr()) }).map(Object::release)
}

/// An attribute whose name is interned.
pub(crate) fn attribute(object: Ptr, name: Ptr) -> Outcome<Object> {
    // SAFETY: both references are alive.
    Object::own(unsafe { PyObject_GetAttr(object, name) })
}

/// An attribute by the text of its name.
pub(crate) fn attribute_of(object: Ptr, name: &CStr) -> Outcome<Object> {
    // SAFETY: the reference is alive, and the text ends in a zero.
    Object::own(unsafe { PyObject_GetAttrString(object, name.as_ptr()) })
}

/// A tuple of references that are shared with it.
pub(crate) fn tuple(items: impl ExactSizeIterator<Item = Ptr>) -> Outcome<Object> {
    // SAFETY: the items are alive; the tuple takes a reference of its own of each.
    unsafe {
        let tuple = Object::own(PyTuple_New(items.len() as isize))?;
        for (at, item) in items.enumerate() {
            PyTuple_SetItem(tuple.get(), at as isize, Object::share(item).release());
        }
        Ok(tuple)
    }
}

/// Calls a function with one argument, for which most builtin functions need no tuple.
pub(crate) fn call_with(function: Ptr, argument: Ptr) -> Outcome<Object> {
    // SAFETY: the references are alive, and null ends the arguments.
    Object::own(unsafe { PyObject_CallFunctionObjArgs(function, argument, null_mut::<PyObject>()) })
}

/// Calls a function with a tuple of arguments, or none.
pub(crate) fn call(function: Ptr, arguments: Option<&Object>) -> Outcome<Object> {
    // SAFETY: the references are alive.
    Object::own(unsafe { PyObject_CallObject(function, arguments.map_or(null_mut(), Object::get)) })
}

/// The items of a sequence.
pub(crate) fn items(sequence: Ptr) -> Outcome<Vec<Object>> {
    // SAFETY: the reference is alive.
    let count = unsafe { PySequence_Size(sequence) };
    // SAFETY: the same.
    (0..count).map(|at| Object::own(unsafe { PySequence_GetItem(sequence, at) })).collect()
}

/// A list of numbers of parameters.
pub(crate) fn numbers(sequence: &Object) -> Outcome<Vec<usize>> {
    items(sequence.get())?.iter().map(number).collect()
}

fn number(object: &Object) -> Outcome<usize> {
    // SAFETY: the reference is alive.
    let value = unsafe { PyLong_AsSize_t(object.get()) };
    // SAFETY: the lock is held.
    if value == usize::MAX && !unsafe { PyErr_Occurred() }.is_null() { Err(Other::Raised) } else { Ok(value) }
}

/// An integer of 64 bits, if it is one. No exception is set.
pub(crate) fn int(object: Ptr) -> Option<i64> {
    // SAFETY: the reference is alive, and the lock is held.
    unsafe {
        let value = PyLong_AsLongLong(object);
        if value == -1 && !PyErr_Occurred().is_null() {
            PyErr_Clear();
            return None;
        }
        Some(value)
    }
}
