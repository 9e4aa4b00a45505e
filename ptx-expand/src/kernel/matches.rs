//! `match` on constants.

use super::Reader;
use ptx_core::span::Span;
use ptx_language::tree::{Arm, Expr, ExprKind};
use syn::spanned::Spanned;

/// The patterns that a `match` takes, for help.
const PATTERNS: &str = "an arm is for constants, `0 | 1 => …`, or for the rest, `_ => …`";

impl Reader {
    /// `match C { 0 | 1 => a, _ => b }`
    pub fn match_(&mut self, e: &syn::ExprMatch) -> Expr {
        let start = self.host.token(e.match_token.span());
        let matched = self.boxed(&e.expr);
        let arms = e.arms.iter().map(|arm| self.arm(arm)).collect();
        let end = self.host.token(e.brace_token.span.close());
        Expr { kind: ExprKind::Match(matched, arms), span: start.to(end) }
    }

    fn arm(&mut self, arm: &syn::Arm) -> Arm {
        if let Some((token, _)) = &arm.guard {
            self.refuse(token, "conditions on arms", "write `if` inside the arm");
        }
        let refused = || Expr { kind: ExprKind::Error, span: Span::default() };
        let values = self.arm_values(&arm.pat).unwrap_or_else(|| vec![refused()]);
        Arm { values, body: self.expr(&arm.body) }
    }

    /// The values of a pattern; none for `_`, `None` once an error is reported.
    fn arm_values(&mut self, pattern: &syn::Pat) -> Option<Vec<Expr>> {
        match pattern {
            syn::Pat::Wild(_) => Some(Vec::new()),
            syn::Pat::Paren(inner) => self.arm_values(&inner.pat),
            syn::Pat::Or(or) => {
                let values: Vec<Vec<Expr>> =
                    or.cases.iter().map(|case| self.arm_values(case)).collect::<Option<_>>()?;
                // `_` among them is for everything.
                Some(if values.iter().any(Vec::is_empty) { Vec::new() } else { values.concat() })
            }
            syn::Pat::Lit(literal) => Some(vec![self.expr(&syn::Expr::Lit(literal.clone()))]),
            syn::Pat::Path(path) => Some(vec![self.expr(&syn::Expr::Path(path.clone()))]),
            syn::Pat::Ident(name) if name.by_ref.is_none() && name.subpat.is_none() && is_constant(&name.ident) => {
                let path = syn::ExprPath { attrs: Vec::new(), qself: None, path: name.ident.clone().into() };
                Some(vec![self.expr(&syn::Expr::Path(path))])
            }
            other => {
                self.refuse(other, "such pattern", PATTERNS);
                None
            }
        }
    }
}

/// Returns true for the name of a constant; any other name would take every value.
fn is_constant(name: &syn::Ident) -> bool {
    name.to_string().starts_with(|c: char| c.is_uppercase())
}
