//! `ptx prove`: the properties of an entry for every launch of a contract.

mod kernel;
mod pipeline;
mod replay;
mod sample;
mod show;

use crate::output::{Failure, Outcome};
use crate::source::Source;
use crate::{kernels, render};
use clap::ValueEnum;
use ptx_core::check::{Checked, check};
use ptx_core::diag::Diagnostic;
use ptx_core::ir::{Function, Module, Param, Variable};
use ptx_expand::program::contract::Reader;
use ptx_prove::pipeline::explore;
use ptx_prove::{Contract, Passed, Refusal, Report, Verdict, prove, signed_params};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;

/// The alignment of memory from the driver's allocator.
const ALLOCATED: u64 = 256;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A PTX file, or a Rust source file with kernels.
    file: PathBuf,
    /// The kernel; may be left out if there is only one.
    #[arg(long)]
    entry: Option<String>,
    /// Threads of a block: 256, or 16,16,1; else what the entry requires.
    #[arg(long, value_parser = crate::launch::extent)]
    block: Option<[u32; 3]>,
    /// Blocks: an expression such as `n.div_ceil(256)`, or `(a, b)`; any grid if absent. Names are parameters of the kernel, and others are free
    /// numbers.
    #[arg(long)]
    grid: Option<String>,
    /// Blocks of a cluster: 2, or 2,1,1; else what the entry requires, or 1.
    #[arg(long, value_parser = crate::launch::extent)]
    cluster: Option<[u32; 3]>,
    /// Bytes of dynamic shared memory.
    #[arg(long, default_value_t = 0)]
    shared: u32,
    /// Launches are cooperative, as the attribute of a Rust file may say: all blocks are resident at once.
    #[arg(long)]
    cooperative: bool,
    /// A condition that every launch fulfills, such as `len(x) >= 4 * n`; lengths are in bytes. May be given several times.
    #[arg(long)]
    assume: Vec<String>,
    /// Decides the pipeline of `mbarrier`s alone, which takes seconds where the other properties take minutes.
    #[arg(long)]
    pipeline: bool,
    /// Bytes of a box of a tensor map, such as `a=16384`: the parameter and the bytes that one copy brings. May be given several times.
    #[arg(long = "box", value_name = "NAME=BYTES", value_parser = pipeline::bytes)]
    boxes: Vec<(String, u64)>,
    /// A tensor map whose memory nothing accesses but copies by it, with the extents of its boxes, the innermost one first, if the kernel stores by it, such as
    /// `c=64,64,1`. May be given several times.
    #[arg(long = "own-map", value_name = "NAME=EXTENTS", value_parser = pipeline::mapped)]
    mapped: Vec<ptx_prove::Mapped>,
    /// Format of the verdicts.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    kernels: kernels::Choices,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// One JSON object a line, for each instruction and property.
    Json,
}

/// A proof and the things that its messages name.
pub(crate) struct Proof<'a> {
    pub(crate) source: &'a Source,
    pub(crate) checked: &'a Checked,
    pub(crate) entry: &'a Function,
    pub(crate) contract: Contract,
    /// Bytes of the boxes of tensor maps, by parameter.
    pub(crate) boxes: Vec<(String, u64)>,
    /// The parameters of the entry.
    pub(crate) params: Vec<&'a Variable>,
    /// The command line that runs the file.
    pub(crate) run: String,
}

impl Arguments {
    /// The command line that runs the file, without a launch.
    fn run(&self) -> String {
        let file = kernels::shell_word(&self.file.display().to_string());
        format!("ptx run {file}{}", self.kernels.words())
    }
}

/// Sound if everything is proved.
pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> Outcome {
    if arguments.kernels.apply_to(&arguments.file)? {
        return kernel::run(arguments, out);
    }
    let source = Source::read(&arguments.file)?;
    let checked = checked(&source, out)?;
    let entry = entry_of(arguments, checked.module())?;
    let params = params(&checked, entry);
    let contract = contract(arguments, checked.module(), entry, &params)?;
    let boxes = arguments.boxes.clone();
    let run = arguments.run();
    let proof = Proof { source: &source, checked: &checked, entry, contract, boxes, params, run };
    let (report, is_whole) = decide(&proof, arguments, out)?;
    verdict(&report, is_whole)
}

/// The module of a text. Of one with errors, which are printed, nothing is decided.
fn checked(source: &Source, out: &mut dyn Write) -> Result<Checked, Failure> {
    let (tree, earlier) = source.parse();
    let (checked, diagnostics) = check(tree, earlier, &Default::default());
    if checked.is_none() {
        let errors: Vec<Diagnostic> = diagnostics.iter().filter(|found| found.is_error()).cloned().collect();
        render::refusal(out, source, &errors, std::io::stdout().is_terminal())?;
    }
    checked.ok_or(Failure::Undecided)
}

fn params<'m>(checked: &'m Checked, entry: &Function) -> Vec<&'m Variable> {
    entry.params.iter().filter_map(|param| variable(checked.module(), *param)).collect()
}

