//! The structure of a document: symbols, foldable parts, selections that grow.

use crate::document::{Document, Part};
use crate::place::path;
use ptx_core::syntax::{ExprId, ExprKind, StmtId, StmtKind, Tree};
use ptx_core::token::TokenId;
use std::ops::Range;

/// Something that has a name.
#[derive(Clone, Debug)]
pub struct Symbol {
    /// Its name.
    pub name: String,
    /// Its declaration in short.
    pub detail: String,
    /// Its kind.
    pub kind: SymbolKind,
    /// All its bytes.
    pub range: Range<usize>,
    /// The bytes of its name.
    pub name_range: Range<usize>,
    /// What it contains.
    pub children: Vec<Symbol>,
}

/// Kind of a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum SymbolKind {
    Entry,
    Function,
    Variable,
    Parameter,
    Label,
    Section,
}

/// The most labels and variables of one function that are listed: a debug build has a label for each line.
const MOST_CHILDREN: usize = 300;

/// Functions with their parameters, variables and labels, the variables of the module, and sections.
pub fn symbols(document: &Document) -> Vec<Symbol> {
    let mut found = Vec::new();
    for part in document.parts() {
        for id in &part.tree.items {
            symbol(&part, *id, &mut found);
        }
    }
    found
}

fn symbol(part: &Part<'_>, id: StmtId, out: &mut Vec<Symbol>) {
    let tree = part.tree;
    let stmt = tree.stmt(id);
    let whole = part.range(tree.span(&(stmt.head.start..stmt.tail().end)));
    let make = |name: &str, detail: String, kind, token: TokenId, children| Symbol {
        // Editors refuse empty names.
        name: if name.is_empty() { "?".to_owned() } else { name.to_owned() },
        detail,
        kind,
        range: whole.clone(),
        name_range: part.token(token),
        children,
    };
    match &stmt.kind {
        StmtKind::Func(func) => {
            let Some(name) = func.name else { return };
            let keyword = tree.source.text(func.keyword);
            let kind = if keyword == ".entry" { SymbolKind::Entry } else { SymbolKind::Function };
            let mut children = Vec::new();
            for var in func.returns.iter().chain(&func.params) {
                for declarator in tree.names(var) {
                    let ty = var.ty.map_or("", |ty| tree.source.text(ty));
                    let range = part.token(declarator.name);
                    children.push(Symbol {
                        range: range.clone(),
                        ..make(
                            tree.source.text(declarator.name),
                            ty.to_owned(),
                            SymbolKind::Parameter,
                            declarator.name,
                            Vec::new(),
                        )
                    });
                }
            }
            stmt.children().iter().for_each(|child| inner(part, *child, &mut children));
            children.truncate(MOST_CHILDREN);
            out.push(make(tree.source.text(name), keyword.to_owned(), kind, name, children));
        }
        StmtKind::Var(_) => inner(part, id, out),
        StmtKind::Section(name) => {
            out.push(make(tree.source.text(*name), ".section".to_owned(), SymbolKind::Section, *name, Vec::new()));
        }
        _ => {}
    }
}

/// Variables, labels, and those in the blocks of a function.
fn inner(part: &Part<'_>, id: StmtId, out: &mut Vec<Symbol>) {
    let tree = part.tree;
    let stmt = tree.stmt(id);
    let range = part.range(tree.span(&stmt.head));
    match &stmt.kind {
        StmtKind::Var(var) if tree.source.text(var.space) != ".reg" => {
            for declarator in tree.names(var) {
                out.push(Symbol {
                    name: tree.source.text(declarator.name).to_owned(),
                    detail: format!("{} {}", tree.source.text(var.space), var.ty.map_or("", |ty| tree.source.text(ty))),
                    kind: SymbolKind::Variable,
                    range: range.clone(),
                    name_range: part.token(declarator.name),
                    children: Vec::new(),
                });
            }
        }
        StmtKind::Label(name) => out.push(Symbol {
            name: tree.compact(name),
            detail: String::new(),
            kind: SymbolKind::Label,
            range: range.clone(),
            name_range: part.range(tree.span(name)),
            children: Vec::new(),
        }),
        StmtKind::Block if out.len() < MOST_CHILDREN => {
            stmt.children().iter().for_each(|child| inner(part, *child, out));
        }
        _ => {}
    }
}

