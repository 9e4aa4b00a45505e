//! The driver API as a table of function pointers, found at run time: the calls that cudarc's safe layer lacks, and
//! those that must not depend on the CUDA version that cudarc was built for. A missing symbol is an error, never a panic.
//!
//! Nothing here depends on kernels or buffers.
#![allow(unsafe_code, reason = "foreign functions")]
#![allow(non_snake_case, reason = "the driver's names")]
#![cfg_attr(
    not(all(target_os = "linux", feature = "processes")),
    allow(dead_code, reason = "memory of several processes is for Linux and a feature alone")
)]

use crate::error::{Error, ErrorKind, Result};
use cudarc::driver::DriverError;
use cudarc::driver::sys::{CUcontext, CUdeviceptr, CUevent, CUfunction, CUgraph, CUgraphExec, CUmodule, CUstream};
use libloading::Library;
use ptx_target::{TOOLKITS, Toolkit};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::NonNull;
use std::sync::OnceLock;

/// `CUresult` as a number: a newer driver may answer with codes that no binding lists.
pub(crate) type Code = c_int;

/// The file names of the driver, in the order in which cudarc tries them.
const LIBRARIES: &[&str] = &["libcuda.so", "libcuda.so.1", "nvcuda.dll"];

/// Driver functions that cudarc calls for contexts, streams, memory and events. It panics on a missing symbol, so
/// they are looked up before its first call.
const CUDARC_CALLS: &[&str] = &[
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDeviceTotalMem_v2",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventQuery",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuMemAllocAsync",
    "cuMemAlloc_v2",
    "cuMemFreeAsync",
    "cuMemFree_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyPeerAsync",
    "cuMemFreeHost",
    "cuMemHostAlloc",
    "cuMemsetD8Async",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamIsCapturing",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
];

/// The address of a function.
type Address = NonNull<c_void>;

/// The address of a symbol. All have one type here: `Library::get` is compiled again for each type.
fn find(library: &Library, name: &str) -> Option<Address> {
    // SAFETY: the address is only looked up.
    let symbol = unsafe { library.get::<*mut c_void>(name) }.ok()?;
    NonNull::new(*symbol)
}

