//! The conditions of annotations: an operator-precedence parser.

use super::{Find, Number};
use crate::host::{Expr, Operator};
use crate::isa::Type;

/// Deeper parentheses are no condition of a person.
const DEPTH: u32 = 64;

/// Operators by their text: the longer ones first, with how tightly they bind.
const OPERATORS: [(&str, Operator, u8); 15] = [
    ("||", Operator::Or, 1),
    ("&&", Operator::And, 2),
    ("==", Operator::Eq, COMPARISON),
    ("!=", Operator::Ne, COMPARISON),
    ("<<", Operator::Shl, 4),
    (">>", Operator::Shr, 4),
    ("<=", Operator::Le, COMPARISON),
    (">=", Operator::Ge, COMPARISON),
    ("<", Operator::Lt, COMPARISON),
    (">", Operator::Gt, COMPARISON),
    ("+", Operator::Add, 5),
    ("-", Operator::Sub, 5),
    ("*", Operator::Mul, 6),
    ("/", Operator::Div, 6),
    ("%", Operator::Rem, 6),
];
const COMPARISON: u8 = 3;

struct Parser<'t, 'f> {
    rest: &'t str,
    find: Find<'f, 't>,
    numbers: Vec<Number>,
    depth: u32,
}

pub(super) fn condition<'t>(text: &'t str, find: Find<'_, 't>) -> Result<(Vec<Number>, Expr), String> {
    let mut parser = Parser { rest: text, find, numbers: Vec::new(), depth: 0 };
    parser.skip_spaces();
    if parser.rest.is_empty() {
        return Err("a condition is missing".to_owned());
    }
    let expr = parser.binary(1)?;
    if !parser.rest.is_empty() {
        return Err(format!("expected an operator, found `{}`", parser.rest));
    }
    if is_truth(&expr) { Ok((parser.numbers, expr)) } else { Err("a comparison is missing".to_owned()) }
}

/// Returns true for what is true or false, false for a number.
fn is_truth(expr: &Expr) -> bool {
    match expr {
        Expr::Bool(_) | Expr::Unary(Operator::Not, _) => true,
        Expr::Binary(operator, ..) => OPERATORS.iter().any(|(_, own, binds)| own == operator && *binds <= COMPARISON),
        _ => false,
    }
}

impl<'t> Parser<'t, '_> {
    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, text: &str) -> bool {
        let found = self.rest.strip_prefix(text);
        self.rest = found.unwrap_or(self.rest);
        self.skip_spaces();
        found.is_some()
    }

    /// Operators that bind at least so tightly.
    fn binary(&mut self, least: u8) -> Result<Expr, String> {
        let mut left = self.unary()?;
        while let Some((text, operator, binds)) =
            OPERATORS.iter().find(|(text, _, _)| self.rest.starts_with(text)).filter(|(_, _, binds)| *binds >= least)
        {
            self.take(text);
            let right = self.binary(binds + 1)?;
            let joins = *binds < COMPARISON;
            for side in [&left, &right] {
                match (joins, is_truth(side)) {
                    (true, false) => return Err(format!("a comparison is missing beside `{text}`")),
                    (false, true) => return Err(format!("a truth value is compared or added: `{text}`")),
                    _ => {}
                }
            }
            left = Expr::Binary(*operator, Box::new([left, right]), (*text).to_owned());
            // As in Rust, comparisons do not chain.
            if *binds == COMPARISON
                && OPERATORS.iter().any(|(text, _, binds)| *binds == COMPARISON && self.rest.starts_with(text))
            {
                return Err(format!("expected an operator that joins, found `{}`", self.rest));
            }
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expr, String> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err("the condition is nested too deeply".to_owned());
        }
        let found = if self.take("!") {
            match self.unary()? {
                of if is_truth(&of) => Expr::Unary(Operator::Not, Box::new(of)),
                _ => return Err("a comparison is missing behind `!`".to_owned()),
            }
        } else if self.take("-") {
            match self.unary()? {
                of if is_truth(&of) => return Err("a truth value is compared or added: `-`".to_owned()),
                of => Expr::Unary(Operator::Neg, Box::new(of)),
            }
        } else if self.take("(") {
            let inner = self.binary(1)?;
            if !self.take(")") {
                return Err("`)` is missing".to_owned());
            }
            inner
        } else {
            self.leaf()?
        };
        self.depth -= 1;
        Ok(found)
    }

    /// A number, a truth value, a name, or a name read as a type.
    fn leaf(&mut self) -> Result<Expr, String> {
        let word = self.word()?;
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            let number = match word.strip_prefix("0x") {
                Some(digits) => i64::from_str_radix(digits, 16),
                None => word.parse(),
            };
            return number.map(Expr::Int).map_err(|_| format!("`{word}` is no number, or is too large"));
        }
        if let "true" | "false" = word {
            return Ok(Expr::Bool(word == "true"));
        }
        if !self.take("(") {
            return self.number(word, None);
        }
        let ty = Type::find(word).ok_or_else(|| format!("`{word}` is no type"))?;
        let name = self.word()?;
        let number = self.number(name, Some(ty))?;
        if self.take(")") { Ok(number) } else { Err("`)` is missing".to_owned()) }
    }

    fn word(&mut self) -> Result<&'t str, String> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.');
        let first = self.rest.chars().next().ok_or("the condition ends too early")?;
        let marked = usize::from(first == '%');
        let end = self.rest[marked..].find(|c| !is_name(c)).map_or(self.rest.len(), |at| at + marked);
        let (word, rest) = self.rest.split_at(end);
        if end == marked || word == "$" {
            return Err(format!("unexpected `{first}`"));
        }
        self.rest = rest;
        self.skip_spaces();
        Ok(word)
    }

    fn number(&mut self, name: &'t str, ty: Option<Type>) -> Result<Expr, String> {
        let number = (self.find)(name, ty).ok_or_else(|| format!("`{name}` is no register that holds an integer"))?;
        let known = self.numbers.iter().position(|own| *own == number);
        Ok(Expr::Argument(known.unwrap_or_else(|| {
            self.numbers.push(number);
            self.numbers.len() - 1
        })))
    }
}
