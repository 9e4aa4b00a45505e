//! Declarations: types, sizes, alignment. Initial values: `initial`.

use super::module::Context;
use super::{constant, initial, report};
use crate::ir::{ParamType, Signature, Space, VarId, Variable};
use crate::isa::{Class, Type};
use crate::syntax::{self, Declarator, ExprId, ExprKind, Tokens, Var};

/// Properties that all names of a declaration share.
struct Shape {
    space: Space,
    ty: Type,
    vector: u32,
    align: u64,
    linkage: Option<&'static str>,
    points_to: Option<(Option<Space>, u64)>,
}

/// The linkage that a directive declares.
pub(super) fn linkage(text: &str) -> Option<&'static str> {
    ["extern", "visible", "weak", "common"].into_iter().find(|l| text.strip_prefix('.') == Some(l))
}

fn space(text: &str) -> Option<Space> {
    Some(match text {
        ".global" => Space::Global,
        ".shared" | ".shared::cta" => Space::Shared,
        ".const" => Space::Const,
        ".local" => Space::Local,
        ".param" | ".param::entry" | ".param::func" => Space::Param,
        ".tex" => Space::Opaque,
        _ => return None,
    })
}

/// The declaration of one name.
pub(super) struct Declared {
    /// The name's token.
    pub(super) token: u32,
    /// True if it is `x<4>`: then no variable has this name.
    pub(super) range: bool,
    /// One, or those of the range.
    pub(super) variables: Vec<Variable>,
}

/// The variables of a declaration, by name.
pub(super) fn variables(cx: &mut Context<'_>, var: &Var) -> Vec<Declared> {
    let Some(shape) = shape(cx, var) else { return Vec::new() };
    let tree = cx.tree;
    let mut out = Vec::new();
    let mut next = cx.module.variables.len();
    cx.declaring.clear();
    for name in tree.names(var) {
        let count = name.count.and_then(|c| constant::integer(tree, c)).and_then(|n| u32::try_from(n).ok());
        let text = tree.source.text(name.name);
        match count {
            // `.local .b32 x<4>;` declares x0 … x3.
            Some(count) if count <= 4096 => {
                let variables = (0..count).map(|n| variable(cx, &shape, &format!("{text}{n}"), name)).collect();
                out.push(Declared { token: name.name, range: true, variables });
            }
            _ => {
                cx.declaring.extend(u32::try_from(next).map(|id| (text, VarId(id))));
                let variables = vec![variable(cx, &shape, text, name)];
                out.push(Declared { token: name.name, range: false, variables });
            }
        }
        next += out.last().map_or(0, |declared| declared.variables.len());
    }
    cx.declaring.clear();
    out
}

fn shape(cx: &mut Context<'_>, var: &Var) -> Option<Shape> {
    let tree = cx.tree;
    let Some(space) = space(tree.source.text(var.space)) else {
        cx.diagnostics.push(report::no_space(tree, var.space));
        return None;
    };
    let (written, vector) = register_type(cx, var)?;
    // `.tex .u32 t;` is how PTX 1 declares `.global .texref t;`.
    let ty = if space == Space::Opaque { Type::find("texref").unwrap_or(written) } else { written };
    let opaque = ty.class() == Class::Opaque;
    let mut shape = Shape {
        space: if opaque && space == Space::Global { Space::Opaque } else { space },
        ty,
        vector,
        align: ty.bytes() * u64::from(vector),
        linkage: var.linkage.and_then(|l| linkage(tree.source.text(l))),
        points_to: None,
    };
    for attribute in tree.attributes(var) {
        let arg = tree.list(&attribute.args).first().and_then(|e| constant::integer(tree, *e));
        match (tree.source.text(attribute.name), shape.points_to.as_mut()) {
            (".ptr", _) => shape.points_to = Some((None, 4)),
            (".align", Some(points_to)) => points_to.1 = arg.map_or(4, i64::cast_unsigned),
            (".align", None) => shape.align = aligned(shape.align, arg),
            (word, Some(points_to)) => points_to.0 = self::space(word).or(points_to.0),
            _ => {}
        }
    }
    Some(shape)
}

/// No alignment is less than that of the type. What is no power of two is reported elsewhere.
fn aligned(least: u64, written: Option<i64>) -> u64 {
    match written.map(i64::cast_unsigned) {
        Some(bytes) if bytes.is_power_of_two() => least.max(bytes),
        Some(bytes) => bytes,
        None => least,
    }
}

/// The alignment of registers, which only calls and declarations of functions compare.
pub(super) fn register_align(cx: &mut Context<'_>, var: &Var, ty: Type, vector: u32) -> u64 {
    let tree = cx.tree;
    let written = tree.attributes(var).iter().rfind(|attribute| tree.source.text(attribute.name) == ".align");
    let argument = written.and_then(|align| tree.list(&align.args).first());
    let argument = argument.and_then(|e| constant::integer(tree, *e));
    let align = aligned(ty.bytes() * u64::from(vector), argument);
    // A predicate has no bytes.
    let refused = !align.is_power_of_two() && (align > 0 || argument.is_some());
    if let Some(directive) = written.filter(|_| refused) {
        cx.diagnostics.push(report::alignment(tree.source.span(directive.name)));
    }
    align
}

