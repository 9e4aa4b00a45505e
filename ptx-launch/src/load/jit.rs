//! The driver's assembler: its calls, its log, its answer.
#![allow(unsafe_code, reason = "calls of the driver")]

use super::disk::Cache;
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
/// `CUjitInputType`: `CU_JIT_INPUT_PTX`.
const PTX: i32 = 1;

/// One text on its way into the current context.
pub(super) struct Jit<'a> {
    pub(super) driver: &'static Driver,
    pub(super) module: &'a Module,
    pub(super) variant: &'a Variant,
    pub(super) limits: &'a Limits,
}

/// Where the assembler writes what it has to say.
struct Log(Vec<u8>);

impl Log {
    fn new() -> Log {
        Log(vec![0; LOG])
    }

    /// The values that belong to [`OPTIONS`].
    fn values(&mut self) -> [*mut c_void; 2] {
        [self.0.as_mut_ptr().cast(), std::ptr::without_provenance_mut(LOG)]
    }
}

impl Jit<'_> {
    /// Assembles the text and loads it; what a cache on disk has is only loaded.
    pub(super) fn load(&self) -> Result<CUmodule> {
        let text = CString::new(self.variant.ptx).map_err(|_| zero_byte(self.module))?;
        let Some(cache) = Cache::of(self.driver, self.limits, self.variant) else {
            return self.load_image(text.as_bytes_with_nul());
        };
        if let Some(module) = cache.read().and_then(|cubin| self.load_image(&cubin).ok()) {
            return Ok(module);
        }
        let cubin = self.assemble(&text)?;
        cache.write(&cubin);
        self.load_image(&cubin)
    }

    /// Loads PTX, which ends in a zero, or a cubin.
    fn load_image(&self, image: &[u8]) -> Result<CUmodule> {
        let (mut log, mut options, mut handle) = (Log::new(), OPTIONS, std::ptr::null_mut());
        let mut values = log.values();
        // SAFETY: two options with two values of the types that the manual gives; the image and the log buffer, which is
        // as long as is said, live past the call.
        let code = unsafe {
            (self.driver.cuModuleLoadDataEx)(
                &raw mut handle,
                image.as_ptr().cast(),
                2,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        self.check(code, &log).map(|()| handle)
    }

    /// PTX to a cubin, by the driver's linker.
    fn assemble(&self, text: &CStr) -> Result<Vec<u8>> {
        let (mut log, mut options, mut state) = (Log::new(), OPTIONS, std::ptr::null_mut());
        let mut values = log.values();
        // SAFETY: as for `load_image`; the buffers live until the state is destroyed.
        let code =
            unsafe { (self.driver.cuLinkCreate_v2)(2, options.as_mut_ptr(), values.as_mut_ptr(), &raw mut state) };
        self.check(code, &log)?;
        let cubin = self.link(state, text);
        // SAFETY: the state was created above; the cubin was copied out of it.
        unsafe { (self.driver.cuLinkDestroy)(state) };
        cubin.or_else(|code| self.check(code, &log).map(|()| Vec::new()))
    }

    fn link(&self, state: *mut c_void, text: &CStr) -> Result<Vec<u8>, Code> {
        let (image, size) = (text.as_ptr().cast_mut().cast(), text.count_bytes() + 1);
        let (none, nothing) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the linker copies the text, which ends in a zero.
        ok(unsafe {
            (self.driver.cuLinkAddData_v2)(state, PTX, image, size, c"kernel.ptx".as_ptr(), 0, none, nothing)
        })?;
        let (mut cubin, mut size) = (std::ptr::null_mut(), 0);
        // SAFETY: writes a pointer and a size.
        ok(unsafe { (self.driver.cuLinkComplete)(state, &raw mut cubin, &raw mut size) })?;
        // SAFETY: the cubin has that size, and lives as long as the state.
        Ok(unsafe { std::slice::from_raw_parts(cubin.cast::<u8>(), size) }.to_vec())
    }

    fn check(&self, code: Code, log: &Log) -> Result<()> {
        if code == 0 { Ok(()) } else { Err(self.refused(code, log)) }
    }

    #[cold]
    fn refused(&self, code: Code, log: &Log) -> Error {
        let (variant, limits) = (self.variant, self.limits);
        let log = CStr::from_bytes_until_nul(&log.0).map(CStr::to_string_lossy).unwrap_or_default();
        let place = format!("on {} ({})", limits.name, limits.arch);
        let asked =
            format!("`{}` ({}) does not load {place}{}", self.module.name, variant.arch, log::explain(&log, variant));
        self.driver.error(code, &format!("{asked}\n  the driver says"))
    }
}

fn ok(code: Code) -> Result<(), Code> {
    if code == 0 { Ok(()) } else { Err(code) }
}

#[cold]
fn zero_byte(module: &Module) -> Error {
    Error::new(ErrorKind::Load, format!("the PTX of `{}` holds a zero byte", module.name))
}
