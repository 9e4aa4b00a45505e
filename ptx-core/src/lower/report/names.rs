//! Names and labels: not declared, declared twice or in two ways, in a place of their own. Other errors of a declaration are in
//! `declaration`.

use crate::diag::{Diagnostic, codes};
use crate::span::Span;

pub(in crate::lower) fn unknown_name(name: &str, hint: Option<String>, span: Span) -> Diagnostic {
    let d = Diagnostic::error(&codes::P0501, span, format!("`{name}` is not declared here"));
    match hint {
        Some(hint) => d.help(hint),
        None if name.starts_with('%') => d.help(format!("declare it before its use: `.reg .b32 {name};`")),
        None => d.help(format!(
            "declare it before its use (`.reg .b32 {name};`), or, for a label, write `{name}:` somewhere"
        )),
    }
}

pub(in crate::lower) fn duplicate(name: &str, span: Span, earlier: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0502, span, format!("`{name}` is declared twice in this scope"))
        .label(earlier, "first declared here")
}

/// A variable that is `.extern` first, and then something that does not define it.
pub(in crate::lower) fn other_variable(name: &str, hidden: bool, span: Span, earlier: Span) -> Diagnostic {
    let text = match hidden {
        true => format!("`{name}` is `.extern`: what defines it is `.visible` or `.weak`"),
        false => format!("`{name}` is declared as something else"),
    };
    Diagnostic::error(&codes::P0502, span, text).label(earlier, "declared here").section("11.6.1")
}

/// A function that is declared `.extern` once and once not.
pub(in crate::lower) fn extern_or_not(name: &str, span: Span, earlier: Span) -> Diagnostic {
    let text = format!("`{name}` is `.extern` here or where it was declared, but not in both places");
    let d = Diagnostic::error(&codes::P0608, span, text).label(earlier, "declared here").section("11.6.1");
    d.help("what has a body in this module is not `.extern`")
}

pub(in crate::lower) fn reserved(name: &str, span: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0502, span, format!("nothing can be named `{name}`: PTX has a meaning for it"))
        .section("4.5")
}

pub(in crate::lower) fn other_signature(name: &str, span: Span, earlier: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0612, span, format!("`{name}` was declared with other parameters"))
        .label(earlier, "declared here")
        .section("11.2.2")
}

/// A function whose declarations contradict each other.
pub(in crate::lower) fn other_declaration(name: &str, said: &str, span: Span, earlier: Span) -> Diagnostic {
    let d = Diagnostic::error(&codes::P0608, span, format!("`{name}` is {said}"));
    d.label(earlier, "declared here").section("11.2.2")
}

pub(in crate::lower) fn dots_in_a_label(span: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0101, span, "a label has no dot in its name").section("4.4")
}

/// `.branchtargets` and `.callprototype` are nothing without a label.
pub(in crate::lower) fn no_label(span: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0616, span, "this needs a label before it")
        .help("write `name:` in front")
        .section("11.3")
}

pub(in crate::lower) fn not_a_target(labels: bool, span: Span) -> Diagnostic {
    match labels {
        true => Diagnostic::error(&codes::P0301, span, "`.branchtargets` lists labels").section("11.3.1"),
        false => Diagnostic::error(&codes::P0301, span, "`.calltargets` lists functions").section("11.3.2"),
    }
}

/// A list or a prototype.
pub(in crate::lower) fn comes_later(name: &str, span: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0501, span, format!("`{name}` stands behind this, and is not known before"))
        .help("move it in front of what uses it")
        .section("11.3")
}
