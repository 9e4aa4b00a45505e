//! Debug information: `.file` numbers, where `.loc` says that code was inlined, the lines of sections.

use super::error;
use crate::diag::{Diagnostic, codes};
use crate::ir::Module;
use crate::lower::constant::integer;
use crate::span::Span;
use crate::syntax::{Directive, Expr, ExprId, ExprKind, StmtKind, Tree};
use std::collections::{HashMap, HashSet};

/// What a section's line may hold: the type, the least and the greatest number, whether names may stand there.
/// ptxas does not look how large the numbers of 32 bits are.
const DATA: &[(&str, i64, i64, bool)] = &[
    (".b8", -0x80, 0xff, false),
    (".b16", -0x8000, 0xffff, false),
    (".b32", -0x8000_0000, i64::MAX, true),
    (".b64", i64::MIN, i64::MAX, true),
];

pub(super) fn check(tree: &Tree, _: &Module, out: &mut Vec<Diagnostic>) {
    files(tree, out);
    let labels = sections(tree, out);
    inlined(tree, &labels, out);
}

fn named<'t>(tree: &'t Tree, name: &'static str) -> impl Iterator<Item = &'t Directive> {
    tree.stmts.iter().filter_map(move |stmt| match &stmt.kind {
        StmtKind::Directive(d) if tree.source.text(d.name) == name => Some(d),
        _ => None,
    })
}

/// Each number stands for one file.
fn files(tree: &Tree, out: &mut Vec<Diagnostic>) {
    let mut seen = HashMap::new();
    for file in named(tree, ".file") {
        let Some((first, index)) = tree.list(&file.args).first().and_then(|e| Some((*e, integer(tree, *e)?))) else {
            continue;
        };
        let span = tree.span(&tree.expr(first).tokens);
        if let Some(earlier) = seen.insert(index, span) {
            let text = format!("there is a file {index} already");
            out.push(error(&codes::P0502, span, text, "11.5.3").label(earlier, "here"));
        }
    }
}

/// The names of sections and of the labels in them.
fn sections<'t>(tree: &'t Tree, out: &mut Vec<Diagnostic>) -> HashMap<&'t str, Span> {
    let mut labels = HashMap::new();
    for stmt in &tree.stmts {
        let StmtKind::Section(name) = stmt.kind else { continue };
        let (text, span) = (tree.source.text(name), tree.source.span(name));
        if !text.starts_with('.') {
            out.push(error(&codes::P0608, span, "a section's name begins with a dot", "11.5.2"));
        }
        labels.entry(text).or_insert(span);
        for line in stmt.children().iter().map(|id| tree.stmt(*id)) {
            match &line.kind {
                StmtKind::Label(name) => {
                    let (text, span) = (tree.source.text(name.start), tree.span(name));
                    if let Some(earlier) = labels.insert(text, span) {
                        let text = format!("`{text}` is a label of a section already");
                        out.push(error(&codes::P0502, span, text, "11.5.2").label(earlier, "here"));
                    }
                }
                StmtKind::Data(data) => {
                    if tree.source.bytes(line.head.end - 1) == b";" {
                        let span = tree.source.span(line.head.end - 1);
                        out.push(error(&codes::P0101, span, "no `;` ends a section's line", "11.5.2"));
                    }
                    values(tree, data, out);
                }
                _ => {}
            }
        }
    }
    labels
}

/// `.b8 1, 2`, `.b32 label+4`
fn values(tree: &Tree, data: &Directive, out: &mut Vec<Diagnostic>) {
    let ty = tree.source.text(data.name);
    let Some((_, least, most, names)) = DATA.iter().find(|(name, ..)| *name == ty) else {
        let text = format!("a section's line is of `.b8`, `.b16`, `.b32` or `.b64`, not of `{ty}`");
        out.push(error(&codes::P0306, tree.source.span(data.name), text, "11.5.2"));
        return;
    };
    for id in tree.list(&data.args) {
        let Expr { tokens, kind } = tree.expr(*id);
        let why = match (kind, number(tree, *id)) {
            (_, Some(n)) if (*least..=*most).contains(&n) => continue,
            (_, Some(n)) => format!("{n} does not fit into `{ty}`"),
            (ExprKind::Name | ExprKind::Dot | ExprKind::Binary(..), None) if *names && !sum(tree, *id) => continue,
            (ExprKind::Name | ExprKind::Dot | ExprKind::Binary(..), None) if !*names && !sum(tree, *id) => {
                format!("an address does not fit into `{ty}`")
            }
            (ExprKind::Error, _) => continue,
            _ => "this is neither a number nor a label".to_owned(),
        };
        out.push(error(&codes::P0304, tree.span(&tokens), why, "11.5.2"));
    }
}

/// `1` or `-1`; no arithmetic.
fn number(tree: &Tree, id: ExprId) -> Option<i64> {
    match tree.expr(id).kind {
        ExprKind::Int(n) => Some(i64::try_from(n).unwrap_or(i64::MAX)),
        ExprKind::Unary(b'-', x) => number(tree, x).map(i64::wrapping_neg),
        _ => None,
    }
}

/// Whether arithmetic is made of numbers alone, which no section takes.
fn sum(tree: &Tree, id: ExprId) -> bool {
    match tree.expr(id).kind {
        ExprKind::Binary(_, a, b) => sum(tree, a) && sum(tree, b),
        ExprKind::Int(_) => true,
        _ => false,
    }
}

/// `.loc 1 2 3, function_name label, inlined_at 1 5 3`: that place must have been in an earlier `.loc`.
fn inlined(tree: &Tree, labels: &HashMap<&str, Span>, out: &mut Vec<Diagnostic>) {
    let mut seen = HashSet::new();
    if !named(tree, ".loc").any(|loc| loc.args.len() > 3) {
        return;
    }
    for loc in named(tree, ".loc") {
        let args = tree.list(&loc.args);
        for id in args.iter().skip(3) {
            let ExprKind::Apply(word, inner) = &tree.expr(*id).kind else { continue };
            let (inner, span) = (tree.list(inner), tree.span(&tree.expr(*id).tokens));
            let name = || inner.first().map(|e| tree.source.text(tree.expr(*e).tokens.start)).unwrap_or_default();
            match tree.source.text(*word) {
                "function_name" if !labels.contains_key(name()) && name() != ".debug_str" => {
                    let text = format!("`{}` is no label of a section", name());
                    out.push(error(&codes::P0501, span, text, "11.5.4"));
                }
                "inlined_at" if !seen.contains(&place(tree, inner)) => {
                    let text = "no `.loc` before this one names the place".to_owned();
                    out.push(error(&codes::P0501, span, text, "11.5.4"));
                }
                _ => {}
            }
        }
        seen.insert(place(tree, args));
    }
}

/// File, line and column.
fn place(tree: &Tree, args: &[ExprId]) -> [Option<i64>; 3] {
    [0, 1, 2].map(|n| args.get(n).and_then(|e| integer(tree, *e)))
}
