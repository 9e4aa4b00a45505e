//! Diagnostics as JSON, one object a line.

use crate::source::Source;
use ptx_core::diag::{Diagnostic, Severity};
use ptx_jit::describe::Problem;

/// `{"file": …, "line": …, "column": …, "end_line": …, "end_column": …, "severity": …, "code": …, "message": …, "help": …}`
pub(crate) fn line(source: &Source, diagnostic: &Diagnostic) -> String {
    let (start, end) = source.range(diagnostic.span);
    problem(
        &source.name,
        &Problem {
            is_warning: diagnostic.severity == Severity::Warning,
            code: diagnostic.code.id,
            message: diagnostic.message.clone(),
            start: (start.line, start.column),
            end: (end.line, end.column),
            help: diagnostic.help.clone(),
            section: diagnostic.section,
        },
    )
}

/// The same of a finding in a Rust source file.
pub(crate) fn problem(file: &str, problem: &Problem) -> String {
    let ((line, column), (end_line, end_column)) = (problem.start, problem.end);
    let severity = if problem.is_warning { "warning" } else { "error" };
    format!(
        "{{\"file\":{},\"line\":{line},\"column\":{column},\"end_line\":{end_line},\"end_column\":{end_column},\"severity\":\"{severity}\",\"code\":\"{}\",\"message\":{},\"help\":{}}}",
        string(file),
        problem.code,
        string(&problem.message),
        string(&problem.help.join("\n")),
    )
}

/// A string with its quotes and escapes.
fn string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
