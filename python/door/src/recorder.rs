//! The class through which autograd records the calls of a function, and its `apply`.
//!
//! In each call PyTorch reads attributes of this class, by texts that it makes for each. The caches of Python's classes do not have such texts, and would
//! search all bases of the class and of its metaclass. So the metaclass is one of C, which has these attributes at hand while the call is recorded.

use crate::object::{Object, Other, Outcome, Ptr, attribute_of, call, items, tuple};
use pyo3_ffi::{
    Py_TPFLAGS_DEFAULT, Py_tp_getattro, PyErr_Clear, PyType_FromSpecWithBases, PyType_GetSlot, PyType_Slot,
    PyType_Spec, PyType_Type, PyUnicode_AsUTF8AndSize, getattrofunc,
};
use std::cell::Cell;
use std::ffi::{CStr, c_uint, c_void};
use std::ptr::{null, null_mut};

/// The attributes that PyTorch reads.
const NAMES: [&CStr; 4] = [c"_backward_cls", c"clear_saved_tensors_on_access", c"setup_context", c"forward"];

/// A class and its `apply`. Its objects live as long as the process.
pub(crate) struct Recorder {
    class: Ptr,
    apply: Ptr,
    attributes: Vec<(&'static [u8], Ptr)>,
}

thread_local! {
    /// The innermost one that this thread calls.
    static CURRENT: Cell<*const Recorder> = const { Cell::new(null()) };
}

impl Recorder {
    /// From a tuple of the class and `apply`.
    pub(crate) fn new(pair: &Object) -> Outcome<Recorder> {
        let pair = items(pair.get())?;
        let [class, apply] = pair.as_slice() else { return Err(Other::Elsewhere) };
        let mut attributes = Vec::new();
        for name in NAMES {
            match attribute_of(class.get(), name) {
                Ok(value) => attributes.push((name.to_bytes(), value.release())),
                // SAFETY: the lock is held. Not every PyTorch has all of them.
                Err(_) => unsafe { PyErr_Clear() },
            }
        }
        let share = |object: &Object| Object::share(object.get()).release();
        Ok(Recorder { class: share(class), apply: share(apply), attributes })
    }

    /// Calls autograd with these tensors.
    pub(crate) fn call(&self, tensors: &Object) -> Outcome<Object> {
        let around = CURRENT.replace(self);
        let made = call(self.apply, Some(tensors));
        CURRENT.set(around);
        made
    }

    fn attribute(&self, class: Ptr, name: Ptr) -> Option<Ptr> {
        let mut bytes = 0;
        // SAFETY: the name is a text, which keeps its encoded form.
        let text = unsafe { PyUnicode_AsUTF8AndSize(name, &raw mut bytes) };
        if text.is_null() || class != self.class {
            return None;
        }
        // SAFETY: it has so many bytes.
        let text = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), bytes.unsigned_abs()) };
        self.attributes.iter().find(|(known, _)| *known == text).map(|(_, value)| *value)
    }
}

/// The metaclass, below that of PyTorch's functions.
pub(crate) fn metaclass(base: Ptr) -> Outcome<Object> {
    let mut slots = [
        PyType_Slot { slot: Py_tp_getattro, pfunc: get_attribute as *mut c_void },
        PyType_Slot { slot: 0, pfunc: null_mut() },
    ];
    let mut spec = PyType_Spec {
        name: c"ptx_kernels.Recorder".as_ptr(),
        basicsize: 0,
        itemsize: 0,
        flags: Py_TPFLAGS_DEFAULT as c_uint,
        slots: slots.as_mut_ptr(),
    };
    let bases = tuple([base].into_iter())?;
    // SAFETY: the description is valid during the call; its name lives as long as the process.
    Object::own(unsafe { PyType_FromSpecWithBases(&raw mut spec, bases.get()) })
}

unsafe extern "C" fn get_attribute(class: Ptr, name: Ptr) -> Ptr {
    // SAFETY: the call of a recorder sets the pointer back when it ends.
    let current = unsafe { CURRENT.get().as_ref() };
    if let Some(value) = current.and_then(|recorder| recorder.attribute(class, name)) {
        return Object::share(value).release();
    }
    // SAFETY: the function of all classes has this type, and the references are alive.
    unsafe {
        let of_classes = PyType_GetSlot(&raw mut PyType_Type, Py_tp_getattro);
        std::mem::transmute::<*mut c_void, getattrofunc>(of_classes)(class, name)
    }
}
