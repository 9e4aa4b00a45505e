//! A module as the interpreter runs it: read, checked and decoded once for the process, and its faults told in terms of
//! the Rust source.

use crate::device::cpu::fault_kind;
use crate::device::profile::ProfiledLine;
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::{Kernel, Module, Text, Variant};
use ptx_core::check::check;
use ptx_core::diag::Diagnostic;
use ptx_core::lex::lex;
use ptx_core::lower::Options;
use ptx_core::parse::parse;
use ptx_core::span::Span;
use ptx_interp::field::Field;
use ptx_interp::profile::Profile;
use ptx_interp::{Fault, Program};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A decoded module, or one of its entries, and the variant it was made from.
#[derive(Debug)]
pub(crate) struct CpuProgram {
    program: Arc<Program>,
    variant: &'static Variant,
    /// The entry that was decoded alone, if it was, and its text.
    alone: Option<(&'static str, String)>,
}

impl CpuProgram {
    /// The program of a module, or of one of its entries, made at the first call.
    ///
    /// # Errors
    /// [`ErrorKind::Load`] if no variant of the module can be interpreted, with the reasons for the last one.
    pub(crate) fn of<'a>(module: &'a Module, entry: Option<&'static str>) -> Result<&'a CpuProgram> {
        let is = |program: &CpuProgram| program.alone.as_ref().is_none_or(|(alone, _)| Some(*alone) == entry);
        match module.interpreted.find(is) {
            Some(program) => Ok(program),
            None => module.interpreted.find_or_make(is, || CpuProgram::make(module, entry, None)),
        }
    }

    /// The program of an entry over the real numbers, which is for one field and is not kept.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] with the instructions that compute more than sums, products and quotients.
    pub(crate) fn over_reals(module: &Module, entry: &'static str, field: Field) -> Result<CpuProgram> {
        CpuProgram::make(module, Some(entry), Some(field))
    }

    /// From the first variant that can be interpreted.
    fn make(module: &Module, entry: Option<&'static str>, field: Option<Field>) -> Result<CpuProgram> {
        let mut reasons = Vec::new();
        for variant in module.variants {
            let whole = module.text(variant)?;
            let alone = entry.and_then(|entry| Some((entry, module.entry_alone(whole, entry)?)));
            let text = alone.as_ref().map_or(whole.ptx, |(_, text)| text);
            match decode(text, field) {
                Ok(program) => return Ok(CpuProgram { program: Arc::new(program), variant, alone }),
                Err(diagnostics) => reasons = tell(whole, text, &diagnostics),
            }
        }
        let (kind, what) = match field {
            Some(_) => (ErrorKind::Unsupported, "computes more than sums, products and quotients of real numbers"),
            None => (ErrorKind::Load, "does not run on the CPU device"),
        };
        Err(Error::new(kind, format!("`{}` {what}{}", module.name, reasons.concat())))
    }

    pub(crate) fn decoded(&self) -> &Program {
        &self.program
    }

    /// The same, for launches that run later.
    pub(crate) fn shared(&self) -> &Arc<Program> {
        &self.program
    }

    /// The line of Rust that an instruction comes from.
    fn origin(&self, module: &Module, span: Span) -> String {
        let whole = module.text_or_none(self.variant);
        place(whole, self.alone.as_ref().map_or(whole.ptx, |(_, text)| text), span)
    }

    /// The counters of a launch by line of Rust; of the PTX where a line comes from none.
    pub(super) fn profiled_lines(&self, kernel: &Kernel, profile: &Profile) -> Vec<ProfiledLine> {
        let whole = kernel.module.text_or_none(self.variant);
        let text = self.alone.as_ref().map_or(whole.ptx, |(_, text)| text);
        let starts: Vec<usize> = std::iter::once(0)
            .chain(text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(at, _)| at + 1))
            .collect();
        let mut lines: BTreeMap<(&str, u32), ProfiledLine> = BTreeMap::new();
        for instruction in &profile.instructions {
            let line = starts.partition_point(|start| *start <= instruction.span.lo as usize);
            let line = u32::try_from(line).unwrap_or(u32::MAX);
            let (file, line) = whole.lines.source(line).unwrap_or(("", line));
            let found = lines.entry((file, line)).or_insert_with(|| ProfiledLine::new(file, line));
            found.counts.add(&instruction.counts);
        }
        lines.into_values().collect()
    }

    /// The kernel's fault, with its source line.
    #[cold]
    pub(crate) fn explain(&self, (module, entry): (&Module, &str), fault: &Fault) -> Error {
        let code = fault.finding().map_or_else(String::new, |code| format!("{}: ", code.id));
        let mut error = Error::new(fault_kind(fault), format!("{code}{}", fault.message));
        let mut told = fault.span.map_or_else(String::new, |span| self.origin(module, span));
        if !fault.culprit().is_empty() {
            told += &format!("\n       = {}", fault.culprit());
        }
        for party in fault.parties() {
            told += &format!("\n    {}{}", party.text, self.origin(module, party.span));
        }
        let more = fault.finding().map(|code| format!("`ptx explain {}` says more", code.id));
        let advice: Vec<_> = fault.advice().iter().cloned().chain(more).collect();
        if !advice.is_empty() {
            error = error.help(advice.join("\n  help: "));
        }
        if fault.repeat_with() != 0 {
            told += &format!("\n    the interleaving was that of seed {}", fault.repeat_with());
        }
        error.about(&format!("`{entry}` failed on the CPU device: "), &told)
    }
}

/// All the way from the text to the program.
fn decode(text: &str, field: Option<Field>) -> Result<Program, Vec<Diagnostic>> {
    let (source, mut diagnostics) = lex(text.as_bytes());
    let (tree, parsed) = parse(source);
    diagnostics.extend(parsed);
    match check(tree, diagnostics, &Options::default()) {
        (Some(checked), _) => match field {
            Some(field) => Program::over_reals(&checked, field),
            None => Program::new(&checked),
        },
        (None, diagnostics) => Err(diagnostics),
    }
}

fn tell(whole: Text<'_>, text: &str, diagnostics: &[Diagnostic]) -> Vec<String> {
    let errors = diagnostics.iter().filter(|diagnostic| diagnostic.is_error());
    errors
        .map(|error| format!("\n    {}: {}{}", error.code.id, error.message, place(whole, text, error.span)))
        .collect()
}

/// The line of `text`, which is `whole` or a part of it, that holds the start of a span, and the line of Rust that it comes from.
fn place(whole: Text<'_>, text: &str, span: Span) -> String {
    let before = text.as_bytes().get(..span.lo as usize).unwrap_or_default();
    let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
    whole.origin(u32::try_from(line).unwrap_or(u32::MAX))
}
