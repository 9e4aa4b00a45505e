//! Diagnostics as rustc prints them.

use crate::source::Source;
use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use ptx_core::diag::{Diagnostic, Severity};
use ptx_core::span::Span;

/// Lines longer than this are shown without their source.
const LONGEST: usize = 4096;

/// One diagnostic with its piece of source.
pub(crate) fn text(source: &Source, diagnostic: &Diagnostic, color: bool) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let all = diagnostic.labels.iter().fold(diagnostic.span, |s, l| s.to(l.span));
    let (start, bytes) = source.excerpt(all);
    let excerpt = String::from_utf8_lossy(bytes);
    let title = level.primary_title(&*diagnostic.message).id(diagnostic.code.id);
    let mut group = Group::with_title(title);
    if excerpt.len() <= LONGEST && excerpt.len() == bytes.len() {
        let local = |span: Span| {
            let at = |p: u32| (p as usize).saturating_sub(start).min(excerpt.len());
            at(span.lo)..at(span.hi.max(span.lo))
        };
        let first = source.position(all.lo).line;
        let mut snippet = Snippet::source(&*excerpt)
            .path(&source.name)
            .line_start(first)
            .annotation(AnnotationKind::Primary.span(local(diagnostic.span)));
        for label in &diagnostic.labels {
            snippet = snippet.annotation(AnnotationKind::Context.span(local(label.span)).label(&label.text));
        }
        group = group.element(snippet);
    } else {
        let position = source.position(diagnostic.span.lo);
        group = group.element(Level::NOTE.message(format!("{}:{}:{}", source.name, position.line, position.column)));
    }
    for help in &diagnostic.help {
        group = group.element(Level::HELP.message(&**help));
    }
    if let Some(section) = diagnostic.section {
        group = group.element(Level::NOTE.message(format!("PTX manual, section {section}")));
    }
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    renderer.decor_style(DecorStyle::Ascii).render(&[group])
}
