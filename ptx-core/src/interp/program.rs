//! Decoding: a module becomes one step an instruction, once.

use crate::diag::Diagnostic;
use crate::ir::Module;

/// A module, decoded for the machine.
#[derive(Debug)]
pub struct Program {}

impl Program {
    /// Decodes every function of a module.
    ///
    /// # Errors
    /// One diagnostic for each instruction that the CPU device cannot run.
    pub fn new(module: &Module) -> Result<Program, Vec<Diagnostic>> {
        let _ = module;
        Ok(Program {})
    }
}
