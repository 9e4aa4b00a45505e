//! Functions of libraries that the process has loaded. They are looked up when they are needed, so that a library loads without them.
#![allow(unsafe_code, reason = "a C interface")]

/// The function of this name: of TVM-FFI's library, which whoever calls an exported function has loaded, or of Python's.
pub(crate) fn symbol<T: Copy>(name: &str) -> Option<T> {
    #[cfg(unix)]
    let library: libloading::Library = libloading::os::unix::Library::this().into();
    #[cfg(windows)]
    let library: libloading::Library =
        libloading::os::windows::Library::open_already_loaded("tvm_ffi.dll").ok()?.into();
    // SAFETY: the caller names the type that the header has for this function.
    let found = unsafe { library.get::<T>(name) }.ok().map(|symbol| *symbol);
    // The library was loaded by others and stays; what was opened here is the whole program.
    std::mem::forget(library);
    found
}
