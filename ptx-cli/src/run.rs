//! `ptx run`: one launch of one entry.

mod argument;
mod cuda;
mod patience;
mod prepared;
mod texture;

use crate::output::{Failure, Outcome};
use crate::source::{Source, read_bytes};
use crate::{kernels, memory, render, write};
use argument::Argument;
use clap::ValueEnum;
pub(crate) use prepared::Prepared;
use ptx_core::check::{Checked, check};
use ptx_core::diag::Diagnostic;
use ptx_core::ir::{Module, Param, Variable};
use ptx_core::isa::Class;
use ptx_interp::{Fault, FaultKind, Launch, Machine, Options, Program, Traced, Tracer};
use std::fs::File;
use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A PTX file, or a Rust source file with kernels.
    file: PathBuf,
    /// The kernel; may be left out if there is only one.
    #[arg(long)]
    entry: Option<String>,
    /// Blocks: 4, or 4,2,1.
    #[arg(long, value_parser = extent, default_value = "1")]
    grid: Extent,
    /// Threads of a block: 64, or 16,16,1; else what the entry requires, or 1.
    #[arg(long, value_parser = extent)]
    block: Option<Extent>,
    /// Blocks of a cluster: 2, or 2,1,1; else what the entry requires, or 1.
    #[arg(long, value_parser = extent)]
    cluster: Option<Extent>,
    /// Bytes of dynamic shared memory.
    #[arg(long, default_value_t = 0)]
    shared: u32,
    /// Launch cooperatively: all blocks are resident at once, and may wait for each other.
    #[arg(long)]
    cooperative: bool,
    /// One a parameter, in order: a scalar (u32:5, f32:1.5), a buffer read from a file (@in.bin), or a zeroed buffer
    /// of that many bytes, written to a file after the run (out.bin:4096), or a struct by value from a file (bytes@in.bin), or a texture of a file's texels: width, height and
    /// depth, and how it is read (tex:u8x4:64,32:linear,wrap,normalized@in.bin).
    #[arg(long = "arg", value_parser = argument::parse)]
    args: Vec<Argument>,
    /// Another interleaving of the threads; a finding names the seed that repeats it.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Number of interleavings to try, from `--seed` on, until one has a finding.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// After how many warp instructions a launch counts as endless; without it, when no block has ended for 15 seconds, or after
    /// 1000000000.
    #[arg(long)]
    steps: Option<u64>,
    /// Look at bounds and alignment only: no races, no reads of what nothing wrote. Some three times faster.
    #[arg(long)]
    no_watch: bool,
    /// Print each instruction of a thread with the values of its registers: 5 (of the first block), or 3,0,0:5,0,0
    /// (block and thread). May be given several times.
    #[arg(long, value_parser = traced)]
    trace: Vec<([u32; 3], [u32; 3])>,
    /// The device that runs the kernel.
    #[arg(long, value_enum, default_value_t = Device::Cpu)]
    device: Device,
    #[command(flatten)]
    kernels: kernels::Choices,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Device {
    /// The interpreter: every access checked.
    Cpu,
    /// The first CUDA GPU.
    Cuda,
}

/// x, y, z.
type Extent = [u32; 3];

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

/// A thread, or a block and a thread.
fn traced(text: &str) -> Result<(Extent, Extent), String> {
    let wrong = || "a thread such as 5, or a block and a thread such as 3:5 or 0,1:16,2".to_owned();
    let triple = |text: &str| -> Result<Extent, String> {
        let mut triple = [0; 3];
        for (at, number) in text.split(',').enumerate() {
            *triple.get_mut(at).ok_or_else(wrong)? = number.parse().map_err(|_| wrong())?;
        }
        Ok(triple)
    };
    let (block, thread) = text.split_once(':').unwrap_or(("0", text));
    Ok((triple(block)?, triple(thread)?))
}

