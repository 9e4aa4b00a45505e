//! Whether the checker and ptxas say the same about instructions.

use crate::instance::Instance;
use crate::judge::{Judge, Verdict};
use crate::ptxas::ENDLESS;
use ptx_core::check::check;
use ptx_core::diag::Diagnostic;
use ptx_core::isa::{Arch, Version};
use ptx_core::lower::Options;
use ptx_core::parse::parse_text;
use std::io;

/// An instruction that is worth a line.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Its place among those asked about.
    pub at: usize,
    /// Where, what and why, on one line.
    pub text: String,
    /// What the one side says that refuses it.
    pub said: String,
}

/// What came of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The instructions that one side takes and the other refuses.
    pub disagreements: Vec<Finding>,
    /// Those on which ptxas does not end: neither.
    pub endless: Vec<Finding>,
}

/// What the instructions name, beside what their own kernel declares.
pub const MODULE: &str = "\
.global .align 128 .b8 g[256];
.const .align 128 .b8 c[256];
.global .texref t;
.global .surfref u;
.func f(.reg .b32 %a) { ret; }
.func (.reg .b32 %o) f1(.reg .b32 %a) { mov.b32 %o, %a; ret; }";

/// A kernel for an instruction, in a module with [`MODULE`].
pub fn kernel(number: usize, instance: &Instance) -> String {
    let params = ".param .align 128 .b8 p[128], .param .u64 q";
    format!(".visible .entry k{number}({params}) {{ {} ret; }}", instance.body())
}

/// Compares what both sides say of instructions, as if each stood alone in a module for this target.
///
/// # Errors
/// If ptxas cannot be run.
pub fn compare(judge: &Judge, arch: Arch, version: Version, all: &[&Instance]) -> io::Result<Outcome> {
    let header = format!(".version {version}\n.target {arch}\n.address_size 64\n{MODULE}");
    let kernels: Vec<String> = all.iter().enumerate().map(|(number, instance)| kernel(number, instance)).collect();
    let theirs = judge.verdicts(&header, &arch.to_string(), &kernels)?;
    let ours = refusals(&header, &kernels);
    let mut outcome = Outcome::default();
    for (at, (theirs, ours)) in theirs.into_iter().zip(ours).enumerate() {
        let theirs = match theirs {
            Verdict::Taken if ours.is_some() => judge.code_verdict(&header, &arch.to_string(), &kernels[at])?,
            theirs => theirs,
        };
        let (list, said) = match (theirs, ours) {
            (Verdict::Endless, _) => (&mut outcome.endless, ENDLESS.to_owned()),
            (Verdict::Taken, Some(ours)) => (&mut outcome.disagreements, format!("we say: {ours}")),
            (Verdict::Refused(theirs), None) => (&mut outcome.disagreements, format!("ptxas says: {theirs}")),
            _ => continue,
        };
        let (row, body) = (all[at].row, all[at].body());
        let text = format!("{arch} {version} {} line {}: {body}: {said}", row.file, row.line);
        list.push(Finding { at, text, said });
    }
    Ok(outcome)
}

/// For each kernel the first error on its line.
fn refusals(header: &str, kernels: &[String]) -> Vec<Option<String>> {
    let text = format!("{header}\n{}\n", kernels.join("\n"));
    let (tree, earlier) = parse_text(text.as_bytes());
    let (_, diagnostics) = check(tree, earlier, &Options::default());
    let errors: Vec<&Diagnostic> = diagnostics.iter().filter(|d| d.is_error()).collect();
    let mut start = header.len() + 1;
    let mut out = Vec::with_capacity(kernels.len());
    for kernel in kernels {
        let end = start + kernel.len();
        let here = |d: &&&Diagnostic| (start..=end).contains(&(d.span.lo as usize));
        out.push(errors.iter().find(here).map(|d| d.message.clone()));
        start = end + 1;
    }
    out
}
