//! Kernels from text while the program runs: `ptx-jit` compiles them, and each becomes a [`Function`] as `#[export]` writes one, so that every
//! check, convention and message is shared. Functions live as long as the process: programs of XLA and objects of TVM-FFI keep their addresses.
//!
//! A request and its answer are texts. A request is a list of strings, each with its length in 8 bytes in front; an answer is JSON.
#![allow(unsafe_code, reason = "a C interface")]

mod answer;
mod describe;
mod launch;
mod registry;
mod request;

use crate::error::{Exception, Raised};
use crate::fork::Calling;
use crate::function::Function;
use crate::tvm::{Any, call as call_tvm, only_int, return_function};
use crate::xla::call_named;
use request::Request;
use std::ffi::{CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

/// Answers a request. The text is freed with [`__ptx_ffi_free`].
///
/// # Safety
/// `request` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __ptx_ffi_jit(request: *const u8, len: usize) -> *mut c_char {
    // SAFETY: passed on.
    let bytes = if request.is_null() { &[] } else { unsafe { std::slice::from_raw_parts(request, len) } };
    let _calling = Calling::begin();
    let work = || match Request::of(bytes) {
        Some(request) => request.answer(),
        None => answer::refused("the request is not one of this library"),
    };
    let text = catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| answer::refused(&Raised::of_panic(&*panic).message));
    CString::new(text.replace('\0', " ")).map_or(null_mut(), CString::into_raw)
}

/// Frees an answer.
///
/// # Safety
/// `text` is an answer that was not freed, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __ptx_ffi_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: passed on.
        drop(unsafe { CString::from_raw(text) });
    }
}

/// The function with this number, or null.
#[unsafe(no_mangle)]
pub extern "C" fn __ptx_ffi_jit_find(key: i64) -> *const Function {
    catch_unwind(|| find(key).ok()).ok().flatten().map_or(std::ptr::null(), std::ptr::from_ref)
}

/// The function with this number, as an object of TVM-FFI.
///
/// # Safety
/// The caller keeps to the convention of TVM-FFI.
#[unsafe(no_mangle)]
unsafe extern "C" fn __tvm_ffi_ptx_ffi_jit_function(
    _: *mut c_void,
    args: *const Any,
    count: i32,
    result: *mut Any,
) -> c_int {
    // SAFETY: passed on.
    unsafe {
        let key = only_int(args, count).ok_or_else(|| Raised::new(Exception::Type, "expected the number of a kernel"));
        return_function(key.and_then(find), safe_call, result)
    }
}

/// # Safety
/// As [`__tvm_ffi_ptx_ffi_jit_function`]; `own` is a function of this process.
unsafe extern "C" fn safe_call(own: *mut c_void, args: *const Any, count: i32, result: *mut Any) -> c_int {
    // SAFETY: passed on.
    unsafe { call_tvm(&*own.cast::<Function>().cast_const(), args, count, result) }
}

/// The handler of XLA for kernels on GPUs.
///
/// # Safety
/// The caller keeps to the convention of XLA's FFI.
#[unsafe(no_mangle)]
unsafe extern "C" fn __xla_ffi_ptx_ffi_jit_cuda(frame: *mut c_void) -> *mut c_void {
    // SAFETY: passed on.
    unsafe { call_named(frame, true, find) }
}

/// The handler of XLA for kernels on the host.
///
/// # Safety
/// As [`__xla_ffi_ptx_ffi_jit_cuda`].
#[unsafe(no_mangle)]
unsafe extern "C" fn __xla_ffi_ptx_ffi_jit_cpu(frame: *mut c_void) -> *mut c_void {
    // SAFETY: passed on.
    unsafe { call_named(frame, false, find) }
}

fn find(key: i64) -> Result<&'static Function, Raised> {
    let missing = "this process has not compiled the kernel: make it with ptx_kernels.kernel before the program runs";
    registry::find_function(key).ok_or_else(|| Raised::new(Exception::Runtime, missing))
}
