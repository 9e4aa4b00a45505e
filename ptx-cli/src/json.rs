//! Diagnostics as JSON, one object a line.

use crate::source::Source;
use ptx_core::diag::{Diagnostic, Severity};

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

/// A string with its quotes and escapes.
fn string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
