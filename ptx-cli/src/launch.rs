//! One launch of one kernel, as commands take it: the file, the sizes and the arguments.

pub(crate) mod argument;
mod attribute;
mod place;
pub(crate) mod tensor;
mod texture;

use crate::output::{Failure, Outcome};
use crate::source::Source;
use crate::{kernels, memory, render, write};
use argument::Argument;
use attribute::Attribute;
use place::{Output, parameters};
use ptx_core::check::{Checked, check};
use ptx_core::diag::Diagnostic;
use ptx_core::ir::{Module, Param, Variable};
use ptx_core::isa::Class;
use ptx_interp::{Fault, FaultKind, Launch, Machine, Options, Program};
use ptx_runtime::Config;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;

/// The kernel, and how it is launched.
#[derive(clap::Args)]
pub(crate) struct LaunchArguments {
    /// A PTX file, or a Rust source file with kernels.
    pub(crate) file: PathBuf,
    /// The kernel; may be left out if there is only one.
    #[arg(long)]
    pub(crate) entry: Option<String>,
    /// Blocks: 4, or 4,2,1; else what the attribute of a kernel in a Rust file computes from the arguments, or 1.
    #[arg(long, value_parser = extent)]
    grid: Option<Extent>,
    /// Threads of a block: 64, or 16,16,1; else what the entry requires, or 1.
    #[arg(long, value_parser = extent)]
    pub(crate) block: Option<Extent>,
    /// Blocks of a cluster: 2, or 2,1,1; else what the entry requires, or 1.
    #[arg(long, value_parser = extent)]
    pub(crate) cluster: Option<Extent>,
    /// Bytes of dynamic shared memory; else those of the attribute, or 0.
    #[arg(long)]
    shared: Option<u32>,
    /// Launch cooperatively, as the attribute of a Rust file may say: all blocks are resident at once, and may wait for each other.
    #[arg(long)]
    cooperative: bool,
    /// One a parameter, in order: a scalar (u32:5, f32:1.5), a struct by value (struct:u32:5,f32:1.5, or bytes@in.bin from a file), a buffer
    /// read from a file (@in.bin), one that is also written back (inout@data.bin), a zeroed buffer of that many bytes, written to a file
    /// after the run (out.bin:4096), one of another byte (out.bin:4096:0xff), a tensor map (`tma:f16[64x128]:box=32x64:swizzle=128@data.bin`; with `:inout` or `:out` the run
    /// writes the file), or a texture of a file's texels: width, height and depth, and how it is read
    /// (tex:u8x4:64,32:linear,wrap,normalized@in.bin).
    #[arg(long = "arg", value_parser = argument::parse)]
    pub(crate) args: Vec<Argument>,
    /// Another interleaving of the threads; a finding names the seed that repeats it.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// After how many warp instructions a launch counts as endless; without it, when no block has ended for 15 seconds, or after
    /// 1000000000.
    #[arg(long)]
    pub(crate) steps: Option<u64>,
    #[command(flatten)]
    pub(crate) kernels: kernels::Choices,
}

/// x, y, z.
pub(crate) type Extent = [u32; 3];

pub(crate) fn extent(text: &str) -> Result<Extent, String> {
    let wrong = || "one to three numbers such as 4,2,1".to_owned();
    let numbers: Result<Vec<u32>, _> = text.split(',').map(str::parse).collect();
    let numbers = numbers.map_err(|_| wrong())?;
    if numbers.len() > 3 {
        return Err(wrong());
    }
    let mut extent = [1; 3];
    extent.iter_mut().zip(numbers).for_each(|(to, from)| *to = from);
    Ok(extent)
}

impl LaunchArguments {
    /// The file and its module; `None` if it has errors, which are printed.
    pub(crate) fn read(&self, out: &mut dyn Write) -> Result<Option<(Source, Checked)>, Failure> {
        for argument in &self.args {
            if let Some(path) = argument.output()
                && write::is_same_file(path, &self.file)
            {
                let text = format!("{}: this is the PTX, which a buffer would replace", path.display());
                return Err(Failure::usage(text));
            }
        }
        let source = match kernels::is_source(&self.file) {
            true => match kernels::as_ptx(&self.file, self.entry.as_deref(), &self.kernels, out)? {
                Some(source) => source,
                None => return Ok(None),
            },
            false => Source::read(&self.file)?,
        };
        let (tree, earlier) = source.parse();
        match check(tree, earlier, &Default::default()) {
            (Some(checked), _) => Ok(Some((source, checked))),
            (None, diagnostics) => refuse(&source, &diagnostics, out).map(|_| None),
        }
    }

