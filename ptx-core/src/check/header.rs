//! The first statements of a module: `.version`, then `.target`; their words.

use crate::diag::{Diagnostic, codes};
use crate::ir::Module;
use crate::isa::Arch;
use crate::syntax::{StmtKind, Tree};

/// Options of `.target` beside a target.
const OPTIONS: &[&str] = &["texmode_unified", "texmode_independent", "debug", "map_f64_to_f32"];

/// The first target with 64-bit floats: until there, `map_f64_to_f32` makes them 32-bit ones.
const FIRST_WITH_F64: Arch = Arch::base(13);

pub(super) fn check_header(tree: &Tree, module: &Module, out: &mut Vec<Diagnostic>) {
    order(tree, out);
    for word in module.options.iter().filter(|w| !OPTIONS.contains(&w.as_str())) {
        let span = directive(tree, ".target").map(|d| tree.span(&tree.stmt(d).head)).unwrap_or_default();
        out.push(
            Diagnostic::error(&codes::P0603, span, format!("`.target` does not take `{word}`"))
                .help(format!("it takes one target and {}", OPTIONS.join(", ")))
                .section("11.1.2"),
        );
    }
    options(tree, module, out);
    address_size(tree, module, out);
    debug(tree, module, out);
}

/// Words that exclude each other, or that no target that is left takes.
fn options(tree: &Tree, module: &Module, out: &mut Vec<Diagnostic>) {
    let has = |word: &str| module.options.iter().any(|o| o == word);
    let span = directive(tree, ".target").map(|d| tree.span(&tree.stmt(d).head)).unwrap_or_default();
    if starts_with_an_option(tree) {
        let text = "`.target` begins with the target";
        out.push(Diagnostic::error(&codes::P0603, span, text).section("11.1.2"));
    }
    if has("texmode_unified") && has("texmode_independent") {
        let text = "`texmode_unified` and `texmode_independent` exclude each other";
        out.push(Diagnostic::error(&codes::P0610, span, text).section("11.1.2"));
    }
    if has("map_f64_to_f32") && module.arch.provides(FIRST_WITH_F64) {
        let text = format!("{} has 64-bit floats: it does not take `map_f64_to_f32`", module.arch);
        out.push(Diagnostic::error(&codes::P0603, span, text).section("11.1.2"));
    }
}

fn starts_with_an_option(tree: &Tree) -> bool {
    let Some(StmtKind::Directive(d)) = directive(tree, ".target").map(|id| &tree.stmt(id).kind) else { return false };
    let first = tree.list(&d.args).first().map(|e| tree.source.text(tree.expr(*e).tokens.start));
    first.is_some_and(|word| OPTIONS.contains(&word))
}

/// Returns true if the module has debug information.
fn has_sections(tree: &Tree) -> bool {
    tree.items.iter().any(|id| matches!(tree.stmt(*id).kind, StmtKind::Section(_) | StmtKind::Dwarf))
}

/// ptxas refuses `.target …, debug` of a module without any section.
fn debug(tree: &Tree, module: &Module, out: &mut Vec<Diagnostic>) {
    if module.options.iter().any(|word| word == "debug") && !has_sections(tree) {
        let span = directive(tree, ".target").map(|d| tree.span(&tree.stmt(d).head)).unwrap_or_default();
        out.push(
            Diagnostic::error(
                &codes::P0618,
                span,
                "`debug` wants debug information: there is no `.section`".to_owned(),
            )
            .help("leave out `debug`; `.file` and `.loc` do without it")
            .section("11.1.2"),
        );
    }
}

/// `.version` and `.target` come first, each once and in this order, then perhaps `.address_size`.
fn order(tree: &Tree, out: &mut Vec<Diagnostic>) {
    let before = out.len();
    first(tree, out);
    // ptxas takes `.target` several times, one behind the other.
    let mut targets = 0;
    let late = tree.items.iter().map(|id| tree.stmt(*id)).enumerate().find_map(|(at, stmt)| match &stmt.kind {
        StmtKind::Directive(d) => {
            let name = tree.source.text(d.name);
            let place = [".version", ".target", ".address_size"].iter().position(|n| *n == name)?;
            let again = name == ".target" && at > 0 && targets == at - 1;
            targets += usize::from(again);
            (at > place + targets.saturating_sub(1) && !again).then_some((name, d.name))
        }
        _ => None,
    });
    if let Some((name, token)) = late.filter(|_| out.len() == before) {
        let text = format!("`{name}` stands too late, or twice");
        let help = "a module begins with `.version`, `.target` and `.address_size`, each once";
        out.push(Diagnostic::error(&codes::P0604, tree.source.span(token), text).help(help).section("11.1"));
    }
}

fn first(tree: &Tree, out: &mut Vec<Diagnostic>) {
    let wanted = [(".version", "11.1.1"), (".target", "11.1.2")];
    let mut items = tree.items.iter().map(|id| tree.stmt(*id)).filter(|s| !matches!(s.kind, StmtKind::Error));
    for (name, section) in wanted {
        let Some(stmt) = items.next() else { return };
        let found = match &stmt.kind {
            StmtKind::Directive(d) => tree.source.text(d.name) == name,
            _ => false,
        };
        if !found && directive(tree, name).is_some() {
            let text = format!("`{name}` must stand here: a module begins with `.version`, then `.target`");
            out.push(Diagnostic::error(&codes::P0604, tree.span(&stmt.head), text).section(section));
            return;
        }
    }
}

fn directive(tree: &Tree, name: &str) -> Option<crate::syntax::StmtId> {
    tree.items.iter().copied().find(|id| match &tree.stmt(*id).kind {
        StmtKind::Directive(d) => tree.source.text(d.name) == name,
        _ => false,
    })
}

fn address_size(tree: &Tree, module: &Module, out: &mut Vec<Diagnostic>) {
    let Some(at) = directive(tree, ".address_size") else { return };
    let span = tree.span(&tree.stmt(at).head);
    match module.address_size {
        64 => {}
        32 => out.push(
            Diagnostic::error(&codes::P0615, span, "no target that ptxas assembles for has 32-bit addresses any more")
                .help("write `.address_size 64`")
                .section("11.1.3"),
        ),
        other => out.push(
            Diagnostic::error(&codes::P0615, span, format!("addresses have 32 or 64 bits, not {other}"))
                .section("11.1.3"),
        ),
    }
}
