//! PTX that is known only while the program runs: a module that is checked when it is loaded, whose entries know their parameters.
//! A launch compares every argument with its parameter, and is `unsafe` for what no check can see: what the kernel does with them.
//! Programs whose kernels are known when they are built use the typed launches.
#![allow(unsafe_code, reason = "a launch trusts its caller about what the kernel does")]

use crate::buffer::{AnyMemory, Bound, ReadSlice, WriteSlice};
use crate::config::Config;
use crate::device::Device;
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::{Kernel, LineMap, Module, Variant};
#[cfg(feature = "cpu")]
use crate::launch::CpuProgram;
use crate::launch::launch;
use crate::param::{Arg, KernelParam, Param, bytes};
use crate::stream::{AsStream, Submission};
use ptx_core::check::{Checked, Waiting, check, waiting};
use ptx_core::diag::Diagnostic;
use ptx_core::diag::near::nearest;
use ptx_core::ir;
use ptx_core::lex::lex;
use ptx_core::lower::Options;
use ptx_core::parse::parse;
use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

/// A module of PTX text, checked and loaded while the program runs.
///
/// *Needs the feature `check`, a part of `cpu`, which is on by default.*
///
/// ```
/// # use ptx_launch::{Config, Device, RuntimeModule};
/// let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry fill(.param .u64 out, .param .u32 value) {\n  \
///            .reg .b64 %p; .reg .b32 %v; ld.param.u64 %p, [out]; ld.param.u32 %v, [value]; st.global.u32 [%p], %v; ret;\n}";
/// let device = Device::cpu();
/// let fill = RuntimeModule::load(&device, "fill.ptx", ptx)?.kernel("fill")?;
/// let mut out = device.zeros::<u32>(1)?;
/// let launch = fill.launch(Config::grid(1).block(1)).write(&mut out)?.value(7u32)?;
/// // SAFETY: the kernel writes the first element of `out`, which has one.
/// unsafe { launch.submit(&device)? };
/// assert_eq!(out.download()?, [7]);
/// assert!(fill.launch(Config::grid(1)).value(7u8).is_err(), "the first parameter has 8 bytes");
/// # Ok::<(), ptx_launch::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RuntimeModule(&'static Loaded);

/// PTX for one target, and the lines of the source that made it.
#[derive(Clone, Copy, Debug)]
pub struct CompiledText<'a> {
    /// The PTX.
    pub ptx: &'a str,
    /// The name of the source file.
    pub source: &'a str,
    /// `PTX:0:LINE:COLUMN` for each line of PTX that begins another place of the source, with blanks between them.
    pub lines: &'a str,
}

/// An entry of a [`RuntimeModule`].
///
/// *Needs the feature `check`, a part of `cpu`, which is on by default.*
#[derive(Clone, Copy, Debug)]
pub struct RuntimeKernel(&'static Kernel);

/// The data made from a text, once for each text. It stays until [`RuntimeModule::unload`]: launches that still run may need it.
#[derive(Debug)]
struct Loaded {
    module: &'static Module,
    kernels: Vec<Kernel>,
    /// The memory that the references in `module` and `kernels` point to.
    _kept: Kept,
}

/// Every text that is loaded.
static LOADED: Mutex<Vec<Arc<Loaded>>> = Mutex::new(Vec::new());

/// Values behind references that live as long as a [`Loaded`].
#[derive(Debug, Default)]
struct Kept(Vec<Arc<dyn Any + Send + Sync>>);

impl Kept {
    fn keep<T: Any + Send + Sync>(&mut self, value: T) -> &'static T {
        let value = Arc::new(value);
        // SAFETY: the allocation stays where it is until this list is dropped, with the `Loaded` that has the reference. Only
        // `unload` drops one, and its caller vouches that nothing uses the references then.
        let reference = unsafe { &*Arc::as_ptr(&value) };
        self.0.push(value);
        reference
    }
}