/// The type and vector width of a declaration.
pub(super) fn register_type(cx: &mut Context<'_>, var: &Var) -> Option<(Type, u32)> {
    let tree = cx.tree;
    let Some(token) = var.ty else {
        cx.diagnostics.push(report::no_type(tree.source.span(var.space)));
        return None;
    };
    cx.diagnostics.extend(report::behind_type(tree, var, token));
    let text = tree.source.text(token);
    let Some(ty) = Type::find(text.trim_start_matches('.')) else {
        cx.diagnostics.push(report::unknown_type(text, tree.source.span(token)));
        return None;
    };
    let register = tree.source.text(var.space) == ".reg";
    if !ty.info().declares && (register || ty.class() != Class::Opaque) {
        cx.diagnostics.push(report::not_a_register_type(ty, tree.source.span(token)));
    }
    let widths = [(".v2", 2), (".v4", 4), (".v8", 8)];
    let width = |d: &syntax::Directive| widths.iter().find(|(n, _)| *n == tree.source.text(d.name)).map(|(_, w)| *w);
    Some((ty, tree.attributes(var).iter().find_map(width).unwrap_or(1)))
}

fn variable(cx: &mut Context<'_>, shape: &Shape, name: &str, declarator: &Declarator) -> Variable {
    let tree = cx.tree;
    let element = shape.ty.bytes() * u64::from(shape.vector);
    let mut dims: Vec<u64> = tree.list(&declarator.dims).iter().map(|d| dimension(cx, *d)).collect();
    let value = declarator.init.filter(|_| shape.ty.class() != Class::Opaque);
    let init = value.map(|value| initial::initializer(cx, shape.ty, shape.vector, &dims, value));
    // `x[] = {{1}, {2}}` has as many elements as the outer braces.
    if let (Some(first @ 0), Some(value)) = (dims.first_mut(), declarator.init) {
        *first = if let ExprKind::Braces(list) = tree.expr(value).kind { u64::from(list.end - list.start) } else { 1 };
    }
    let count = dims.iter().try_fold(1u64, |n, d| n.checked_mul(*d)).unwrap_or(u64::MAX);
    Variable {
        name: name.to_owned(),
        space: shape.space,
        ty: shape.ty,
        vector: shape.vector,
        dims,
        align: shape.align,
        size: element.saturating_mul(count),
        linkage: shape.linkage,
        points_to: shape.points_to,
        init,
        span: tree.source.span(declarator.name),
    }
}

/// `[4]`; 0 for `[]`.
fn dimension(cx: &mut Context<'_>, id: ExprId) -> u64 {
    let tree = cx.tree;
    let ExprKind::Brackets(inside) = &tree.expr(id).kind else { return 0 };
    let Some(size) = tree.list(inside).first() else { return 0 };
    let written = if let ExprKind::Int(n) = tree.expr(*size).kind { Some(n) } else { None };
    match written.or_else(|| constant::integer(tree, *size).and_then(|n| u64::try_from(n).ok())) {
        Some(n) => n,
        None => {
            cx.diagnostics.push(report::not_constant(tree.span(&tree.expr(*size).tokens)));
            1
        }
    }
}

/// `.callprototype`
pub(super) fn signature(cx: &mut Context<'_>, name: &Tokens, prototype: &syntax::Prototype) -> Signature {
    Signature {
        name: cx.tree.compact(name),
        returns: prototype.returns.iter().flat_map(|v| param_types(cx, v)).collect(),
        params: prototype.params.iter().flat_map(|v| param_types(cx, v)).collect(),
        variadic: prototype.variadic,
        span: cx.tree.span(name),
    }
}

fn param_types(cx: &mut Context<'_>, var: &Var) -> Vec<ParamType> {
    if cx.tree.names(var).is_empty() {
        let span = cx.tree.source.span(var.space);
        cx.diagnostics.push(report::no_parameter_name(span));
    }
    let register = cx.tree.source.text(var.space) == ".reg";
    let Some((ty, vector)) = register_type(cx, var) else { return Vec::new() };
    cx.diagnostics.extend(report::register_shape(ty, vector, cx.tree.source.span(var.ty.unwrap_or(var.space))));
    if register || cx.tree.names(var).is_empty() {
        let align = register_align(cx, var, ty, vector);
        return vec![ParamType { ty, size: ty.bytes() * u64::from(vector), align, register, array: false }];
    }
    let of = |v: Variable| ParamType { ty: v.ty, size: v.size, align: v.align, register, array: !v.dims.is_empty() };
    variables(cx, var).into_iter().flat_map(|declared| declared.variables).map(of).collect()
}
