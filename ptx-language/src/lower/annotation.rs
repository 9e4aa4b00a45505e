//! `assume!` and `invariant!`: conditions over registers that become pragmas, and no instruction.

use super::Lowerer;
use super::access::root;
use crate::operators::{self, Op};
use crate::tree::{BinaryOp, Block, Expr, ExprKind, StmtKind, UnaryOp};
use crate::types::Const;
use crate::value::Value;
use ptx_core::diag::codes;
use ptx_core::ir::Operand;
use ptx_core::ir::annotation::{self, KINDS, Kind, Number};
use ptx_core::isa::{Class, Type};
use ptx_core::span::Span;

/// The operators of conditions.
const OPERATORS: [BinaryOp; 15] = [
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::Mul,
    BinaryOp::Div,
    BinaryOp::Rem,
    BinaryOp::Shl,
    BinaryOp::Shr,
    BinaryOp::Eq,
    BinaryOp::Ne,
    BinaryOp::Lt,
    BinaryOp::Le,
    BinaryOp::Gt,
    BinaryOp::Ge,
    BinaryOp::LogicalAnd,
    BinaryOp::LogicalOr,
];

const HELP: &str = "compare registers, special registers and constants, as in `assume!(page < pages && page * 16 < n)`";

impl<'a> Lowerer<'a> {
    /// An annotation as a statement of a block. It is written here, an invariant in front of a loop at the start of that loop.
    pub(super) fn annotation(&mut self, kind: Kind, condition: &'a Expr, (block, at): (&'a Block, usize)) -> Value {
        let word = KINDS.iter().find(|(_, own)| *own == kind).map_or("", |(word, _)| word);
        let Some(text) = self.annotated(condition) else { return Value::Error };
        let text = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).unwrap_or(&text);
        let any = |name: &str, _: Option<Type>| Number::new(name, Operand::Absent, Type::find("u32")?);
        if let Err(why) = annotation::parse(text, &mut { any }) {
            return self.fail(&codes::P0805, condition.span, format!("this is no condition: {why}"), HELP);
        }
        let line = format!("    .pragma \"{word} {text}\";\n");
        match kind {
            _ if self.f.code.dead => {}
            Kind::Invariant if is_before_loop(block, at) => self.f.invariants.push((line, condition.span)),
            Kind::Assume | Kind::Invariant | Kind::Cut => self.push(line, condition.span),
        }
        Value::unit()
    }

    /// Writes the invariants of the loop that begins here; the number of their pieces.
    pub(super) fn place_invariants(&mut self) -> usize {
        let invariants = std::mem::take(&mut self.f.invariants);
        let count = invariants.len();
        invariants.into_iter().for_each(|(line, span)| self.push(line, span));
        count
    }

    /// A part of a condition as text; nothing if it was reported.
    fn annotated(&mut self, expr: &'a Expr) -> Option<String> {
        match self.constant_quietly(expr) {
            Ok(Const::Int(value, _)) => return Some(value.to_string()),
            Ok(Const::Bool(value)) => return Some(value.to_string()),
            _ => {}
        }
        match &expr.kind {
            ExprKind::Binary(op, _, left, right) if OPERATORS.contains(op) => {
                let (left, right) = (self.annotated(left)?, self.annotated(right)?);
                let symbol = operators::symbol(Op::Binary(*op));
                Some(format!("({left} {symbol} {right})"))
            }
            ExprKind::Unary(UnaryOp::Not, of) => self.annotated(of).map(|of| format!("!{of}")),
            ExprKind::Unary(UnaryOp::Neg, of) => self.annotated(of).map(|of| format!("-{of}")),
            ExprKind::Cast(of, to) => {
                let (from, to) = (self.type_of(of), self.ty(to)?);
                let (from, to) = (from.and_then(|ty| ty.scalar()), to.scalar());
                match from.zip(to).filter(|(from, to)| keeps_numbers(*from, *to)) {
                    Some(_) => self.annotated(of),
                    None => self.no_number(expr.span, "this cast may change the number"),
                }
            }
            _ => self.annotated_name(expr),
        }
    }

    /// A register that holds an integer, or a special register.
    fn annotated_name(&mut self, expr: &'a Expr) -> Option<String> {
        if let Some(special) = self.special(expr) {
            return Some(special.name.to_owned());
        }
        if root(expr).is_none() {
            return self.no_number(expr.span, "this is computed by instructions");
        }
        let before = self.f.code.text.len();
        let value = self.value(expr);
        if self.f.code.text.len() > before {
            return self.no_number(expr.span, "this is read from memory");
        }
        match value {
            // The register's own type may have no sign.
            Value::Reg(reg) if reg.ty.class() == Class::Signed => Some(format!("{}({})", reg.ty.name(), reg.name)),
            Value::Reg(reg) if Number::has_integers(reg.ty) => Some(reg.name),
            Value::Error => None,
            other => self.no_number(expr.span, &format!("this is {}, and no integer", other.describe())),
        }
    }

    fn no_number(&mut self, span: Span, why: &str) -> Option<String> {
        self.fail(&codes::P0805, span, format!("an annotation makes no instruction: {why}"), HELP);
        None
    }
}

/// Returns true if every number of one type is the same number of another.
fn keeps_numbers(from: Type, to: Type) -> bool {
    let is_signed = |ty: Type| ty.class() == Class::Signed;
    let is_wide = if is_signed(to) == is_signed(from) { to.bits() >= from.bits() } else { to.bits() > from.bits() };
    Number::has_integers(from) && Number::has_integers(to) && is_wide && (is_signed(to) || !is_signed(from))
}

/// Returns true if a loop follows an annotation, perhaps behind others.
fn is_before_loop(block: &Block, at: usize) -> bool {
    let mut behind = block.stmts.iter().skip(at + 1).skip_while(|stmt| matches!(stmt.kind, StmtKind::Annotation(..)));
    behind.next().is_some_and(|stmt| match &stmt.kind {
        StmtKind::Expr(expr, _) => matches!(expr.kind, ExprKind::While(..) | ExprKind::Loop(..)),
        _ => false,
    })
}
