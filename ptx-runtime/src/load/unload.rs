//! Unloading of a module: only one that was loaded as text while the program runs is ever unloaded.

use super::CudaModule;
use crate::context::{bound, keep_current_context};
use crate::driver::{Driver, cudarc_error};
use crate::error::Result;
use crate::kernel::Module;
use crate::stream::synchronize_context;

impl Module {
    /// Unloads the module from every context that still lives, when the work of the context has ended. No launch of it follows.
    pub(crate) fn unload(&self) -> Result<()> {
        let unload = |module: &CudaModule| {
            let Some(context) = module.home.0.upgrade() else { return Ok(()) };
            let driver = Driver::get()?;
            synchronize_context(&context).map_err(|error| cudarc_error("a module is unloaded", error))?;
            bound(&context)?;
            // SAFETY: the context is current, and its work has ended; the handle is used no more.
            let code = unsafe { (driver.cuModuleUnload)(module.handle.0) };
            driver.check(code, "a module is unloaded")
        };
        keep_current_context(|| self.loaded.iter().map(unload).fold(Ok(()), Result::and))
    }
}
