//! Operands, initializers and constant expressions: manual section 4.5.5 and chapter 6.

use super::cursor::shorten;
use super::{MAX_DEPTH, Parsed, Parser};
use crate::diag::codes;
use crate::syntax::{Expr, ExprId, ExprKind, ExprList};
use crate::token::{Kind, TokenId};

/// Binds tighter than comparison and shift: what may stand in `%r<…>`.
pub(super) const ADDITIVE: u8 = 9;

impl Parser {
    pub(super) fn push_expr(&mut self, first: TokenId, kind: ExprKind) -> ExprId {
        if kind == ExprKind::Name && self.at == first + 1 {
            return ExprId::name(first);
        }
        let id = ExprId::index(self.tree.exprs.len());
        self.tree.exprs.push(Expr { tokens: first..self.at, kind });
        id
    }

    /// `operand ("," operand)*`
    pub(super) fn operands(&mut self) -> Parsed<ExprList> {
        let base = self.pending.len();
        loop {
            let operand = self.expr()?;
            self.pending.push(operand);
            if !self.eat(b',') {
                return Ok(self.list_from(base));
            }
        }
    }

    /// Moves the expressions pushed since `base` to a list of the tree.
    pub(super) fn list_from(&mut self, base: usize) -> ExprList {
        let start = self.tree.lists.len() as u32;
        self.tree.lists.extend(self.pending.drain(base..));
        start..self.tree.lists.len() as u32
    }

    /// `expr = binary ["?" expr ":" expr]`
    #[inline]
    pub(super) fn expr(&mut self) -> Parsed<ExprId> {
        let first = self.at;
        if self.kind() == Kind::Word && matches!(self.nth(1), Kind::Punct(b',' | b';' | b'}' | b']')) {
            self.at += 1;
            return Ok(ExprId::name(first));
        }
        let condition = self.binary(0)?;
        if self.at(b'?') { self.ternary(first, condition) } else { Ok(condition) }
    }

    fn ternary(&mut self, first: TokenId, condition: ExprId) -> Parsed<ExprId> {
        self.bump();
        let yes = self.deeper(Self::expr)?;
        self.expect(b':')?;
        let no = self.deeper(Self::expr)?;
        Ok(self.push_expr(first, ExprKind::Ternary(condition, yes, no)))
    }

    /// Operators that bind at least as tightly as `level`, from the left.
    pub(super) fn binary(&mut self, level: u8) -> Parsed<ExprId> {
        let first = self.at;
        let mut left = self.unary()?;
        let mut chain = 0;
        while let Some((op, binds)) = self.operator().filter(|&(_, binds)| binds >= level) {
            chain += 1;
            if self.depth + chain >= MAX_DEPTH {
                return Err(self.too_deep());
            }
            self.at += if op[1] == 0 { 1 } else { 2 };
            let right = match op == *b"=\0" || op == *b"+\0" && self.is_base(left) {
                true => self.deeper(Self::expr)?,
                false => self.deeper(|p| p.binary(binds + 1))?,
            };
            let kind = if op == *b"|\0" && self.is_register_like(left) {
                ExprKind::Pair(left, right)
            } else {
                ExprKind::Binary(op, left, right)
            };
            left = self.push_expr(first, kind);
        }
        Ok(left)
    }

    /// Returns true if `a|b` with this on the left is a pair of registers and no bitwise or.
    fn is_register_like(&self, expr: ExprId) -> bool {
        matches!(self.tree.expr(expr).kind, ExprKind::Name | ExprKind::Braces(_) | ExprKind::Pair(..))
    }

    /// Returns true if it is a name to which a constant is added: all of the expression behind the plus.
    fn is_base(&self, expr: ExprId) -> bool {
        let expr = self.tree.expr(expr);
        let named = matches!(expr.kind, ExprKind::Name | ExprKind::Apply(..));
        named && self.tree.source.bytes(expr.tokens.start) != b"WARP_SZ"
    }

    /// The operator that comes next and how tightly it binds. The bytes of `<<` must touch.
    #[inline]
    fn operator(&self) -> Option<([u8; 2], u8)> {
        let Kind::Punct(first) = self.kind() else { return None };
        if matches!(first, b',' | b';' | b'}' | b']' | b')') {
            return None;
        }
        let second = match self.nth(1) {
            Kind::Punct(second) if self.next_touches() => second,
            _ => 0,
        };
        binds([first, second]).map(|b| ([first, second], b)).or_else(|| binds([first, 0]).map(|b| ([first, 0], b)))
    }

