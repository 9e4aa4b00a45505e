//! Diagnostics as JSON, one object a line.

use crate::source::Source;
use ptx_core::diag::{Diagnostic, Severity};
use std::fmt::Write;

/// `{"file": …, "line": …, "column": …, "end_line": …, "end_column": …, "severity": …, "code": …, "message": …, "help": …}`
pub(crate) fn line(source: &Source, diagnostic: &Diagnostic) -> String {
    let (start, end) = source.range(diagnostic.span);
    let severity = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    format!(
        "{{\"file\":{},\"line\":{},\"column\":{},\"end_line\":{},\"end_column\":{},\"severity\":\"{severity}\",\"code\":\"{}\",\"message\":{},\"help\":{}}}",
        string(&source.name),
        start.line,
        start.column,
        end.line,
        end.column,
        diagnostic.code.id,
        string(&diagnostic.message),
        string(&diagnostic.help.join("\n")),
    )
}

fn string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