macro_rules! table {
    (
        required { $($(#[$when:meta])? $name:ident($($arg:ty),*);)* }
        optional { $($opt:ident($($opt_arg:ty),*) $since:literal;)* }
    ) => {
        /// The driver's functions, by their names in its manual.
        pub(crate) struct Driver {
            $($(#[$when])? pub(crate) $name: unsafe extern "C" fn($($arg),*) -> Code,)*
            $($opt: Option<unsafe extern "C" fn($($opt_arg),*) -> Code>,)*
            _library: Library,
        }

        impl Driver {
            fn resolve(library: Library) -> Result<Driver> {
                for name in CUDARC_CALLS {
                    find(&library, name).ok_or_else(|| missing(name, "11.2"))?;
                }
                Ok(Driver {
                    $($(#[$when])? $name: match find(&library, stringify!($name)) {
                        // SAFETY: the signature is the one of the driver's manual for this symbol.
                        Some(address) => unsafe {
                            std::mem::transmute::<Address, unsafe extern "C" fn($($arg),*) -> Code>(address)
                        },
                        None => return Err(missing(stringify!($name), "11.4")),
                    },)*
                    $($opt: find(&library, stringify!($opt)).map(|address| {
                        // SAFETY: as above.
                        unsafe { std::mem::transmute::<Address, unsafe extern "C" fn($($opt_arg),*) -> Code>(address) }
                    }),)*
                    _library: library,
                })
            }

            $(
                /// The function, if this driver has it.
                pub(crate) fn $opt(&self) -> Result<unsafe extern "C" fn($($opt_arg),*) -> Code> {
                    self.$opt.ok_or_else(|| missing(stringify!($opt), $since))
                }
            )*
        }
    };
}

table! {
    required {
        cuInit(c_uint);
        cuDriverGetVersion(*mut c_int);
        cuDeviceGetCount(*mut c_int);
        cuGetErrorName(Code, *mut *const c_char);
        cuGetErrorString(Code, *mut *const c_char);
        cuModuleLoadDataEx(*mut CUmodule, *const c_void, c_uint, *mut c_int, *mut *mut c_void);
        cuLinkCreate_v2(c_uint, *mut c_int, *mut *mut c_void, *mut *mut c_void);
        cuLinkAddData_v2(
            *mut c_void, c_int, *mut c_void, usize, *const c_char, c_uint, *mut c_int, *mut *mut c_void
        );
        cuLinkComplete(*mut c_void, *mut *mut c_void, *mut usize);
        cuLinkDestroy(*mut c_void);
        #[cfg(feature = "check")]
        cuModuleUnload(CUmodule);
        cuModuleGetFunction(*mut CUfunction, CUmodule, *const c_char);
        cuModuleGetGlobal_v2(*mut CUdeviceptr, *mut usize, CUmodule, *const c_char);
        cuFuncGetAttribute(*mut c_int, c_int, CUfunction);
        cuFuncSetAttribute(CUfunction, c_int, c_int);
        cuOccupancyMaxActiveBlocksPerMultiprocessor(*mut c_int, CUfunction, c_int, usize);
        cuLaunchKernel(
            CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void,
            *mut *mut c_void
        );
        cuMemsetD8Async(CUdeviceptr, u8, usize, CUstream);
        cuMemsetD16Async(CUdeviceptr, u16, usize, CUstream);
        cuMemsetD32Async(CUdeviceptr, c_uint, usize, CUstream);
        cuMemsetD2D8Async(CUdeviceptr, usize, u8, usize, usize, CUstream);
        cuMemsetD2D16Async(CUdeviceptr, usize, u16, usize, usize, CUstream);
        cuMemsetD2D32Async(CUdeviceptr, usize, c_uint, usize, usize, CUstream);
        cuEventElapsedTime(*mut f32, CUevent, CUevent);
        cuPointerGetAttributes(c_uint, *mut c_int, *mut *mut c_void, CUdeviceptr);
        cuStreamBeginCapture_v2(CUstream, c_int);
        cuStreamEndCapture(CUstream, *mut CUgraph);
        cuGraphInstantiateWithFlags(*mut CUgraphExec, CUgraph, u64);
        cuGraphLaunch(CUgraphExec, CUstream);
        cuGraphDestroy(CUgraph);
        cuGraphExecDestroy(CUgraphExec);
    }
    optional {
        cuMemGetAllocationGranularity(*mut usize, *const c_void, c_int) "10.2";
        cuMemCreate(*mut u64, usize, *const c_void, u64) "10.2";
        cuMemRelease(u64) "10.2";
        cuMemExportToShareableHandle(*mut c_void, u64, c_int, u64) "10.2";
        cuMemImportFromShareableHandle(*mut u64, *mut c_void, c_int) "10.2";
        cuMemAddressReserve(*mut CUdeviceptr, usize, usize, CUdeviceptr, u64) "10.2";
        cuMemAddressFree(CUdeviceptr, usize) "10.2";
        cuMemMap(CUdeviceptr, usize, usize, u64, u64) "10.2";
        cuMemUnmap(CUdeviceptr, usize) "10.2";
        cuMemSetAccess(CUdeviceptr, usize, *const c_void, usize) "10.2";
        cuDeviceCanAccessPeer(*mut c_int, c_int, c_int) "4.0";
        cuCtxEnablePeerAccess(CUcontext, c_uint) "4.0";
        cuLaunchKernelEx(*const c_void, CUfunction, *mut *mut c_void, *mut *mut c_void) "11.8";
        cuOccupancyMaxActiveClusters(*mut c_int, CUfunction, *const c_void) "11.8";
        cuTexObjectCreate(*mut u64, *const c_void, *const c_void, *const c_void) "5.0";
        cuTexObjectDestroy(u64) "5.0";
        cuSurfObjectCreate(*mut u64, *const c_void) "5.0";
        cuSurfObjectDestroy(u64) "5.0";
        cuArray3DCreate_v2(*mut *mut c_void, *const c_void) "3.2";
        cuArrayDestroy(*mut c_void) "2.0";
        cuMemcpy3DAsync_v2(*const c_void, CUstream) "3.2";
        cuThreadExchangeStreamCaptureMode(*mut c_int) "10.1";
        cuStreamGetCaptureInfo_v2(
            CUstream, *mut c_int, *mut u64, *mut CUgraph, *mut c_void, *mut usize
        ) "11.3";
        cuUserObjectCreate(
            *mut *mut c_void, *mut c_void, unsafe extern "C" fn(*mut c_void), c_uint, c_uint
        ) "11.3";
        cuUserObjectRelease(*mut c_void, c_uint) "11.3";
        cuGraphRetainUserObject(CUgraph, *mut c_void, c_uint, c_uint) "11.3";
        cuTensorMapEncodeTiled(
            *mut c_void, u32, u32, *mut c_void, *const u64, *const u64, *const u32, *const u32, u32, u32, u32, u32
        ) "12.0";
        cuTensorMapEncodeIm2col(
            *mut c_void, u32, u32, *mut c_void, *const u64, *const u64, *const i32, *const i32, u32, u32, *const u32,
            u32, u32, u32, u32
        ) "12.0";
        cuTensorMapEncodeIm2colWide(
            *mut c_void, u32, u32, *mut c_void, *const u64, *const u64, c_int, c_int, u32, u32, *const u32,
            u32, u32, u32, u32, u32
        ) "12.8";
    }
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Driver{:?}", self.version())
    }
}

impl Driver {
    /// The driver of this machine, looked for once in the life of the process.
    ///
    /// # Errors
    /// [`ErrorKind::NoDriver`], [`ErrorKind::DriverTooOld`], or the error of `cuInit`.
    pub(crate) fn get() -> Result<&'static Driver> {
        static DRIVER: OnceLock<Result<Driver>> = OnceLock::new();
        DRIVER.get_or_init(Driver::open).as_ref().map_err(Error::clone)
    }

    fn open() -> Result<Driver> {
        // SAFETY: loading the driver runs its initializers, which every CUDA program runs.
        let library = LIBRARIES.iter().find_map(|name| unsafe { Library::new(*name) }.ok()).ok_or_else(no_driver)?;
        let driver = Driver::resolve(library)?;
        // SAFETY: `cuInit` may be called at any time, from any thread.
        driver.check(unsafe { (driver.cuInit)(0) }, "the CUDA driver does not start")?;
        Ok(driver)
    }

    /// The CUDA version that the driver supports: (12, 8).
    pub(crate) fn version(&self) -> (u32, u32) {
        let mut version = 0;
        // SAFETY: writes one integer.
        let code = unsafe { (self.cuDriverGetVersion)(&raw mut version) };
        let version = if code == 0 { u32::try_from(version).unwrap_or(0) } else { 0 };
        (version / 1000, version % 1000 / 10)
    }

    /// Returns true if host memory is unknown to the driver, so that an asynchronous copy from it is staged before it
    /// returns.
    pub(crate) fn is_pageable(&self, memory: &[u8]) -> bool {
        let (mut kind, mut attribute): (c_uint, c_int) = (0, 2);
        let mut values = [(&raw mut kind).cast::<c_void>()];
        let address = memory.as_ptr() as CUdeviceptr;
        // SAFETY: writes one integer, the value of CU_POINTER_ATTRIBUTE_MEMORY_TYPE (2); any address may be asked about, and
        // one that the driver does not know has the value 0.
        let code = unsafe { (self.cuPointerGetAttributes)(1, &raw mut attribute, values.as_mut_ptr(), address) };
        code != 0 || kind == 0
    }

    /// Does work that a capture on this thread would forbid, such as loading a module: it is no part of what is captured.
    pub(crate) fn beside_captures<R>(&self, work: impl FnOnce() -> R) -> R {
        const RELAXED: c_int = 2;
        let mut mode = RELAXED;
        let exchange = self.cuThreadExchangeStreamCaptureMode().ok();
        // SAFETY: exchanges the thread's mode with `mode`.
        let exchange = exchange.filter(|exchange| unsafe { exchange(&raw mut mode) } == 0);
        let result = work();
        if let Some(exchange) = exchange {
            // SAFETY: as above; `mode` is the mode from before.
            unsafe { exchange(&raw mut mode) };
        }
        result
    }

    /// An error unless `code` is success.
    #[inline]
    pub(crate) fn check(&self, code: Code, asked: &str) -> Result<()> {
        if code == 0 { Ok(()) } else { Err(self.error(code, asked)) }
    }

    /// An error for `code`, about `asked`.
    #[cold]
    pub(crate) fn error(&self, code: Code, asked: &str) -> Error {
        let (name, text) = (self.text(self.cuGetErrorName, code), self.text(self.cuGetErrorString, code));
        let error = Error::new(kind_of(code), format!("{asked}: {text} ({name}, {code})")).code(code);
        match advice(code) {
            Some(help) => error.help(help),
            None => error,
        }
    }

    fn text(&self, of: unsafe extern "C" fn(Code, *mut *const c_char) -> Code, code: Code) -> String {
        let mut text = std::ptr::null();
        // SAFETY: gives a pointer to a constant string of the driver, or null for an unknown code.
        let known = unsafe { of(code, &raw mut text) } == 0 && !text.is_null();
        // SAFETY: checked not to be null; the string is constant and ends in a zero.
        if known { unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned() } else { "unknown".to_owned() }
    }
}

/// The kinds that programs may want to tell apart. Codes: `cuda.h`, `cudaError_enum`.
fn kind_of(code: Code) -> ErrorKind {
    match code {
        2 => ErrorKind::OutOfMemory,
        3 | 34 | 803 | 804 => ErrorKind::DriverTooOld,
        100 | 101 => ErrorKind::NoDevice,
        700 | 702 | 710 | 714..=719 => ErrorKind::Fault,
        200 | 209 | 218 | 222 => ErrorKind::Load,
        801 => ErrorKind::Unsupported,
        _ => ErrorKind::Driver,
    }
}

/// The device that needs no driver, and how a program gets it.
pub(crate) const CPU_DEVICE: &str = if cfg!(feature = "cpu") {
    "the CPU device: `Device::cpu()`, or PTX_DEVICE=cpu with `Device::best()`"
} else {
    "the CPU device, with the feature `cpu` of ptx-launch"
};

fn advice(code: Code) -> Option<&'static str> {
    Some(match code {
        2 => "drop buffers that are no longer used, or use smaller ones",
        34 => "this is the toolkit's stub of libcuda: take its folder out of LD_LIBRARY_PATH",
        46 | 805 => "another process uses the device exclusively, or the device is busy",
        100 => CPU_DEVICE,
        700 | 702 | 710 | 714..=719 => {
            "an earlier kernel failed and took the CUDA context with it: run it on the CPU device, which names the line"
        }
        803 | 804 => "the driver's library and kernel module differ in version: reboot, or install the driver again",
        _ => return None,
    })
}

/// An error for one of cudarc's.
#[cold]
pub(crate) fn cudarc_error(asked: &str, error: DriverError) -> Error {
    match Driver::get() {
        Ok(driver) => driver.error(error.0 as Code, asked),
        Err(error) => error,
    }
}

#[cold]
fn no_driver() -> Error {
    Error::new(ErrorKind::NoDriver, "there is no CUDA driver on this machine (libcuda.so was not found)")
        .possible(CPU_DEVICE)
        .help("install the NVIDIA driver; no toolkit is needed")
}

#[cold]
fn missing(symbol: &str, since: &str) -> Error {
    let of = |toolkit: &&Toolkit| format!("{}.{}", toolkit.cuda.0, toolkit.cuda.1) == since;
    let toolkit = TOOLKITS.iter().find(of).map_or_else(|| format!("CUDA {since}"), Toolkit::to_string);
    Error::new(ErrorKind::DriverTooOld, format!("the CUDA driver has no `{symbol}`"))
        .possible(format!("the drivers from {toolkit} on have it"))
        .help(format!("install a newer NVIDIA driver, or use {CPU_DEVICE}"))
}

/// A handle of the driver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handle<T>(pub(crate) T);

// SAFETY: handles of modules and functions may be used from any thread; the driver locks.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Handle<T> {}