/// Proves an entry, and prints the verdicts; false if its pipeline is not proved.
fn decide(proof: &Proof<'_>, arguments: &Arguments, out: &mut dyn Write) -> Result<(Report, bool), Failure> {
    let format = arguments.format;
    if arguments.pipeline {
        let pipeline = explore(proof.checked, &proof.entry.name, &proof.contract, &proof.boxes);
        let report = Report { pipeline, ..Report::default() };
        let is_whole = pipeline::decide(proof, &report, format, out)?;
        return Ok((report, is_whole));
    }
    let mut report =
        prove(proof.checked, &proof.entry.name, &proof.contract).map_err(|refusal| Failure::usage(refused(refusal)))?;
    let skipped = replay::confirm(proof, &mut report);
    sample::explore(proof, &mut report);
    match format {
        Format::Text => show::text(proof, &report, &skipped, out)?,
        Format::Json => show::json(proof, &report, &skipped, out)?,
    }
    let is_whole = pipeline::decide(proof, &report, format, out)?;
    Ok((report, is_whole))
}

fn verdict(report: &Report, is_whole: bool) -> Outcome {
    match (report.is_refuted(), report.is_proved() && is_whole) {
        (true, _) => Ok(false),
        (false, true) => Ok(true),
        (false, false) => Err(Failure::Undecided),
    }
}

fn refused(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::NoEntry => "there is no such entry",
        Refusal::Block => "a block has 1 to 1024 threads; help: `--block 256`",
        Refusal::Expression => {
            "an expression of `--grid` or `--assume` has no value in some launch, or mixes numbers and conditions; help: divide by constants, and \
             write conditions such as `len(x) >= 4 * n`"
        }
    }
}

fn variable(module: &Module, param: Param) -> Option<&Variable> {
    match param {
        Param::Var(id) => module.variables.get(id.index()),
        Param::Reg(_) => None,
    }
}

/// The entry that is asked for, or the only one.
fn entry_of<'m>(arguments: &Arguments, module: &'m Module) -> Result<&'m Function, Failure> {
    let entries: Vec<&Function> = module.functions.iter().filter(|f| f.entry && f.defined).collect();
    let names = || entries.iter().map(|entry| format!("`{}`", entry.name)).collect::<Vec<_>>().join(", ");
    match (&arguments.entry, entries.as_slice()) {
        (Some(name), _) => entries
            .iter()
            .find(|entry| entry.name == *name)
            .copied()
            .ok_or_else(|| Failure::usage(format!("there is no entry `{name}`; the file has {}", names()))),
        (None, [only]) => Ok(only),
        (None, []) => Err(Failure::usage("the file has no entry")),
        (None, _) => Err(Failure::usage(format!("choose one with `--entry`: {}", names()))),
    }
}

/// The launches of the command line.
fn contract(
    arguments: &Arguments,
    module: &Module,
    entry: &Function,
    params: &[&Variable],
) -> Result<Contract, Failure> {
    let required = |name: &str| {
        let limit = entry.limit(name)?;
        let value = |at: usize| limit.values.get(at).and_then(|value| u32::try_from(*value).ok()).unwrap_or(1);
        Some([value(0), value(1), value(2)])
    };
    let Some(block) = arguments.block.or_else(|| required("reqntid")) else {
        return Err(Failure::usage("say how many threads a block has; help: `--block 256`"));
    };
    let mut reader = Reader::new(params.iter().map(|param| param.name.clone()));
    let mut read = |option: &str, text: &str| {
        reader.read(text).map_err(|problem| {
            let help = problem.help.iter().map(|help| format!("\nhelp: {help}")).collect::<String>();
            let names = params.iter().map(|param| format!("`{}`", param.name)).collect::<Vec<_>>().join(", ");
            let names = if text.contains("len(") { format!("\nthe parameters are {names}") } else { String::new() };
            Failure::usage(format!("`{option} '{text}'`: {}{help}{names}", problem.message))
        })
    };
    let grid = arguments.grid.as_deref().map(|text| read("--grid", text)).transpose()?;
    let assume = arguments.assume.iter().map(|text| read("--assume", text)).collect::<Result<_, _>>()?;
    let signed = signed_params(module, entry);
    Ok(Contract {
        block,
        cluster: arguments.cluster.or_else(|| required("reqnctapercluster")).unwrap_or([1; 3]),
        grid,
        shared: arguments.shared.into(),
        assume,
        params: (0..params.len()).map(Passed::Argument).collect(),
        elements: vec![1; params.len()],
        align: Some(ALLOCATED),
        aligns: Vec::new(),
        absent: false,
        signed,
        overlaps: false,
        cooperative: arguments.cooperative,
        boxes: arguments.boxes.clone(),
        maps: Vec::new(),
        mapped: arguments.mapped.clone(),
        tables: Vec::new(),
        regions: Vec::new(),
        offsets: Vec::new(),
        distinct: Vec::new(),
        numbers: reader.into_numbers(),
        partial: false,
        samples: true,
    })
}

/// The name of a verdict.
fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Proved => "proved",
        Verdict::Refuted(_) => "refuted",
        Verdict::Unknown(_) => "unknown",
    }
}