/// Sound if the file has no errors and the interpreter no objection.
pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> Outcome {
    for argument in &arguments.args {
        if let Argument::Output(path, _) = argument
            && write::is_same_file(path, &arguments.file)
        {
            let text = format!("{}: this is the PTX, which a buffer would replace", path.display());
            return Err(Failure::usage(text));
        }
    }
    let source = match kernels::is_source(&arguments.file) {
        true => match kernels::as_ptx(&arguments.file, arguments.entry.as_deref(), &arguments.kernels, out)? {
            Some(source) => source,
            None => return Ok(false),
        },
        false => Source::read(&arguments.file)?,
    };
    let (tree, earlier) = source.parse();
    let (checked, diagnostics) = check(tree, earlier, &Default::default());
    let Some(checked) = checked else { return refuse(&source, &diagnostics, out) };
    if arguments.device == Device::Cuda {
        return cuda::launch(arguments, &source, &checked, out);
    }
    match Program::new(&checked) {
        Ok(program) => launch(arguments, &source, &checked, &program, out),
        Err(diagnostics) => refuse(&source, &diagnostics, out),
    }
}

fn refuse(source: &Source, diagnostics: &[Diagnostic], out: &mut dyn Write) -> Outcome {
    let errors: Vec<Diagnostic> = diagnostics.iter().filter(|d| d.is_error()).cloned().collect();
    render::refusal(out, source, &errors, color())?;
    Ok(false)
}

/// One launch for each seed, each with a memory of its own; the buffers of the first one are kept.
fn launch(
    arguments: &Arguments,
    source: &Source,
    checked: &Checked,
    program: &Program,
    out: &mut dyn Write,
) -> Outcome {
    let mut kept = None;
    for seed in arguments.seed..arguments.seed.saturating_add(arguments.seeds.max(1)) {
        let (first, tracer) = (kept.is_none(), follow(arguments, source));
        let Some(left) = launch_with(arguments, (source, checked, program), (seed, first), tracer, out)? else {
            return Ok(false);
        };
        let first = kept.get_or_insert_with(|| left.clone());
        if *first != left {
            writeln!(out, "the buffers of seed {seed} differ from those of seed {}", arguments.seed)?;
            return Ok(true);
        }
    }
    Ok(true)
}

