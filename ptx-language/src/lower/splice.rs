//! The constant expressions inside `ptx!`: `acc[2 * i + 1]`, `{acc[4 * i..4 * i + 4]}`, `.{SHAPE}`. Text to [`Expr`].

use crate::tree::{BinaryOp, Expr, ExprKind, Ident, Path, UnaryOp};
use ptx_core::span::Span;

/// The index between brackets.
pub(super) enum Index {
    /// `3`
    One(Expr),
    /// `a..b`, either of them missing; inclusive.
    Range(Box<[Option<Expr>; 2]>, bool),
}

/// Reads what stands between brackets.
pub(super) fn index(text: &str, span: Span) -> Option<Index> {
    let Some((from, to)) = text.split_once("..") else { return expr(text, span).map(Index::One) };
    let inclusive = to.starts_with('=');
    let bound = |text: &str| match text.trim() {
        "" => Some(None),
        text => expr(text, span).map(Some),
    };
    Some(Index::Range(Box::new([bound(from)?, bound(to.trim_start_matches('='))?]), inclusive))
}

/// Reads a constant expression.
pub(super) fn expr(text: &str, span: Span) -> Option<Expr> {
    let mut reader = Reader { text, span };
    let expr = reader.binary(0)?;
    reader.text.trim().is_empty().then_some(expr)
}

/// Operators, the longer ones first; a higher number binds closer.
const OPERATORS: &[(&str, BinaryOp, u8)] = &[
    ("<<", BinaryOp::Shl, 4),
    (">>", BinaryOp::Shr, 4),
    ("|", BinaryOp::Or, 1),
    ("^", BinaryOp::Xor, 2),
    ("&", BinaryOp::And, 3),
    ("+", BinaryOp::Add, 5),
    ("-", BinaryOp::Sub, 5),
    ("*", BinaryOp::Mul, 6),
    ("/", BinaryOp::Div, 6),
    ("%", BinaryOp::Rem, 6),
];

struct Reader<'t> {
    text: &'t str,
    span: Span,
}

impl Reader<'_> {
    fn node(&self, kind: ExprKind) -> Expr {
        Expr { kind, span: self.span }
    }

    fn eat(&mut self, text: &str) -> bool {
        match self.text.trim_start().strip_prefix(text) {
            Some(rest) => {
                self.text = rest;
                true
            }
            None => false,
        }
    }

    fn word(&mut self) -> Option<&str> {
        let text = self.text.trim_start();
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.text = rest;
        (!word.is_empty()).then_some(word)
    }

    fn binary(&mut self, least: u8) -> Option<Expr> {
        let mut left = self.unary()?;
        while let Some((text, op, binds)) =
            OPERATORS.iter().find(|(text, _, binds)| *binds > least && self.text.trim_start().starts_with(text))
        {
            self.eat(text);
            let right = self.binary(*binds)?;
            left = self.node(ExprKind::Binary(*op, self.span, Box::new(left), Box::new(right)));
        }
        Some(left)
    }

    fn unary(&mut self) -> Option<Expr> {
        if self.eat("-") {
            let inner = self.unary()?;
            return Some(self.node(ExprKind::Unary(UnaryOp::Neg, Box::new(inner))));
        }
        if self.eat("(") {
            let inner = self.binary(0)?;
            return self.eat(")").then_some(inner);
        }
        let mut expr = self.primary()?;
        loop {
            if self.eat("[") {
                let at = self.binary(0)?;
                if !self.eat("]") {
                    return None;
                }
                expr = self.node(ExprKind::Index(Box::new(expr), Box::new(at)));
            } else if self.eat(".") {
                let name = self.word()?.to_owned();
                expr = self.node(ExprKind::Field(Box::new(expr), Ident { name, span: self.span }));
            } else {
                break;
            }
        }
        Some(expr)
    }

    fn primary(&mut self) -> Option<Expr> {
        let span = self.span;
        let first = self.word()?.to_owned();
        if first.starts_with(|c: char| c.is_ascii_digit()) {
            return Some(self.node(ExprKind::Int(integer(&first)?, None)));
        }
        let mut segments = vec![Ident { name: first, span }];
        while self.eat("::") {
            segments.push(Ident { name: self.word()?.to_owned(), span });
        }
        Some(self.node(ExprKind::Path(Path { segments, ..Path::default() })))
    }
}

fn integer(text: &str) -> Option<u128> {
    let text = text.replace('_', "");
    match text.strip_prefix("0x") {
        Some(hex) => u128::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}
