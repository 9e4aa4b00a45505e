//! The driver's assembler: one call, its log, its answer.
#![allow(unsafe_code, reason = "a call of the driver")]

use super::log;
use crate::device::cuda::Limits;
use crate::driver::{Code, Driver};
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::{Module, Variant};
use cudarc::driver::sys::CUmodule;
use std::ffi::{CStr, CString, c_void};

/// Bytes for the log; ptxas cuts what is longer.
const LOG: usize = 16 * 1024;
/// `CUjit_option`: `CU_JIT_ERROR_LOG_BUFFER` and its size.
const OPTIONS: [i32; 2] = [5, 6];

/// Assembles the variant and loads it into the current context.
pub(super) fn load(driver: &Driver, module: &Module, variant: &Variant, limits: &Limits) -> Result<CUmodule> {
    let text = CString::new(variant.ptx).map_err(|_| zero_byte(module))?;
    let mut log = vec![0u8; LOG];
    let mut options = OPTIONS;
    let mut values = [log.as_mut_ptr().cast::<c_void>(), std::ptr::without_provenance_mut(LOG)];
    let mut handle = std::ptr::null_mut();
    // SAFETY: the text ends in a zero; two options with two values of the types that the manual gives; the log buffer is
    // as long as is said and lives past the call.
    let code = unsafe {
        (driver.cuModuleLoadDataEx)(&raw mut handle, text.as_ptr().cast(), 2, options.as_mut_ptr(), values.as_mut_ptr())
    };
    match code {
        0 => Ok(handle),
        code => Err(refused(driver, code, module, variant, limits, &log)),
    }
}

#[cold]
fn refused(driver: &Driver, code: Code, module: &Module, variant: &Variant, limits: &Limits, log: &[u8]) -> Error {
    let log = CStr::from_bytes_until_nul(log).map(CStr::to_string_lossy).unwrap_or_default();
    let asked = format!("`{}` ({}) does not load on {} ({})", module.name, variant.arch, limits.name, limits.arch);
    let log = log::explain(&log, variant);
    driver.error(code, &format!("{asked}{log}\n  the driver says"))
}

#[cold]
fn zero_byte(module: &Module) -> Error {
    Error::new(ErrorKind::Load, format!("the PTX of `{}` holds a zero byte", module.name))
}
