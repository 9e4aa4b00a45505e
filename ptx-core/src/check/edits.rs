//! Edits that keep a checked module sound.

use super::{Checked, minimum_version};
use crate::edit::EditError;
use crate::syntax::{Stmt, StmtKind};
use crate::token::TokenId;

impl Checked {
    /// The same module at the lowest version that its target and instructions allow, so that older drivers load it.
    ///
    /// # Errors
    /// [`EditError::TooLong`].
    pub fn with_minimum_version(mut self) -> Result<Checked, EditError> {
        self.module.version = minimum_version(&self.tree, &self.module);
        self.tree.set_directive(".version", &self.module.version.to_string())?;
        Ok(self)
    }

    /// The same module with signed registers declared as bits (`.b64` for `.s64`), as nvcc does: instructions give registers their
    /// meaning, but ptxas orders instructions differently where registers are signed. [`Checked::module`] keeps the types.
    ///
    /// # Errors
    /// [`EditError::TooLong`].
    pub fn with_untyped_registers(mut self) -> Result<Checked, EditError> {
        const SIGNED: [(&str, &str); 4] = [(".s8", ".b8"), (".s16", ".b16"), (".s32", ".b32"), (".s64", ".b64")];
        let source = &self.tree.source;
        let declared = |stmt: &Stmt| match &stmt.kind {
            StmtKind::Var(var) if source.text(var.space) == ".reg" => {
                let ty = var.ty?;
                SIGNED.iter().find(|(signed, _)| source.text(ty) == *signed).map(|(_, bits)| (ty, *bits))
            }
            _ => None,
        };
        let edits: Vec<(TokenId, &str)> = self.tree.stmts.iter().filter_map(declared).collect();
        for (token, bits) in edits {
            self.tree.replace_token(token, bits)?;
        }
        Ok(self)
    }
}
