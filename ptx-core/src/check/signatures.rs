//! Parameters and results of functions and call prototypes.

use super::error;
use crate::diag::{Diagnostic, codes};
use crate::ir::{Function, Module, Param, Space, Variable};
use crate::isa::{Class, Type};
use crate::lower::constant::integer;
use crate::span::Span;
use crate::syntax::{Declarator, Directive, StmtKind, Tree, Var};

/// The greatest alignment of a function's parameter, in bytes. An entry's may have more.
const ALIGNMENT: i64 = 128;

/// Whose parameters they are.
#[derive(Clone, Copy, PartialEq)]
enum Of {
    Entry,
    /// A `.func` with a body.
    Func,
    /// A `.func` without one.
    Declaration,
    Prototype,
}

pub(super) fn check_signatures(tree: &Tree, module: &Module, out: &mut Vec<Diagnostic>) {
    for stmt in &tree.stmts {
        match &stmt.kind {
            StmtKind::Func(f) => {
                let of = match (tree.source.text(f.keyword), f.has_body) {
                    (".entry", _) => Of::Entry,
                    (_, true) => Of::Func,
                    _ => Of::Declaration,
                };
                signature(tree, &f.params, &f.returns, of, out);
            }
            StmtKind::Prototype(p) => {
                signature(tree, &p.params, &p.returns, Of::Prototype, out);
                let named = |d: &&Directive| tree.source.text(d.name) == ".noreturn";
                if let Some(directive) = p.directives.iter().find(named).filter(|_| !p.returns.is_empty()) {
                    out.push(returns(tree.source.span(directive.name)));
                }
                if p.variadic {
                    let text = "a prototype takes a fixed number of parameters";
                    out.push(error(&codes::P0608, tree.span(&stmt.head), text, "11.3.3"));
                }
            }
            _ => {}
        }
    }
    for function in &module.functions {
        resolved(function, module, out);
    }
}

fn signature(tree: &Tree, params: &[Var], returns: &[Var], of: Of, out: &mut Vec<Diagnostic>) {
    for var in params.iter().chain(returns) {
        let names = tree.names(var);
        let why = names.iter().find_map(|name| shape(tree, var, name, of)).or_else(|| place(tree, var, of));
        if let Some(why) = why {
            out.push(error(&codes::P0608, tree.source.span(var.space), why, "5.1.6"));
        }
        if let Some(span) = alignment(tree, var, of) {
            out.push(error(&codes::P0605, span, "a parameter is aligned to 1, 2, 4 … 128 bytes", "5.1.6"));
        }
    }
    let spaces: Vec<&str> = returns.iter().map(|v| tree.source.text(v.space)).collect();
    if let Some(at) = spaces.iter().position(|s| *s != ".reg").filter(|_| spaces.len() > 1) {
        let text = "a function that returns several values returns them in registers";
        out.push(error(&codes::P0608, tree.source.span(returns[at].space), text, "5.1.6.2"));
    }
    let open = |name: &&Declarator| tree.list(&name.dims).iter().any(|d| is_open(tree, *d));
    let front = params.split_last().map_or(&[][..], |(_, front)| front).iter().filter(|_| of == Of::Prototype);
    for name in front.flat_map(|v| tree.names(v)).filter(open) {
        let text = "only the last parameter can be without a size";
        out.push(error(&codes::P0607, tree.source.span(name.name), text, "5.1.6.4"));
    }
    for name in returns.iter().flat_map(|v| tree.names(v)).filter(open) {
        out.push(error(&codes::P0607, tree.source.span(name.name), "a result has a size", "5.1.6.2"));
    }
}

/// `[]` or `[0]`.
fn is_open(tree: &Tree, dimension: crate::syntax::ExprId) -> bool {
    use crate::syntax::ExprKind::Brackets;
    let Brackets(inside) = &tree.expr(dimension).kind else { return false };
    tree.list(inside).first().is_none_or(|size| integer(tree, *size) == Some(0))
}

/// The fault in the declaration of one parameter.
fn shape(tree: &Tree, var: &Var, name: &Declarator, of: Of) -> Option<&'static str> {
    let register = tree.source.text(var.space) == ".reg";
    let sink = tree.source.text(name.name) == "_";
    Some(match of {
        _ if name.count.is_some() => "a parameter is one register or variable; it takes no `<n>`",
        _ if register && !name.dims.is_empty() => "only a `.param` parameter can be an array",
        Of::Prototype if name.dims.len() > 1 => "a parameter has one dimension",
        Of::Prototype if !name.dims.is_empty() && var.ty.is_some_and(|ty| tree.source.text(ty) == ".pred") => {
            "predicates live in registers only"
        }
        Of::Prototype if name.init.is_some() => "a parameter has no initial value",
        Of::Func | Of::Declaration if register && sink => "no parameter can be named `_`",
        _ => return None,
    })
}

