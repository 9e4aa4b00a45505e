//! Kernels of the kernel language: the contract is that of their attributes.

use super::{Arguments, Proof, checked, decide, params, verdict};
use crate::kernels;
use crate::output::{Failure, Outcome};
use crate::source::Source;
use ptx_expand::proof::{boxes, contract};
use ptx_jit::describe::Kernel;
use ptx_prove::{Contract, Report};
use std::io::Write;

/// Proves each kernel of a file, or the one that is asked for.
pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> Outcome {
    let options =
        [arguments.block.is_some(), arguments.grid.is_some(), arguments.cluster.is_some(), arguments.shared > 0];
    if options.contains(&true) || !arguments.assume.is_empty() {
        let text = "the attribute of a kernel says its launches; help: write `block`, `grid`, `shared` and `requires(…)` there";
        return Err(Failure::usage(text));
    }
    let program = kernels::compile(&arguments.file, &arguments.kernels, None, out)?.ok_or(Failure::Undecided)?;
    let wanted =
        |kernel: &Kernel| arguments.entry.as_ref().is_none_or(|name| *name == kernel.name || *name == kernel.entry);
    let mut all = Report::default();
    let (mut count, mut are_whole) = (0, true);
    for module in program.modules() {
        let Some(text) = module.texts.first() else { continue };
        for kernel in module.kernels.iter().filter(|kernel| wanted(kernel)) {
            count += 1;
            writeln!(out, "{}", kernel.entry)?;
            let source = kernels::with_origin(&arguments.file, text, Some(kernel.clone()))?;
            let (report, is_whole) = one(arguments, &source, kernel, out)?;
            all.findings.extend(report.findings);
            are_whole &= is_whole;
        }
    }
    match count {
        0 => Err(Failure::usage("there is no such `#[ptx_kernel]` in this file")),
        _ => verdict(&all, are_whole),
    }
}

fn one(
    arguments: &Arguments,
    source: &Source,
    kernel: &Kernel,
    out: &mut dyn Write,
) -> Result<(Report, bool), Failure> {
    let checked = checked(source, out)?;
    let entry = checked.module().functions.iter().find(|f| f.entry && f.defined && f.name == kernel.entry);
    let entry = entry.ok_or_else(|| Failure::usage("there is no such entry"))?;
    let params = params(&checked, entry);
    let contract = contract(kernel).map_err(|(message, help)| Failure::usage(format!("{message}; help: {help}")))?;
    let boxes = [boxes(kernel), arguments.boxes.clone()].concat();
    let mapped = arguments.mapped.clone();
    let contract = Contract { samples: true, boxes: boxes.clone(), mapped, ..contract };
    let run = arguments.run();
    decide(&Proof { source, checked: &checked, entry, contract, boxes, params, run }, arguments, out)
}
