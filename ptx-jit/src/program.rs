//! Source texts and what they are compiled to, without a device.

use crate::{ahead, cache, render};
#[cfg(feature = "cpu")]
use ptx_expand::program::Expr;
use ptx_expand::program::{self, Kernel, Options, Outline, Problem, Problems, Refused};
#[cfg(feature = "cpu")]
use ptx_runtime::chip::{Chip, Needs, Occupancy};
use ptx_runtime::{Error, ErrorKind, Result};
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The most bytes of a source file.
const MOST_BYTES: u64 = 1 << 28;

/// The text of kernels, with the choices of whoever compiles it.
#[derive(Clone, Debug)]
pub struct Source {
    pub(crate) name: String,
    pub(crate) text: String,
    options: Options,
    /// The Rust signatures of entries, where the text is PTX.
    signatures: Option<String>,
    pub(crate) is_trusted: bool,
}

impl Source {
    /// A text. `name` is its file in messages.
    pub fn text(name: impl Into<String>, text: impl Into<String>) -> Source {
        let options = Options::default();
        Source { name: name.into(), text: text.into(), options, signatures: None, is_trusted: false }
    }

    /// A module of PTX, and the Rust signatures of its entries, separated by `;`:
    /// `"#[ptx_kernel(block = 256, grid = n.div_ceil(256))] fn add(x: &[f32], out: &mut [f32], n: u32)"`. An entry without a signature takes the
    /// numbers that its PTX declares, and pointers as `u64`.
    pub fn ptx(name: impl Into<String>, text: impl Into<String>, signatures: impl Into<String>) -> Source {
        Source { signatures: Some(signatures.into()), ..Source::text(name, text) }
    }

    /// The text of a file.
    ///
    /// # Errors
    /// [`ErrorKind::Other`] if it cannot be read.
    pub fn file(path: impl AsRef<Path>) -> Result<Source> {
        let name = path.as_ref().display().to_string();
        let mut text = String::new();
        // A device may have no end.
        match File::open(path).and_then(|file| file.take(MOST_BYTES + 1).read_to_string(&mut text)) {
            Ok(bytes) if bytes as u64 <= MOST_BYTES => Ok(Source::text(name, text)),
            Ok(_) => {
                Err(Error::other(format!("`{name}` cannot be read: it has more than 256 MiB, which no source has")))
            }
            Err(why) => Err(Error::other(format!("`{name}` cannot be read: {why}"))),
        }
    }

    /// The argument of a generic parameter, as Rust text: `with("BLOCK", 256)`, `with("T", "bf16")`. Kernels whose parameters all have arguments
    /// have this one instance, whatever their `instances` are.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, argument: impl fmt::Display) -> Source {
        self.options.with.push((name.into(), argument.to_string()));
        self
    }

    /// The target, in place of those in the attributes: `"sm_90a"`.
    #[must_use]
    pub fn target(mut self, target: impl Into<String>) -> Source {
        self.options.target = Some(target.into());
        self
    }

    /// Compiles this kernel alone.
    #[must_use]
    pub fn only(mut self, kernel: impl Into<String>) -> Source {
        self.options.only = Some(kernel.into());
        self
    }

    /// Leaves out the proofs of kernels with `proved`, for a tool that proves them itself or runs them on the CPU device. Nobody vouches for them then.
    #[must_use]
    pub fn without_proofs(mut self) -> Source {
        self.options.without_proofs = true;
        self
    }

    /// Lets [`run`](crate::JitLaunch::run) launch its kernels on GPUs.
    ///
    /// # Safety
    /// Every `unsafe(requires(…))` of the text is right: whenever the conditions hold, the kernel uses its arguments soundly.
    #[must_use]
    pub unsafe fn trusted(mut self) -> Source {
        self.is_trusted = true;
        self
    }

    /// Its file in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A problem as people read it: the message, the line with a mark below, and the help.
    pub fn shown(&self, problem: &Problem) -> String {
        render::problem(&self.name, &self.text, problem)
    }

    /// Compiles it.
    ///
    /// # Errors
    /// Everything that a build would report.
    pub fn compile(&self) -> Result<Program, CompileError> {
        let kept = cache::entry("program", &self.choices());
        if let Some(program) = kept.as_ref().and_then(cache::read) {
            return Ok(Program { program });
        }
        let compiled = match ahead::take(&self.choices()) {
            Some(program) => Program { program },
            None => self.compile_anew()?,
        };
        if let Some(entry) = kept {
            cache::write_program(&entry, &compiled.program);
        }
        Ok(compiled)
    }

    /// Everything that its program depends on, but the compiler.
    fn choices(&self) -> Vec<&str> {
        let Options { with, target, only, without_proofs } = &self.options;
        let named = [("target", target), ("only", only), ("signatures", &self.signatures)];
        let named = named.into_iter().filter_map(|(name, text)| Some([name, text.as_deref()?]));
        let with = with.iter().map(|(name, argument)| [name.as_str(), argument.as_str()]);
        let proofs = without_proofs.then_some("without proofs");
        [self.text.as_str()]
            .into_iter()
            .chain(proofs)
            .chain(named.flatten())
            .chain(["with"])
            .chain(with.flatten())
            .collect()
    }

    fn compile_anew(&self) -> Result<Program, CompileError> {
        let work = || match &self.signatures {
            None => program::compile(&self.text, &self.options).map_err(|wrong| self.wrong(wrong)),
            Some(signatures) => program::compile_ptx(&self.text, signatures).map_err(|refused| match refused {
                Refused::Text(wrong) => self.wrong(wrong),
                Refused::Signatures(Problems(problems)) => {
                    CompileError { name: format!("signatures of {}", self.name), text: signatures.clone(), problems }
                }
            }),
        };
        self.on_thread(work).map(|program| Program { program })
    }

    /// Its kernels with their generic parameters. A lone kernel without any is compiled in the same reading of the text, for
    /// [`compile`](Source::compile) of this process with [`only`](Source::only) this kernel.
    ///
    /// # Errors
    /// A text that is not Rust.
    pub fn outline(&self) -> Result<Vec<Outline>, CompileError> {
        let kept = cache::entry("outline", &[&self.text]);
        if let Some(outlines) = kept.as_ref().and_then(cache::read) {
            return Ok(outlines);
        }
        let read = || program::outline_and_compile(&self.text, &self.options).map_err(|wrong| self.wrong(wrong));
        let (outlines, program) = self.on_thread(read)?;
        if let (Some(program), [lone]) = (program, outlines.as_slice()) {
            ahead::keep(&self.clone().only(&lone.name).choices(), program);
        }
        if let Some(entry) = kept {
            cache::write(&entry, &outlines);
        }
        Ok(outlines)
    }

    fn wrong(&self, Problems(problems): Problems) -> CompileError {
        CompileError { name: self.name.clone(), text: self.text.clone(), problems }
    }

    /// Works on a thread of its own: the parser is recursive, and keeps the text of every source that its thread has read.
    fn on_thread<T: Send>(&self, work: impl FnOnce() -> Result<T, CompileError> + Send) -> Result<T, CompileError> {
        let failed = |message: &str| Err(self.wrong(Problems(vec![Problem::elsewhere(message.to_owned())])));
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("ptx-jit".to_owned()).stack_size(STACK);
            match thread.spawn_scoped(scope, work).map(std::thread::ScopedJoinHandle::join) {
                Ok(Ok(result)) => result,
                Ok(Err(_)) => failed("the compiler of kernels failed; this is a bug of `ptx`"),
                Err(why) => failed(&format!("no thread can be created: {why}")),
            }
        })
    }
}

