//! Features of another target or a later version.

use crate::diag::{Diagnostic, codes};
use crate::isa::{Arch, Gate, Suffix, Version, table};
use crate::span::Span;

/// The requirements of a feature: PTX, or words for what has no name.
pub(crate) fn gate(span: Span, what: &str, gate: &Gate, arch: Arch, version: Version) -> Diagnostic {
    let what = if what.contains(' ') { what.to_owned() } else { format!("`{what}`") };
    if let Some(since) = gate.since(arch) {
        return Diagnostic::error(&codes::P0402, span, format!("{what} needs PTX {since}; this module is {version}"))
            .help(format!("write `.version {since}` or later"));
    }
    let targets: Vec<String> = gate.anyof.iter().map(|(a, _)| target_name(*a)).collect();
    let text = format!("{what} needs target {}; this module is for {arch}", targets.join(", "));
    Diagnostic::error(&codes::P0401, span, text).help(targets_with(gate, arch, version))
}

/// A feature that later versions no longer have.
pub(crate) fn gone(span: Span, what: &str, until: Version, version: Version) -> Diagnostic {
    let what = if what.contains(' ') { what.to_owned() } else { format!("`{what}`") };
    let text = format!("{what} ended with PTX {until}; this module is {version}");
    Diagnostic::error(&codes::P0402, span, text).help(format!("leave it out, or write a `.version` before {until}"))
}

/// The help that names targets: those of the module's chip, or else of the next chip that has the feature.
fn targets_with(gate: &Gate, arch: Arch, version: Version) -> String {
    let having = || table().targets.iter().filter_map(|t| Some((t.arch, gate.since(t.arch)?.max(t.since))));
    let Some(number) = having().map(|(a, _)| a.number).filter(|number| *number >= arch.number).min() else {
        return format!("chips of {arch} do not have it");
    };
    let chip: Vec<(Arch, Version)> = having().filter(|(a, _)| a.number == number).collect();
    // A later chip has what a target without a suffix has.
    let plain = chip.iter().find(|(a, _)| a.suffix == Suffix::None);
    let chip = plain.map_or(&chip[..], std::slice::from_ref);
    let names: Vec<String> = chip.iter().map(|(a, _)| format!("`.target {a}`")).collect();
    let needed = chip.iter().map(|(_, since)| *since).min().filter(|since| *since > version);
    let with = needed.map_or_else(String::new, |since| format!(" and `.version {since}`"));
    format!("write {}{with}", names.join(" or "))
}

fn target_name(arch: Arch) -> String {
    match arch.suffix {
        Suffix::None => format!("{arch} or later"),
        Suffix::Family => format!("{arch} (its family)"),
        Suffix::Arch => arch.to_string(),
    }
}
