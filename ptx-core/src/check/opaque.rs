//! Initial values of textures, samplers and surfaces: fields, by their names. Other initial values: `lower::initial`.

use super::error;
use crate::diag::near::nearest;
use crate::diag::{Diagnostic, codes};
use crate::ir::Module;
use crate::lower::constant;
use crate::span::Span;
use crate::syntax::{Declarator, ExprId, ExprKind, StmtKind, Tree, Var};

/// The fields of each type.
const FIELDS: &[(&str, &[&str])] = &[
    (
        ".texref",
        &[
            "width",
            "height",
            "depth",
            "channel_data_type",
            "channel_order",
            "normalized_coords",
            "filter_mode",
            "addr_mode_0",
            "addr_mode_1",
            "addr_mode_2",
            "array_size",
            "num_mipmap_levels",
            "num_samples",
        ],
    ),
    (".samplerref", &["force_unnormalized_coords", "filter_mode", "addr_mode_0", "addr_mode_1", "addr_mode_2"]),
    (".surfref", &["width", "height", "depth", "channel_data_type", "channel_order", "array_size", "memory_layout"]),
];

/// Words with the value of a number. ptxas does not check them against the field.
const VALUES: &[&str] = &["nearest", "linear", "wrap", "mirror", "clamp_ogl", "clamp_to_edge", "clamp_to_border"];

pub(super) fn check_opaque(tree: &Tree, _: &Module, out: &mut Vec<Diagnostic>) {
    for stmt in &tree.stmts {
        match &stmt.kind {
            StmtKind::Var(var) => variable(tree, var, out),
            StmtKind::Func(func) => {
                for name in func.params.iter().filter(|var| fields(tree, var).is_some()).flat_map(|var| tree.names(var))
                {
                    out.extend(name.init.map(|_| none(tree, name, "a parameter")));
                }
            }
            _ => {}
        }
    }
}

fn fields(tree: &Tree, var: &Var) -> Option<&'static [&'static str]> {
    let ty = tree.source.text(var.ty?);
    FIELDS.iter().find(|(name, _)| *name == ty).map(|(_, fields)| *fields)
}

fn variable(tree: &Tree, var: &Var, out: &mut Vec<Diagnostic>) {
    let Some(fields) = fields(tree, var) else { return };
    for name in tree.names(var) {
        let Some(init) = name.init else { continue };
        if var.linkage.is_some_and(|linkage| tree.source.text(linkage) == ".extern") {
            out.push(none(tree, name, "an external variable"));
        } else if !matches!(tree.source.text(var.space), ".global" | ".const" | ".tex") {
            out.push(none(tree, name, "a variable of this state space"));
        } else if let Err(diagnostic) = element(tree, fields, tree.list(&name.dims), init) {
            out.push(diagnostic);
        }
    }
}

fn none(tree: &Tree, name: &Declarator, what: &str) -> Diagnostic {
    let text = format!("{what} cannot have an initial value: `{}`", tree.source.text(name.name));
    error(&codes::P0606, tree.source.span(name.name), text, "5.3")
}

fn wrong(tree: &Tree, id: ExprId, text: impl Into<String>) -> Diagnostic {
    error(&codes::P0606, tree.span(&tree.expr(id).tokens), text, "5.3")
}

/// One variable, or an array of some: `{width = 1}`. ptxas reads no name that stands without braces.
fn element(tree: &Tree, fields: &[&str], dims: &[ExprId], id: ExprId) -> Result<(), Diagnostic> {
    match (&tree.expr(id).kind, dims) {
        (ExprKind::Braces(list), [room, rest @ ..]) => {
            let (list, room) = (tree.list(list), room_of(tree, *room));
            if let Some(room) = room.filter(|room| list.len() as u64 > *room) {
                return Err(wrong(tree, id, format!("{} values for {room} elements", list.len())));
            }
            list.iter().try_for_each(|inner| element(tree, fields, rest, *inner))
        }
        (ExprKind::Braces(list), []) => {
            let list = tree.list(list);
            if list.len() > fields.len() {
                return Err(wrong(tree, id, format!("there are {} fields, not {}", fields.len(), list.len())));
            }
            list.iter().try_for_each(|field| {
                let (name, span) = assignment(tree, *field)?;
                if fields.contains(&name) { Ok(()) } else { Err(unknown(fields, name, span)) }
            })
        }
        _ => assignment(tree, id).map(drop),
    }
}

/// `[4]`: the number of elements, if it is written.
fn room_of(tree: &Tree, dimension: ExprId) -> Option<u64> {
    let ExprKind::Brackets(inside) = &tree.expr(dimension).kind else { return None };
    let size = constant::integer(tree, *tree.list(inside).first()?)?;
    u64::try_from(size).ok().filter(|size| *size > 0)
}

/// `width = 4`: the name.
fn assignment(tree: &Tree, id: ExprId) -> Result<(&str, Span), Diagnostic> {
    let ExprKind::Binary([b'=', 0], name, value) = tree.expr(id).kind else {
        return Err(wrong(tree, id, "a field is written `name = value`"));
    };
    let tokens = tree.expr(name).tokens;
    if tree.expr(name).kind != ExprKind::Name || constant::value(tree, name).is_some() {
        return Err(wrong(tree, name, "expected the name of a field"));
    }
    let named = tree.expr(value).kind == ExprKind::Name && VALUES.contains(&&*tree.compact(&tree.expr(value).tokens));
    if !named && constant::value(tree, value).is_none() {
        let text = "this is neither a number nor a mode of a texture or sampler";
        return Err(wrong(tree, value, text).help(format!("the modes are `{}`", VALUES.join("`, `"))));
    }
    Ok((tree.source.text(tokens.start), tree.span(&tokens)))
}

fn unknown(fields: &[&str], name: &str, span: Span) -> Diagnostic {
    let help = match nearest(name, fields.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the fields are `{}`", fields.join("`, `")),
    };
    error(&codes::P0606, span, format!("there is no field `{name}` here"), "5.3").help(help)
}
