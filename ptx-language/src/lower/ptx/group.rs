//! `(16 * i + 4)` among the operands: a computation in parentheses that names a constant of the kernel becomes its value.
//! What names none is PTX's own.

use super::{Copy, Lowerer};
use crate::lower::{literal, splice};
use crate::scope::Binding;
use crate::types::Const;
use crate::value::Value;
use ptx_core::token::{Kind, TokenId};

impl Lowerer<'_> {
    /// Copies the content of parentheses.
    pub(super) fn group(&mut self, copy: &mut Copy<'_>) {
        let close = copy.closing(copy.at, b'(', b')').filter(|close| self.computes(copy, *close));
        let Some(close) = close else { return self.verbatim(copy) };
        let (text, span) = (copy.between(copy.at, close), copy.span().to(copy.source.span(close)));
        let value = splice::expr(&text, span).and_then(|expr| self.require_constant(&expr));
        match value {
            Some(value) => self.write(copy, &literal::spliced(&value), close - copy.at + 1),
            None => self.verbatim(copy),
        }
    }

    /// Returns true if this is arithmetic on numbers and constants of the kernel.
    fn computes(&self, copy: &Copy<'_>, close: TokenId) -> bool {
        let inside = copy.at + 1..close;
        let word = |at: &TokenId| copy.source.kind(*at) == Kind::Word;
        let constant = |at: TokenId| {
            let found = self.scopes.find(copy.text(at)).map(|found| found.binding);
            matches!(found, Some(Binding::Const(_) | Binding::Value(Value::Const(Const::Int(..) | Const::Struct(..)))))
        };
        let arithmetic = |at: &TokenId| matches!(copy.source.kind(*at), Kind::Punct(b'+' | b'-' | b'*' | b'/' | b'%'));
        let field = |at: TokenId| copy.source.kind(at) == Kind::Dot;
        let allowed = |at: TokenId| word(&at) || arithmetic(&at) || field(at) || copy.source.kind(at) == Kind::Int;
        inside.clone().all(allowed)
            && inside.clone().any(|at| arithmetic(&at))
            && inside.clone().any(|at| word(&at))
            && inside.filter(word).all(constant)
    }
}