impl RuntimeModule {
    /// Checks a text and loads it for a device. Errors show `name`, that of its file. The text and what is made of it stay until
    /// [`unload`](RuntimeModule::unload); the same text under the same name is kept once.
    ///
    /// # Errors
    /// [`ErrorKind::Load`] with what is wrong in the text, [`ErrorKind::NoVariant`] or [`ErrorKind::DriverTooOld`] when its
    /// target or version does not fit the device, and errors of the driver.
    pub fn load(device: &Device, name: &str, ptx: &str) -> Result<RuntimeModule> {
        RuntimeModule::load_compiled(device, name, &[CompiledText { ptx, source: "", lines: "" }])
    }

    /// The same for texts that were made for several targets from a source file, as the kernel language makes them: a launch takes the one that fits its
    /// device best, and errors name the lines of the source. Errors show `name`, too.
    ///
    /// # Errors
    /// As [`load`](RuntimeModule::load).
    pub fn load_compiled(device: &Device, name: &str, texts: &[CompiledText<'_>]) -> Result<RuntimeModule> {
        let loaded = find_or_make(name, texts)?;
        loaded.kernels.first().map_or(Ok(()), |kernel| kernel.load(device))?;
        #[cfg(feature = "cpu")]
        if !device.is_cuda() {
            CpuProgram::of(loaded.module, None)?;
        }
        Ok(RuntimeModule(loaded))
    }

    /// Unloads it from every device, and frees its text: first the devices end the work that was submitted to them. A later
    /// [`load`](RuntimeModule::load) of the text loads it again.
    ///
    /// # Errors
    /// An error of the driver, such as one of a kernel that ran before. The module is gone then, too.
    ///
    /// # Safety
    /// Nothing uses the module any more, from the begin of this call on: no copy of it, which `load` of the same text under the same
    /// name also gives, no kernel or launch of it, and no graph that has a launch of it.
    pub unsafe fn unload(self) -> Result<()> {
        let mut all = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        let found = all.iter().position(|loaded| std::ptr::eq(Arc::as_ptr(loaded), self.0));
        let loaded = found.map(|at| all.swap_remove(at));
        drop(all);
        loaded.map_or(Ok(()), |loaded| loaded.module.unload())
    }

    /// Loads all of its kernels, in parallel threads: see [`Module::warm`].
    ///
    /// # Errors
    /// As [`Module::warm`].
    pub fn warm(&self, device: &Device) -> Result<()> {
        self.0.module.warm(device)
    }

    /// The names of its entries.
    pub fn entries(&self) -> impl Iterator<Item = &'static str> {
        self.0.kernels.iter().map(|kernel| kernel.entry)
    }

    /// One of its entries.
    ///
    /// # Errors
    /// [`ErrorKind::BadOption`] if there is none of this name.
    pub fn kernel(&self, entry: &str) -> Result<RuntimeKernel> {
        let found = self.0.kernels.iter().find(|kernel| kernel.entry == entry);
        found.map(RuntimeKernel).ok_or_else(|| self.no_entry(entry))
    }

    #[cold]
    fn no_entry(&self, entry: &str) -> Error {
        let all: Vec<_> = self.entries().map(|name| format!("`{name}`")).collect();
        let error = Error::new(ErrorKind::BadOption, format!("`{}` has no entry `{entry}`", self.0.module.name))
            .possible(if all.is_empty() { "it has no entries".to_owned() } else { all.join(", ") });
        match nearest(entry, self.entries()) {
            Some(near) => error.help(format!("did you mean `{near}`?")),
            None => error,
        }
    }
}

impl RuntimeKernel {
    /// The kernel itself: its figures, its occupancy.
    pub fn kernel(&self) -> &'static Kernel {
        self.0
    }

    /// Its parameters, in order.
    pub fn params(&self) -> &'static [Param] {
        self.0.params
    }

    /// Starts a launch. The arguments follow in the order of the parameters.
    pub fn launch<'a>(&self, config: Config) -> RuntimeLaunch<'a> {
        RuntimeLaunch { kernel: self.0, config, arguments: Vec::with_capacity(self.0.params.len()) }
    }
}

/// A launch in the making: arguments that fit their parameters.
#[must_use]
pub struct RuntimeLaunch<'a> {
    kernel: &'static Kernel,
    config: Config,
    arguments: Vec<Argument<'a>>,
}

enum Argument<'a> {
    Plain(Vec<u8>),
    Memory(AnyMemory<'a>),
}

