//! Diagnostics and faults as rustc prints errors.

use crate::output::count;
use crate::source::Source;
use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use ptx_core::diag::{Diagnostic, Label, Severity};
use ptx_core::span::Span;
use ptx_interp::{Fault, Party};
use std::io::Write;

/// Lines longer than this are shown without their source.
const LONGEST: usize = 4096;

/// The default limit of diagnostics printed for one file.
pub(crate) const MOST: usize = 100;

/// The most errors that a command shows if it needs a valid module; `ptx check` shows them all.
const FEW: usize = 5;

/// Says that a file is not valid, and shows its first errors.
pub(crate) fn refusal(out: &mut dyn Write, source: &Source, errors: &[Diagnostic], color: bool) -> std::io::Result<()> {
    writeln!(out, "{}: this is not valid PTX: {}", source.name, count(errors.len(), "error"))?;
    all(out, source, errors, FEW, color)?;
    if errors.len() > FEW { writeln!(out, "`ptx check {}` shows all of them", source.name) } else { Ok(()) }
}

/// The diagnostics of a file in their order, at most `most` of them (0: all): errors before warnings. A last line counts the
/// others.
pub(crate) fn all(
    out: &mut dyn Write,
    source: &Source,
    diagnostics: &[Diagnostic],
    most: usize,
    color: bool,
) -> std::io::Result<()> {
    let most = if most == 0 { usize::MAX } else { most };
    let errors = diagnostics.iter().filter(|d| d.is_error()).count();
    let warnings = diagnostics.len() - errors;
    let mut left = [errors.min(most), warnings.min(most.saturating_sub(errors))];
    let hidden = [(errors - left[0], "error"), (warnings - left[1], "warning")];
    for diagnostic in diagnostics {
        let left = &mut left[usize::from(!diagnostic.is_error())];
        if *left > 0 {
            *left -= 1;
            writeln!(out, "{}", text(source, diagnostic, color))?;
        }
    }
    let hidden: Vec<String> = hidden.iter().filter(|(n, _)| *n > 0).map(|(n, noun)| count(*n, noun)).collect();
    match hidden.as_slice() {
        [] => Ok(()),
        hidden => writeln!(out, "{}: and {} more", source.name, hidden.join(" and ")),
    }
}

/// One diagnostic with its piece of source.
pub(crate) fn text(source: &Source, diagnostic: &Diagnostic, color: bool) -> String {
    diagnosed(source, diagnostic, Some(diagnostic.code.id), color)
}

/// One verdict of a proof, which has no code.
pub(crate) fn finding(source: &Source, diagnostic: &Diagnostic, color: bool) -> String {
    diagnosed(source, diagnostic, None, color)
}

fn diagnosed(source: &Source, diagnostic: &Diagnostic, code: Option<&str>, color: bool) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(&*diagnostic.message);
    let title = match code {
        Some(code) => title.id(code.to_owned()),
        None => title,
    };
    let mut group = located(Group::with_title(title), source, diagnostic.span, ("", &diagnostic.labels));
    for help in &diagnostic.help {
        group = group.element(Level::HELP.message(&**help));
    }
    if let Some(section) = diagnostic.section {
        group = group.element(Level::NOTE.message(format!("PTX manual, section {section}")));
    }
    finish(group, color)
}

/// Why a run stopped, with the instruction.
pub(crate) fn fault(source: &Source, fault: &Fault, color: bool) -> String {
    // Where there is an instruction, who executed it stands there.
    let title =
        Level::ERROR.primary_title(if fault.span.is_some() { fault.message.clone() } else { fault.to_string() });
    let mut group = Group::with_title(match fault.finding() {
        Some(code) => title.id(code.id),
        None => title,
    });
    let label = |party: &Party| Label { span: party.span, text: party.text.clone() };
    let culprit = fault.culprit();
    let labels: Vec<Label> = fault.parties().iter().map(label).collect();
    if let Some(span) = fault.span {
        group = located(group, source, span, (&culprit, &labels));
    }
    for help in fault.advice() {
        group = group.element(Level::HELP.message(&**help));
    }
    if let Some(code) = fault.finding() {
        group = group.element(Level::NOTE.message(format!("`ptx explain {}` says more", code.id)));
    }
    if fault.repeat_with() != 0 {
        group = group.element(Level::NOTE.message(format!("`--seed {}` repeats it", fault.repeat_with())));
    }
    finish(group, color)
}

/// Adds the lines of `span` and of the labels, or only where they are if they are too long.
fn located<'a>(
    group: Group<'a>,
    source: &'a Source,
    span: Span,
    (primary, labels): (&'a str, &'a [Label]),
) -> Group<'a> {
    let of_label = |label: &'a Label| (source.place(label.span).1, label.text.as_str());
    let labels: Vec<(Span, &str)> = labels.iter().map(of_label).collect();
    let (source, span) = source.place(span);
    let all = labels.iter().fold(span, |all, (label, _)| all.to(*label));
    let (start, bytes) = source.excerpt(all);
    let short = Some(bytes).filter(|bytes| bytes.len() <= LONGEST);
    let Some(excerpt) = short.and_then(|bytes| std::str::from_utf8(bytes).ok()) else {
        let position = source.position(span.lo);
        let place = format!("{}:{}:{} {primary}", source.name, position.line, position.column);
        return group.element(Level::NOTE.message(place.trim_end().to_owned()));
    };
    let local = |span: Span| {
        let at = |p: u32| (p as usize).saturating_sub(start).min(excerpt.len());
        at(span.lo)..at(span.hi.max(span.lo))
    };
    let mut snippet =
        Snippet::source(excerpt).path(&source.name).line_start(source.line(all.lo)).annotation(match primary {
            "" => AnnotationKind::Primary.span(local(span)),
            text => AnnotationKind::Primary.span(local(span)).label(text),
        });
    for (place, text) in labels {
        snippet = snippet.annotation(AnnotationKind::Context.span(local(place)).label(text));
    }
    group.element(snippet)
}

fn finish(group: Group, color: bool) -> String {
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    renderer.decor_style(DecorStyle::Ascii).render(&[group])
}
