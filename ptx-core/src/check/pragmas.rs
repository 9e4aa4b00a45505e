//! `.pragma`: which strings ptxas knows, and where it takes them. Inside a function it passes over those it does not know.

use crate::diag::{Diagnostic, codes};
use crate::ir::Module;
use crate::syntax::{Directive, StmtId, StmtKind, Tree};

/// A string that ptxas knows; what follows its first word is its argument.
struct Pragma {
    name: &'static str,
    /// True if it may stand outside of a body.
    outside: bool,
    /// True if a `.func` may hold it.
    func: bool,
    /// The least value, if a number must follow.
    least: Option<i64>,
}

const PRAGMAS: &[Pragma] = &[
    Pragma { name: "nounroll", outside: true, func: true, least: None },
    Pragma { name: "used_bytes_mask", outside: false, func: true, least: Some(i64::MIN) },
    Pragma { name: "enable_smem_spilling", outside: false, func: false, least: None },
    Pragma { name: "frequency", outside: false, func: true, least: Some(1) },
];

#[derive(Clone, Copy, PartialEq)]
enum Place {
    Module,
    Header,
    Entry,
    Func,
}

pub(super) fn check_pragmas(tree: &Tree, _: &Module, out: &mut Vec<Diagnostic>) {
    for id in &tree.items {
        match &tree.stmt(*id).kind {
            StmtKind::Directive(d) => pragma(tree, d, Place::Module, out),
            StmtKind::Func(func) => {
                func.directives.iter().for_each(|d| pragma(tree, d, Place::Header, out));
                let entry = tree.source.text(func.keyword) == ".entry";
                body(tree, *id, if entry { Place::Entry } else { Place::Func }, out);
            }
            _ => {}
        }
    }
}

fn body(tree: &Tree, id: StmtId, place: Place, out: &mut Vec<Diagnostic>) {
    for child in tree.stmt(id).children() {
        match &tree.stmt(*child).kind {
            StmtKind::Directive(d) => pragma(tree, d, place, out),
            StmtKind::Block => body(tree, *child, place, out),
            _ => {}
        }
    }
}

fn pragma(tree: &Tree, directive: &Directive, place: Place, out: &mut Vec<Diagnostic>) {
    if tree.source.bytes(directive.name) != b".pragma" {
        return;
    }
    for id in tree.list(&directive.args) {
        let tokens = &tree.expr(*id).tokens;
        let text = tree.compact(tokens);
        if let Some(why) = refusal(text.trim_matches('"'), place) {
            out.push(Diagnostic::error(&codes::P0616, tree.span(tokens), why).section("11.4.7"));
        }
    }
}

/// Why ptxas refuses the string here.
fn refusal(text: &str, place: Place) -> Option<String> {
    let Some(pragma) = PRAGMAS.iter().find(|p| text.starts_with(p.name)) else {
        return (place == Place::Module).then(|| format!("outside of functions there is no pragma `{text}`"));
    };
    let (name, argument) = (pragma.name, text[pragma.name.len()..].trim());
    if place == Place::Module && name == "nounroll" && text != name {
        return Some(format!("outside of functions there is no pragma `{text}`"));
    }
    if matches!(place, Place::Module | Place::Header) && !pragma.outside {
        return Some(format!("`{name}` stands inside of a function"));
    }
    if place == Place::Func && !pragma.func {
        return Some(format!("`{name}` is for entries only"));
    }
    let least = pragma.least?;
    let number = match argument.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => argument.parse().ok(),
    };
    number.is_none_or(|n| n < least).then(|| match argument {
        "" => format!("`{name}` wants a number behind it"),
        _ => format!("`{argument}` is no number for `{name}`"),
    })
}
