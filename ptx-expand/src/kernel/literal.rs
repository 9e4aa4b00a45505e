//! Literals.

use super::Reader;
use ptx_core::diag::codes;
use ptx_core::span::Span;
use ptx_language::tree::{Expr, ExprKind, UnaryOp};

impl Reader {
    /// A literal.
    pub fn literal(&mut self, literal: &syn::Lit) -> Expr {
        let span = self.host.token(literal.span());
        // A macro may make a negative literal of one token, and `syn` makes one of a generic argument.
        if let syn::Lit::Int(int) = literal
            && let Some(digits) = int.base10_digits().strip_prefix('-')
        {
            let positive = syn::LitInt::new(&format!("{digits}{}", int.suffix()), int.span());
            let operand = Box::new(self.literal(&syn::Lit::Int(positive)));
            return Expr { kind: ExprKind::Unary(UnaryOp::Neg, operand), span };
        }
        let kind = match literal {
            syn::Lit::Int(int) if is_float(int.suffix()) => {
                ExprKind::Float(int.base10_digits().to_owned(), Some(int.suffix().to_owned()))
            }
            syn::Lit::Int(int) => match int.base10_digits().parse() {
                Ok(value) => ExprKind::Int(value, suffix(int.suffix())),
                Err(_) => {
                    self.error_at(&codes::P0850, span, "no register holds an integer this large", "128 bits at most");
                    ExprKind::Error
                }
            },
            syn::Lit::Float(float) => ExprKind::Float(float.base10_digits().to_owned(), suffix(float.suffix())),
            syn::Lit::Bool(bool) => ExprKind::Bool(bool.value),
            syn::Lit::Str(str) => ExprKind::Str(str.value()),
            syn::Lit::Byte(byte) => ExprKind::Int(byte.value().into(), suffix("u8")),
            syn::Lit::ByteStr(_) => {
                let help = "write `*b\"…\"`, an array of bytes";
                self.error_at(&codes::P0850, span, "the kernel language has no references to bytes", help);
                ExprKind::Error
            }
            _ => {
                let help = "write a byte, `b'a'`, or a number";
                self.error_at(&codes::P0850, span, "the kernel language has no such literal", help);
                ExprKind::Error
            }
        };
        Expr { kind, span }
    }
}

/// `*b"…"`: an array of bytes.
pub fn bytes(literal: &syn::LitByteStr, span: Span) -> Expr {
    let byte = |byte: u8| Expr { kind: ExprKind::Int(byte.into(), suffix("u8")), span };
    Expr { kind: ExprKind::Array(literal.value().into_iter().map(byte).collect()), span }
}

fn suffix(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// `1f32` is an integer literal to Rust's lexer, and a float.
fn is_float(suffix: &str) -> bool {
    matches!(suffix, "f16" | "bf16" | "f32" | "f64")
}