/// A part that can be folded: its first and last line, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fold {
    /// The line that stays.
    pub first: u32,
    /// The last line that goes.
    pub last: u32,
    /// True for comments.
    pub comment: bool,
}

/// Functions, blocks, sections, long statements, and runs of comments.
pub fn folds(document: &Document) -> Vec<Fold> {
    let mut found = Vec::new();
    let mut add = |range: Range<usize>, comment: bool| {
        let lines =
            document.text().line_of(range.start)..document.text().line_of(range.end.saturating_sub(1).max(range.start));
        if let (Ok(first), Ok(last), true) =
            (u32::try_from(lines.start), u32::try_from(lines.end), lines.start < lines.end)
        {
            found.push(Fold { first, last, comment });
        }
    };
    for part in document.parts() {
        let tree = part.tree;
        for stmt in &tree.stmts {
            if stmt.body.is_some() {
                // From the brace on, so that a signature of several lines stays.
                let open = stmt.head.end.saturating_sub(1);
                add(part.range(tree.span(&(open..stmt.tail().end))), false);
            } else if !stmt.head.is_empty() {
                add(part.range(tree.span(&stmt.head)), false);
            }
        }
    }
    comments(document, &mut found);
    found
}

/// Runs of lines that begin with `//`.
fn comments(document: &Document, out: &mut Vec<Fold>) {
    let text = document.text().as_str();
    let mut run: Option<u32> = None;
    let lines = document.text().lines();
    for line in 0..=lines {
        let range = document.text().line(line);
        let is_comment = line < lines && text.get(range).is_some_and(|line| line.trim_start().starts_with("//"));
        let Ok(line) = u32::try_from(line) else { return };
        match (is_comment, run) {
            (true, None) => run = Some(line),
            (false, Some(first)) => {
                if line - first > 1 {
                    out.push(Fold { first, last: line - 1, comment: true });
                }
                run = None;
            }
            _ => {}
        }
    }
}

/// The ranges around a position, from the smallest to the largest.
pub fn selections(document: &Document, offset: usize) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    if let Some(spot) = document.spot(offset) {
        let (part, tree) = (spot.part, spot.part.tree);
        found.push(part.token(spot.token));
        found.push(part.range(tree.span(&spot.name())));
        if let Some(inst) = spot.inst() {
            let mut around = Vec::new();
            for id in tree.list(&inst.operands) {
                expressions(tree, *id, spot.token, &mut around);
            }
            found.extend(around.iter().rev().map(|tokens| part.range(tree.span(tokens))));
        }
        for id in path(tree, spot.token).iter().rev() {
            let stmt = tree.stmt(*id);
            found.push(part.range(tree.span(&(stmt.head.start..stmt.tail().end))));
        }
    }
    found.push(0..document.text().as_str().len());
    let mut last = offset..offset;
    found.retain(|range| {
        let grows = range.start <= last.start && range.end >= last.end && *range != last;
        if grows {
            last = range.clone();
        }
        grows
    });
    found
}

/// The expressions that hold a token, from the outermost on.
fn expressions(tree: &Tree, id: ExprId, token: TokenId, out: &mut Vec<Range<TokenId>>) {
    let expr = tree.expr(id);
    if !expr.tokens.contains(&token) {
        return;
    }
    out.push(expr.tokens.clone());
    match &expr.kind {
        ExprKind::Group(list) | ExprKind::Braces(list) | ExprKind::Brackets(list) | ExprKind::Apply(_, list) => {
            tree.list(list).iter().for_each(|id| expressions(tree, *id, token, out));
        }
        ExprKind::Unary(_, a) | ExprKind::Cast(_, a) | ExprKind::Select(a, _) => expressions(tree, *a, token, out),
        ExprKind::Binary(_, a, b) | ExprKind::Pair(a, b) | ExprKind::Index(a, b) => {
            expressions(tree, *a, token, out);
            expressions(tree, *b, token, out);
        }
        _ => {}
    }
}
