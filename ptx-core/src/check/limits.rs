//! Performance and cluster directives: where they stand, what their numbers may be, which exclude or need each other.

use super::error;
use crate::diag::{Diagnostic, codes};
use crate::ir::{Function, Limit, Module};
use crate::isa::table;
use crate::lower::constant::integer;
use crate::syntax::{Directive, StmtKind, Tree};

/// Directives whose numbers are greater than zero.
const POSITIVE: &[&str] = &["maxntid", "reqntid", "minnctapersm", "maxnreg", "local_maxnreg", "maxnctapersm"];

/// The greatest number of a directive: of a function, and of a prototype.
const MOST: &[(&str, i64, i64)] =
    &[(".abi_preserve", 239, 255), (".abi_preserve_control", 11, 11), (".language", 10, 10)];

/// Pairs that ptxas refuses on one kernel.
const EXCLUSIVE: &[(&str, &str)] =
    &[("maxntid", "reqntid"), ("reqnctapercluster", "maxclusterrank"), ("maxnctapersm", "minnctapersm")];

/// A directive and those that must stand beside it.
const NEEDS: &[(&str, &[&str])] = &[("blocksareclusters", &["reqntid", "reqnctapercluster"])];

pub(super) fn check_limits(tree: &Tree, module: &Module, out: &mut Vec<Diagnostic>) {
    for stmt in &tree.stmts {
        match &stmt.kind {
            StmtKind::Func(func) => {
                func.directives.iter().for_each(|d| greatest(tree, d, false, out));
                if tree.source.text(func.keyword) == ".func" {
                    out.extend(order(tree, &func.directives));
                }
            }
            StmtKind::Prototype(prototype) => {
                prototype.directives.iter().for_each(|d| greatest(tree, d, true, out));
                out.extend(prototype.directives.iter().find_map(|d| of_prototype(tree, d)));
                out.extend(order(tree, &prototype.directives));
            }
            _ => {}
        }
    }
    for function in &module.functions {
        for limit in &function.limits {
            place(function, limit, out);
            numbers(limit, out);
            needs(function, limit, out);
        }
        for (a, b) in EXCLUSIVE {
            if let (Some(first), Some(second)) = (function.limit(a), function.limit(b)) {
                let text = format!("`.{a}` and `.{b}` exclude each other");
                out.push(
                    Diagnostic::error(&codes::P0610, second.span, text).label(first.span, "the other stands here"),
                );
            }
        }
    }
}

/// The order of the directives of functions and prototypes. Each stands once; those with the same number stand in any order.
const ORDER: &[(&str, u8)] =
    &[(".noreturn", 0), (".abi_preserve", 1), (".abi_preserve_control", 1), (".local_maxnreg", 2), (".language", 3)];

fn order(tree: &Tree, directives: &[Directive]) -> Option<Diagnostic> {
    let place = |d: &Directive| ORDER.iter().find(|(name, _)| *name == tree.source.text(d.name)).map(|(_, at)| *at);
    directives.iter().enumerate().find_map(|(at, directive)| {
        let (name, span) = (tree.source.text(directive.name), tree.source.span(directive.name));
        let here = place(directive)?;
        let before = &directives[..at];
        if let Some(earlier) = before.iter().find(|d| tree.source.text(d.name) == name) {
            let d = error(&codes::P0616, span, format!("`{name}` is said twice"), "11.4");
            return Some(d.label(tree.source.span(earlier.name), "here"));
        }
        let later = before.iter().find(|d| place(d).is_some_and(|place| place > here))?;
        let text = format!("`{name}` stands before `{}`", tree.source.text(later.name));
        Some(error(&codes::P0616, span, text, "11.4").label(tree.source.span(later.name), "this comes behind it"))
    })
}

fn of_prototype(tree: &Tree, directive: &Directive) -> Option<Diagnostic> {
    let name = tree.source.text(directive.name);
    let info = table().directives.get(name)?;
    let wrong = !info.place.split(' ').any(|place| place == "prototype");
    let text = || format!("`{name}` has no place in a `.callprototype`");
    wrong.then(|| error(&codes::P0616, tree.source.span(directive.name), text(), info.section))
}

fn greatest(tree: &Tree, directive: &Directive, prototype: bool, out: &mut Vec<Diagnostic>) {
    let name = tree.source.text(directive.name);
    let Some((_, function, of_prototype)) = MOST.iter().find(|(of, ..)| *of == name) else { return };
    let most = if prototype { of_prototype } else { function };
    for id in tree.list(&directive.args) {
        if integer(tree, *id).is_some_and(|n| n > *most) {
            let text = format!("the number of `{name}` is at most {most} here");
            out.push(error(&codes::P0609, tree.span(&tree.expr(*id).tokens), text, "11.4"));
        }
    }
}

fn place(function: &Function, limit: &Limit, out: &mut Vec<Diagnostic>) {
    let Some(info) = table().directives.get(format!(".{}", limit.name).as_str()) else {
        if !out.iter().any(|d| d.span == limit.span) {
            let text = format!("there is no directive `.{}`", limit.name);
            out.push(Diagnostic::error(&codes::P0616, limit.span, text));
        }
        return;
    };
    let here = if function.entry { "entry" } else { "func" };
    if !info.place.split(' ').any(|place| place == here) {
        let text = format!("`.{}` has no place in an `.{here}`", limit.name);
        out.push(Diagnostic::error(&codes::P0616, limit.span, text).section(info.section));
    }
}

fn needs(function: &Function, limit: &Limit, out: &mut Vec<Diagnostic>) {
    let Some((name, needed)) = NEEDS.iter().find(|(name, _)| *name == limit.name) else { return };
    let missing = needed.iter().find(|n| function.limit(n).is_none());
    if let Some(missing) = missing {
        let text = format!("`.{name}` needs `.{missing}` beside it");
        out.push(Diagnostic::error(&codes::P0610, limit.span, text));
    }
}

fn numbers(limit: &Limit, out: &mut Vec<Diagnostic>) {
    if POSITIVE.contains(&limit.name.as_str()) && limit.values.contains(&0) {
        let text = format!("the numbers of `.{}` are greater than zero", limit.name);
        out.push(Diagnostic::error(&codes::P0609, limit.span, text).section("11.4"));
    }
}
