//! Comparison of two modules up to names and layout: the core of `ptx diff`, and of every proof.
//!
//! A module becomes a list of canonical lines in which each name is a number, given in the order of first use. Two
//! modules are the same if their lines are. In a line count: guard, opcode, modifiers, operands, literals by their
//! value, and with the first use of a name what it was declared as (of a register its width; of a variable space,
//! alignment, type, dimensions, initializer). Labels are the number of the instruction behind them. Not in it: names,
//! blanks, comments, the braces of scopes, declarations and labels that nothing uses, whether functions stand before or
//! behind the entries, whether an entry is `.visible`, `.uni` on a branch without a guard (it has one target), and,
//! unless asked for, `.loc`, `.file` and sections.

mod names;
mod stream;

pub use stream::{Line, Stream};

use ptx_core::syntax::Tree;

/// The canonical lines of a module: its header and functions, each by itself.
///
/// with `debug`, `.loc` and the like count.
pub fn streams(tree: &Tree, debug: bool) -> Vec<Stream> {
    stream::split_streams(tree, debug, None)
}

/// The first difference between entry number `entry` of `a`, with everything outside of entries, and `b`, which has
/// only that entry. `.loc` and the like do not count.
pub(crate) fn difference_of_entry(a: &Tree, entry: usize, b: &Tree) -> Option<Difference> {
    first(&stream::split_streams(a, false, Some(entry)), &streams(b, false))
}

/// The first place where two modules differ; `None` if they are the same.
pub fn difference(a: &Tree, b: &Tree, debug: bool) -> Option<Difference> {
    first(&streams(a, debug), &streams(b, debug))
}

fn first(a: &[Stream], b: &[Stream]) -> Option<Difference> {
    (0..a.len().max(b.len())).find_map(|at| {
        let (x, y) = (a.get(at), b.get(at));
        let lines = |s: Option<&Stream>| s.map_or(0, |s| s.lines.len());
        let line = |s: Option<&Stream>, n: usize| s.and_then(|s| s.lines.get(n)).cloned();
        (0..lines(x).max(lines(y)).max(1)).find(|n| line(x, *n) != line(y, *n)).map(|n| Difference {
            stream: at,
            line: n,
            a: line(x, n),
            b: line(y, n),
        })
    })
}

/// First difference of two modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Which of the [`streams`].
    pub stream: usize,
    /// Which of its lines.
    pub line: usize,
    /// The line of the first module.
    pub a: Option<Line>,
    /// The line of the second module.
    pub b: Option<Line>,
}

#[cfg(test)]
mod tests;
