//! The diagnostics of one lowering.

use ptx_core::diag::Diagnostic;
use ptx_core::hash::Set;
use ptx_core::span::Span;

/// The diagnostics found so far, and the call that led into the prelude.
#[derive(Debug, Default)]
pub(super) struct Errors {
    /// In the order of discovery.
    pub(super) found: Vec<Diagnostic>,
    /// The same, to find repetitions.
    told: Set<Diagnostic>,
    /// The number of reports, repeated ones included.
    pub(super) reports: usize,
    /// Inside the prelude: the user's call. Nobody sees spans of the prelude's source.
    pub(super) over: Option<Span>,
}

impl Errors {
    /// The span to use: the call's, in the source of the prelude.
    pub(super) fn at(&self, span: Span) -> Span {
        self.over.unwrap_or(span)
    }

    /// Takes back every diagnostic behind the first `count`: an attempt that failed reports nothing.
    pub(super) fn take_back(&mut self, count: usize) {
        for diagnostic in self.found.drain(count.min(self.found.len())..) {
            self.told.remove(&diagnostic);
        }
    }

    /// Adds a diagnostic once: an unrolled loop and a second instance say nothing new.
    pub(super) fn report(&mut self, mut diagnostic: Diagnostic) {
        diagnostic.span = self.at(diagnostic.span);
        self.reports += 1;
        if self.told.insert(diagnostic.clone()) {
            self.found.push(diagnostic);
        }
    }
}
