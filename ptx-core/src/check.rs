//! Whole-module rules, and the proof that they hold: [`Checked`].
//!
//! One file of `check/` is one theme: its rules, each a function over the IR. What a single instruction or name does
//! wrong is found before, by `lower`.

pub mod access;
mod allow;
mod assembler;
mod banks;
mod calls;
mod debug;
mod declarations;
mod declarators;
mod directives;
mod edits;
mod features;
mod flow;
pub mod graph;
mod header;
mod limits;
mod linkage;
mod opaque;
mod pairs;
mod params;
mod passing;
mod pragmas;
mod protocol;
mod resources;
mod shared;
mod signatures;
mod specials;
mod variables;
mod version;

use crate::diag::{Code, Diagnostic, sort_by_span, tell_once};
use crate::ir::Module;
use crate::lower::{Options, lower};
use crate::span::Span;
use crate::syntax::Tree;

pub use flow::exposed;
pub use protocol::{Waiting, waiting};
pub use version::minimum_version;

/// A module without errors. Only [`check`] makes one: the printer and the interpreter need no checks of their own.
#[derive(Clone, Debug)]
pub struct Checked {
    tree: Tree,
    module: Module,
}

impl Checked {
    /// The text and its structure.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The resolved module.
    pub fn module(&self) -> &Module {
        &self.module
    }
}

/// A module with errors, as far as names and instructions were resolved.
#[derive(Clone, Debug)]
pub struct Unsound {
    /// The text and its structure.
    pub tree: Tree,
    /// What is wrong in it is `Operand::Error`, or missing.
    pub module: Module,
}

/// A rule: looks at the module and reports.
type Rule = fn(&Tree, &Module, &mut Vec<Diagnostic>);

/// An error of a rule, with the manual's section.
fn error(code: &'static Code, span: Span, text: impl Into<String>, section: &'static str) -> Diagnostic {
    Diagnostic::error(code, span, text).section(section)
}

/// Modules that ptxas rejects.
const RULES: &[Rule] = &[
    header::check_header,
    directives::check_directives,
    features::check_features,
    pragmas::check_pragmas,
    passing::check_passing,
    debug::check_debug,
    variables::check_variables,
    declarations::check_declarations,
    banks::check_banks,
    declarators::check_declarators,
    opaque::check_opaque,
    signatures::check_signatures,
    linkage::check_linkage,
    limits::check_limits,
    specials::check_specials,
    calls::check_calls,
    params::check_params,
    pairs::check_pairs,
    resources::check_resources,
];

/// Likely mistakes: checked only in a module without errors, which would mislead these rules.
const WARNINGS: &[Rule] = &[flow::check_flow, protocol::check_protocol, assembler::check_assembler];

/// Lowers and checks a parsed module. `earlier` are the parser's diagnostics, so that a module with syntax errors
/// is never [`Checked`]; the diagnostics come back in the order of the text.
pub fn check(tree: Tree, earlier: Vec<Diagnostic>, options: &Options) -> (Option<Checked>, Vec<Diagnostic>) {
    let (outcome, diagnostics) = check_or_keep(tree, earlier, options);
    (outcome.ok(), diagnostics)
}

/// The same. A module with errors comes back, too: its declarations count for whoever calls it.
pub fn check_or_keep(
    tree: Tree,
    earlier: Vec<Diagnostic>,
    options: &Options,
) -> (Result<Checked, Unsound>, Vec<Diagnostic>) {
    let (module, lowered) = lower(&tree, options);
    let mut diagnostics = earlier;
    diagnostics.extend(lowered);
    for rule in RULES {
        rule(&tree, &module, &mut diagnostics);
    }
    let sound = !diagnostics.iter().any(Diagnostic::is_error);
    for rule in WARNINGS.iter().filter(|_| sound) {
        rule(&tree, &module, &mut diagnostics);
    }
    allow::silence(&tree, &mut diagnostics);
    sort_by_span(&mut diagnostics);
    if !options.repeats {
        tell_once(&mut diagnostics);
    }
    (if sound { Ok(Checked { tree, module }) } else { Err(Unsound { tree, module }) }, diagnostics)
}
