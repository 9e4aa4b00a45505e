//! `assert!` over constants.

use super::{Fail, Lowerer};
use crate::lower::splice;
use crate::scope::Binding;
use crate::tree::Expr;
use crate::types::Const;
use ptx_core::diag::codes;
use ptx_core::span::Span;

impl Lowerer<'_> {
    /// `assert!(condition, "message")` as a statement: the condition must be a constant. Returns true if it holds.
    pub(in crate::lower) fn require_assertion(&mut self, condition: &Expr, message: Option<&str>) -> bool {
        let found = self.assertion(condition, message);
        let holds = found.is_ok();
        if let Err(Fail::NotConstant(span, why)) = found {
            let message = format!("`assert!` compares constants, and this is not known at compile time: {why}");
            let help = "check it on the host, `requires(…)`, or at run time: `if … { ptx! { trap; } }`";
            self.fail(&codes::P0805, span, message, help);
        }
        holds
    }

    /// Reports an assertion that does not hold.
    pub(super) fn assertion(&mut self, condition: &Expr, message: Option<&str>) -> Result<(), Fail> {
        match self.constant(condition)? {
            Const::Bool(true) => Ok(()),
            Const::Bool(false) => {
                let message = message.map_or_else(
                    || "this assertion does not hold".to_owned(),
                    |message| self.assertion_message(message, condition.span),
                );
                self.fail(&codes::P0819, condition.span, message, "");
                Err(Fail::Reported)
            }
            other => {
                let message = format!("a condition is a `bool`, this is {}", other.describe());
                self.fail(&codes::P0815, condition.span, message, "compare it: `N % 4 == 0`");
                Err(Fail::Reported)
            }
        }
    }

    /// The message, with the constants and types that it names in braces.
    fn assertion_message(&mut self, message: &str, span: Span) -> String {
        let mut text = String::with_capacity(message.len());
        let mut rest = message;
        while let Some((before, behind)) = rest.split_once('{') {
            let Some((name, after)) = behind.split_once('}') else { break };
            text.push_str(before);
            match self.named_text(name, span) {
                Some(value) => text.push_str(&value),
                None => text.push_str(&format!("{{{name}}}")),
            }
            rest = after;
        }
        text + rest
    }

    fn named_text(&mut self, name: &str, span: Span) -> Option<String> {
        if let Some(Binding::Type(ty)) = self.scopes.find(name).map(|found| found.binding) {
            return Some(ty.name());
        }
        let expr = splice::expr(name, span)?;
        self.constant_quietly(&expr).ok().map(|value| value.text())
    }
}
