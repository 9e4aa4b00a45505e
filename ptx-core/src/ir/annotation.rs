//! Annotations: conditions over registers in the body of a function, which make no instruction, `.pragma "assume %i < %n";`,
//! `.pragma "invariant %i <= %n";` and `.pragma "cut %i <= %n";`. ptxas ignores them. The prover (`ptx-prove`) takes an assumption for granted and proves the
//! others; the watcher of the CPU device compares all with the values of each thread that comes to them.
//!
//! The condition has registers, special registers and numbers, `* / %`, `+ -`, `<< >>`, comparisons, `!`, `&&`, `||` and parentheses, as in Rust. A
//! register is an integer of its type: `.s32` with a sign, `.u32` and `.b32` without; `s32(%r1)` reads one as another type. Arithmetic is exact.

mod parse;

use crate::host::{Expr, Operator};
use crate::ir::Operand;
use crate::isa::{Class, Type};
use crate::span::Span;

/// The meaning of an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `assume`: somebody vouches for it.
    Assume,
    /// `invariant`: it is proved for all threads that come to it; where a loop begins, at its first turn and over one turn.
    Invariant,
    /// `cut`: it is proved as an invariant is, and proofs of what follows have nothing else of its registers, but for numbers of the whole launch.
    Cut,
}

/// The word of each kind.
pub const KINDS: [(&str, Kind); 3] = [("assume", Kind::Assume), ("invariant", Kind::Invariant), ("cut", Kind::Cut)];

/// An annotation of a function.
#[derive(Clone, Debug)]
pub struct Annotation {
    /// Its meaning.
    pub kind: Kind,
    /// The instruction that follows: an index into [`Function::insts`](crate::ir::Function::insts), which may be one past the last.
    pub at: u32,
    /// True if a label stands between it and that instruction: it concerns threads that come from the instruction before, not those that jump.
    pub is_before_label: bool,
    /// Its numbers: [`Expr::Argument`] has the index.
    pub numbers: Vec<Number>,
    /// The condition.
    pub condition: Expr,
    /// As written, without the word.
    pub text: String,
    /// Its position.
    pub span: Span,
}

/// A register or a special register, read as an integer.
#[derive(Clone, Debug, PartialEq)]
pub struct Number {
    /// As written.
    pub name: String,
    /// The register.
    pub operand: Operand,
    /// Of at most 64 bits.
    pub bits: u32,
    /// True if its highest bit is a sign.
    pub is_signed: bool,
}

impl Number {
    /// Returns true for a type of integers of at most 64 bits.
    pub fn has_integers(ty: Type) -> bool {
        matches!(ty.class(), Class::Unsigned | Class::Signed | Class::Bits) && ty.bits() <= 64
    }

    /// The register as a number of a type; nothing for a type that has no integers of at most 64 bits.
    pub fn new(name: &str, operand: Operand, ty: Type) -> Option<Number> {
        let is_signed = ty.class() == Class::Signed;
        Number::has_integers(ty).then(|| Number { name: name.to_owned(), operand, bits: ty.bits(), is_signed })
    }

    /// The number that the lowest bits of a register are.
    pub fn of(&self, register: u64) -> i128 {
        let above = 64 - self.bits.clamp(1, 64);
        let value = register << above;
        if self.is_signed { (value.cast_signed() >> above).into() } else { (value >> above).into() }
    }
}

/// Finds a name, which may be read as a type.
pub type Find<'f, 't> = &'f mut dyn FnMut(&'t str, Option<Type>) -> Option<Number>;

/// The kind of an annotation and its condition, if the text of a pragma is one.
pub fn split(pragma: &str) -> Option<(Kind, &str)> {
    KINDS.iter().find_map(|(word, kind)| {
        let rest = pragma.trim_start().strip_prefix(word)?;
        rest.starts_with(char::is_whitespace).then(|| (*kind, rest.trim()))
    })
}

/// Reads a condition; `find` has the meaning of a name.
///
/// # Errors
/// The reason why it is none.
pub fn parse<'t>(condition: &'t str, find: Find<'_, 't>) -> Result<(Vec<Number>, Expr), String> {
    parse::condition(condition, find)
}

/// A value of a part of a condition.
enum Value {
    Int(i128),
    Bool(bool),
}

impl Annotation {
    /// Returns true if the condition holds for these values of its numbers, and nothing if it has no value, as a quotient by zero.
    pub fn holds(&self, operand: &dyn Fn(usize) -> i128) -> Option<bool> {
        match value(&self.condition, operand)? {
            Value::Bool(holds) => Some(holds),
            Value::Int(_) => None,
        }
    }
}

