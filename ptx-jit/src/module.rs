//! A compiled source on a device.

use crate::kernel::JitKernel;
use crate::program::{Program, Source};
use ptx_expand::program::{Kernel, Module, Text};
use ptx_runtime::{CompiledText, Device, Error, ErrorKind, Result, RuntimeModule};
use std::fmt::Write;
use std::sync::Arc;

/// The kernels of a [`Source`], loaded for a device. A clone is the same module.
#[derive(Clone, Debug)]
pub struct JitModule {
    name: String,
    kernels: Arc<[JitKernel]>,
}

impl JitModule {
    /// Compiles a source, and loads it. The same text with the same choices is loaded once.
    ///
    /// # Errors
    /// [`ErrorKind::Load`] with everything that is wrong in the text, and those of [`RuntimeModule::load`].
    pub fn load(device: &Device, source: &Source) -> Result<JitModule> {
        JitModule::of_program(device, source, &source.compile()?)
    }

    /// Loads what was compiled of a source.
    ///
    /// # Errors
    /// Those of [`RuntimeModule::load`].
    pub fn of_program(device: &Device, source: &Source, program: &Program) -> Result<JitModule> {
        let mut kernels = Vec::new();
        for module in program.modules() {
            let loaded = load(device, &source.name, module)?;
            for kernel in &module.kernels {
                let runtime = loaded.kernel(&kernel.entry)?;
                if let Ok(launch) = &kernel.launch {
                    runtime.kernel().check_promises(&launch.contract, device)?;
                }
                let (described, maps) = (Arc::new(kernel.clone()), Arc::default());
                kernels.push(JitKernel { described, runtime, maps, is_trusted: source.is_trusted });
            }
        }
        Ok(JitModule { name: source.name.clone(), kernels: kernels.into() })
    }

    /// Loads all of its kernels, in parallel threads, so that no launch assembles one.
    ///
    /// # Errors
    /// Those of [`ptx_runtime::warm`].
    pub fn warm(&self, device: &Device) -> Result<()> {
        let kernels: Vec<_> = self.kernels.iter().map(|kernel| kernel.runtime.kernel()).collect();
        ptx_runtime::warm(device, &kernels)
    }

    /// Its kernels, in order; a generic one once for each instance.
    pub fn kernels(&self) -> &[JitKernel] {
        &self.kernels
    }

    /// The kernel of this name in the source, or in the PTX.
    ///
    /// # Errors
    /// [`ErrorKind::BadOption`] if there is none, or if a generic kernel has several instances.
    pub fn kernel(&self, name: &str) -> Result<&JitKernel> {
        let found = |of: fn(&Kernel) -> &str| self.kernels.iter().filter(move |kernel| of(&kernel.described) == name);
        let mut named = found(|kernel| &kernel.entry).chain(found(|kernel| &kernel.name));
        let first = named.next().ok_or_else(|| self.no_kernel(name, "there is no such kernel"))?;
        let is_clear =
            first.described.entry == name || named.all(|other| Arc::ptr_eq(&other.described, &first.described));
        if is_clear { Ok(first) } else { Err(self.no_kernel(name, "it has several instances")) }
    }

    #[cold]
    fn no_kernel(&self, name: &str, why: &str) -> Error {
        let all: Vec<_> = self.kernels.iter().map(|kernel| format!("`{}`", kernel.described.entry)).collect();
        let possible = if all.is_empty() { "it has no kernels".to_owned() } else { all.join(", ") };
        Error::new(ErrorKind::BadOption, format!("the kernel `{name}` of `{}` is wanted, and {why}", self.name))
            .possible(possible)
    }
}

fn load(device: &Device, name: &str, module: &Module) -> Result<RuntimeModule> {
    let lines: Vec<String> = module.texts.iter().map(places).collect();
    let texts = module.texts.iter().zip(&lines);
    let texts: Vec<_> = texts.map(|(text, lines)| CompiledText { ptx: &text.ptx, source: name, lines }).collect();
    RuntimeModule::load_compiled(device, &module.name, &texts)
}

/// The places of a text's lines, where they change.
fn places(text: &Text) -> String {
    let (mut out, mut last) = (String::new(), (0, 0));
    for (ptx, line, column) in &text.lines {
        if last != (*line, *column) {
            last = (*line, *column);
            // Writing to a string never fails.
            let _ = write!(out, "{ptx}:0:{line}:{column} ");
        }
    }
    out.truncate(out.trim_end().len());
    out
}
