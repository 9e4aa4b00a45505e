//! Warnings: what ptxas takes, although the manual does not have it or it means nothing.

use crate::diag::{Diagnostic, codes};
use crate::isa::find::Form;
use crate::isa::rule::Rule;
use crate::isa::{Row, show};
use crate::lower::form::modifier;
use crate::span::Span;
use crate::syntax::{Inst, Tree};

/// The modifiers stand in an order that only ptxas takes.
pub(in crate::lower) fn order(form: &Form, name: Span) -> Diagnostic {
    Diagnostic::warning(&codes::P0205, name, "the modifiers are not in the manual's order")
        .help(format!("write `{}`", in_order(form)))
        .section(form.row.section)
}

/// The instruction's name with its modifiers in the manual's order.
pub(in crate::lower) fn in_order(form: &Form) -> String {
    let mut text = form.row.name.to_owned();
    for member in form.slots.iter().flatten() {
        text.push('.');
        text.push_str(member.text);
    }
    text
}

/// A modifier that does nothing.
pub(in crate::lower) fn idle(tree: &Tree, inst: &Inst, form: &Form, at: usize) -> Diagnostic {
    let token = inst.modifiers.start + u32::try_from(at).unwrap_or(0);
    let text = format!("`.{}` does nothing here", modifier(tree, token));
    Diagnostic::warning(&codes::P0207, tree.source.span(token), text).help("leave it out").section(form.row.section)
}

/// Something that ptxas takes without a word of the manual about it.
pub(in crate::lower) fn undocumented(row: &Row, rule: &Rule, name: Span) -> Diagnostic {
    let text = format!("ptxas takes this form of `{}`, but the manual does not have it", row.name);
    let help = format!("in the manual, {}", show::rule(row, rule));
    Diagnostic::warning(&codes::P0207, name, text).section(row.section).help(help)
}

/// A function's name where a number stands.
pub(in crate::lower) fn function_as_number(row: &Row, name: Span) -> Diagnostic {
    let text = format!("ptxas takes the name of a function as an operand of `{}`, but the manual does not", row.name);
    Diagnostic::warning(&codes::P0207, name, text)
        .help("`mov.b64` has the address of a function; `call` calls it")
        .section(row.section)
}

/// A sum where a number stands.
pub(in crate::lower) fn sum_as_number(row: &Row, name: Span) -> Diagnostic {
    let text =
        format!("ptxas adds up an operand of `{}` before, but the manual knows sums in addresses only", row.name);
    Diagnostic::warning(&codes::P0207, name, text).help("write an `add`, or `mov` for an address").section("6.4.1")
}

/// `0f3F800000` where the manual requires a register.
pub(in crate::lower) fn number_as_register(row: &Row, name: Span) -> Diagnostic {
    let text = format!("ptxas takes this literal for a register of `{}`, but the manual does not", row.name);
    Diagnostic::warning(&codes::P0207, name, text).help("write a `mov` before").section(row.section)
}

/// An address without its brackets.
pub(in crate::lower) fn address_without_brackets(row: &Row, name: Span) -> Diagnostic {
    let text = format!("ptxas takes an address of `{}` without brackets, but the manual does not", row.name);
    Diagnostic::warning(&codes::P0207, name, text).help("write the address in brackets: `[addr]`").section(row.section)
}

/// The name of a texture where an address stands.
pub(in crate::lower) fn handle_as_address(row: &Row, name: Span) -> Diagnostic {
    let text = format!("ptxas takes the name of a texture as an address of `{}`, but the manual does not", row.name);
    Diagnostic::warning(&codes::P0207, name, text)
        .help("only `tex`, `suld` and their kin read through a texture's name; write the address of a variable")
        .section(row.section)
}

/// A register with two halves where the type of the instruction is `.pred`.
pub(in crate::lower) fn halves_as_predicate(row: &Row, name: Span) -> Diagnostic {
    let text = format!("ptxas takes a `.f16x2` register for a predicate of `{}`, but the manual does not", row.name);
    Diagnostic::warning(&codes::P0207, name, text).help("declare the register `.pred`").section(row.section)
}

/// A predicate among the 32-bit results of an instruction.
pub(in crate::lower) fn predicate_as_number(row: &Row, name: Span) -> Diagnostic {
    let text =
        format!("ptxas counts a predicate as 32 bits among the results of `{}`, but the manual does not", row.name);
    Diagnostic::warning(&codes::P0207, name, text).help("declare the register `.b32`").section(row.section)
}

/// `%v.z` of a vector register with two elements.
pub(in crate::lower) fn component_behind(row: &Row, selector: &str, count: u32, name: Span) -> Diagnostic {
    let text = format!(
        "ptxas takes `.{selector}` of a vector with {count} elements in `{}`; its value is undefined",
        row.name
    );
    Diagnostic::warning(&codes::P0207, name, text).help("declare the register `.v4`").section("6.4.3")
}
