//! Announcements of a file, and findings in it, in one form.

use ptx_core::diag::Diagnostic;
use std::fmt;

/// `// error[P0302]: part of the message`, and its line.
#[derive(Clone, Debug)]
pub(crate) struct Announced {
    line: usize,
    severity: &'static str,
    code: String,
    text: String,
}

/// Every announcement of a text.
pub(crate) fn read(text: &str) -> Vec<Announced> {
    let lines = (1..).zip(text.lines());
    lines.flat_map(|(line, content)| content.split("// ").skip(1).filter_map(move |part| one(line, part))).collect()
}

fn one(line: usize, part: &str) -> Option<Announced> {
    let severity = ["error", "warning"].into_iter().find(|s| part.starts_with(s))?;
    let (code, text) = part.strip_prefix(severity)?.strip_prefix('[')?.split_once("]: ")?;
    Some(Announced { line, severity, code: code.to_owned(), text: text.trim().to_owned() })
}

impl Announced {
    /// A diagnostic as an announcement of its whole message.
    pub(crate) fn of(diagnostic: &Diagnostic, text: &str) -> Announced {
        let before = text.as_bytes().iter().take(diagnostic.span.lo as usize);
        Announced {
            line: 1 + before.filter(|b| **b == b'\n').count(),
            severity: if diagnostic.is_error() { "error" } else { "warning" },
            code: diagnostic.code.id.to_owned(),
            text: diagnostic.message.clone(),
        }
    }

    /// Returns true if this is announced: the same place and code, and a part of the message.
    pub(crate) fn announces(&self, found: &Announced) -> bool {
        let kind = |a: &Announced| (a.line, a.severity, a.code.clone());
        kind(self) == kind(found) && found.text.contains(&self.text)
    }
}

impl fmt::Display for Announced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}[{}]: {}", self.line, self.severity, self.code, self.text)
    }
}
