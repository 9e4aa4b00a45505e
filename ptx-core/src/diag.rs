//! Diagnostics: what every phase returns beside its output. Rendering them is the host's work.

pub mod codes;
pub mod near;

use crate::span::Span;
use ptx_target::sort::SortSmall;

/// Severity of a diagnostic. Only errors keep a module from being [`Checked`](crate::check::Checked).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// ptxas would take it, but it is surely not meant, or breaks a protocol of the machine.
    Warning,
    /// ptxas would refuse it, or it cannot have its literal meaning.
    Error,
}

/// A stable code, its one-line title and its long explanation (`ptx explain`).
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Code {
    /// `P0203`.
    pub id: &'static str,
    /// Its subject, in one line.
    pub title: &'static str,
    /// Markdown: what it means, an example, what to write instead.
    pub explain: &'static str,
}

/// A second place that matters to a diagnostic.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Label {
    /// Its position.
    pub span: Span,
    /// The text at that position.
    pub text: String,
}

/// One finding, on exact tokens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Diagnostic {
    /// Its stable code.
    pub code: &'static Code,
    /// Error or warning.
    pub severity: Severity,
    /// The guilty tokens.
    pub span: Span,
    /// One sentence, lower case, no full stop.
    pub message: String,
    /// Other places.
    pub labels: Vec<Label>,
    /// Suggested fixes: the existing forms, or the closest match.
    pub help: Vec<String>,
    /// The section of the PTX manual, such as `9.7.1.1`.
    pub section: Option<&'static str>,
}

impl Diagnostic {
    /// An error on `span`.
    pub fn error(code: &'static Code, span: Span, message: impl Into<String>) -> Self {
        Diagnostic {
            code,
            severity: Severity::Error,
            span,
            message: bounded(message.into()),
            labels: Vec::new(),
            help: Vec::new(),
            section: None,
        }
    }

    /// A warning on `span`.
    pub fn warning(code: &'static Code, span: Span, message: impl Into<String>) -> Self {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, span, message) }
    }

    /// Adds a second place.
    #[must_use]
    pub fn label(mut self, span: Span, text: impl Into<String>) -> Self {
        self.labels.push(Label { span, text: bounded(text.into()) });
        self
    }

    /// Adds a line of help.
    #[must_use]
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help.push(bounded(text.into()));
        self
    }

    /// Names the section of the PTX manual.
    #[must_use]
    pub fn section(mut self, section: &'static str) -> Self {
        self.section = Some(section);
        self
    }

    /// Returns true if it keeps the module from being checked.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// Texts longer than this lose their middle: names may be as long as the source.
const LONGEST: usize = 1 << 14;

/// A text that somebody can read, whatever name it quotes.
fn bounded(text: String) -> String {
    if text.len() <= LONGEST {
        return text;
    }
    const SHOWN: usize = 128;
    let ends = |at: usize| (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…{}", &text[..ends(SHOWN)], &text[ends(text.len() - SHOWN)..])
}

/// Warnings that are told once for each of their helps, since a compiler gives the same reason hundreds of times.
const ONCE: &[&Code] = &[&codes::P0205];

/// Keeps the first of the warnings that are told once.
pub fn tell_once(diagnostics: &mut Vec<Diagnostic>) {
    let mut told: crate::hash::Set<(&str, Vec<String>)> = Default::default();
    diagnostics.retain(|found| {
        let is_told_once = ONCE.iter().any(|code| code.id == found.code.id);
        found.is_error() || !is_told_once || told.insert((found.code.id, found.help.clone()))
    });
}

/// Puts diagnostics into the order of the source.
pub fn sort_by_span(diagnostics: &mut [Diagnostic]) {
    diagnostics.sort_small_by_key(|diagnostic| diagnostic.span);
}

/// `4, 8 or 16`.
pub(crate) fn either(items: impl IntoIterator<Item = impl ToString>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    match items.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => items.concat(),
    }
}

/// `1 element`, `2 elements`.
pub fn plural(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
