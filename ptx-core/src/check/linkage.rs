//! Names that other modules could define: `.extern`, functions without a body, `.alias`. A module is assembled alone,
//! as a driver does that loads it, so nothing may be missing; unless it is relocatable, as `ptxas -c` takes it.

use super::banks::names_in_banks;
use super::error;
use crate::diag::{Diagnostic, codes};
use crate::hash::Map;
use crate::ir::{FuncId, Function, Module, Operand, Space, Symbol};
use crate::isa::OperandKind;
use crate::span::Span;
use crate::syntax::{StmtKind, Tree};

/// Names that the driver defines, beside those that start with [`DRIVERS_OWN`].
const DRIVER: &[&str] = &[
    "vprintf",
    "vfprintf",
    "malloc",
    "free",
    "__assertfail",
    "__profile",
    "cudaGraphLaunch",
    "cudaGraphSetConditional",
    "cudaGraphKernelNodeSetParam",
    "cudaGraphKernelNodeSetEnabled",
    "cudaGraphKernelNodeSetGridDim",
    "cudaDeviceMemcpyAsync",
    "cudaDeviceMemcpyBatchAsync",
    "cudaFabricOpErrorStatusCount",
    "cudaFabricOpErrorStatusGet",
    "cudaResizeSharedMemory",
];

/// Its entry points for device-side launches and cooperative groups.
const DRIVERS_OWN: &[&str] = &["__cuda_syscall_", "cnp"];

pub(super) fn check_linkage(tree: &Tree, module: &Module, out: &mut Vec<Diagnostic>) {
    let aliases = aliases(tree, module, out);
    for function in &module.functions {
        declared(function, &aliases, out);
    }
    if module.relocatable {
        return;
    }
    let body = |f: &Function| match f {
        _ if f.defined || f.entry || aliases.contains_key(f.name.as_str()) => Body::Here,
        _ if DRIVER.contains(&f.name.as_str()) || DRIVERS_OWN.iter().any(|own| f.name.starts_with(own)) => Body::Driver,
        _ => Body::Missing,
    };
    let bodies: Vec<Body> = module.functions.iter().map(body).collect();
    if bodies.iter().any(|body| *body != Body::Here) {
        uses(module, &bodies, out);
    }
    let in_banks = names_in_banks(tree);
    for v in &module.variables {
        let open = v.linkage == Some("extern") && v.dims.contains(&0) && !in_banks.contains(v.name.as_str());
        if open && matches!(v.space, Space::Global | Space::Const | Space::Opaque) {
            let text = format!("no variable `{}` is defined, and without a size it cannot be left open", v.name);
            out.push(error(&codes::P0607, v.span, text, "11.6.1"));
        }
    }
}

/// A function that is not `.extern` has a body or is an alias.
fn declared(function: &Function, aliases: &Map<&str, &str>, out: &mut Vec<Diagnostic>) {
    let name = &function.name;
    if function.defined && function.linkage == Some("extern") {
        let text = format!("`{name}` is `.extern`, and has a body");
        out.push(error(&codes::P0608, function.span, text, "11.6.1").help("leave out the one or the other"));
    }
    if function.linkage == Some("common") {
        out.push(error(&codes::P0608, function.span, "only a variable can be `.common`", "11.6.4"));
    }
    if !function.defined && function.linkage != Some("extern") && !aliases.contains_key(name.as_str()) {
        let text = format!("`{name}` has no body anywhere in this module");
        let help = "write one; what another module defines is `.extern`";
        out.push(error(&codes::P0613, function.span, text, "11.2.2").help(help));
    }
}

/// The place of a function's body. A function of the driver can be called, and has no address.
#[derive(Clone, Copy, PartialEq)]
enum Body {
    Here,
    Driver,
    Missing,
}

