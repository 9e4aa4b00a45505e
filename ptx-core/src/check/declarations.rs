//! What declarations may say where they stand: state spaces, linkage, attributes, parameters, prototypes, aliases.

use crate::diag::{Code, Diagnostic, codes};
use crate::ir::{Function, Module, Param, Space, Variable};
use crate::isa::{Class, Type};
use crate::span::Span;
use crate::syntax::{StmtKind, Tree, Var};

/// What may stand between a state space and a name, beside the type.
const WORDS: &[&str] =
    &[".align", ".v2", ".v4", ".v8", ".ptr", ".global", ".shared", ".const", ".local", ".param", ".attribute"];

pub(super) fn check(tree: &Tree, module: &Module, out: &mut Vec<Diagnostic>) {
    for stmt in &tree.stmts {
        if let StmtKind::Var(var) = &stmt.kind {
            words(tree, var, out);
        }
    }
    for id in &tree.items {
        match &tree.stmt(*id).kind {
            StmtKind::Var(var) => at_module_level(tree, module, var, out),
            StmtKind::Func(func) => {
                func.params.iter().chain(&func.returns).for_each(|var| words(tree, var, out));
                tree.stmt(*id).children.iter().for_each(|child| {
                    if let StmtKind::Var(var) = &tree.stmt(*child).kind {
                        in_a_body(tree, var, out);
                    }
                });
            }
            StmtKind::Directive(d) if tree.source.text(d.name) == ".alias" => {
                let names = tree.list(&d.args).iter().map(|e| tree.compact(&tree.expr(*e).tokens)).collect::<Vec<_>>();
                alias(&names, tree.source.span(d.name), module, out);
            }
            _ => {}
        }
    }
    for function in &module.functions {
        signature(function, module, out);
    }
}

fn error(code: &'static Code, span: Span, text: &str, section: &'static str) -> Diagnostic {
    Diagnostic::error(code, span, text).section(section)
}

/// `.align 4`, `.v4`, `.attribute(.managed)`.
fn words(tree: &Tree, var: &Var, out: &mut Vec<Diagnostic>) {
    for attribute in tree.attributes(var) {
        let (word, span) = (tree.source.text(attribute.name), tree.source.span(attribute.name));
        let is_type = Type::find(word.trim_start_matches('.')).is_some();
        if !WORDS.contains(&word) && !is_type {
            out.push(error(&codes::P0608, span, &format!("`{word}` has no place in a declaration"), "5.4"));
        }
        let inside = tree.list(&attribute.args).iter().map(|e| tree.compact(&tree.expr(*e).tokens)).collect::<String>();
        if word == ".attribute" && inside.contains(".managed") && tree.source.text(var.space) != ".global" {
            out.push(error(&codes::P0608, span, "only a `.global` variable can be `.managed`", "5.4.8"));
        }
    }
}

fn at_module_level(tree: &Tree, module: &Module, var: &Var, out: &mut Vec<Diagnostic>) {
    let (space, span) = (tree.source.text(var.space), tree.source.span(var.space));
    if matches!(space, ".local" | ".param" | ".tex") {
        let text = format!("a `{space}` variable has no place outside of a function");
        out.push(error(&codes::P0608, span, &text, "5.1"));
    }
    let linkage = var.linkage.map(|l| tree.source.text(l));
    if linkage == Some(".common") && space != ".global" {
        out.push(error(&codes::P0608, span, "only a `.global` variable can be `.common`", "11.6.4"));
    }
    let sampler = var.ty.is_some_and(|ty| tree.source.text(ty) == ".samplerref");
    if sampler && !has_samplers(module) {
        out.push(error(&codes::P0608, span, "a sampler needs `.target …, texmode_independent`", "5.3"));
    }
    if is_opaque(tree, var) && space != ".global" {
        out.push(error(&codes::P0608, span, "textures, samplers and surfaces are `.global`", "5.3"));
    }
}

fn in_a_body(tree: &Tree, var: &Var, out: &mut Vec<Diagnostic>) {
    if let Some(linkage) = var.linkage {
        let text = format!("`{}` has no place inside of a function", tree.source.text(linkage));
        out.push(error(&codes::P0608, tree.source.span(linkage), &text, "11.6"));
    }
    if is_opaque(tree, var) {
        let text = "textures, samplers and surfaces are declared outside of functions";
        out.push(error(&codes::P0608, tree.source.span(var.space), text, "5.3"));
    }
}

