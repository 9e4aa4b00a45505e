//! What calls need of PyTorch: its classes, its functions, and DLPack's exchange interface (`dlpack.h` 1.2).

use crate::class::{Getter, Method, getter, method};
use crate::object::{Object, Other, Outcome, Ptr, attribute, attribute_of, call, call_with, int, name, tuple};
use ptx_ffi::rt::{DlTensor, Made};
use pyo3_ffi::{
    Py_False, Py_TYPE, Py_True, PyCapsule_GetPointer, PyDict_GetItem, PyDict_GetItemString, PyErr_Clear,
    PyLong_AsVoidPtr, PyObject_Call, PyObject_IsTrue,
};
use std::ffi::{CStr, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// `DLPackExchangeAPI`: the version, a pointer to an older one, and functions.
#[repr(C)]
struct Exchange {
    major: u32,
    minor: u32,
    older: *const c_void,
    allocate: *const c_void,
    managed_from: *const c_void,
    managed_to: *const c_void,
    tensor_from: Option<unsafe extern "C" fn(Ptr, *mut DlTensor) -> c_int>,
    stream: Option<unsafe extern "C" fn(c_int, i32, *mut *mut c_void) -> c_int>,
}

/// Its objects, which live as long as the process.
pub(crate) struct Torch {
    tensor: Ptr,
    parameter: Ptr,
    exchange: &'static Exchange,
    /// Returns the number of dispatch modes.
    modes: Ptr,
    /// The names of the module with the level of forward derivatives, and of that with the switch of the profiler.
    forward_ad: Ptr,
    profiler: Ptr,
    grad_enabled: Ptr,
    /// The functions of C behind `modes` and `grad_enabled`, where PyTorch has them.
    count_modes: Option<unsafe extern "C" fn() -> i64>,
    is_grad_enabled: Option<unsafe extern "C" fn() -> bool>,
    increment_version: Ptr,
    empty_like: Ptr,
    is_neg: Method,
    requires_grad: Getter,
    /// Keyword arguments with a type, by code and bits of DLPack.
    types: Vec<((u8, u8), Ptr)>,
    names: Names,
}

/// Interned names of attributes.
struct Names {
    current_level: Ptr,
    is_profiler_enabled: Ptr,
    new_empty: Ptr,
    untyped_storage: Ptr,
    resize: Ptr,
}

static TORCH: AtomicPtr<Torch> = AtomicPtr::new(null_mut());

/// What was given to [`keep`].
#[inline]
pub(crate) fn torch() -> Outcome<&'static Torch> {
    // SAFETY: it is null or was leaked.
    unsafe { TORCH.load(Ordering::Acquire).as_ref() }.ok_or(Other::Elsewhere)
}

