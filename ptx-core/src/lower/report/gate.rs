//! Features of another target or a later version.

use crate::diag::{Diagnostic, codes};
use crate::isa::{Arch, Gate, Suffix, Version};
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
    let d = Diagnostic::error(&codes::P0401, span, text);
    match gate.anyof.first() {
        Some((first, since)) => d.help(format!("write `.target {first}` (PTX {} or later)", since.max(&version))),
        None => d,
    }
}

fn target_name(arch: Arch) -> String {
    match arch.suffix {
        Suffix::None => format!("{arch} or later"),
        Suffix::Family => format!("{arch} (its family)"),
        Suffix::Arch => arch.to_string(),
    }
}