    fn next_touches(&self) -> bool {
        self.at < self.end && self.tree.source.touches(self.at + 1)
    }

    /// Runs a production one level deeper, if there may be one.
    pub(super) fn deeper<T>(&mut self, production: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= MAX_DEPTH {
            return Err(self.too_deep());
        }
        self.depth += 1;
        let result = production(self);
        self.depth -= 1;
        result
    }

    /// `unary = ("-" | "+" | "~" | "!" | "(" type ")") unary | postfix`
    fn unary(&mut self) -> Parsed<ExprId> {
        let first = self.at;
        match self.kind() {
            Kind::Punct(op @ (b'-' | b'+' | b'~' | b'!')) => {
                self.bump();
                let operand = self.deeper(Self::unary)?;
                Ok(self.push_expr(first, ExprKind::Unary(op, operand)))
            }
            Kind::Punct(b'(') if self.nth(1) == Kind::Dot && self.nth(2) == Kind::Punct(b')') => {
                let ty = self.at + 1;
                self.at += 3;
                let operand = self.deeper(Self::unary)?;
                Ok(self.push_expr(first, ExprKind::Cast(ty, operand)))
            }
            _ => self.primary(),
        }
    }

    /// `primary = name | literal | type | "(" list ")" | "{" list "}" | "[" list "]"`, with what may follow each.
    fn primary(&mut self) -> Parsed<ExprId> {
        let first = self.at;
        match self.kind() {
            Kind::Word | Kind::Dot => self.name(),
            Kind::Int => self.integer(),
            Kind::Float => Ok(self.float()),
            Kind::Str => Ok(self.leaf(ExprKind::Str)),
            Kind::Punct(b'(') => {
                let list = self.bracketed(b')')?;
                Ok(self.push_expr(first, ExprKind::Group(list)))
            }
            Kind::Punct(b'{') => {
                let list = self.bracketed(b'}')?;
                self.selected(first, ExprKind::Braces(list))
            }
            Kind::Punct(b'[') => {
                let list = self.bracketed(b']')?;
                self.selected(first, ExprKind::Brackets(list))
            }
            _ => Err(self.stuck("an operand")),
        }
    }

    pub(super) fn leaf(&mut self, kind: ExprKind) -> ExprId {
        let first = self.bump();
        self.push_expr(first, kind)
    }

    /// `name = Word Dot* ["(" list ")" | "[" expr "]"]`, or a `Dot` token as an argument.
    fn name(&mut self) -> Parsed<ExprId> {
        let kind = if self.kind() == Kind::Dot { ExprKind::Dot } else { ExprKind::Name };
        let first = self.bump();
        while kind == ExprKind::Name && self.kind() == Kind::Dot && self.touches() {
            self.at += 1;
        }
        if kind == ExprKind::Name && self.kind() == Kind::Dot && self.at_component(first) {
            self.at += 1;
        }
        if self.at(b'(') {
            return self.apply(first);
        }
        let name = self.push_expr(first, kind);
        if self.at(b'[') { self.index(first, name) } else { Ok(name) }
    }

    /// Returns true for a component of a vector, or a part of a video operand: ptxas takes blanks in front of it. On another line, it begins a directive,
    /// unless the name is a register's.
    fn at_component(&self, name: TokenId) -> bool {
        if self.starts_line() && !self.tree.source.bytes(name).starts_with(b"%") {
            return false;
        }
        let text = self.tree.source.bytes(self.at);
        match text {
            [b'.', component] => b"xyzwrgba".contains(component),
            [b'.', b'b', b'0'..=b'3'] | [b'.', b'h', b'0' | b'1'] => true,
            [b'.', b'h', parts @ ..] => parts.len() == 2 && parts.iter().all(|part| (b'0'..=b'3').contains(part)),
            [b'.', b'b', parts @ ..] => parts.len() == 4 && parts.iter().all(|part| (b'0'..=b'7').contains(part)),
            _ => false,
        }
    }

    /// `"(" list ")"` behind a name or a mask.
    fn apply(&mut self, first: TokenId) -> Parsed<ExprId> {
        let list = self.bracketed(b')')?;
        Ok(self.push_expr(first, ExprKind::Apply(first, list)))
    }

    /// `name "[" expr "]"`, and a `Dot` token behind it.
    fn index(&mut self, first: TokenId, name: ExprId) -> Parsed<ExprId> {
        self.bump();
        let index = self.deeper(Self::expr)?;
        self.expect(b']')?;
        self.selected(first, ExprKind::Index(name, index))
    }