    /// A machine with the arguments in its memory.
    pub(crate) fn bind<'a>(
        &'a self,
        source: &Source,
        checked: &Checked,
        program: &'a Program,
    ) -> Result<Bound<'a>, Failure> {
        let entry = self.entry_of(program.entries().collect())?;
        let mut machine = Machine::new();
        if let Some(bytes) = memory::for_buffers() {
            machine.limit_memory(bytes);
        }
        let module = checked.module();
        let declared = declared(module, entry);
        self.check_arguments(&declared)?;
        let (params, outputs) = parameters(&mut machine, &self.args, &declared)?;
        let (block, cluster) = (self.block_of(module, entry), self.cluster_of(module, entry));
        let size = self.size_of(source)?;
        Ok(Bound { machine, entry, size, block, cluster, params, outputs })
    }

    /// Grid, block and shared memory: from the options, or else from the attribute of a kernel in a Rust file.
    pub(crate) fn size_of(&self, source: &Source) -> Result<Size, Failure> {
        let sizes = match &source.kernel {
            // An attribute that only a build evaluates leaves the sizes to the command.
            Some(kernel) if kernel.launch.is_ok() || self.grid.is_none() => {
                Attribute { kernel, arguments: &self.args }.sizes()?
            }
            _ => Config::new().sizes(),
        };
        let grid = self.grid.map_or_else(|| sizes.grid.map_or(Ok([1; 3]), attribute::extent), Ok)?;
        let shared = self.shared.map_or_else(|| attribute::bytes(sizes.shared), Ok)?;
        Ok(Size { grid, shared, cooperative: self.cooperative || sizes.cooperative })
    }

    /// The options of the launch.
    pub(crate) fn options(&self) -> Options {
        let default = Options::default();
        Options { seed: self.seed, step_limit: self.steps.or(default.step_limit), ..default }
    }

    /// The entry that is asked for, or the only one.
    pub(crate) fn entry_of<'a>(&'a self, names: Vec<&'a str>) -> Result<&'a str, Failure> {
        match (&self.entry, &names[..]) {
            (Some(name), _) => Ok(name),
            (None, [only]) => Ok(only),
            (None, _) => {
                Err(Failure::usage(format!("say which `--entry`: the file has {} ({})", names.len(), names.join(", "))))
            }
        }
    }

    /// Threads of a block: those that were asked for, or those that the entry requires.
    pub(crate) fn block_of(&self, module: &Module, entry: &str) -> Extent {
        self.block.unwrap_or_else(|| required(module, entry, "reqntid"))
    }

    /// Blocks of a cluster, likewise.
    pub(crate) fn cluster_of(&self, module: &Module, entry: &str) -> Extent {
        self.cluster.unwrap_or_else(|| required(module, entry, "reqnctapercluster"))
    }

    /// Checks that there are as many arguments as parameters, and that no float stands for an integer.
    pub(crate) fn check_arguments(&self, declared: &[&Variable]) -> Result<(), Failure> {
        if self.args.len() == declared.len() {
            return self.args.iter().zip(declared).try_for_each(|(argument, variable)| check_class(argument, variable));
        }
        let names: Vec<String> = declared.iter().map(|v| format!(".{} {}", v.ty.name(), v.name)).collect();
        let (given, wanted) = (self.args.len(), declared.len());
        Err(Failure::usage(format!(
            "{given} `--arg`; the kernel takes {wanted} ({})\nhelp: one `--arg` a parameter, in order: `@in.bin` is a buffer that a file \
             fills, `out.bin:4096` one of zeros that becomes a file, `u32:5` a scalar; `ptx run --help` has all",
            names.join(", ")
        )))
    }
}

/// The size of a launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Blocks.
    pub(crate) grid: Extent,
    /// Bytes of dynamic shared memory.
    pub(crate) shared: u32,
    /// True if all blocks are resident at once.
    pub(crate) cooperative: bool,
}

