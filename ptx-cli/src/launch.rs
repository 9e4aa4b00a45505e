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
use ptx_runtime::{Config, Dim};
use std::fmt::Display;
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
        let source = match self.kernels.apply_to(&self.file)? {
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
        let entry = self.entry_of(source, program.entries().collect())?;
        let mut machine = Machine::new();
        if let Some(bytes) = memory::for_buffers() {
            machine.limit_memory(bytes);
        }
        let module = checked.module();
        let declared = declared(module, entry);
        self.check_arguments(&declared)?;
        let (params, outputs) = parameters(&mut machine, &self.args, &declared)?;
        let size = self.size_of(source, module, entry)?;
        Ok(Bound { machine, entry, size, params, outputs })
    }

    /// The sizes of the launch: from the options, or else from the attribute of a kernel in a Rust file and the directives of the entry.
    pub(crate) fn size_of(&self, source: &Source, module: &Module, entry: &str) -> Result<Size, Failure> {
        let sizes = match &source.kernel {
            // An attribute that only a build evaluates leaves the sizes to the command.
            Some(kernel) if kernel.launch.is_ok() || self.grid.is_none() => {
                Attribute { kernel, arguments: &self.args }.sizes()?
            }
            _ => Config::new().sizes(),
        };
        let of_attribute = |size: Option<Dim>| size.map(attribute::extent).transpose();
        let grid = of_attribute(sizes.grid)?;
        let shared = sizes.shared.map(|bytes| attribute::bytes(Some(bytes))).transpose()?;
        note_other("--grid", self.grid.map(shown), grid.map(shown));
        note_other("--shared", self.shared, shared);
        let block = same("block", self.block, of_attribute(sizes.block)?)?;
        let cluster = same("cluster", self.cluster, of_attribute(sizes.cluster)?)?;
        Ok(Size {
            grid: self.grid.or(grid).unwrap_or([1; 3]),
            block: block.unwrap_or_else(|| required(module, entry, "reqntid")),
            cluster: cluster.unwrap_or_else(|| required(module, entry, "reqnctapercluster")),
            shared: self.shared.or(shared).unwrap_or(0),
            cooperative: self.cooperative || sizes.cooperative,
        })
    }

    /// The options of the launch.
    pub(crate) fn options(&self) -> Options {
        let default = Options::default();
        Options { seed: self.seed, step_limit: self.steps.or(default.step_limit), ..default }
    }

    /// The entry that is asked for, or the only one. An entry of a Rust file also has the name of its kernel.
    pub(crate) fn entry_of<'a>(&'a self, source: &Source, names: Vec<&'a str>) -> Result<&'a str, Failure> {
        let of_kernel = source.kernel.as_ref().and_then(|own| names.iter().find(|name| **name == own.entry));
        if let Some(entry) = of_kernel {
            return Ok(entry);
        }
        match (&self.entry, &names[..]) {
            (Some(name), _) if source.written.is_none() || names.contains(&name.as_str()) => Ok(name),
            (None, [only]) => Ok(only),
            _ => {
                Err(Failure::usage(format!("say which `--entry`: the file has {} ({})", names.len(), names.join(", "))))
            }
        }
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

/// The size that is given, or else that of the attribute. The kernel is compiled for the latter, so that no other one is right.
fn same(name: &str, given: Option<Extent>, of_attribute: Option<Extent>) -> Result<Option<Extent>, Failure> {
    match (given, of_attribute) {
        (Some(given), Some(own)) if given != own => Err(Failure::usage(format!(
            "`--{name} {}` is not the {name} of the kernel's attribute, {}; help: leave `--{name}` out, or change the attribute",
            shown(given),
            shown(own)
        ))),
        (given, own) => Ok(given.or(own)),
    }
}

/// Tells that an option takes the place of another value of the attribute.
fn note_other<T: PartialEq + Display>(option: &str, given: Option<T>, of_attribute: Option<T>) {
    if let (Some(given), Some(own)) = (given, of_attribute)
        && given != own
    {
        let _ = writeln!(std::io::stderr(), "note: `{option} {given}` takes the place of the attribute's {own}");
    }
}

/// `32,8`: an extent as options take it.
pub(crate) fn shown([x, y, z]: Extent) -> String {
    match (y, z) {
        (1, 1) => x.to_string(),
        (_, 1) => format!("{x},{y}"),
        _ => format!("{x},{y},{z}"),
    }
}

/// The size of a launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Blocks.
    pub(crate) grid: Extent,
    /// Threads of a block.
    pub(crate) block: Extent,
    /// Blocks of a cluster.
    pub(crate) cluster: Extent,
    /// Bytes of dynamic shared memory.
    pub(crate) shared: u32,
    /// True if all blocks are resident at once.
    pub(crate) cooperative: bool,
}

/// A kernel that can be launched.
pub(crate) struct Bound<'a> {
    pub(crate) size: Size,
    pub(crate) machine: Machine,
    pub(crate) entry: &'a str,
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
            block: self.size.block,
            cluster: self.size.cluster,
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
