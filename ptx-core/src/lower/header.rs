//! `.version`, `.target`, `.address_size`.

use super::{Options, constant, report};
use crate::diag::Diagnostic;
use crate::ir::Module;
use crate::isa::{Arch, Version, table};
use crate::syntax::{Directive, ExprId, StmtKind, Tree};

/// Target of a module without a header: everything is allowed there, so that one error stays one error.
const NEWEST_ARCH: Arch = Arch::base(121);

/// The last minor version of each major one, from 1 on.
const LAST_MINORS: &[u8] = &[5, 3, 2, 3, 1, 5, 8, 8, 5];

/// ptxas takes `8.10` for 9.0 here: ten minor versions are a major one.
fn exists(version: &Version) -> bool {
    let all = 10 * usize::from(version.major) + usize::from(version.minor);
    let last = (all / 10).checked_sub(1).and_then(|at| LAST_MINORS.get(at));
    last.is_some_and(|last| all % 10 <= usize::from(*last))
}

/// An empty module with the header's facts.
pub(super) fn read(tree: &Tree, options: &Options, diagnostics: &mut Vec<Diagnostic>) -> Module {
    let version = options.version.or_else(|| version(tree, diagnostics));
    let (archs, words) = target(tree, diagnostics);
    // ptxas reads all of them, and the last counts.
    let archs = options.arch.map_or(archs, |arch| vec![arch]);
    let arch = archs.last().copied();
    for arch in archs {
        if let Some(info) = table().target(arch).filter(|t| version.is_some_and(|version| version < t.since)) {
            let span = directive(tree, ".target").map_or_else(Default::default, |d| tree.source.span(d.name));
            diagnostics.push(report::target_since(arch, info.since, span));
        }
    }
    if let (Some(arch), Some(chip)) = (arch, options.chip)
        && !arch.assembles_for(chip)
    {
        let span = directive(tree, ".target").map_or_else(Default::default, |d| tree.source.span(d.name));
        diagnostics.push(report::other_chip(arch, chip, span));
    }
    Module {
        version: version.unwrap_or(Version::NEWEST),
        arch: arch.unwrap_or(NEWEST_ARCH),
        options: words,
        address_size: address_size(tree),
        relocatable: options.relocatable,
        shares_locals: false,
        variables: Vec::new(),
        functions: Vec::new(),
    }
}

fn directive<'t>(tree: &'t Tree, name: &'static str) -> Option<&'t Directive> {
    directives(tree, name).next()
}

fn directives<'t>(tree: &'t Tree, name: &'static str) -> impl Iterator<Item = &'t Directive> {
    tree.items.iter().filter_map(move |id| match &tree.stmt(*id).kind {
        StmtKind::Directive(d) if tree.source.text(d.name) == name => Some(d),
        _ => None,
    })
}

fn version(tree: &Tree, diagnostics: &mut Vec<Diagnostic>) -> Option<Version> {
    let Some(d) = directive(tree, ".version") else {
        diagnostics.push(report::no_header(".version 8.7", tree));
        return None;
    };
    let behind = |e: &ExprId| tree.source.trivia(tree.expr(*e).tokens.start);
    // A line, or a comment.
    if tree.list(&d.args).first().is_some_and(|e| behind(e).iter().any(|byte| matches!(byte, b'\n' | b'/'))) {
        diagnostics.push(report::version_elsewhere(tree.source.span(d.name)));
    }
    let text = tree.list(&d.args).first().map(|e| tree.compact(&tree.expr(*e).tokens)).unwrap_or_default();
    let version = text.parse().ok().filter(exists);
    if version.is_none() {
        diagnostics.push(report::bad_version(&text, LAST_MINORS, tree.source.span(d.name)));
    }
    version
}

fn target(tree: &Tree, diagnostics: &mut Vec<Diagnostic>) -> (Vec<Arch>, Vec<String>) {
    if directive(tree, ".target").is_none() && !tree.items.is_empty() {
        diagnostics.push(report::no_header(".target sm_90", tree));
    }
    let (mut archs, mut words) = (Vec::new(), Vec::new());
    for id in directives(tree, ".target").flat_map(|d| tree.list(&d.args)) {
        let tokens = &tree.expr(*id).tokens;
        let word = tree.compact(tokens);
        match word.parse::<Arch>() {
            Ok(found) if table().target(found).is_some() => archs.push(found),
            Ok(found) => diagnostics.push(report::unknown_target(&found.to_string(), tree.span(tokens))),
            Err(()) => words.push(word),
        }
    }
    (archs, words)
}

/// Returns true if it equals the module's `.target`: ptxas takes that in a body, too.
pub(super) fn repeats_target(tree: &Tree, again: &Directive) -> bool {
    let words =
        |d: &Directive| tree.list(&d.args).iter().map(|e| tree.compact(&tree.expr(*e).tokens)).collect::<Vec<_>>();
    tree.source.text(again.name) == ".target" && directive(tree, ".target").is_some_and(|d| words(d) == words(again))
}

/// 64, if nothing else is written. The manual's default is 32, which ptxas no longer assembles.
fn address_size(tree: &Tree) -> u32 {
    let arg = directive(tree, ".address_size").and_then(|d| tree.list(&d.args).first().copied());
    arg.and_then(|e| constant::integer(tree, e)).and_then(|n| u32::try_from(n).ok()).unwrap_or(64)
}
