//! Comparison of the checker with ptxas on instructions.

mod hunt;

pub use hunt::{Tally, Try, hunt};

use crate::instruction::Instruction;
use crate::judge::{Expected, Judge, Question, Verdict};
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
    /// Place, code and message, on one line.
    pub text: String,
    /// Message of the side that rejects it.
    pub said: String,
}

/// Outcome of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The instructions that one side takes and the other refuses.
    pub disagreements: Vec<Finding>,
    /// Those on which ptxas does not end: neither.
    pub endless: Vec<Finding>,
    /// Number of instructions that both sides accept.
    pub taken: usize,
}

/// Names that the instructions use, beside the declarations of their own kernel.
pub const MODULE: &str = "\
.global .align 128 .b8 g[256];
.const .align 128 .b8 c[256];
.global .texref t;
.global .surfref u;
.func f(.reg .b32 %a) { ret; }
.func (.reg .b32 %o) f1(.reg .b32 %a) { mov.b32 %o, %a; ret; }";

/// A kernel for an instruction, in a module with [`MODULE`].
pub fn kernel(number: usize, instruction: &Instruction) -> String {
    let params = ".param .align 128 .b8 p[128], .param .u64 q";
    format!(".visible .entry k{number}({params}) {{ {} ret; }}", instruction.body())
}

/// Compares what both sides say of instructions, as if each stood alone in a module for this target.
///
/// # Errors
/// If ptxas cannot be run.
pub fn compare(judge: &Judge, arch: Arch, version: Version, all: &[&Instruction]) -> io::Result<Outcome> {
    let header = format!(".version {version}\n.target {arch}\n.address_size 64\n{MODULE}");
    let kernels: Vec<String> = all.iter().enumerate().map(|(number, one)| kernel(number, one)).collect();
    let ours = refusals(&header, &kernels);
    let question = |(kernel, ours): (&String, &Option<Refusal>)| Question {
        kernel: kernel.clone(),
        expected: match ours {
            None => Expected::Taken,
            Some(refusal) if refusal.is_syntax => Expected::Stopped,
            Some(_) => Expected::Refused,
        },
    };
    let questions: Vec<Question> = kernels.iter().zip(&ours).map(question).collect();
    let theirs = judge.verdicts(&header, &arch.to_string(), &questions)?;
    let mut outcome = Outcome::default();
    for (at, (theirs, ours)) in theirs.into_iter().zip(ours).enumerate() {
        let theirs = match theirs {
            Verdict::Taken if ours.is_some() => judge.code_verdict(&header, &arch.to_string(), &kernels[at])?,
            theirs => theirs,
        };
        let (list, said) = match (theirs, ours) {
            (Verdict::Endless, _) => (&mut outcome.endless, ENDLESS.to_owned()),
            (Verdict::Taken, Some(ours)) => (&mut outcome.disagreements, format!("we say: {}", ours.said)),
            (Verdict::Refused(theirs), None) => (&mut outcome.disagreements, format!("ptxas says: {theirs}")),
            (theirs, _) => {
                outcome.taken += usize::from(theirs == Verdict::Taken);
                continue;
            }
        };
        let text = format!("{arch} {version}: {}: {said}", all[at].body());
        list.push(Finding { at, text, said });
    }
    Ok(outcome)
}

/// Our rejection of a kernel.
struct Refusal {
    said: String,
    is_syntax: bool,
}

/// For each kernel the first error on its line.
fn refusals(header: &str, kernels: &[String]) -> Vec<Option<Refusal>> {
    let text = format!("{header}\n{}\n", kernels.join("\n"));
    let (tree, earlier) = parse_text(text.as_bytes());
    let (_, diagnostics) = check(tree, earlier, &Options::default());
    let mut errors: Vec<&Diagnostic> = diagnostics.iter().filter(|d| d.is_error()).collect();
    errors.sort_by_key(|d| d.span.lo);
    let mut start = header.len() + 1;
    let mut out = Vec::with_capacity(kernels.len());
    for kernel in kernels {
        let end = start + kernel.len();
        let from = errors.partition_point(|d| (d.span.lo as usize) < start);
        let here = errors[from..].iter().take_while(|d| d.span.lo as usize <= end);
        out.push(refusal(here.copied()));
        start = end + 1;
    }
    out
}

fn refusal<'a>(mut errors: impl Iterator<Item = &'a Diagnostic>) -> Option<Refusal> {
    let first = errors.next()?;
    let is_syntax = |d: &Diagnostic| d.code.id.starts_with("P01");
    Some(Refusal { said: first.message.clone(), is_syntax: is_syntax(first) || errors.any(is_syntax) })
}
