//! Declarations of names: the parser is more lenient here than ptxas.

use super::error;
use crate::diag::{Diagnostic, codes};
use crate::ir::Module;
use crate::lower::constant::integer;
use crate::syntax::{Directive, ExprId, ExprKind, StmtKind, Tree, Var};
use crate::token::{Kind, TokenId};

/// The spaces that `.ptr` can name.
const POINTED_TO: &[&str] = &[".const", ".global", ".local", ".shared"];

pub(super) fn check_declarators(tree: &Tree, _: &Module, out: &mut Vec<Diagnostic>) {
    for stmt in &tree.stmts {
        match &stmt.kind {
            StmtKind::Var(var) => {
                variable(tree, var, out);
                in_front(tree, var, out);
            }
            StmtKind::Func(func) => {
                out.extend(func.name.and_then(|name| no_name(tree, name)));
                func.params.iter().chain(&func.returns).for_each(|var| parameter(tree, var, out));
            }
            StmtKind::Label(name) => out.extend(no_name(tree, name.start)),
            StmtKind::Prototype(p) => p.params.iter().chain(&p.returns).for_each(|var| parameter(tree, var, out)),
            _ => {}
        }
    }
}

fn parameter(tree: &Tree, var: &Var, out: &mut Vec<Diagnostic>) {
    variable(tree, var, out);
    if tree.source.text(var.space) == ".param" {
        behind_type(tree, var, out);
    }
}

/// A `$` alone.
fn no_name(tree: &Tree, token: TokenId) -> Option<Diagnostic> {
    let alone = tree.source.text(token) == "$";
    alone.then(|| error(&codes::P0502, tree.source.span(token), "nothing can be named `$`", "4.4"))
}

/// Names have no dot; sizes, counts and alignments are numbers.
fn variable(tree: &Tree, var: &Var, out: &mut Vec<Diagnostic>) {
    for name in tree.names(var) {
        let (text, span) = (tree.source.text(name.name), tree.source.span(name.name));
        if tree.source.kind(name.name) == Kind::Dot {
            out.push(error(&codes::P0101, span, format!("expected a name, found `{text}`"), "4.4"));
        }
        out.extend(no_name(tree, name.name));
        if name.count.is_some() && !name.dims.is_empty() {
            let text = format!("`{text}` is a range or an array, not both");
            out.push(error(&codes::P0306, span, text, "5.4"));
        }
        if name.count.is_some() && name.init.is_some() {
            let text = format!("the variables of a range have no initial value: `{text}`");
            out.push(error(&codes::P0606, span, text, "5.4.4"));
        }
        let size = |dimension: &ExprId| match &tree.expr(*dimension).kind {
            ExprKind::Brackets(inside) => tree.list(inside).first().copied(),
            _ => None,
        };
        tree.list(&name.dims).iter().filter_map(size).for_each(|number| literal(tree, number, u64::MAX, out));
        name.count.into_iter().for_each(|number| literal(tree, number, u64::from(u32::MAX), out));
    }
    for attribute in tree.attributes(var).iter().filter(|a| tree.source.text(a.name) == ".align") {
        match tree.list(&attribute.args).first() {
            Some(bytes) => literal(tree, *bytes, u64::from(u32::MAX), out),
            None => {
                let text = "`.align` wants a number of bytes behind it".to_owned();
                out.push(error(&codes::P0605, tree.source.span(attribute.name), text, "5.4.5"));
            }
        }
    }
}

/// Behind the type of a parameter stands `.align 8`, or `.ptr`, a space and the alignment of what it points to.
fn behind_type(tree: &Tree, var: &Var, out: &mut Vec<Diagnostic>) {
    let Some(ty) = var.ty else { return };
    let is_behind = |a: &&Directive| a.name > ty || tree.source.text(a.name) == ".ptr";
    let behind: Vec<_> = tree.attributes(var).iter().filter(is_behind).collect();
    let mut order = &[".ptr", "space", ".align"][..];
    if behind.first().is_some_and(|a| tree.source.text(a.name) == ".align") {
        order = &[".align"];
    }
    for attribute in behind {
        let (word, span) = (tree.source.text(attribute.name), tree.source.span(attribute.name));
        let place = if POINTED_TO.contains(&word) { "space" } else { word };
        let numbered = word == ".align" || attribute.args.is_empty();
        match order.iter().position(|next| *next == place).filter(|_| numbered && attribute.name > ty) {
            Some(at) => order = &order[at + 1..],
            None => {
                let text = format!("`{word}` has no place here");
                let help = "the order is `.param .u64 .ptr .global .align 16 name`";
                return out.push(error(&codes::P0306, span, text, "5.1.6.3").help(help));
            }
        }
    }
}

/// A number as it stands: ptxas does not calculate here.
fn literal(tree: &Tree, id: ExprId, most: u64, out: &mut Vec<Diagnostic>) {
    let expr = tree.expr(id);
    let written = match expr.kind {
        ExprKind::Int(value) => value <= most,
        ExprKind::Name => true,           // `WARP_SZ`, or reported where it is read
        _ => integer(tree, id).is_none(), // reported where it is read
    };
    if !written {
        let text = "this must be a number, written out, of 32 bits".to_owned();
        out.push(error(&codes::P0308, tree.span(&expr.tokens), text, "5.4"));
    }
}

/// `.align` stands before `.v2`, and there is one of those. (Parameters may have `.align` behind their type.)
fn in_front(tree: &Tree, var: &Var, out: &mut Vec<Diagnostic>) {
    let rank = |word: &str| match word {
        ".attribute" => Some(0),
        ".align" => Some(1),
        ".v2" | ".v4" | ".v8" => Some(2),
        _ => None,
    };
    let mut last = None;
    for attribute in tree.attributes(var) {
        let (word, span) = (tree.source.text(attribute.name), tree.source.span(attribute.name));
        if word == ".ptr" {
            let text = "`.ptr` is for the parameters of entries".to_owned();
            out.push(error(&codes::P0608, span, text, "5.1.6.3"));
        }
        let Some(here) = rank(word) else { continue };
        if word == ".v8" {
            let text = "a variable is a vector of 2 or 4".to_owned();
            out.push(error(&codes::P0614, span, text, "5.4.2"));
        } else if last > Some(here) || here == 2 && last == Some(here) {
            let text = format!("`{word}` stands too late, or twice");
            out.push(error(&codes::P0306, span, text, "5.4").help("the order is `.align`, `.v2` or `.v4`, the type"));
        } else if here > 0 && var.ty.is_some_and(|ty| attribute.name > ty) && tree.source.text(var.space) == ".param" {
            let text = format!("`{word}` stands behind the type");
            out.push(error(&codes::P0306, span, text, "5.4").help("the type comes last, before the name"));
        }
        last = last.max(Some(here));
    }
}
