//! Guards and operands that are none, whatever the instruction. Those that one instruction does not take are `refused`'s.

use crate::diag::{Diagnostic, codes};
use crate::isa::Type;
use crate::span::Span;

pub(in crate::lower) fn guard_type(name: &str, ty: Type, span: Span) -> Diagnostic {
    Diagnostic::error(
        &codes::P0305,
        span,
        format!("the guard must be a `.pred` register; `{name}` is `.{}`", ty.name()),
    )
    .help("compute a predicate with `setp`, and guard with that")
    .section("9.3")
}

pub(in crate::lower) fn guard_name(name: &str, span: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0305, span, format!("the guard must be a `.pred` register; `{name}` is no register"))
        .section("9.3")
}

pub(in crate::lower) fn unknown_component(suffix: &str, span: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0307, span, format!("a register has no component `{suffix}`"))
        .help("the components of a vector register are `.x`, `.y`, `.z`, `.w`")
}

pub(in crate::lower) fn not_constant(span: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0308, span, "this must be a constant expression").section("4.5")
}

pub(in crate::lower) fn not_an_operand(span: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0309, span, "this is no operand")
        .help("an operand is a register, a constant, a name with a constant added, or an address in brackets")
        .section("6.1")
}

pub(in crate::lower) fn not_an_array(span: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0309, span, "only an array has elements")
        .help("write `[register+8]` or `[variable+8]` for a place in memory")
        .section("6.4.2")
}

pub(in crate::lower) fn not_an_index(span: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0309, span, "this is no index")
        .help("an index is an integer, a register with one, or a variable's name for its address, each with or without a constant added; any other is computed before")
        .section("6.4.2")
}

pub(in crate::lower) fn not_an_address(span: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0309, span, "this is no address")
        .help("write `[register]`, `[register+8]`, `[variable]`, `[variable+8]` or `[constant]`; any other sum is computed before, into a register of its own")
        .section("6.4.1")
}
