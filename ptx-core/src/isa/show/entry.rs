//! Entries of the table for readers: a form, a special register or a directive with all that the table has about it.

use crate::isa::{Arch, DirectiveInfo, Gate, Row, SpecialRegister, Suffix, table};
use ptx_target::sort::SortSmall;

/// A form with its sets (of which long ones are cut), rules and operands, and its first target and version.
pub fn entry(row: &Row, longest: usize) -> String {
    let mut text = super::form(row);
    for line in super::sets(row, longest).into_iter().chain(row.rules().iter().map(|rule| super::rule(row, rule))) {
        text.push_str(&format!("\n    {line}"));
    }
    let operands = super::operands(row);
    if !operands.is_empty() {
        text.push_str(&format!("\n    {operands}"));
    }
    text + &format!("\n    {}", place(&row.gate, row.section))
}

/// A special register with its type and components.
pub fn special(register: &SpecialRegister) -> String {
    let components: Vec<&str> =
        table().specials.values().filter(|s| is_component(s, register)).map(|s| s.component).collect();
    let mut text = format!("{} .{}", register.name, register.ty.name());
    if register.vector {
        text.push_str(&format!("\n    a vector; its components are .{}", sorted(components).join(" .")));
    }
    if !register.needs.is_empty() {
        text.push_str(&format!("\n    the kernel must have `{}`", register.needs));
    }
    text + &format!("\n    {}", place(&register.gate, register.section))
}

fn is_component(register: &SpecialRegister, whole: &SpecialRegister) -> bool {
    whole.vector && register.name.strip_prefix(whole.name).is_some_and(|rest| rest.starts_with('.'))
}

/// Components in the order x, y, z, w.
fn sorted(mut components: Vec<&str>) -> Vec<&str> {
    components.sort_small_by_key(|c| "xyzw".find(c));
    components
}

/// A directive with its form and its place.
pub fn directive(directive: &DirectiveInfo) -> String {
    format!("{}\n    in: {}\n    {}", directive.text, directive.place, place(&directive.gate, directive.section))
}

fn place(gate: &Gate, section: &str) -> String {
    format!("{}; section {section}", since(gate))
}

/// `PTX 8.6 on sm_100a; PTX 8.8 on the family sm_100f`
pub fn since(gate: &Gate) -> String {
    let one = |(arch, version): &(Arch, _)| match arch.suffix {
        Suffix::None if arch.number == 0 => format!("PTX {version}, every target"),
        Suffix::None => format!("PTX {version}, {arch} and later"),
        Suffix::Family => format!("PTX {version}, family of {arch}"),
        Suffix::Arch => format!("PTX {version}, {arch}"),
    };
    gate.anyof.iter().map(one).collect::<Vec<_>>().join("; ")
}
