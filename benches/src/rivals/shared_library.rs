//! Rivals that are shared libraries with a small C interface, which an environment variable names: how they are opened, and launched.
#![allow(unsafe_code, reason = "calls of the library")]

use libloading::Library;
use ptx_launch::prelude::*;
use ptx_launch::{Error, Result};
use std::ffi::c_void;
use std::rc::Rc;

/// A library, on a stream.
pub struct SharedLibrary {
    /// The rival's name, and the variable that names the library.
    name: &'static str,
    variable: &'static str,
    library: Rc<Library>,
    device: Device,
    stream: *mut c_void,
}

/// A launch of a problem in some device memory on a stream. It returns 0, 1 if the build has no kernel for it, else an error.
pub type Launch<P> = unsafe extern "C" fn(*const P, *mut c_void, *mut c_void) -> i32;

/// A problem on some memory.
pub struct Plan<P> {
    name: &'static str,
    // The function is the library's.
    _library: Rc<Library>,
    launch: Launch<P>,
    problem: P,
    workspace: Buffer<u8>,
    stream: *mut c_void,
}

impl SharedLibrary {
    /// Opens the library that `variable` names, for launches on a stream.
    ///
    /// # Errors
    /// Why it is not here.
    pub fn open(name: &'static str, variable: &'static str, device: &Device, stream: &Stream) -> Result<SharedLibrary> {
        let cuda = stream.as_cuda().ok_or_else(|| Error::other(format!("{name} needs a CUDA device")))?;
        let path = std::env::var_os(variable).ok_or_else(|| Error::other(format!("{variable} names no library")))?;
        // SAFETY: its user vouches for the library.
        let library = unsafe { Library::new(&path) }.map_err(|why| Error::other(format!("{variable}: {why}")))?;
        let stream = cuda.cu_stream().cast();
        Ok(SharedLibrary { name, variable, library: Rc::new(library), device: device.clone(), stream })
    }

    /// A function of the library.
    ///
    /// # Errors
    /// That it has none of that name.
    ///
    /// # Safety
    /// The function has the type `F`.
    pub unsafe fn function<F: Copy>(&self, name: &[u8]) -> Result<F> {
        // SAFETY: the caller vouches for the type.
        let function = unsafe { self.library.get::<F>(name) };
        function.map(|function| *function).map_err(|why| Error::other(format!("{}: {why}", self.variable)))
    }

    /// A problem with `bytes` of workspace, launched once.
    ///
    /// # Errors
    /// That the library has no kernel for it.
    pub fn plan<P>(&self, launch: Launch<P>, problem: P, bytes: usize) -> Result<Plan<P>> {
        let workspace = self.device.zeros(bytes.max(1))?;
        let (name, stream) = (self.name, self.stream);
        let plan = Plan { name, _library: self.library.clone(), launch, problem, workspace, stream };
        plan.launch()?;
        Ok(plan)
    }
}

impl<P> Plan<P> {
    /// Submits it to the library's stream.
    ///
    /// # Errors
    /// A code other than 0 from the library.
    pub fn launch(&self) -> Result<()> {
        let workspace = self.workspace.address() as *mut c_void;
        // SAFETY: the caller's memory is that of the problem, and the workspace has the size that the library asked for.
        match unsafe { (self.launch)(&raw const self.problem, workspace, self.stream) } {
            0 => Ok(()),
            1 => Err(Error::other(format!("this build of {} has no kernel for it", self.name))),
            code => Err(Error::other(format!("{}: code {code}", self.name))),
        }
    }
}
