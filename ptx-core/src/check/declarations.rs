//! Words that declarations may contain at their position: state spaces, linkage, attributes.

use super::error;
use crate::diag::{Diagnostic, codes};
use crate::ir::Module;
use crate::isa::{Type, Version};
use crate::span::Span;
use crate::syntax::{Directive, StmtId, StmtKind, Tree, Var};

/// Words that may stand between a state space and a name, beside the type.
const WORDS: &[&str] =
    &[".align", ".v2", ".v4", ".v8", ".ptr", ".global", ".shared", ".const", ".local", ".param", ".attribute"];

pub(super) fn check_declarations(tree: &Tree, module: &Module, out: &mut Vec<Diagnostic>) {
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
                func.attributes.iter().for_each(|a| match tree.source.text(a.name) {
                    ".attribute" => attribute(tree, a, false, out),
                    word => out.push(before_the_name(tree, word, a)),
                });
                let entry = tree.source.text(func.keyword) == ".entry";
                let early = func.directives.first().filter(|_| entry && !func.has_body);
                out.extend(early.map(|directive| without_body(tree, directive)));
                in_a_scope(tree, tree.stmt(*id).children(), out);
                if !entry && module.version < END_OF_PARAMETERS_IN_BODIES {
                    parameters(tree, tree.stmt(*id).children(), out);
                }
            }
            _ => {}
        }
    }
}

/// `.align 4`, `.v4`, `.attribute(.managed)`.
fn words(tree: &Tree, var: &Var, out: &mut Vec<Diagnostic>) {
    for attribute in tree.attributes(var) {
        let (word, span) = (tree.source.text(attribute.name), tree.source.span(attribute.name));
        let is_type = Type::find(word.trim_start_matches('.')).is_some();
        if !WORDS.contains(&word) && !is_type {
            out.push(error(&codes::P0608, span, format!("`{word}` has no place in a declaration"), "5.4"));
        }
        if word == ".attribute" {
            self::attribute(tree, attribute, tree.source.text(var.space) == ".global", out);
        }
    }
}

fn before_the_name(tree: &Tree, word: &str, directive: &Directive) -> Diagnostic {
    let text = format!("`{word}` stands before the function's name");
    let d = error(&codes::P0616, tree.source.span(directive.name), text, "11.2");
    d.help("directives such as `.maxntid` stand between the parameters and the body")
}

fn without_body(tree: &Tree, directive: &Directive) -> Diagnostic {
    let text =
        format!("an entry has `{}` where its body is, not where it is declared", tree.source.text(directive.name));
    error(&codes::P0616, tree.source.span(directive.name), text, "11.4")
}

/// `.attribute(.managed)` of a global variable. `.unified` is for modules that are linked, not loaded.
fn attribute(tree: &Tree, attribute: &Directive, global: bool, out: &mut Vec<Diagnostic>) {
    let span = tree.source.span(attribute.name);
    let inside = tree.list(&attribute.args).iter().map(|e| tree.compact(&tree.expr(*e).tokens)).collect::<String>();
    let mut words = inside.trim_matches(['(', ')']).split(',').peekable();
    let managed = words.peek().is_some() && words.all(|word| word == ".managed");
    let why = match global {
        _ if inside.contains(".unified(") => "`.unified` needs a module that is linked with others (`ptxas -c`)",
        true if managed => return,
        false if managed => "only a `.global` variable can be `.managed`",
        _ => "an attribute is `.managed`, or `.unified(n, n)`",
    };
    out.push(error(&codes::P0608, span, why, "5.4.8"));
}

fn at_module_level(tree: &Tree, module: &Module, var: &Var, out: &mut Vec<Diagnostic>) {
    let (space, span) = (tree.source.text(var.space), tree.source.span(var.space));
    match space {
        ".param" => out.push(outside(space, span)),
        ".local" if module.version >= END_OF_SHARED_LOCALS => out.push(outside(space, span)),
        ".tex" => out.extend(texture(tree, module, var, span)),
        _ => {}
    }
    let linkage = var.linkage.map(|l| tree.source.text(l));
    if linkage == Some(".common") && space != ".global" {
        out.push(error(&codes::P0608, span, "only a `.global` variable can be `.common`", "11.6.4"));
    }
    let opaque = is_opaque(tree, var) && has_one_alone(tree, var);
    if opaque && var.ty.is_some_and(|ty| tree.source.text(ty) == ".samplerref") && !has_samplers(module) {
        out.push(error(&codes::P0608, span, "a sampler needs `.target …, texmode_independent`", "5.3"));
    }
    if linkage == Some(".common") && opaque {
        out.push(error(&codes::P0608, span, "textures, samplers and surfaces cannot be `.common`", "11.6.4"));
    }
    if opaque && !matches!(space, ".global" | ".tex") {
        out.push(error(&codes::P0608, span, "textures, samplers and surfaces are `.global`", "5.3"));
    }
}