/// A kernel that can be launched.
pub(crate) struct Bound<'a> {
    size: Size,
    pub(crate) machine: Machine,
    pub(crate) entry: &'a str,
    pub(crate) block: Extent,
    pub(crate) cluster: Extent,
    params: Vec<u8>,
    outputs: Vec<Output<'a>>,
}

impl Bound<'_> {
    /// Launches the kernel as `run` does; `None` if the interpreter objects, which is printed.
    pub(crate) fn launch<R>(
        &mut self,
        source: &Source,
        options: Options,
        run: impl FnOnce(&mut Machine, &Launch) -> Result<R, Fault>,
        out: &mut dyn Write,
    ) -> Result<Option<R>, Failure> {
        let launch = Launch {
            entry: self.entry,
            grid: self.size.grid,
            block: self.block,
            cluster: self.cluster,
            dynamic_shared: self.size.shared,
            cooperative: self.size.cooperative,
            params: &self.params,
            options,
        };
        match run(&mut self.machine, &launch) {
            Ok(result) => Ok(Some(result)),
            Err(fault) if fault.kind == FaultKind::Launch => {
                let advice = fault.advice().iter().map(|help| format!("; {help}"));
                Err(Failure::usage(fault.message.clone() + &advice.collect::<String>()))
            }
            Err(fault) => {
                writeln!(out, "{}", render::fault(source, &fault, color()))?;
                Ok(None)
            }
        }
    }

    pub(crate) fn grid(&self) -> Extent {
        self.size.grid
    }

    pub(crate) fn dynamic_shared(&self) -> u32 {
        self.size.shared
    }

    /// Writes the buffers that become files.
    pub(crate) fn save(&self) -> Result<(), Failure> {
        self.outputs.iter().try_for_each(|output| output.save(&self.machine))
    }

    /// The contents of the buffers that become files.
    pub(crate) fn contents(&self) -> Result<Vec<Vec<u8>>, Failure> {
        self.outputs.iter().map(|output| output.bytes(&self.machine)).collect()
    }
}

/// Prints the errors of a file.
pub(crate) fn refuse(source: &Source, diagnostics: &[Diagnostic], out: &mut dyn Write) -> Outcome {
    let errors: Vec<Diagnostic> = diagnostics.iter().filter(|d| d.is_error()).cloned().collect();
    render::refusal(out, source, &errors, color())?;
    Ok(false)
}

pub(crate) fn color() -> bool {
    std::io::stdout().is_terminal()
}

/// The requirement of an entry's directive on a launch, or 1.
fn required(module: &Module, entry: &str, directive: &str) -> Extent {
    let function = module.functions.iter().find(|f| f.entry && f.defined && f.name == entry);
    let limit = function.and_then(|f| f.limit(directive));
    let value = |at: usize| limit.and_then(|limit| u32::try_from(*limit.values.get(at)?).ok()).unwrap_or(1);
    [value(0), value(1), value(2)]
}

/// The parameters of an entry; none if there is no such entry, which the launch will tell.
pub(crate) fn declared<'m>(module: &'m Module, entry: &str) -> Vec<&'m Variable> {
    let function = module.functions.iter().find(|f| f.entry && f.defined && f.name == entry);
    let variable = |param: &Param| match param {
        Param::Var(id) => module.variables.get(id.index()),
        Param::Reg(_) => None,
    };
    function.map(|f| f.params.iter().filter_map(variable).collect()).unwrap_or_default()
}

/// Checks that a scalar is a float where the parameter is one, and an integer where it is one; `.b32` takes both.
fn check_class(argument: &Argument, variable: &Variable) -> Result<(), Failure> {
    let Argument::Scalar(ty, _) = argument else { return Ok(()) };
    let classes = [ty.class(), variable.ty.class()];
    if classes.contains(&Class::Bits) || (classes[0] == Class::Float) == (classes[1] == Class::Float) {
        return Ok(());
    }
    let (name, own, given) = (&variable.name, variable.ty.name(), ty.name());
    Err(Failure::usage(format!("the parameter `{name}` is a .{own}, and the argument is a .{given}")))
}

fn unusable(fault: Fault) -> Failure {
    Failure::usage(fault.to_string())
}