/// Contents of the buffers that become files; nothing if there was a finding.
fn launch_with(
    arguments: &Arguments,
    (source, checked, program): (&Source, &Checked, &Program),
    (seed, keep): (u64, bool),
    tracer: Option<Tracer>,
    out: &mut dyn Write,
) -> Result<Option<Vec<Vec<u8>>>, Failure> {
    let entry = entry_of(arguments, program.entries().collect())?;
    let mut machine = Machine::new();
    if let Some(bytes) = memory::for_buffers() {
        machine.limit_memory(bytes);
    }
    let declared = declared(checked.module(), entry);
    check_arguments(arguments, &declared)?;
    let (params, outputs) = parameters(&mut machine, &arguments.args, &declared)?;
    let launch = Launch {
        entry,
        grid: arguments.grid,
        block: arguments.block.unwrap_or_else(|| required(checked.module(), entry, "reqntid")),
        cluster: arguments.cluster.unwrap_or_else(|| required(checked.module(), entry, "reqnctapercluster")),
        dynamic_shared: arguments.shared,
        cooperative: arguments.cooperative,
        params: &params,
        options: Options { seed, ..options(arguments) },
    };
    // Who follows threads, as a debugger does, reads as long as they run.
    machine.report(tracer.is_none().then(|| patience::reporter(arguments)));
    machine.trace(tracer);
    match machine.launch(program, &launch) {
        Ok(stats) => {
            if keep {
                write!(out, "{}", stats.printed)?;
                outputs.iter().try_for_each(|output| output.save(&machine))?;
            }
            // Buffers may be large: they are copied only to be compared with those of other seeds.
            let copied = outputs.iter().filter(|_| arguments.seeds > 1);
            copied.map(|output| output.bytes(&machine)).collect::<Result<_, _>>().map(Some)
        }
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

fn options(arguments: &Arguments) -> Options {
    let default = Options::default();
    let step_limit = arguments.steps.or(default.step_limit);
    Options { watch: !arguments.no_watch, seed: arguments.seed, step_limit }
}

/// Prints a line for each instruction of the threads to follow, while the machine runs.
fn follow(arguments: &Arguments, source: &Source) -> Option<Tracer> {
    if arguments.trace.is_empty() {
        return None;
    }
    let text = source.bytes.clone();
    // A closed pipe is no reason to stop the kernel.
    let tell = move |traced: &Traced| drop(writeln!(std::io::stdout(), "{}", line(&text, traced)));
    Some(Tracer::new(arguments.trace.clone(), tell))
}

/// `(0, 0, 0) (5, 0, 0)  add.s32 %r1, %r2, %r3;  %r1=0x7 <- %r2=0x3 %r3=0x4`
fn line(text: &[u8], traced: &Traced) -> String {
    let bytes = text.get(traced.span.lo as usize..traced.span.hi as usize).unwrap_or_default();
    let words: Vec<_> = String::from_utf8_lossy(bytes).split_whitespace().map(str::to_owned).collect();
    let told = |registers: &[(&str, u64)]| {
        registers.iter().map(|(name, value)| format!("{name}={value:#x}")).collect::<Vec<_>>().join(" ")
    };
    let values = [told(&traced.writes), told(&traced.reads)].into_iter().filter(|part| !part.is_empty());
    let values = values.collect::<Vec<_>>().join(" <- ");
    let place = |[x, y, z]: [u32; 3]| format!("({x}, {y}, {z})");
    let (block, thread) = (place(traced.block), place(traced.thread));
    format!("block {block} thread {thread}  {:<48}  {}", words.join(" "), values)
}

fn color() -> bool {
    std::io::stdout().is_terminal()
}

/// The entry that is asked for, or the only one.
fn entry_of<'a>(arguments: &'a Arguments, names: Vec<&'a str>) -> Result<&'a str, Failure> {
    match (&arguments.entry, &names[..]) {
        (Some(name), _) => Ok(name),
        (None, [only]) => Ok(only),
        (None, _) => {
            Err(Failure::usage(format!("say which `--entry`: the file has {} ({})", names.len(), names.join(", "))))
        }
    }
}

/// The requirement of an entry's directive on a launch, or 1.
fn required(module: &Module, entry: &str, directive: &str) -> Extent {
    let function = module.functions.iter().find(|f| f.entry && f.defined && f.name == entry);
    let limit = function.and_then(|f| f.limit(directive));
    let value = |at: usize| limit.and_then(|limit| u32::try_from(*limit.values.get(at)?).ok()).unwrap_or(1);
    [value(0), value(1), value(2)]
}

/// The parameters of an entry; none if there is no such entry, which the launch will tell.
fn declared<'m>(module: &'m Module, entry: &str) -> Vec<&'m Variable> {
    let function = module.functions.iter().find(|f| f.entry && f.defined && f.name == entry);
    let variable = |param: &Param| match param {
        Param::Var(id) => module.variables.get(id.index()),
        Param::Reg(_) => None,
    };
    function.map(|f| f.params.iter().filter_map(variable).collect()).unwrap_or_default()
}

/// Checks that there are as many arguments as parameters, and that no float stands for an integer.
fn check_arguments(arguments: &Arguments, declared: &[&Variable]) -> Result<(), Failure> {
    if arguments.args.len() == declared.len() {
        return arguments
            .args
            .iter()
            .zip(declared)
            .try_for_each(|(argument, variable)| check_class(argument, variable));
    }
    let names: Vec<String> = declared.iter().map(|v| format!(".{} {}", v.ty.name(), v.name)).collect();
    let (given, wanted) = (arguments.args.len(), declared.len());
    Err(Failure::usage(format!("{given} `--arg`; the kernel takes {wanted} ({})", names.join(", "))))
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

/// Bytes of a buffer copied at a time.
const PIECE: usize = 1 << 20;

/// A buffer that becomes a file after the run.
struct Output<'a> {
    path: &'a PathBuf,
    address: u64,
    bytes: u64,
}

impl Output<'_> {
    fn bytes(&self, machine: &Machine) -> Result<Vec<u8>, Failure> {
        let mut bytes = vec![0; usize::try_from(self.bytes).unwrap_or(usize::MAX)];
        machine.read(self.address, &mut bytes).map_err(unusable)?;
        Ok(bytes)
    }

    fn save(&self, machine: &Machine) -> Result<(), Failure> {
        write::replace_with(self.path, |out| {
            let mut piece = vec![0; PIECE];
            for at in (0..self.bytes).step_by(PIECE) {
                let length = PIECE.min(usize::try_from(self.bytes - at).unwrap_or(PIECE));
                machine.read(self.address + at, &mut piece[..length]).map_err(unusable)?;
                out.write_all(&piece[..length])?;
            }
            Ok(())
        })
    }
}

