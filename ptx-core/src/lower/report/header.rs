//! `.version` and `.target`.

use crate::diag::near::nearest;
use crate::diag::{Diagnostic, codes};
use crate::isa::{Arch, Suffix, Version, table};
use crate::span::Span;
use crate::syntax::Tree;

pub(in crate::lower) fn no_header(what: &str, tree: &Tree) -> Diagnostic {
    let span = tree.eof.map_or_else(Span::default, |t| tree.source.span(t));
    let span = tree.items.first().map_or(span, |i| tree.span(&tree.stmt(*i).head));
    if tree.items.is_empty() {
        let help = "a module begins with `.version 8.7` and `.target sm_90`";
        return Diagnostic::error(&codes::P0601, span, "there is no PTX here").help(help);
    }
    let name = what.split(' ').next().unwrap_or(what);
    Diagnostic::error(&codes::P0601, span, format!("the module has no `{name}`")).help(format!("begin with `{what}`"))
}

pub(in crate::lower) fn bad_version(text: &str, last_minors: &[u8], span: Span) -> Diagnostic {
    let ranges: Vec<String> =
        (1..).zip(last_minors).map(|(major, last)| format!("{major}.0 to {major}.{last}")).collect();
    Diagnostic::error(&codes::P0602, span, format!("there is no PTX version `{text}`"))
        .help(format!("the versions are {}", ranges.join(", ")))
        .section("11.1.1")
}

pub(in crate::lower) fn version_elsewhere(span: Span) -> Diagnostic {
    let text = "the version stands behind `.version`, on the same line and with no comment between them";
    Diagnostic::error(&codes::P0602, span, text).section("11.1.1")
}

pub(in crate::lower) fn unknown_target(text: &str, span: Span) -> Diagnostic {
    let names: Vec<String> = table().targets.iter().map(|t| t.arch.to_string()).collect();
    let d = Diagnostic::error(&codes::P0603, span, format!("there is no target `{text}`")).section("11.1.2");
    match nearest(text, names.iter().map(String::as_str)) {
        Some(near) => d.help(format!("did you mean `{near}`?")),
        None => d,
    }
}

pub(in crate::lower) fn other_chip(arch: Arch, chip: Arch, span: Span) -> Diagnostic {
    let runs = match arch.suffix {
        Suffix::None => format!("{arch} and later chips"),
        Suffix::Family => format!("{} and the later chips of its family", Arch::base(arch.number)),
        Suffix::Arch => format!("{arch} alone"),
    };
    Diagnostic::error(&codes::P0401, span, format!("a module for {arch} cannot be assembled for {chip}"))
        .help(format!("it runs on {runs}; write `.target {chip}`"))
        .section("11.1.2")
}

pub(in crate::lower) fn target_since(arch: Arch, since: Version, span: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0402, span, format!("target `{arch}` needs PTX {since} or later"))
        .help(format!("write `.version {since}`"))
        .section("11.1.2")
}