/// Calls of functions that nothing defines, and addresses of those that have none.
fn uses(module: &Module, bodies: &[Body], out: &mut Vec<Diagnostic>) {
    let mut used = |id: FuncId, called: bool, span: Span| {
        let (Some(function), Some(body)) = (module.functions.get(id.index()), bodies.get(id.index())) else { return };
        if *body == Body::Missing || *body == Body::Driver && !called {
            out.push(undefined(function, *body, called, span));
        }
    };
    for (function, inst) in module.functions.iter().flat_map(|f| f.insts.iter().map(move |i| (f, i))) {
        for (at, operand) in inst.operands.iter().enumerate() {
            let (Operand::Func(id) | Operand::Symbol(Symbol::Func(id), _)) = operand else { continue };
            let called = inst.row.and_then(|r| r.operands.get(at)).is_some_and(|o| matches!(o.kind, OperandKind::Func));
            used(*id, called, function.operand_span(inst, at));
        }
    }
    for v in &module.variables {
        for relocation in v.init.iter().flat_map(|i| &i.relocations) {
            if let Symbol::Func(id) = relocation.of {
                used(id, false, v.span);
            }
        }
    }
}

fn undefined(function: &Function, body: Body, called: bool, span: Span) -> Diagnostic {
    let name = &function.name;
    let (text, help) = match body {
        Body::Driver => (
            format!("`{name}` is a function of the driver: it has no address"),
            "call it by its name, or write a function that does",
        ),
        _ if called => (
            format!("`{name}` has no body in this module, and the driver has no such function"),
            "a module is loaded alone: put the function into it",
        ),
        _ => (
            format!("`{name}` has no body in this module: it has no address"),
            "a module is loaded alone: put the function into it",
        ),
    };
    error(&codes::P0613, span, text, "11.6.1").label(function.span, "declared here").help(help)
}

/// Every alias, with what it stands for.
fn aliases<'t>(tree: &'t Tree, module: &Module, out: &mut Vec<Diagnostic>) -> Map<&'t str, &'t str> {
    let mut aliases = Map::default();
    let mut functions: Option<Map<&str, &Function>> = None;
    for stmt in tree.items.iter().map(|id| tree.stmt(*id)) {
        let StmtKind::Directive(d) = &stmt.kind else { continue };
        if tree.source.text(d.name) != ".alias" {
            continue;
        }
        let names: Vec<_> = tree.list(&d.args).iter().map(|e| tree.expr(*e).tokens.start).collect();
        let [alias, of] = names[..] else { continue };
        let (name, target, span) = (tree.source.text(alias), tree.source.text(of), tree.source.span(alias));
        if let Some(earlier) = aliases.insert(name, target) {
            let text = format!("`{name}` is an alias already, of `{earlier}`");
            out.push(error(&codes::P0502, span, text, "11.2.3"));
            continue;
        }
        // The first of a name.
        let functions =
            functions.get_or_insert_with(|| module.functions.iter().rev().map(|f| (f.name.as_str(), f)).collect());
        out.extend(alias_is_wrong((name, target, span), functions, module));
    }
    aliases
}

/// Both are functions with the same parameters; the first is declared before and has no body, the second has one.
fn alias_is_wrong(
    (name, target, span): (&str, &str, Span),
    functions: &Map<&str, &Function>,
    module: &Module,
) -> Option<Diagnostic> {
    let find = |name: &str| functions.get(name).copied();
    let section = "11.2.3";
    let Some(alias) = find(name).filter(|a| a.span.lo < span.lo) else {
        let help = format!("declare it before: `.visible .func {name}…;`, as `{target}` is");
        return Some(error(&codes::P0501, span, format!("`{name}` is not declared as a function"), section).help(help));
    };
    let Some(of) = find(target).filter(|of| of.span.lo < span.lo) else {
        let text = format!("there is no function `{target}` in front of this");
        return Some(error(&codes::P0501, span, text, section));
    };
    let (code, text) = match of {
        _ if name == target => (&codes::P0810, format!("`{name}` cannot stand for itself")),
        _ if alias.defined => (&codes::P0502, format!("`{name}` has a body of its own; it cannot be an alias")),
        _ if matches!(of.linkage, Some("weak" | "extern")) => {
            (&codes::P0613, format!("`{target}` is `.{}`; it can have no alias", of.linkage.unwrap_or_default()))
        }
        _ if alias.signature(module) != of.signature(module) => {
            (&codes::P0612, format!("`{name}` and `{target}` do not have the same parameters"))
        }
        _ if alias.limit("noreturn").is_some() != of.limit("noreturn").is_some() => {
            (&codes::P0612, format!("one of `{name}` and `{target}` is `.noreturn`, and the other is not"))
        }
        _ => return None,
    };
    Some(error(code, span, text, section).label(alias.span, "declared here"))
}