fn unusable(fault: Fault) -> Failure {
    Failure::usage(fault.to_string())
}

/// The bytes of the parameters, each at a multiple of its alignment, and the buffers to save.
fn parameters<'a>(
    machine: &mut Machine,
    arguments: &'a [Argument],
    declared: &[&Variable],
) -> Result<(Vec<u8>, Vec<Output<'a>>), Failure> {
    let (mut params, mut outputs) = (Vec::new(), Vec::new());
    for (argument, variable) in arguments.iter().zip(declared) {
        let value = place(machine, argument, &mut outputs)?;
        if value.len() as u64 != variable.size {
            let (has, wants) = (value.len(), variable.size);
            let text = format!("the argument for `{}` has {has} bytes; the parameter has {wants}", variable.name);
            // An address is given for what is passed by value.
            let by_value = matches!(argument, Argument::Input(_) | Argument::Output(..));
            let help = if by_value { "; `--arg bytes@in.bin` passes what a file holds by value" } else { "" };
            let text = text + help;
            return Err(Failure::usage(text));
        }
        let align = usize::try_from(variable.align.max(1)).unwrap_or(1);
        params.resize(params.len().next_multiple_of(align), 0);
        params.extend(value);
    }
    Ok((params, outputs))
}

/// The bytes of one parameter: those of the scalar, or the address of its buffer.
fn place<'a>(machine: &mut Machine, argument: &'a Argument, outputs: &mut Vec<Output<'a>>) -> Result<Vec<u8>, Failure> {
    let address = match argument {
        Argument::Scalar(_, bytes) => return Ok(bytes.clone()),
        Argument::Struct(path) => return read_bytes(path, "an argument has at most 32764 bytes"),
        Argument::Input(path) => upload(machine, path, |_| Ok(()))?,
        Argument::Texture(texels) => {
            let address = upload(machine, &texels.path, |bytes| texels.fits(bytes).map_err(Failure::usage))?;
            machine.texture(texels.at(address)).map_err(unusable)?
        }
        Argument::Output(path, bytes) => {
            let (address, bytes) = (machine.alloc(*bytes).map_err(unusable)?, *bytes);
            // The zeros are the host's: a kernel may read them.
            let zeros = vec![0; PIECE];
            for at in (0..bytes).step_by(PIECE) {
                let length = PIECE.min(usize::try_from(bytes - at).unwrap_or(PIECE));
                machine.write(address + at, &zeros[..length]).map_err(unusable)?;
            }
            outputs.push(Output { path, address, bytes });
            address
        }
    };
    Ok(address.to_le_bytes().to_vec())
}

/// A file's bytes in the machine's memory, if there are as many as are wanted.
fn upload(machine: &mut Machine, path: &Path, wanted: impl FnOnce(u64) -> Result<(), Failure>) -> Result<u64, Failure> {
    let failed = |e: std::io::Error| Failure::usage(format!("{}: {e}", path.display()));
    let mut file = File::open(path).map_err(failed)?;
    let described = file.metadata().map_err(failed)?;
    if !described.is_file() {
        // A pipe does not say how much it holds.
        let bytes = read_bytes(path, "a pipe may give 1 GiB; write a file")?;
        wanted(bytes.len() as u64)?;
        let address = machine.alloc(bytes.len() as u64).map_err(unusable)?;
        machine.write(address, &bytes).map_err(unusable)?;
        return Ok(address);
    }
    let bytes = described.len();
    wanted(bytes)?;
    let address = machine.alloc(bytes).map_err(unusable)?;
    let mut piece = vec![0; PIECE];
    for at in (0..bytes).step_by(PIECE) {
        let length = PIECE.min(usize::try_from(bytes - at).unwrap_or(PIECE));
        file.read_exact(&mut piece[..length]).map_err(failed)?;
        machine.write(address + at, &piece[..length]).map_err(unusable)?;
    }
    Ok(address)
}
