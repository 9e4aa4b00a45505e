//! The extension module `ptx_kernels._native`, with the functions of `ptx-kernels-door`.

use ptx_kernels_door::METHODS;
use pyo3_ffi::{PyModuleDef, PyModuleDef_HEAD_INIT, PyModuleDef_Init, PyObject};
use std::ptr::null_mut;

/// A module definition, which Python writes to while it holds its lock.
struct Definition(std::cell::UnsafeCell<PyModuleDef>);

// SAFETY: only Python uses it.
unsafe impl Sync for Definition {}

static DEFINITION: Definition = Definition(std::cell::UnsafeCell::new(PyModuleDef {
    m_base: PyModuleDef_HEAD_INIT,
    m_name: c"_native".as_ptr(),
    m_doc: c"The native library of ptx_kernels.".as_ptr(),
    m_size: 0,
    m_methods: METHODS.0.as_ptr().cast_mut(),
    m_slots: null_mut(),
    m_traverse: None,
    m_clear: None,
    m_free: None,
}));

/// Called when Python imports the module.
#[unsafe(no_mangle)]
extern "C" fn PyInit__native() -> *mut PyObject {
    // SAFETY: the definition lives as long as the process.
    unsafe { PyModuleDef_Init(DEFINITION.0.get()) }
}
