//! `ptx diff`: two files compared by what they do. Which lines differ is found with the numbers of names left out, so
//! that an added instruction is one difference; whether anything differs is found with them.

use crate::output::{Outcome, count};
use crate::source::Source;
use ptx_core::span::Span;
use ptx_core::syntax::{StmtId, Tree};
use ptx_transpile::same::{Line, Stream, streams};
use std::io::Write;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The first file.
    a: PathBuf,
    /// The second file.
    b: PathBuf,
    /// Compare `.loc`, `.file` and debug sections too.
    #[arg(long)]
    debug: bool,
    /// Number of lines shown per function.
    #[arg(long, default_value_t = 40)]
    lines: usize,
}

/// A file and its content.
struct Side {
    source: Source,
    tree: Tree,
    streams: Vec<Stream>,
}

impl Side {
    fn read(path: &std::path::Path, debug: bool) -> Result<Side, crate::output::Failure> {
        let source = Source::read(path)?;
        let tree = source.parse().0;
        let streams = streams(&tree, debug);
        Ok(Side { source, tree, streams })
    }

    /// `file:3: add.s32 %r1, %r2, 5;`
    fn show(&self, stmt: StmtId) -> String {
        let stmt = self.tree.stmt(stmt);
        let span = self.tree.span(&stmt.head);
        let text = String::from_utf8_lossy(&self.source.bytes[span.lo as usize..span.hi as usize]);
        // A terminal would obey control characters.
        let text = text.replace(|c: char| c.is_control() && !c.is_whitespace(), "?");
        let text: Vec<&str> = text.split_whitespace().collect();
        let line = self.source.position(Span::new(span.lo, span.lo).lo).line;
        format!("{}:{line}: {}", self.source.name, text.join(" "))
    }
}

/// Sound if both do the same.
pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> Outcome {
    let a = Side::read(&arguments.a, arguments.debug)?;
    let b = Side::read(&arguments.b, arguments.debug)?;
    let mut same = true;
    for at in 0..a.streams.len().max(b.streams.len()) {
        let (x, y) = (a.streams.get(at), b.streams.get(at));
        if x.map(|s| &s.lines) != y.map(|s| &s.lines) {
            same = false;
            stream(out, (&a, lines(x)), (&b, lines(y)), x.or(y), arguments.lines)?;
        }
    }
    if same {
        let insts: usize = a.streams.iter().skip(1).map(|s| s.lines.len().saturating_sub(1)).sum();
        let functions = a.streams.len().saturating_sub(1);
        let (functions, lines) = (count(functions, "function"), count(insts, "line"));
        writeln!(out, "the same but for names and layout: {functions}, {lines}")?;
    }
    Ok(same)
}

fn lines(stream: Option<&Stream>) -> &[Line] {
    stream.map_or(&[], |s| &s.lines)
}

fn stream(
    out: &mut dyn Write,
    (a, x): (&Side, &[Line]),
    (b, y): (&Side, &[Line]),
    of: Option<&Stream>,
    most: usize,
) -> std::io::Result<()> {
    writeln!(out, "{}", of.and_then(|s| s.name.as_deref()).unwrap_or("(module)"))?;
    let changes = changes(x, y);
    for change in changes.iter().take(most) {
        match change {
            Change::Less(at) => writeln!(out, "- {}", a.show(x[*at].stmt))?,
            Change::More(at) => writeln!(out, "+ {}", b.show(y[*at].stmt))?,
        }
    }
    if changes.len() > most {
        writeln!(out, "  … and {} more lines", changes.len() - most)?;
    }
    if changes.is_empty()
        && let Some(at) = (0..x.len()).find(|at| x[*at] != y[*at])
    {
        // The same instructions, with other registers.
        writeln!(out, "- {}\n+ {}", a.show(x[at].stmt), b.show(y[at].stmt))?;
        writeln!(out, "  names do not correspond: `{}` here, `{}` there", x[at].text, y[at].text)?;
    }
    Ok(())
}

/// A line that only one side has.
#[derive(Debug, PartialEq)]
enum Change {
    Less(usize),
    More(usize),
}

/// Past this many pairs of lines what lies between the common ends is shown as a whole.
const MOST_PAIRS: usize = 16_000_000;

fn changes(x: &[Line], y: &[Line]) -> Vec<Change> {
    let (x, y): (Vec<String>, Vec<String>) = (x.iter().map(loose).collect(), y.iter().map(loose).collect());
    let first = x.iter().zip(&y).take_while(|(a, b)| a == b).count();
    let last = x[first..].iter().rev().zip(y[first..].iter().rev()).take_while(|(a, b)| a == b).count();
    let (xs, ys) = (&x[first..x.len() - last], &y[first..y.len() - last]);
    if xs.len().saturating_mul(ys.len()) > MOST_PAIRS {
        let less = (0..xs.len()).map(|at| Change::Less(first + at));
        return less.chain((0..ys.len()).map(|at| Change::More(first + at))).collect();
    }
    longest_common(xs, ys, first)
}

/// The differences outside of the longest common subsequence, from the back with the usual table.
fn longest_common(xs: &[String], ys: &[String], first: usize) -> Vec<Change> {
    let width = ys.len() + 1;
    let mut table = vec![0u32; (xs.len() + 1) * width];
    for i in (0..xs.len()).rev() {
        for j in (0..ys.len()).rev() {
            let next = [table[(i + 1) * width + j], table[i * width + j + 1]];
            table[i * width + j] =
                if xs[i] == ys[j] { table[(i + 1) * width + j + 1] + 1 } else { next[0].max(next[1]) };
        }
    }
    let (mut i, mut j, mut found) = (0, 0, Vec::new());
    while i < xs.len() || j < ys.len() {
        if i < xs.len() && j < ys.len() && xs[i] == ys[j] {
            (i, j) = (i + 1, j + 1);
        } else if j == ys.len() || (i < xs.len() && table[(i + 1) * width + j] >= table[i * width + j + 1]) {
            found.push(Change::Less(first + i));
            i += 1;
        } else {
            found.push(Change::More(first + j));
            j += 1;
        }
    }
    found
}

/// A line without the numbers of its names and what they were declared as.
fn loose(line: &Line) -> String {
    let mut out = String::with_capacity(line.text.len());
    let (mut open, mut number) = (0u32, false);
    for c in line.text.chars() {
        match c {
            '<' if number || open > 0 => open += 1,
            '>' if open > 0 => open -= 1,
            _ if open > 0 => {}
            _ if number && c.is_ascii_digit() => {}
            _ => {
                number = matches!(c, '%' | '&' | '*' | '$');
                out.push(c);
            }
        }
    }
    out
}
