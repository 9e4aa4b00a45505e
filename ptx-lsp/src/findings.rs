//! Diagnostics of a whole text: those of `ptx check`, with the bytes that they are about.

use crate::around::Around;
use crate::document::Language;
use crate::text::Text;
use ptx_core::check::check;
use ptx_core::diag::{Diagnostic, codes};
use ptx_core::lower::Options;
use ptx_core::parse::parse_text;
use ptx_core::span::Span;
use ptx_expand::program::{self, Problem, Problems, Program};
use std::ops::Range;

/// A diagnostic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The guilty bytes.
    pub range: Range<usize>,
    /// True for an error, false for a warning.
    pub is_error: bool,
    /// Its code; empty for a mistake in Rust's own syntax.
    pub code: &'static str,
    /// One sentence.
    pub message: String,
    /// The fixes, in words.
    pub help: Vec<String>,
    /// Other places, with a text for each.
    pub labels: Vec<(Range<usize>, String)>,
    /// The section of the PTX manual.
    pub section: Option<&'static str>,
    /// True for code without effect, which editors show pale.
    pub is_unused: bool,
}

/// Codes of what nothing uses or reaches.
const UNUSED: &[&str] = &[codes::P0504.id, codes::P0505.id];

/// The instructions that a line of Rust becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The line, from 0.
    pub line: usize,
    /// The instructions in short.
    pub label: String,
    /// Each of them.
    pub instructions: String,
}

/// Checks a text.
pub fn findings(text: &str, language: Language, around: Option<&Around>) -> Vec<Finding> {
    analysis(text, language, around).0
}

/// Checks a text; of a Rust file without errors, also the instructions of its lines.
pub fn analysis(text: &str, language: Language, around: Option<&Around>) -> (Vec<Finding>, Vec<Note>) {
    match language {
        Language::Ptx => {
            let (tree, earlier) = parse_text(text.as_bytes());
            let (_, found) = check(tree, earlier, &Options::default());
            (found.into_iter().map(of_diagnostic).collect(), Vec::new())
        }
        Language::Rust => of_rust(text, around),
    }
}

fn of_diagnostic(diagnostic: Diagnostic) -> Finding {
    let bytes = |span: Span| span.lo as usize..span.hi.max(span.lo) as usize;
    Finding {
        range: bytes(diagnostic.span),
        is_error: diagnostic.is_error(),
        code: diagnostic.code.id,
        message: diagnostic.message,
        help: diagnostic.help,
        labels: diagnostic.labels.into_iter().map(|label| (bytes(label.span), label.text)).collect(),
        section: diagnostic.section,
        is_unused: UNUSED.contains(&diagnostic.code.id),
    }
}

/// Room for the deepest text that the checks of nesting let through.
const STACK: usize = 32 << 20;

/// The problems of the kernels of a Rust file, on a thread of its own: the parser is recursive, and keeps the text of every source that its thread has
/// read.
fn of_rust(text: &str, around: Option<&Around>) -> (Vec<Finding>, Vec<Note>) {
    let found = std::thread::scope(|scope| {
        let work = || match compiled(text, around) {
            Ok(program) => (program.warnings, program.modules.iter().flat_map(notes).collect()),
            Err(Problems(problems)) => (problems, Vec::new()),
        };
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work).ok()?;
        thread.join().ok()
    });
    let lines = Text::new(text.to_owned());
    let (problems, notes): (Vec<Problem>, Vec<Note>) = found.unwrap_or_default();
    (problems.into_iter().map(|problem| of_problem(&lines, problem)).collect(), notes)
}

/// Compiles a text; with the files around it only where something in its attributes may stand there, which is a mistake without a code.
fn compiled(text: &str, around: Option<&Around>) -> Result<Program, Problems> {
    let options = program::Options::default();
    let alone = program::compile(text, &options);
    match (&alone, around) {
        (Err(Problems(found)), Some(Around(read))) if found.iter().any(|problem| problem.code.is_empty()) => {
            program::compile_in(text, &options, &read())
        }
        _ => alone,
    }
}

/// The most instructions that a note names.
const MOST_NAMED: usize = 3;

/// The instructions of each line, in the first entry that has the line: instances have the same lines.
fn notes(module: &program::Module) -> Vec<Note> {
    let Some(text) = module.texts.first() else { return Vec::new() };
    let lines: Vec<&str> = text.ptx.lines().collect();
    let starts: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].contains(".entry ")).collect();
    let mut found: Vec<(usize, usize, Vec<&str>)> = Vec::new();
    for (ptx, line, _) in &text.lines {
        let (Some(at), Some(line)) = ((*ptx as usize).checked_sub(1), (*line as usize).checked_sub(1)) else {
            continue;
        };
        let instruction = lines.get(at).map_or("", |text| text.trim());
        if instruction.starts_with('.') || instruction.ends_with(':') || matches!(instruction, "" | "{" | "}") {
            continue;
        }
        let entry = starts.partition_point(|start| *start <= at);
        match found.iter_mut().find(|(known, ..)| *known == line) {
            Some((_, of, list)) if *of == entry => list.push(instruction),
            Some(_) => {}
            None => found.push((line, entry, vec![instruction])),
        }
    }
    found
        .into_iter()
        .map(|(line, _, list)| {
            let names: Vec<&str> = list.iter().map(|text| mnemonic(text)).collect();
            let label = match names.len() {
                0..=MOST_NAMED => names.join(" · "),
                more => format!("{more} instructions"),
            };
            Note { line, label, instructions: list.join("\n") }
        })
        .collect()
}

/// The opcode and the modifiers of an instruction.
fn mnemonic(text: &str) -> &str {
    let text = if text.starts_with('@') { text.split_once(' ').map_or(text, |(_, rest)| rest) } else { text };
    text.split([' ', ';']).next().unwrap_or_default()
}

fn of_problem(text: &Text, problem: Problem) -> Finding {
    let start = byte(text, problem.start);
    Finding {
        range: start..byte(text, problem.end).max(start),
        is_error: !problem.is_warning,
        code: problem.code,
        message: problem.message,
        help: problem.help,
        labels: Vec::new(),
        section: problem.section,
        is_unused: UNUSED.contains(&problem.code),
    }
}

/// The byte of a line and a column, both from 1; columns count characters.
fn byte(text: &Text, (line, column): (usize, usize)) -> usize {
    let line = text.line(line.saturating_sub(1));
    let content = text.as_str().get(line.clone()).unwrap_or_default();
    let at = content.char_indices().nth(column.saturating_sub(1)).map_or(content.len(), |(at, _)| at);
    line.start + at
}

/// The page of a code: its title and its text, in Markdown.
pub fn explanation(code: &str) -> Option<String> {
    codes::find(code).map(|code| format!("# {}: {}\n\n{}\n", code.id, code.title, code.explain.trim_end()))
}