/// Keeps what a dictionary has. Python's code takes all calls where the class has no exchange interface of this version.
pub(crate) fn keep(dictionary: Ptr) -> Outcome<bool> {
    let of = |key: &CStr| {
        // SAFETY: the dictionary is alive; it lends its value.
        let value = unsafe { PyDict_GetItemString(dictionary, key.as_ptr()) };
        if value.is_null() { Err(Other::Elsewhere) } else { Ok(Object::share(value).release()) }
    };
    let tensor = of(c"Tensor")?;
    let Some(exchange) = exchange(tensor) else { return Ok(false) };
    let base = of(c"TensorBase")?;
    let (Some(is_neg), Some(requires_grad)) = (method(base, c"is_neg"), getter(base, c"requires_grad")) else {
        return Ok(false);
    };
    let mut types = Vec::new();
    for item in crate::object::items(of(c"types")?)? {
        if let [code, bits, keywords] = crate::object::items(item.get())?.as_slice() {
            let number = |object: &Object| int(object.get()).and_then(|value| u8::try_from(value).ok()).unwrap_or(0);
            types.push(((number(code), number(bits)), Object::share(keywords.get()).release()));
        }
    }
    let names = Names {
        current_level: name(c"_current_level")?,
        is_profiler_enabled: name(c"_is_profiler_enabled")?,
        new_empty: name(c"new_empty")?,
        untyped_storage: name(c"untyped_storage")?,
        resize: name(c"resize_")?,
    };
    let address = |key: &CStr| {
        // SAFETY: the dictionary is alive; it lends its value.
        let value = unsafe { PyDict_GetItemString(dictionary, key.as_ptr()) };
        // SAFETY: the value is alive.
        if value.is_null() { null_mut() } else { unsafe { PyLong_AsVoidPtr(value) } }
    };
    // SAFETY: Python has looked up functions of these types, in libraries that stay loaded. No address is `None`.
    let (count_modes, is_grad_enabled) = unsafe {
        (
            std::mem::transmute::<*mut c_void, Option<unsafe extern "C" fn() -> i64>>(address(c"count_modes")),
            std::mem::transmute::<*mut c_void, Option<unsafe extern "C" fn() -> bool>>(address(c"is_grad_enabled")),
        )
    };
    let torch = Torch {
        tensor,
        parameter: of(c"Parameter")?,
        exchange,
        modes: of(c"modes")?,
        forward_ad: of(c"forward_ad")?,
        profiler: of(c"profiler")?,
        grad_enabled: of(c"grad_enabled")?,
        count_modes,
        is_grad_enabled,
        increment_version: of(c"increment_version")?,
        empty_like: of(c"empty_like")?,
        is_neg,
        requires_grad,
        types,
        names,
    };
    TORCH.store(Box::leak(Box::new(torch)), Ordering::Release);
    Ok(true)
}

fn exchange(tensor: Ptr) -> Option<&'static Exchange> {
    let clear = |_| {
        // SAFETY: the lock is held.
        unsafe { PyErr_Clear() };
    };
    let capsule = attribute_of(tensor, c"__dlpack_c_exchange_api__").map_err(clear).ok()?;
    // SAFETY: the capsule of this name holds the interface, which lives as long as the process.
    let pointer = unsafe { PyCapsule_GetPointer(capsule.get(), c"dlpack_exchange_api".as_ptr()) };
    if pointer.is_null() {
        clear(Other::Raised);
        return None;
    }
    // SAFETY: its head is the same in every version, the rest in those of this number.
    let exchange = unsafe { &*pointer.cast::<Exchange>().cast_const() };
    (exchange.major == 1 && exchange.tensor_from.is_some() && exchange.stream.is_some()).then_some(exchange)
}

impl Torch {
    /// Returns true for a tensor of PyTorch's own classes.
    #[inline]
    pub(crate) fn is_plain(&self, value: Ptr) -> bool {
        // SAFETY: the reference is alive.
        let class: Ptr = unsafe { Py_TYPE(value) }.cast();
        class == self.tensor || class == self.parameter
    }

    /// Returns true inside of a dispatch mode, and where forward derivatives are computed. The tensors of transforms are no memory for DLPack, and
    /// autocast matters where types differ, which no function takes.
    pub(crate) fn is_watched(&self) -> Outcome<bool> {
        let level = global(self.forward_ad, self.names.current_level).and_then(int);
        if level.is_none_or(|level| level >= 0) {
            return Ok(true);
        }
        match self.count_modes {
            // SAFETY: it reads a variable of the thread.
            Some(count_modes) => Ok(unsafe { count_modes() } != 0),
            None => Ok(int(call(self.modes, None)?.get()) != Some(0)),
        }
    }

    /// Returns true while the profiler runs.
    pub(crate) fn has_profiler(&self) -> bool {
        global(self.profiler, self.names.is_profiler_enabled).is_none_or(is_true)
    }

    /// Returns true where gradients are recorded.
    pub(crate) fn is_recording(&self) -> Outcome<bool> {
        match self.is_grad_enabled {
            // SAFETY: it reads a variable of the thread.
            Some(is_grad_enabled) => Ok(unsafe { is_grad_enabled() }),
            None => call(self.grad_enabled, None).map(|enabled| is_true(enabled.get())),
        }
    }