/// The fault in its place.
fn place(tree: &Tree, var: &Var, of: Of) -> Option<&'static str> {
    let space = tree.source.text(var.space);
    let pointer = tree.attributes(var).iter().any(|a| tree.source.text(a.name) == ".ptr");
    let alone = var.ty.filter(|_| super::declarations::has_one_alone(tree, var));
    let opaque = alone.and_then(|ty| Type::find(tree.source.text(ty).trim_start_matches('.')));
    Some(match of {
        _ if matches!(space, ".param::func" | ".param::entry") => "parameters are declared in `.param`",
        Of::Prototype if !matches!(space, ".param" | ".reg") => "parameters are in `.param` or `.reg`",
        Of::Func | Of::Declaration if pointer => "`.ptr` is for the parameters of entries",
        Of::Func if space == ".param" && opaque.is_some_and(|ty| ty.class() == Class::Opaque) => {
            "only an entry takes textures, samplers and surfaces; functions take their handles in `.u64`"
        }
        _ => return None,
    })
}

/// The position of an alignment that no parameter can have.
fn alignment(tree: &Tree, var: &Var, of: Of) -> Option<Span> {
    let align = tree.attributes(var).iter().find(|a| tree.source.text(a.name) == ".align")?;
    let bytes = tree.list(&align.args).first().and_then(|e| integer(tree, *e))?;
    let refused = match of {
        Of::Func => return too_aligned(tree, var),
        Of::Prototype => bytes < 1 || bytes.count_ones() != 1,
        Of::Entry | Of::Declaration => false,
    };
    refused.then(|| tree.source.span(align.name))
}

fn returns(span: Span) -> Diagnostic {
    error(&codes::P0610, span, "a function that returns a value cannot be `.noreturn`", "11.4.6")
}

/// The position of an alignment that no `.param` variable of a function can have.
pub(super) fn too_aligned(tree: &Tree, var: &Var) -> Option<Span> {
    let align = tree.attributes(var).iter().find(|a| tree.source.text(a.name) == ".align")?;
    let bytes = tree.list(&align.args).first().and_then(|e| integer(tree, *e))?;
    (tree.source.text(var.space) == ".param" && bytes > ALIGNMENT).then(|| tree.source.span(align.name))
}

/// Checks the resolved signature.
fn resolved(function: &Function, module: &Module, out: &mut Vec<Diagnostic>) {
    if function.variadic {
        let text = "a function takes a fixed number of parameters";
        let help = "an array without a size may be the last: `.param .align 8 .b8 rest[]`";
        out.push(error(&codes::P0608, function.span, text, "11.2.2").help(help));
    }
    let noreturn = function.limit("noreturn");
    if let Some(limit) = noreturn.filter(|_| !function.returns.is_empty()) {
        out.push(returns(limit.span));
    }
    let variable = |p: &Param| if let Param::Var(id) = p { module.variables.get(id.index()) } else { None };
    let all: Vec<&Variable> = function.params.iter().chain(&function.returns).filter_map(variable).collect();
    all.iter().for_each(|v| parameter(v, function, module, out));
    let open = |p: &Param| variable(p).filter(|v| v.dims.contains(&0));
    let (_, front) = function.params.split_last().unzip();
    if let Some(v) = front.and_then(|front: &[Param]| front.iter().find_map(open)).filter(|_| !function.entry) {
        let text = format!("only the last parameter can be without a size: `{}`", v.name);
        out.push(error(&codes::P0607, v.span, text, "5.1.6.4"));
    }
}

fn parameter(v: &Variable, function: &Function, module: &Module, out: &mut Vec<Diagnostic>) {
    let why = match v {
        _ if v.space != Space::Param => "a parameter is in `.param`",
        _ if v.dims.len() > 1 => "a parameter has one dimension",
        _ if !function.defined => return,
        // ptxas looks at what an array consists of only where it is read.
        _ if v.vector > 1 && v.dims.is_empty() => "a parameter is no vector; declare an array of bytes",
        _ if v.ty.name() == "f16x2" && v.dims.is_empty() => "a parameter cannot be `.f16x2`; declare it `.b32`",
        _ if v.ty.name() == "samplerref" && v.dims.is_empty() && !super::declarations::has_samplers(module) => {
            "a sampler needs `.target …, texmode_independent`"
        }
        _ => return,
    };
    let code = if v.ty.class() == Class::Pred { return } else { &codes::P0608 };
    out.push(error(code, v.span, format!("{why}: `{}`", v.name), "5.1.6"));
}
