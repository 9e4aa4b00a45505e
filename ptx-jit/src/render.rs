//! Problems of a source as text for people: the message, the lines with a mark below, and the help.

use ptx_expand::program::Problem;
use std::fmt::Write;

/// One problem, as rustc lays out its own.
pub(crate) fn problem(file: &str, source: &str, problem: &Problem) -> String {
    let kind = if problem.is_warning { "warning" } else { "error" };
    let mut out = format!("{kind}: {}{}", problem.tag(), problem.message);
    let (line, column) = problem.start;
    let gutter = " ".repeat(line.to_string().len());
    // Writing to a string never fails.
    if line > 0 {
        let _ = write!(out, "\n{gutter}--> {file}:{line}:{column}");
    }
    if let Some(text) = line.checked_sub(1).and_then(|at| source.lines().nth(at)) {
        let _ = write!(out, "\n{gutter} |\n{line} | {text}\n{gutter} | {}", mark(text, problem));
    }
    for help in &problem.help {
        let _ = write!(out, "\n{gutter} = help: {help}");
    }
    if let Some(section) = problem.section {
        let _ = write!(out, "\n{gutter} = note: PTX manual, section {section}");
    }
    out
}

/// The mark below a line: tabs stay, so that it stands below the text.
fn mark(text: &str, problem: &Problem) -> String {
    let ((line, column), (last_line, end)) = (problem.start, problem.end);
    let before = text.chars().take(column - column.min(1)).map(|c| if c == '\t' { '\t' } else { ' ' });
    let end = if last_line == line { end } else { text.chars().count() + 1 };
    before.chain(std::iter::repeat_n('^', end.saturating_sub(column).max(1))).collect()
}