fn has_samplers(module: &Module) -> bool {
    module.options.iter().any(|o| o == "texmode_independent")
}

fn is_opaque(tree: &Tree, var: &Var) -> bool {
    var.ty.is_some_and(|ty| matches!(tree.source.text(ty), ".texref" | ".samplerref" | ".surfref"))
}

/// `.alias name, function`: both are functions, the first only declared.
fn alias(names: &[String], span: Span, module: &Module, out: &mut Vec<Diagnostic>) {
    let find = |name: &String| module.functions.iter().find(|f| f.name == *name);
    let [alias, of] = names else { return };
    match (find(alias), find(of)) {
        (None, _) => {
            let text = format!("`{alias}` is not declared as a function");
            let help = format!("declare it before: `.visible .func {alias}…;`, as `{of}` is");
            out.push(error(&codes::P0501, span, &text, "11.2.3").help(help));
        }
        (_, None) => out.push(error(&codes::P0501, span, &format!("there is no function `{of}`"), "11.2.3")),
        (Some(a), Some(b)) if a.counts() != b.counts() => {
            let text = format!("`{alias}` and `{of}` do not have the same parameters");
            out.push(error(&codes::P0612, span, &text, "11.2.3").label(a.span, "declared here"));
        }
        _ => {}
    }
}

/// What a function may return and take.
fn signature(function: &Function, module: &Module, out: &mut Vec<Diagnostic>) {
    let name = &function.name;
    if function.entry && function.variadic {
        out.push(error(&codes::P0608, function.span, "an entry takes a fixed number of parameters", "11.2.1"));
    }
    if function.defined && function.linkage == Some("extern") {
        let text = format!("`{name}` is `.extern`, and has a body");
        out.push(error(&codes::P0608, function.span, &text, "11.6.1").help("leave out the one or the other"));
    }
    if function.entry && function.linkage == Some("common") {
        out.push(error(&codes::P0608, function.span, "an entry cannot be `.common`", "11.6.4"));
    }
    if !function.defined && function.linkage.is_none() {
        let text = format!("`{name}` has no body anywhere in this module");
        let help = "write one; what another module defines is `.extern`";
        out.push(error(&codes::P0613, function.span, &text, "11.2.2").help(help));
    }
    let noreturn = function.limits.iter().find(|l| l.name == "noreturn");
    if let Some(limit) = noreturn.filter(|_| !function.returns.is_empty()) {
        out.push(error(&codes::P0610, limit.span, "a function that returns a value cannot be `.noreturn`", "11.4.6"));
    }
    let variable = |p: &Param| if let Param::Var(id) = p { module.variables.get(id.index()) } else { None };
    let all: Vec<&Variable> = function.params.iter().chain(&function.returns).filter_map(variable).collect();
    all.iter().for_each(|v| parameter(v, module, out));
    let open = |p: &Param| variable(p).filter(|v| v.dims.contains(&0));
    let (_, front) = function.params.split_last().unzip();
    if let Some(v) = front.and_then(|front: &[Param]| front.iter().find_map(open)).filter(|_| !function.entry) {
        let text = format!("only the last parameter can be without a size: `{}`", v.name);
        out.push(error(&codes::P0607, v.span, &text, "5.1.6.4"));
    }
}

fn parameter(v: &Variable, module: &Module, out: &mut Vec<Diagnostic>) {
    let why = match v {
        _ if v.space != Space::Param => "a parameter is in `.param`",
        _ if v.vector > 1 => "a parameter is no vector; declare an array of bytes",
        _ if v.ty.name() == "f16x2" => "a parameter cannot be `.f16x2`; declare it `.b32`",
        _ if v.dims.len() > 1 => "a parameter has one dimension",
        _ if v.ty.name() == "samplerref" && !has_samplers(module) => "a sampler needs `.target …, texmode_independent`",
        _ => return,
    };
    let code = if v.ty.class() == Class::Pred { return } else { &codes::P0608 };
    out.push(error(code, v.span, &format!("{why}: `{}`", v.name), "5.1.6"));
}