    #[inline]
    pub(crate) fn requires_grad(&self, tensor: Ptr) -> Outcome<bool> {
        self.requires_grad.read(tensor).map(|required| is_true(required.get()))
    }

    /// Returns true for a view whose elements have the opposite signs of those in memory, for which DLPack has no word.
    #[inline]
    pub(crate) fn is_negative(&self, tensor: Ptr) -> Outcome<bool> {
        self.is_neg.call(tensor).map(|answer| is_true(answer.get()))
    }

    /// The tensor as DLPack describes it. `None` for one that has no memory of its own.
    #[inline]
    pub(crate) fn describe<'t>(&self, tensor: Ptr, to: &'t mut MaybeUninit<DlTensor>) -> Option<&'t DlTensor> {
        // SAFETY: the function belongs to the class of the tensor; it fills the description, which is valid while the tensor is.
        unsafe {
            if self.exchange.tensor_from?(tensor, to.as_mut_ptr()) == 0 {
                return Some(to.assume_init_ref());
            }
            PyErr_Clear();
        }
        None
    }

    /// The current stream of a device.
    pub(crate) fn stream(&self, device_type: i32, device_id: i32) -> Outcome<*mut c_void> {
        let mut stream = null_mut();
        let Some(current) = self.exchange.stream else { return Err(Other::Elsewhere) };
        // SAFETY: it writes the stream.
        match unsafe { current(device_type, device_id, &raw mut stream) } {
            0 => Ok(stream),
            _ => Err(Other::Raised),
        }
    }

    /// A new tensor of the shape, type and place of another one.
    pub(crate) fn make_like(&self, tensor: Ptr) -> Outcome<Object> {
        call(self.empty_like, Some(&tuple([tensor].into_iter())?))
    }

    /// A new tensor of this shape and type, in the place of another one.
    pub(crate) fn make(&self, tensor: Ptr, made: &Made) -> Outcome<Object> {
        let dtype = (made.code, made.bits);
        let keywords = self.types.iter().find(|(known, _)| *known == dtype).ok_or(Other::Elsewhere)?.1;
        let shape = made.shape.get(..made.rank as usize).unwrap_or(&[]);
        // SAFETY: the objects are alive.
        unsafe {
            let extents: Vec<Object> =
                shape.iter().map(|n| Object::own(pyo3_ffi::PyLong_FromLongLong(*n))).collect::<Outcome<_>>()?;
            let shape = tuple(extents.iter().map(Object::get))?;
            let arguments = tuple([shape.get()].into_iter())?;
            let method = attribute(tensor, self.names.new_empty)?;
            Object::own(PyObject_Call(method.get(), arguments.get(), keywords))
        }
    }

    /// Gives a tensor's memory back.
    pub(crate) fn take_memory(&self, tensor: Ptr) -> Outcome<()> {
        let storage = call(attribute(tensor, self.names.untyped_storage)?.get(), None)?;
        let resize = attribute(storage.get(), self.names.resize)?;
        // SAFETY: the lock is held.
        let nothing = Object::own(unsafe { pyo3_ffi::PyLong_FromLongLong(0) })?;
        call_with(resize.get(), nothing.get()).map(drop)
    }

    /// Counts a change of these tensors, so that gradients do not use what they were.
    pub(crate) fn count_change(&self, tensors: impl ExactSizeIterator<Item = Ptr>) -> Outcome<()> {
        call_with(self.increment_version, tuple(tensors)?.get()).map(drop)
    }
}

/// A global of a module, which lends it.
fn global(names: Ptr, name: Ptr) -> Option<Ptr> {
    // SAFETY: the dictionary and the name are alive.
    let value = unsafe { PyDict_GetItem(names, name) };
    (!value.is_null()).then_some(value)
}

fn is_true(object: Ptr) -> bool {
    // SAFETY: the singletons live as long as the interpreter, and the object is alive.
    unsafe { object == Py_True() || (object != Py_False() && PyObject_IsTrue(object) == 1) }
}