fn value(expr: &Expr, operand: &dyn Fn(usize) -> i128) -> Option<Value> {
    Some(match expr {
        Expr::Int(number) => Value::Int((*number).into()),
        Expr::Bool(truth) => Value::Bool(*truth),
        Expr::Argument(at) => Value::Int(operand(*at)),
        Expr::Unary(Operator::Neg, of) => match value(of, operand)? {
            Value::Int(number) => Value::Int(number.checked_neg()?),
            Value::Bool(_) => return None,
        },
        Expr::Unary(Operator::Not, of) => match value(of, operand)? {
            Value::Bool(truth) => Value::Bool(!truth),
            Value::Int(_) => return None,
        },
        Expr::Binary(operator, both, _) => match (operator, value(&both[0], operand)?) {
            (Operator::And, Value::Bool(false)) => Value::Bool(false),
            (Operator::Or, Value::Bool(true)) => Value::Bool(true),
            (Operator::And | Operator::Or, Value::Bool(_)) => value(&both[1], operand)?,
            (_, Value::Int(a)) => match value(&both[1], operand)? {
                Value::Int(b) => integers(*operator, a, b)?,
                Value::Bool(_) => return None,
            },
            _ => return None,
        },
        _ => return None,
    })
}

fn integers(operator: Operator, a: i128, b: i128) -> Option<Value> {
    if let Some(truth) = operator.compare(&a, &b) {
        return Some(Value::Bool(truth));
    }
    let by = || u32::try_from(b).ok();
    Some(Value::Int(match operator {
        Operator::Add => a.checked_add(b)?,
        Operator::Sub => a.checked_sub(b)?,
        Operator::Mul => a.checked_mul(b)?,
        Operator::Div => a.checked_div(b)?,
        Operator::Rem => a.checked_rem(b)?,
        Operator::Shl => a.checked_mul(1i128.checked_shl(by()?)?)?,
        Operator::Shr => a.checked_shr(by()?)?,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "tests")]

    use super::{Annotation, Kind, Number, parse, split};
    use crate::ir::{Operand, RegId};
    use crate::isa::Type;
    use crate::span::Span;

    /// The condition over `%a` and `%b`.
    fn read(text: &str) -> Result<Annotation, String> {
        let mut find = |name: &str, ty: Option<Type>| {
            let at = ["%a", "%b"].iter().position(|own| *own == name)?;
            Number::new(name, Operand::Reg(RegId(at as u32)), ty.or(Type::find("u32"))?)
        };
        let (numbers, condition) = parse(text, &mut find)?;
        let (at, is_before_label, text, span) = (0, false, text.to_owned(), Span::default());
        Ok(Annotation { kind: Kind::Assume, at, is_before_label, numbers, condition, text, span })
    }

    fn holds(text: &str, a: i128, b: i128) -> Option<bool> {
        let read = read(text).unwrap_or_else(|why| panic!("{text}: {why}"));
        let values = [a, b];
        let value = |at: usize| match read.numbers[at].operand {
            Operand::Reg(register) => values[register.index()],
            _ => 0,
        };
        read.holds(&value)
    }

    #[test]
    fn conditions_have_the_meaning_of_rust() {
        for (text, expected) in [
            ("%a < %b", true),
            ("%a + 2 * %b == 13 && %a != %b", true),
            ("%b - %a - 1 == 1", true),
            ("%b %3 == 2 || %b / 0 == 1", true),
            ("!(%a > %b) && true", true),
            ("-%a == 0 - 3", true),
            ("%a << 2 >= 0xc && %b >> 1 == 2", true),
            ("%a <= 2 || %b < 5", false),
            ("s32(%a) == 3 && u8( %b ) == 5", true),
        ] {
            assert_eq!(holds(text, 3, 5), Some(expected), "{text}");
        }
        assert_eq!(holds("%a / %b == 1", 1, 0), None);
    }

    #[test]
    fn other_texts_are_refused_with_the_reason() {
        for (text, why) in [
            ("", "a condition is missing"),
            ("%a", "a comparison is missing"),
            ("%a < %c", "`%c` is no register"),
            ("%a < %b 3", "expected an operator"),
            ("%a < %b < 3", "expected an operator"),
            ("(%a < %b", "`)` is missing"),
            ("%a < 99999999999999999999", "is too large"),
            ("(%a < %b) + 1 > 0", "is compared or added"),
            ("%a && %b", "a comparison is missing"),
            ("f32(%a) < 1", "`%a` is no register"),
            ("s31(%a) < 1", "`s31` is no type"),
            ("%a < $", "unexpected `$`"),
        ] {
            let found = read(text).map(|read| read.condition);
            assert!(found.as_ref().is_err_and(|found| found.contains(why)), "{text}: {found:?}");
        }
        assert!(read(&format!("{}%a < 1{}", "(".repeat(10_000), ")".repeat(10_000))).is_err());
    }

    #[test]
    fn a_pragma_is_one_by_its_word() {
        assert_eq!(split("assume %a < 1"), Some((Kind::Assume, "%a < 1")));
        assert_eq!(split(" invariant  %a < 1"), Some((Kind::Invariant, "%a < 1")));
        assert_eq!(split("assumed %a"), None);
        assert_eq!(split("nounroll"), None);
    }
}