    /// An integer; a mask in front of a parenthesis; `1.x`.
    fn integer(&mut self) -> Parsed<ExprId> {
        let first = self.bump();
        match self.kind() {
            Kind::Punct(b'(') => self.apply(first),
            Kind::Dot if self.touches() => {
                self.dots();
                Ok(self.push_expr(first, ExprKind::Name))
            }
            _ => {
                let (value, mistake) = integer(self.tree.source.bytes(first));
                if let Some(why) = mistake {
                    self.bad_literal(first, why);
                }
                Ok(self.push_expr(first, ExprKind::Int(value)))
            }
        }
    }

    /// A floating-point literal. ptxas refuses a decimal one beyond the normal numbers of 64 bits.
    fn float(&mut self) -> ExprId {
        let token = self.at;
        let text = self.tree.source.text(token);
        let decimal = text.as_bytes().get(1).is_none_or(|b| !b.is_ascii_alphabetic() || matches!(b, b'e' | b'E'));
        let normal = |number: f64| number.is_normal() || number == 0.0 && !has_digits(text);
        if decimal && text.parse().is_ok_and(|number| !normal(number)) {
            self.bad_literal(token, "is no normal number of 64 bits");
        }
        self.leaf(ExprKind::Float)
    }

    #[cold]
    fn bad_literal(&mut self, token: TokenId, why: &str) {
        let message = format!("`{}` {why}", shorten(self.tree.source.text(token)));
        self.report(&codes::P0304, token, message);
    }

    /// `[a].unified`: brackets, braces or an element, and a `Dot` token behind them on the same line.
    fn selected(&mut self, first: TokenId, kind: ExprKind) -> Parsed<ExprId> {
        let inner = self.push_expr(first, kind);
        if self.kind() != Kind::Dot || self.starts_line() {
            return Ok(inner);
        }
        let field = self.bump();
        Ok(self.push_expr(first, ExprKind::Select(inner, field)))
    }

    /// `open [expr ("," expr)*] close`, where `open` comes next.
    pub(super) fn bracketed(&mut self, close: u8) -> Parsed<ExprList> {
        self.bump();
        if self.eat(close) {
            return Ok(0..0);
        }
        let list = self.deeper(Self::operands)?;
        self.expect(close)?;
        Ok(list)
    }
}

/// Precedence of a binary operator: manual section 4.5.5, table 5. `=` is for `{addr_mode_0 = wrap}`, section 5.3.
fn binds(op: [u8; 2]) -> Option<u8> {
    Some(match &op {
        b"=\0" => 0,
        b"||" => 1,
        b"&&" => 2,
        b"|\0" => 3,
        b"^\0" => 4,
        b"&\0" => 5,
        b"==" | b"!=" => 6,
        b"<\0" | b">\0" | b"<=" | b">=" => 7,
        b"<<" | b">>" => 8,
        b"+\0" | b"-\0" => ADDITIVE,
        b"*\0" | b"/\0" | b"%\0" => 10,
        _ => return None,
    })
}

/// The value of an integer literal, modulo 2^64.
pub fn integer_value(text: &[u8]) -> u64 {
    integer(text).0
}

/// The same, and why ptxas refuses the literal: it has an 8 or 9 behind a leading 0, or a digit behind a value with its highest bit
/// set. Other numbers beyond 64 bits wrap around.
fn integer(text: &[u8]) -> (u64, Option<&'static str>) {
    let (digits, radix) = match text.strip_suffix(b"U").unwrap_or(text) {
        [b'0', b'x' | b'X', digits @ ..] => (digits, 16),
        [b'0', b'b' | b'B', digits @ ..] => (digits, 2),
        [b'0', digits @ ..] => (digits, 8),
        digits => (digits, 10),
    };
    let (mut value, mut mistake) = (0u64, None);
    for digit in digits {
        if radix == 8 && matches!(digit, b'8' | b'9') {
            mistake = Some("is no octal number: a number that begins with 0 has the digits 0 to 7");
        } else if value >> 63 == 1 {
            mistake = mistake.or(Some("has more than 64 bits"));
        }
        value = value.wrapping_mul(radix).wrapping_add(u64::from((*digit as char).to_digit(16).unwrap_or(0)));
    }
    (value, mistake)
}

/// Returns true if a digit before the exponent is not 0.
fn has_digits(text: &str) -> bool {
    text.bytes().take_while(|b| !matches!(b, b'e' | b'E')).any(|b| matches!(b, b'1'..=b'9'))
}
