//! Code actions: the changes that the helps of a diagnostic suggest. A change is offered if the checker agrees: without the mistake, and with no new one.

use crate::document::{Document, Language};
use crate::findings::{Finding, findings};
use ptx_core::syntax::StmtKind;
use std::ops::Range;

/// A change that mends something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    /// Its effect, for a menu.
    pub title: String,
    /// The bytes that are replaced.
    pub range: Range<usize>,
    /// The text in their place.
    pub text: String,
}

/// Longer texts are not checked again while somebody waits.
const LONGEST: usize = 1 << 20;

/// The most bytes that are checked again for all diagnostics of one answer.
const MOST_CHECKED: usize = 1 << 21;

/// The checks that are left for an answer.
#[derive(Debug)]
pub struct Budget(usize);

impl Default for Budget {
    fn default() -> Self {
        Budget(MOST_CHECKED)
    }
}

impl Budget {
    /// Takes the bytes of one check; `false` if there are not so many left.
    fn take(&mut self, bytes: usize) -> bool {
        let left = self.0.checked_sub(bytes.max(1));
        self.0 = left.unwrap_or(0);
        left.is_some()
    }
}

/// The fixes of one diagnostic among all of a document.
pub fn fixes(document: &Document, finding: &Finding, all: &[Finding], budget: &mut Budget) -> Vec<Fix> {
    let mut found: Vec<Fix> = Vec::new();
    for help in &finding.help {
        for code in codes(help) {
            let ways = ways(document, finding, help, code);
            let title = |fix: &Fix| match (fix.text.trim(), fix.range.is_empty()) {
                (text, true) => format!("insert `{text}`"),
                (text, false) => format!("replace by `{text}`"),
            };
            let good = ways
                .into_iter()
                .find(|fix| document.text().as_str().len() > LONGEST || mends(document, fix, (finding, all), budget));
            if let Some(fix) = good.map(|fix| Fix { title: title(&fix), ..fix })
                && !found.contains(&fix)
            {
                found.push(fix);
            }
        }
        if help.starts_with("leave") {
            let removal = Fix { title: "leave it out".to_owned(), range: finding.range.clone(), text: String::new() };
            if document.text().as_str().len() <= LONGEST && mends(document, &removal, (finding, all), budget) {
                found.push(removal);
            }
        }
    }
    found
}

/// The pieces of code in a help.
fn codes(help: &str) -> impl Iterator<Item = &str> {
    help.split('`').skip(1).step_by(2).filter(|code| !code.is_empty() && !code.contains('…'))
}

/// The places where a piece of code may belong, the likeliest first.
fn ways(document: &Document, finding: &Finding, help: &str, code: &str) -> Vec<Fix> {
    let fix = |range: Range<usize>, text: String| Fix { title: String::new(), range, text };
    let line = |at: usize| document.text().line(document.text().line_of(at));
    let replaced = fix(finding.range.clone(), code.to_owned());
    if help.starts_with("did you mean") || document.text().as_str().len() > LONGEST {
        return vec![replaced];
    }
    let own = line(finding.range.start);
    let text = document.text().as_str();
    let indent: String = text
        .get(own.clone())
        .unwrap_or_default()
        .chars()
        .take_while(|c| c.is_whitespace() && !matches!(c, '\n' | '\r'))
        .collect();
    let mut ways = Vec::new();
    if document.language() == Language::Ptx && code.starts_with('.') {
        ways.extend(same_directive(document, code).map(|range| fix(range, code.to_owned())));
        let body = document.spot(finding.range.start).and_then(|spot| {
            let function = spot.part.tree.stmt(spot.function()?);
            (function.body.is_some()).then(|| spot.part.token(function.head.end.checked_sub(1)?).end.into()).flatten()
        });
        ways.extend(body.map(|at: usize| fix(at..at, format!("\n    {code}"))));
        ways.push(fix(0..0, format!("{code}\n")));
    }
    ways.push(replaced);
    ways.push(fix(own.start..own.start, format!("{indent}{code}\n")));
    ways.push(fix(own.end..own.end, format!("{indent}{code}\n")));
    ways
}

/// The directive of the module that begins with the same word.
fn same_directive(document: &Document, code: &str) -> Option<Range<usize>> {
    let word = code.split_whitespace().next()?;
    document.parts().next().and_then(|part| {
        part.tree.items.iter().find_map(|id| {
            let stmt = part.tree.stmt(*id);
            let StmtKind::Directive(directive) = &stmt.kind else { return None };
            let same = part.tree.source.text(directive.name) == word;
            same.then(|| part.range(part.tree.span(&stmt.head)))
        })
    })
}

/// Returns true if a change takes a diagnostic away and adds no error.
fn mends(document: &Document, fix: &Fix, (finding, all): (&Finding, &[Finding]), budget: &mut Budget) -> bool {
    let mut text = document.text().as_str().to_owned();
    if !text.is_char_boundary(fix.range.start) || !text.is_char_boundary(fix.range.end) || fix.range.end > text.len() {
        return false;
    }
    if !budget.take(text.len()) {
        return false;
    }
    text.replace_range(fix.range.clone(), &fix.text);
    let after = findings(&text, document.language(), document.around());
    let same = |found: &&Finding| found.code == finding.code && found.message == finding.message;
    let errors = |list: &[Finding]| list.iter().filter(|found| found.is_error).count();
    let gone = after.iter().filter(same).count() < all.iter().filter(same).count();
    let most = errors(all) - usize::from(finding.is_error && errors(all) > 0);
    gone && errors(&after) <= most
}
