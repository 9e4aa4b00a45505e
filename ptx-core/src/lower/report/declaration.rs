//! Directives and declarations: their place, space, type, shape and initial value.

use crate::diag::near::nearest;
use crate::diag::{Diagnostic, codes};
use crate::isa::{Class, Type, table};
use crate::span::Span;
use crate::syntax::{Declarator, Tree, Var};

/// A directive that does not stand at `place` (`module`, `body`) or, for debuggers, anywhere.
pub(in crate::lower) fn misplaced(tree: &Tree, directive: u32, place: &str) -> Option<Diagnostic> {
    let (text, span) = (tree.source.text(directive), tree.source.span(directive));
    match table().directives.get(text) {
        Some(info) if info.place.split(' ').any(|p| p == place || p == "debug") => None,
        Some(info) => {
            Some(Diagnostic::error(&codes::P0616, span, format!("`{text}` has no place here")).section(info.section))
        }
        None if Type::find(text.trim_start_matches('.')).is_some() => Some(no_space(tree, directive)),
        None => {
            let d = Diagnostic::error(&codes::P0616, span, format!("there is no directive `{text}`"));
            Some(match nearest(text, table().directives.keys().copied()) {
                Some(near) => d.help(format!("did you mean `{near}`?")),
                None => d,
            })
        }
    }
}

pub(in crate::lower) fn alignment(span: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0605, span, "this alignment is no power of two").section("5.4.5")
}

pub(in crate::lower) fn lone_semicolon(span: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0101, span, "a `;` that ends nothing").help("leave it out")
}

/// `@@DWARF` between instructions.
pub(in crate::lower) fn dwarf_in_body(span: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0616, span, "`@@DWARF` has no place in a function").help("move it out of the function")
}

pub(in crate::lower) fn no_space(tree: &Tree, word: u32) -> Diagnostic {
    let (text, span) = (tree.source.text(word), tree.source.span(word));
    Diagnostic::error(&codes::P0608, span, format!("`{text}` is no state space"))
        .help("write `.param` or another before it")
}

pub(in crate::lower) fn unknown_type(text: &str, span: Span) -> Diagnostic {
    let d = Diagnostic::error(&codes::P0306, span, format!("`{text}` is not a type"));
    match nearest(text.trim_start_matches('.'), table().types.iter().map(|t| t.name)) {
        Some(near) => d.help(format!("did you mean `.{near}`?")),
        None => d,
    }
}

pub(in crate::lower) fn no_type(span: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0306, span, "the declaration has no type").help("write one before the name: `.b32`")
}

/// The type is the last word before the name; only `.ptr` and what belongs to it follow.
pub(in crate::lower) fn behind_type(tree: &Tree, var: &Var, ty: u32) -> Option<Diagnostic> {
    let behind = tree.attributes(var).iter().map(|a| a.name).find(|name| *name > ty)?;
    let text = tree.source.text(behind);
    let param = tree.source.text(var.space) == ".param";
    (text != ".ptr" && !(param && text == ".align")).then(|| {
        let message = format!("`{text}` stands behind the type");
        Diagnostic::error(&codes::P0306, tree.source.span(behind), message).help("the type comes last, before the name")
    })
}

pub(in crate::lower) fn not_a_register_type(ty: Type, span: Span) -> Diagnostic {
    let registers = ty.info().registers.iter().map(|r| format!("`.{r}`")).collect::<Vec<_>>().join(" or ");
    let d = Diagnostic::error(&codes::P0306, span, format!("no register is declared as `.{}`", ty.name()));
    match registers.is_empty() {
        true => d,
        false => d.help(format!("a register of type {registers} holds it")),
    }
}

/// Shapes that no register can have, whatever its name.
pub(in crate::lower) fn register_shape(ty: Type, vector: u32, span: Span) -> Option<Diagnostic> {
    if vector > 1 && ty.class() == Class::Pred {
        return Some(Diagnostic::error(&codes::P0608, span, "a predicate register is no vector").section("5.4.2"));
    }
    (vector > 1 && vector * ty.bits() > 128).then(|| {
        let text = format!("a `.v{vector}` of `.{}` is wider than 128 bits", ty.name());
        Diagnostic::error(&codes::P0614, span, text).section("5.4.2")
    })
}

/// A declaration that only a variable in memory can have.
pub(in crate::lower) fn no_register(tree: &Tree, name: &Declarator) -> Option<Diagnostic> {
    let (text, span) = (tree.source.text(name.name), tree.source.span(name.name));
    if name.init.is_some() {
        let message = format!("a register cannot have an initial value: `{text}`");
        return Some(
            Diagnostic::error(&codes::P0606, span, message).help(format!("write `mov` to `{text}` in the body")),
        );
    }
    (!name.dims.is_empty()).then(|| {
        let help = format!("a range of registers is `{text}<4>`: `{text}0` to `{text}3`");
        Diagnostic::error(&codes::P0608, span, format!("a register is no array: `{text}`")).help(help).section("5.4.3")
    })
}

pub(in crate::lower) fn no_parameter_name(span: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0608, span, "the parameter has no name").help("write one; in a prototype, `_`")
}

pub(in crate::lower) fn initial_value(text: String, span: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0606, span, text).section("5.4.4")
}

pub(in crate::lower) fn wrong_value(what: &str, ty: Type, span: Span) -> Diagnostic {
    let text = format!("{what} cannot be the initial value of a `.{}`", ty.name());
    Diagnostic::error(&codes::P0303, span, text).section("5.4.4")
}
