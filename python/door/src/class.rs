//! Methods and attributes that a class of C has in its tables: calls go to their functions, without a lookup.

use crate::object::{Object, Outcome, Ptr};
use pyo3_ffi::{
    METH_NOARGS, Py_tp_getset, Py_tp_methods, PyCFunction, PyGetSetDef, PyMethodDef, PyType_GetSlot, PyTypeObject,
};
use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;

/// A method without arguments. It is called with an object of its class.
pub(crate) struct Method(PyCFunction);

/// An attribute. It is read of an object of its class.
pub(crate) struct Getter(unsafe extern "C" fn(Ptr, *mut c_void) -> Ptr, *mut c_void);

impl Method {
    #[inline]
    pub(crate) fn call(&self, object: Ptr) -> Outcome<Object> {
        // SAFETY: the object is alive.
        Object::own(unsafe { self.0(object, null_mut()) })
    }
}

impl Getter {
    #[inline]
    pub(crate) fn read(&self, object: Ptr) -> Outcome<Object> {
        // SAFETY: the object is alive, and the second pointer is that of the table.
        Object::own(unsafe { self.0(object, self.1) })
    }
}

/// The method of this name.
pub(crate) fn method(class: Ptr, name: &CStr) -> Option<Method> {
    let table: *const PyMethodDef = table(class, Py_tp_methods);
    // SAFETY: a row without a name ends the table, and the flags say which function a row has.
    unsafe {
        let row = find(table, name, |row| row.ml_name)?;
        (row.ml_flags == METH_NOARGS).then_some(Method(row.ml_meth.PyCFunction))
    }
}

/// The attribute of this name.
pub(crate) fn getter(class: Ptr, name: &CStr) -> Option<Getter> {
    let table: *const PyGetSetDef = table(class, Py_tp_getset);
    // SAFETY: as above.
    let row = unsafe { find(table, name, |row| row.name) }?;
    row.get.map(|get| Getter(get, row.closure))
}

fn table<T>(class: Ptr, slot: i32) -> *const T {
    // SAFETY: the class is alive.
    unsafe { PyType_GetSlot(class.cast::<PyTypeObject>(), slot) }.cast_const().cast()
}

/// # Safety
/// The table is null or ends with a row without a name, and lives as long as its class, which does so as long as the process.
unsafe fn find<T>(table: *const T, name: &CStr, name_of: impl Fn(&T) -> *const c_char) -> Option<&'static T> {
    let mut at = 0;
    loop {
        // SAFETY: passed on.
        let row = unsafe { table.add(at).as_ref() }?;
        let found = name_of(row);
        if found.is_null() {
            return None;
        }
        // SAFETY: names end in a zero.
        if unsafe { CStr::from_ptr(found) } == name {
            return Some(row);
        }
        at += 1;
    }
}