/// From this version on `.local` variables, and registers, belong to functions.
const END_OF_SHARED_LOCALS: Version = Version { major: 3, minor: 0 };
/// From this version on a texture is `.global .texref`.
const FIRST_WITH_TEXREF: Version = Version { major: 1, minor: 5 };

/// Until this version the body of an entry declares its parameters; from PTX 2.0 on, a `.param` in a body is for calls.
const END_OF_PARAMETERS_IN_BODIES: Version = Version { major: 1, minor: 4 };

/// A `.func` of these versions has no `.param` variables.
fn parameters(tree: &Tree, statements: &[StmtId], out: &mut Vec<Diagnostic>) {
    for stmt in statements.iter().map(|id| tree.stmt(*id)) {
        match &stmt.kind {
            StmtKind::Var(var) if tree.source.bytes(var.space) == b".param" => {
                let text = "only the body of an entry declares parameters before PTX 1.4";
                out.push(error(&codes::P0608, tree.source.span(var.space), text, "5.1.6"));
            }
            StmtKind::Block => parameters(tree, stmt.children(), out),
            _ => {}
        }
    }
}

fn outside(space: &str, span: Span) -> Diagnostic {
    let text = format!("a `{space}` variable has no place outside of a function");
    error(&codes::P0608, span, text, "5.1")
}

/// `.tex .u32 name;` of PTX 1.
fn texture(tree: &Tree, module: &Module, var: &Var, span: Span) -> Option<Diagnostic> {
    if module.version >= FIRST_WITH_TEXREF {
        let d = error(&codes::P0608, span, "`.tex` declares textures in PTX 1.0 to 1.4 only", "5.1.8");
        return Some(d.help("write `.global .texref name;`"));
    }
    let whole = var.ty.is_some_and(|ty| matches!(tree.source.text(ty), ".u32" | ".u64"));
    let alone = tree.names(var).iter().all(|name| name.dims.is_empty() && name.init.is_none());
    (!whole || !alone).then(|| error(&codes::P0608, span, "a `.tex` variable is one `.u32` or `.u64`", "5.1.8"))
}

fn in_a_scope(tree: &Tree, statements: &[StmtId], out: &mut Vec<Diagnostic>) {
    for stmt in statements.iter().map(|id| tree.stmt(*id)) {
        match &stmt.kind {
            StmtKind::Var(var) => in_a_body(tree, var, out),
            StmtKind::Block => in_a_scope(tree, stmt.children(), out),
            _ => {}
        }
    }
}

fn in_a_body(tree: &Tree, var: &Var, out: &mut Vec<Diagnostic>) {
    if let Some(linkage) = var.linkage {
        let text = format!("`{}` has no place inside of a function", tree.source.text(linkage));
        out.push(error(&codes::P0608, tree.source.span(linkage), text, "11.6"));
    }
    let vector = tree.attributes(var).iter().any(|a| matches!(tree.source.text(a.name), ".v2" | ".v4"));
    let alone = tree.source.text(var.space) == ".param" && has_one_alone(tree, var);
    if alone && var.ty.is_some_and(|ty| tree.source.text(ty) == ".f16x2") {
        let text = "a `.param` variable cannot be `.f16x2`; declare it `.b32`";
        out.push(error(&codes::P0608, tree.source.span(var.space), text, "5.1.6"));
    }
    if let Some(span) = super::signatures::too_aligned(tree, var) {
        out.push(error(&codes::P0605, span, "a parameter is aligned to 1, 2, 4 … 128 bytes", "5.1.6"));
    }
    if vector && alone {
        let text = "a `.param` variable is no vector; declare an array of bytes";
        out.push(error(&codes::P0608, tree.source.span(var.space), text, "5.1.6"));
    }
    if is_opaque(tree, var) || tree.source.text(var.space) == ".tex" {
        let text = "textures, samplers and surfaces are declared outside of functions";
        out.push(error(&codes::P0608, tree.source.span(var.space), text, "5.3"));
    }
}

pub(super) fn has_samplers(module: &Module) -> bool {
    module.options.iter().any(|o| o == "texmode_independent")
}

/// Returns true if a name is no array. Outside of functions ptxas does not look at the elements of arrays of textures, samplers and surfaces.
pub(super) fn has_one_alone(tree: &Tree, var: &Var) -> bool {
    tree.names(var).iter().any(|name| name.dims.is_empty())
}

fn is_opaque(tree: &Tree, var: &Var) -> bool {
    var.ty.is_some_and(|ty| matches!(tree.source.text(ty), ".texref" | ".samplerref" | ".surfref"))
}
