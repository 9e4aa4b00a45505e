//! From the syntax tree to the IR: names to registers, variables and labels; mnemonics to rows of the table.
//!
//! Phases never abort: what cannot be resolved becomes [`Operand::Error`](crate::ir::Operand) and a diagnostic.
//! Whole-module rules (flow, limits, protocol) are `check`'s work.

mod annotation;
mod bind;
mod body;
pub mod constant;
mod form;
mod header;
mod initial;
mod module;
mod names;
mod operand;
mod redeclared;
mod report;
pub(crate) mod rule;
mod variable;

pub(crate) use report::{gate, gone};

use crate::diag::Diagnostic;
use crate::ir::Module;
use crate::isa::{Arch, Version};
use crate::syntax::Tree;

/// Options that override the text.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Instead of `.target`.
    pub arch: Option<Arch>,
    /// Instead of `.version`.
    pub version: Option<Version>,
    /// The chip that the module will be assembled for, as `ptxas -arch` names it. Without it, that of `.target`.
    pub chip: Option<Arch>,
    /// Other modules will be linked to this one: what is `.extern` may be defined in them.
    pub relocatable: bool,
    /// Report each warning that is told once at each of its places, for those who silence some of them: then [`crate::diag::tell_once`] is theirs to call.
    pub repeats: bool,
}

/// Resolves a whole module.
pub fn lower(tree: &Tree, options: &Options) -> (Module, Vec<Diagnostic>) {
    module::lower(tree, options)
}
