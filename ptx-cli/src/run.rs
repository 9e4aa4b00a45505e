//! `ptx run`: one launch of one entry.

pub(crate) mod cuda;
mod patience;
mod prepared;

use crate::launch::{Extent, LaunchArguments, refuse};
use crate::output::{Failure, Outcome};
use crate::source::Source;
use clap::ValueEnum;
pub(crate) use prepared::Prepared;
use ptx_core::check::Checked;
use ptx_interp::{Options, Program, Traced, Tracer};
use std::io::Write;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    kernel: LaunchArguments,
    /// Number of interleavings to try, from `--seed` on, until one has a finding.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
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
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Device {
    /// The interpreter: every access checked.
    Cpu,
    /// The first CUDA GPU.
    Cuda,
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
    let Some((source, checked)) = arguments.kernel.read(out)? else { return Ok(false) };
    if arguments.device == Device::Cuda {
        return cuda::launch(arguments, &source, &checked, out);
    }
    match Program::new(&checked) {
        Ok(program) => launch(arguments, &source, &checked, &program, out),
        Err(diagnostics) => refuse(&source, &diagnostics, out),
    }
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
    for seed in arguments.kernel.seed..arguments.kernel.seed.saturating_add(arguments.seeds.max(1)) {
        let (first, tracer) = (kept.is_none(), follow(arguments, source));
        let Some(left) = launch_with(arguments, (source, checked, program), (seed, first), tracer, out)? else {
            return Ok(false);
        };
        let first = kept.get_or_insert_with(|| left.clone());
        if *first != left {
            writeln!(out, "the buffers of seed {seed} differ from those of seed {}", arguments.kernel.seed)?;
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
    let mut bound = arguments.kernel.bind(source, checked, program)?;
    // Who follows threads, as a debugger does, reads as long as they run.
    bound.machine.report(tracer.is_none().then(|| patience::reporter(arguments)));
    bound.machine.trace(tracer);
    let options = Options { seed, watch: !arguments.no_watch, ..arguments.kernel.options() };
    let stats = bound.launch(source, options, |machine, launch| machine.launch(program, launch), out)?;
    let Some(stats) = stats else { return Ok(None) };
    if keep {
        write!(out, "{}", stats.printed)?;
        bound.save()?;
    }
    // Buffers may be large: they are copied only to be compared with those of other seeds.
    if arguments.seeds > 1 { bound.contents().map(Some) } else { Ok(Some(Vec::new())) }
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