impl<'a> RuntimeLaunch<'a> {
    /// The next argument is the address of memory that the kernel reads.
    ///
    /// # Errors
    /// [`ErrorKind::BadOption`] if there is no such parameter, or it is no address.
    pub fn read<T: 'a>(self, memory: impl ReadSlice<T> + 'a) -> Result<Self> {
        self.push(size_of::<u64>(), || Argument::Memory(AnyMemory::read(memory)))
    }

    /// The next argument is the address of memory that the kernel writes.
    ///
    /// # Errors
    /// As [`read`](RuntimeLaunch::read).
    pub fn write<T: 'a>(self, memory: impl WriteSlice<T> + 'a) -> Result<Self> {
        self.push(size_of::<u64>(), || Argument::Memory(AnyMemory::write(memory)))
    }

    /// The next argument is this value.
    ///
    /// # Errors
    /// [`ErrorKind::BadOption`] if there is no such parameter, or it has another size.
    pub fn value<T: KernelParam>(self, value: T) -> Result<Self> {
        self.bytes(bytes(&[value]))
    }

    /// The next argument is these bytes.
    ///
    /// # Errors
    /// As [`value`](RuntimeLaunch::value).
    pub fn bytes(self, bytes: &[u8]) -> Result<Self> {
        self.push(bytes.len(), || Argument::Plain(bytes.to_vec()))
    }

    fn push(mut self, size: usize, argument: impl FnOnce() -> Argument<'a>) -> Result<Self> {
        match self.kernel.params.get(self.arguments.len()) {
            Some(param) if param.size == size => {
                self.arguments.push(argument());
                Ok(self)
            }
            Some(param) => Err(other_size(self.kernel, param, size)),
            None => Err(other_count(self.kernel, self.arguments.len() + 1)),
        }
    }

    /// Submits it. On a CUDA device it returns before the kernel has ended.
    ///
    /// # Errors
    /// [`ErrorKind::BadOption`] if arguments are missing, and those of a typed launch.
    ///
    /// # Safety
    /// The kernel uses its arguments soundly: it stays inside of its memory, writes only what it got to be written, and
    /// other addresses that it is given as values are right.
    pub unsafe fn submit(mut self, stream: impl AsStream) -> Result<()> {
        if self.arguments.len() != self.kernel.params.len() {
            return Err(other_count(self.kernel, self.arguments.len()));
        }
        let submission = Submission::on(stream.as_stream());
        let stream = submission.stream();
        let mut ready = Vec::with_capacity(self.arguments.len());
        for argument in &mut self.arguments {
            ready.push(match argument {
                Argument::Plain(bytes) => Ready::Plain(bytes),
                Argument::Memory(memory) => Ready::Memory(memory.bind(stream)?),
            });
        }
        let args: Vec<Arg<'_>> = ready.iter().map(Ready::arg).collect();
        // SAFETY: there is one argument for each parameter, of its size; the caller vouches for the rest.
        unsafe { launch(self.kernel, stream, &self.config, &args) }
    }
}

impl std::fmt::Debug for RuntimeLaunch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RuntimeLaunch({}, {} arguments)", self.kernel.entry, self.arguments.len())
    }
}

/// An argument that is tied to a stream.
enum Ready<'s> {
    Plain(&'s [u8]),
    Memory(Bound<'s>),
}

impl Ready<'_> {
    fn arg(&self) -> Arg<'_> {
        match self {
            Ready::Plain(bytes) => Arg::bytes(bytes),
            Ready::Memory(bound) => bound.arg(),
        }
    }
}

#[cold]
fn other_size(kernel: &Kernel, param: &Param, size: usize) -> Error {
    let asked = format!("`{}` gets {size} bytes for its parameter `{}`", kernel.entry, param.name);
    Error::new(ErrorKind::BadOption, asked).possible(format!("{} bytes", param.size))
}

#[cold]
fn other_count(kernel: &Kernel, count: usize) -> Error {
    let (plural, params) = (if count == 1 { "" } else { "s" }, kernel.params);
    let names: Vec<_> = params.iter().map(|param| format!("`{}` of {} bytes", param.name, param.size)).collect();
    Error::new(ErrorKind::BadOption, format!("`{}` is launched with {count} argument{plural}", kernel.entry))
        .possible(format!("one for each of its {} parameters: {}", params.len(), names.join(", ")))
}

