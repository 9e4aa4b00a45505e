//! A module as the interpreter runs it: read, checked and decoded once for the process, and its faults told in terms of
//! the Rust source.

use crate::device::cpu::fault_kind;
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::{Kernel, Module, Variant};
use ptx_core::check::check;
use ptx_core::diag::Diagnostic;
use ptx_core::lex::lex;
use ptx_core::lower::Options;
use ptx_core::parse::parse;
use ptx_core::span::Span;
use ptx_interp::{Fault, Program};

/// A decoded module, and the variant it was made from.
#[derive(Debug)]
pub(crate) struct CpuProgram {
    program: Program,
    variant: &'static Variant,
}

impl CpuProgram {
    /// The program of a module, made at the first call.
    ///
    /// # Errors
    /// [`ErrorKind::Load`] if no variant of the module can be interpreted, with the reasons for the last one.
    pub(crate) fn of(module: &Module) -> Result<&CpuProgram> {
        match module.interpreted.find(|_| true) {
            Some(program) => Ok(program),
            None => module.interpreted.find_or_make(|_| true, || CpuProgram::make(module)),
        }
    }

    /// From the first variant that can be interpreted.
    fn make(module: &Module) -> Result<CpuProgram> {
        let mut reasons = Vec::new();
        for variant in module.variants {
            match decode(variant) {
                Ok(program) => return Ok(CpuProgram { program, variant }),
                Err(diagnostics) => reasons = tell(variant, &diagnostics),
            }
        }
        Err(Error::new(
            ErrorKind::Load,
            format!("`{}` does not run on the CPU device{}", module.name, reasons.concat()),
        ))
    }

    pub(crate) fn decoded(&self) -> &Program {
        &self.program
    }

    /// The line of Rust that an instruction comes from.
    fn origin(&self, span: Span) -> String {
        place(self.variant, span)
    }

    /// The kernel's fault, with its source line.
    #[cold]
    pub(super) fn explain(&self, kernel: &Kernel, fault: &Fault) -> Error {
        let code = fault.finding().map_or_else(String::new, |code| format!("{}: ", code.id));
        let mut error = Error::new(fault_kind(fault), format!("{code}{}", fault.message));
        let mut told = fault.span.map_or_else(String::new, |span| self.origin(span));
        if !fault.culprit().is_empty() {
            told += &format!("\n       = {}", fault.culprit());
        }
        for party in fault.parties() {
            told += &format!("\n    {}{}", party.text, self.origin(party.span));
        }
        let more = fault.finding().map(|code| format!("`ptx explain {}` says more", code.id));
        let advice: Vec<_> = fault.advice().iter().cloned().chain(more).collect();
        if !advice.is_empty() {
            error = error.help(advice.join("\n  help: "));
        }
        if fault.repeat_with() != 0 {
            told += &format!("\n    the interleaving was that of seed {}", fault.repeat_with());
        }
        error.about(&format!("`{}` failed on the CPU device: ", kernel.entry), &told)
    }
}

/// All the way from the text to the program.
fn decode(variant: &Variant) -> Result<Program, Vec<Diagnostic>> {
    let (source, mut diagnostics) = lex(variant.ptx.as_bytes());
    let (tree, parsed) = parse(source);
    diagnostics.extend(parsed);
    match check(tree, diagnostics, &Options::default()) {
        (Some(checked), _) => Program::new(&checked),
        (None, diagnostics) => Err(diagnostics),
    }
}

fn tell(variant: &Variant, diagnostics: &[Diagnostic]) -> Vec<String> {
    let errors = diagnostics.iter().filter(|diagnostic| diagnostic.is_error());
    errors.map(|error| format!("\n    {}: {}{}", error.code.id, error.message, place(variant, error.span))).collect()
}

/// The line of the PTX that holds the start of a span, and the line of Rust that it comes from.
fn place(variant: &Variant, span: Span) -> String {
    let before = variant.ptx.as_bytes().get(..span.lo as usize).unwrap_or_default();
    let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
    variant.origin(u32::try_from(line).unwrap_or(u32::MAX))
}
