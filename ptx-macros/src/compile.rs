//! The way through `ptx-core`, once for each target: statement tree, PTX tokens, syntax tree, checks, text.

use crate::kernel::Reader;
use ptx_core::diag::Diagnostic;
use ptx_core::emit;
use ptx_core::isa::{Arch, Version};
use ptx_core::kernel::tree::Module;
use ptx_core::kernel::{self, Entry, Variant};
use ptx_core::lex::Builder;
use ptx_core::parse::parse;
use ptx_core::span::Span;
use ptx_core::syntax::Tree;

/// A PTX module for one target.
pub struct Text {
    /// `.target`
    pub arch: Arch,
    /// The PTX.
    pub ptx: String,
    /// Which span made which line: the line, from 1, and the span of its first token.
    pub lines: Vec<(u32, Span)>,
}

/// What became of a module.
#[derive(Default)]
pub struct Compiled {
    /// One text for each target, in the order of the attribute.
    pub texts: Vec<Text>,
    /// The entries, the same in all of them.
    pub entries: Vec<Entry>,
}

/// Compiles a module for every target. What is wrong is reported once, not once for each target.
pub fn module(reader: &mut Reader, module: &Module, arches: &[Arch], version: Option<Version>) -> Compiled {
    let mut compiled = Compiled::default();
    let mut found = Vec::new();
    for &arch in arches {
        let (text, entries) = variant(reader, module, arch, version, &mut found);
        compiled.texts.push(text);
        compiled.entries = entries;
    }
    for diagnostic in found {
        if !reader.diagnostics.contains(&diagnostic) {
            reader.diagnostics.push(diagnostic);
        }
    }
    compiled
}

fn variant(
    reader: &Reader,
    module: &Module,
    arch: Arch,
    version: Option<Version>,
    found: &mut Vec<Diagnostic>,
) -> (Text, Vec<Entry>) {
    let locate = |span| reader.host.location(span);
    let version = version.unwrap_or(Version { major: 9, minor: 0 });
    let (lowered, mut diagnostics) = kernel::lower(module, &Variant { arch, version, locate: &locate });
    found.append(&mut diagnostics);
    let mut builder = Builder::new();
    for (piece, span) in &lowered.pieces {
        builder.push(piece, *span);
    }
    let (source, mut diagnostics) = builder.finish();
    found.append(&mut diagnostics);
    let (tree, mut diagnostics) = parse(source);
    found.append(&mut diagnostics);
    let ptx = String::from_utf8_lossy(&emit::ptx::print(&tree)).into_owned();
    (Text { arch, ptx, lines: lines(&tree) }, lowered.entries)
}

/// Which span stands first on each line.
fn lines(tree: &Tree) -> Vec<(u32, Span)> {
    let mut lines: Vec<(u32, Span)> = Vec::new();
    let mut line = 1;
    for token in 0..tree.source.tokens.len() as u32 {
        line += tree.source.trivia(token).iter().filter(|b| **b == b'\n').count() as u32;
        if lines.last().is_none_or(|(last, _)| *last < line) {
            lines.push((line, tree.source.span(token)));
        }
    }
    lines
}