fn find_or_make(name: &str, texts: &[CompiledText<'_>]) -> Result<&'static Loaded> {
    let is = |loaded: &&Arc<Loaded>| {
        let variants = loaded.module.variants;
        let same = |(variant, text): (&Variant, &CompiledText<'_>)| {
            let kept = loaded.module.text_or_none(variant);
            kept.ptx == text.ptx && kept.lines.places == text.lines
        };
        loaded.module.name == name && variants.len() == texts.len() && variants.iter().zip(texts).all(same)
    };
    let mut all = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if all.iter().find(is).is_none() {
        all.push(Arc::new(make(name, texts)?));
    }
    let Some(loaded) = all.iter().rfind(is) else { return Err(Error::other("a module that was loaded is gone")) };
    // SAFETY: the list keeps it until `unload`, whose caller vouches that nothing uses it then.
    Ok(unsafe { &*Arc::as_ptr(loaded) })
}

/// The data that the macros write as `static`s.
fn make(name: &str, texts: &[CompiledText<'_>]) -> Result<Loaded> {
    let (mut kept, mut variants, mut entries) = (Kept::default(), Vec::new(), Vec::new());
    let mut waits: Vec<(usize, Waiting)> = Vec::new();
    for (at, text) in texts.iter().enumerate() {
        let checked = checked(name, text.ptx)?;
        let ir = checked.module();
        waits.extend(waiting(ir).into_iter().map(|found| (at, found)));
        let [arch, ptx, source, lines] =
            [ir.arch.to_string(), text.ptx.to_owned(), text.source.to_owned(), text.lines.to_owned()]
                .map(|text| kept.keep(text).as_str());
        variants.push(Variant::new(arch, ptx, LineMap::new(source, lines)));
        // The entries and their parameters are those of every text.
        if entries.is_empty() {
            let defined = ir.functions.iter().filter(|function| function.entry && function.defined);
            entries =
                defined.map(|entry| (kept.keep(entry.name.clone()).as_str(), params(ir, entry, &mut kept))).collect();
        }
    }
    let (name, variants) = (kept.keep(name.to_owned()), kept.keep(variants));
    let module = kept.keep(Module::new(name, variants));
    let bits = |entry: &str| {
        let own = waits.iter().filter(|(_, found)| found.entry == entry);
        own.fold(0, |all, (at, found)| all | found.bit(*at))
    };
    let kernels = entries.into_iter().map(|(entry, params)| Kernel::new(module, entry, params).waiting(bits(entry)));
    let kernels = kernels.collect();
    Ok(Loaded { module, kernels, _kept: kept })
}

fn checked(name: &str, ptx: &str) -> Result<Checked> {
    let (source, mut diagnostics) = lex(ptx.as_bytes());
    let (tree, parsed) = parse(source);
    diagnostics.extend(parsed);
    let (checked, diagnostics) = check(tree, diagnostics, &Options::default());
    checked.ok_or_else(|| wrong(name, ptx, &diagnostics))
}

/// The parameters of an entry, in order.
fn params(ir: &ir::Module, entry: &ir::Function, kept: &mut Kept) -> &'static [Param] {
    let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let variables = entry.params.iter().filter_map(|param| match param {
        ir::Param::Var(id) => ir.variables.get(id.index()),
        ir::Param::Reg(_) => None,
    });
    let params: Vec<Param> = variables
        .map(|v| Param { name: kept.keep(v.name.clone()), size: number(v.size), align: number(v.align.max(1)) })
        .collect();
    kept.keep(params)
}

#[cold]
fn wrong(name: &str, ptx: &str, diagnostics: &[Diagnostic]) -> Error {
    let line = |at: u32| 1 + ptx.as_bytes().iter().take(at as usize).filter(|byte| **byte == b'\n').count();
    let errors = diagnostics.iter().filter(|diagnostic| diagnostic.is_error());
    let errors: Vec<String> =
        errors.map(|d| format!("\n    {name}:{}: {}: {}", line(d.span.lo), d.code.id, d.message)).collect();
    Error::new(ErrorKind::Load, format!("`{name}` is not right{}", errors.concat()))
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const PTX: &str = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry add(.param .u64 x, .param .u32 n, .param \
                       .align 4 .b8 s[12]) {\n .reg .b64 %p; .reg .b32 %n, %v; ld.param.u64 %p, [x]; ld.param.u32 %n, [n]; \
                       ld.global.u32 %v, [%p]; add.u32 %v, %v, %n; st.global.u32 [%p], %v; ret; }";

    fn add(device: &Device) -> RuntimeKernel {
        RuntimeModule::load(device, "add.ptx", PTX).unwrap().kernel("add").unwrap()
    }

    #[test]
    fn arguments_fit_their_parameters() {
        let device = Device::cpu();
        let add = add(&device);
        assert_eq!(add.params().iter().map(|p| (p.size, p.align)).collect::<Vec<_>>(), [(8, 8), (4, 4), (12, 4)]);
        let mut x = device.upload(&[5u32]).unwrap();
        let config = Config::grid(1).block(1);
        let launch = add.launch(config).write(&mut x).unwrap().value(2i32).unwrap().bytes(&[0; 12]).unwrap();
        // SAFETY: the kernel uses the first element of `x`.
        unsafe { launch.submit(&device) }.unwrap();
        assert_eq!(x.download().unwrap(), [7]);
    }

    #[test]
    fn arguments_that_do_not_fit_are_told() {
        let device = Device::cpu();
        let (add, x) = (add(&device), device.upload(&[5u32]).unwrap());
        let launch = || add.launch(Config::grid(1));
        let missing = launch().read(&x).unwrap();
        // SAFETY: it is refused.
        let missing = unsafe { missing.submit(&device) }.unwrap_err();
        let full = launch().read(&x).unwrap().value(1u32).unwrap().value([0u32; 3]).unwrap();
        let errors = [
            (
                missing,
                "`add` is launched with 1 argument\n  possible: one for each of its 3 parameters: `x` of 8 bytes",
            ),
            (launch().value(1u32).unwrap_err(), "`add` gets 4 bytes for its parameter `x`\n  possible: 8 bytes"),
            (launch().read(&x).unwrap().read(&x).unwrap_err(), "8 bytes for its parameter `n`"),
            (full.value(1u8).unwrap_err(), "launched with 4 arguments"),
        ];
        for (error, text) in errors {
            assert_eq!(error.kind(), ErrorKind::BadOption);
            assert!(error.to_string().contains(text), "{error}\nlacks: {text}");
        }
    }

    #[test]
    fn a_text_is_checked_and_kept_once() {
        let device = Device::cpu();
        let [one, two] = [0; 2].map(|_| RuntimeModule::load(&device, "once.ptx", PTX).unwrap());
        assert!(std::ptr::eq(one.0, two.0));
        let error = one.kernel("ad").unwrap_err().to_string();
        assert!(error.contains("`once.ptx` has no entry `ad`") && error.contains("did you mean `add`?"), "{error}");
        let error = RuntimeModule::load(&device, "wrong.ptx", &PTX.replace("add.u32", "add.u99")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Load);
        assert!(error.to_string().contains("wrong.ptx:5: P0"), "{error}");
    }

    #[test]
    fn a_module_that_was_unloaded_is_loaded_again() {
        let device = Device::cpu();
        for _ in 0..3 {
            let module = RuntimeModule::load(&device, "again.ptx", PTX).unwrap();
            let mut x = device.upload(&[5u32]).unwrap();
            let launch = module.kernel("add").unwrap().launch(Config::grid(1).block(1));
            let launch = launch.write(&mut x).unwrap().value(2u32).unwrap().bytes(&[0; 12]).unwrap();
            // SAFETY: the kernel uses the first element of `x`.
            unsafe { launch.submit(&device) }.unwrap();
            assert_eq!(x.download().unwrap(), [7]);
            // SAFETY: nothing uses the module after this.
            unsafe { module.unload() }.unwrap();
            assert!(LOADED.lock().unwrap().iter().all(|loaded| loaded.module.name != "again.ptx"));
        }
    }
}