/// Room for the deepest text that the checks of nesting let through.
const STACK: usize = 32 << 20;

/// A compiled source.
#[derive(Clone, Debug)]
pub struct Program {
    pub(crate) program: program::Program,
}

impl Program {
    /// Its modules of PTX, and their kernels.
    pub fn modules(&self) -> &[program::Module] {
        &self.program.modules
    }

    /// Every kernel, or instance of one.
    pub fn kernels(&self) -> impl Iterator<Item = &Kernel> {
        self.program.modules.iter().flat_map(|module| &module.kernels)
    }

    /// Remarks that are no errors.
    pub fn warnings(&self) -> &[Problem] {
        &self.program.warnings
    }

    /// The occupancy of a chip by a kernel with so many registers and bytes of static shared memory, as an assembler reports them: of the usual chip for the
    /// kernel's target. `None` where the size of a block or its dynamic shared memory depends on the arguments of a launch.
    #[cfg(feature = "cpu")]
    pub fn occupancy(&self, kernel: &str, registers: u64, shared: u64) -> Option<(&'static Chip, Occupancy)> {
        let module = self.module(kernel)?;
        let launch = module.kernels.iter().find(|k| k.name == kernel || k.entry == kernel)?.launch.as_ref().ok()?;
        let chip = Chip::usual(module.texts.first()?.target.parse().ok()?);
        let dynamic = match &launch.shared {
            Some(bytes) => constant(bytes)?,
            None => launch.dynamic.unwrap_or(0),
        };
        let needs =
            Needs { threads: constant(launch.block.as_ref()?)?, registers: Some(registers), shared: shared + dynamic };
        Some((chip, chip.occupancy(needs)))
    }

    fn module(&self, kernel: &str) -> Option<&program::Module> {
        let has = |module: &&program::Module| module.kernels.iter().any(|k| k.name == kernel || k.entry == kernel);
        self.program.modules.iter().find(has)
    }

    /// The PTX of a kernel's module, for the first of its targets. `kernel` is the kernel's name in the source, or in the PTX.
    pub fn ptx(&self, kernel: &str) -> Option<&str> {
        self.module(kernel)?.texts.first().map(|text| text.ptx.as_str())
    }
}

/// The product of constant extents.
#[cfg(feature = "cpu")]
fn constant(extents: &Expr) -> Option<u64> {
    match extents {
        Expr::Int(number) => u64::try_from(*number).ok(),
        Expr::List(all) => all.iter().try_fold(1u64, |product, extent| product.checked_mul(constant(extent)?)),
        _ => None,
    }
}

/// Everything that is wrong in a source. Its text has the lines, the marks and the help.
#[derive(Clone, Debug)]
pub struct CompileError {
    name: String,
    text: String,
    problems: Vec<Problem>,
}

impl CompileError {
    /// The problems, in the order of the text.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<_> =
            self.problems.iter().map(|problem| render::problem(&self.name, &self.text, problem)).collect();
        f.write_str(&texts.join("\n\n"))
    }
}

impl std::error::Error for CompileError {}

impl From<CompileError> for Error {
    fn from(error: CompileError) -> Error {
        Error::new(ErrorKind::Load, format!("`{}` is not right\n\n{error}", error.name))
    }
}
