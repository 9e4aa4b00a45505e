//! Control flow: comparisons, predicated branches, labels. `for` is unrolled.
//!
//! ```text
//! if c { A } else { B }        while c { A }           loop { A }           if c { break 'k }
//!
//!     setp… %p                 $while_1:               $loop_1:                 setp… %p
//!     @!%p bra $if_1_else;         setp… %p                A                    @%p bra $k_end;
//!     A                            @!%p bra $while_1_end;  bra $loop_1;
//!     bra $if_1_end;               A                   $loop_1_end:
//! $if_1_else:                      bra $while_1;
//!     B                        $while_1_end:
//! $if_1_end:
//! ```
//!
//! `if !p` turns the guard and needs no `not.pred`. A loop with a label `'k` is `$k` and `$k_end`. A label that nothing jumps to is not written.

mod unroll;

use super::Lowerer;
use super::code::Label;
use super::constant::Fail;
use crate::tree::{Block, Expr, ExprKind, Ident, StmtKind, UnaryOp};
use crate::types::Const;
use crate::value::Value;
use ptx_core::diag::{Diagnostic, codes};
use ptx_core::span::Span;

/// A loop or a labeled block that is being written.
#[derive(Clone, Debug)]
pub(super) struct Loop {
    /// `'k`
    name: Option<String>,
    /// Target of `break`.
    end: Label,
    kind: LoopKind,
    /// Number of helpers that are being expanded around it.
    depth: usize,
}

#[derive(Clone, Copy, Debug)]
enum LoopKind {
    /// The target of `continue`.
    Loop(Label),
    Block,
    /// A block whose value is written somewhere.
    Value,
}

/// A runtime condition or one that is known.
enum Condition {
    Known(bool),
    /// The predicate as a guard, and as its opposite: `%p`, `!%p`.
    Register(String, String),
    Error,
}

impl<'a> Lowerer<'a> {
    /// An expression that is a statement by nature.
    pub(super) fn flow(&mut self, expr: &'a Expr, dest: Option<&Value>) -> Value {
        let span = expr.span;
        match &expr.kind {
            ExprKind::Assign(target, value) => self.assign(target, value),
            ExprKind::AssignOp(op, at, target, value) => self.assign_op(*op, *at, target, value, span),
            ExprKind::If(condition, then, otherwise) => self.if_else(condition, then, otherwise.as_deref(), dest, span),
            ExprKind::Match(matched, arms) => match self.chosen_arm(matched, arms) {
                Some(body) => self.lower(body, dest),
                None => Value::Error,
            },
            ExprKind::Block(name, block) => self.labeled_block(name.as_ref(), block, dest, span),
            ExprKind::While(name, condition, body) => self.while_loop(name.as_ref(), Some(condition), body, span),
            ExprKind::Loop(name, body) => self.while_loop(name.as_ref(), None, body, span),
            ExprKind::For(name, pattern, items, body) => self.unroll(name.as_ref(), pattern, items, body, span),
            ExprKind::Break(_) | ExprKind::Continue(_) => {
                if let Some(label) = self.leave(expr) {
                    self.jump(label, "", span);
                }
                Value::unit()
            }
            ExprKind::Return(value) => self.return_from(value.as_deref(), span),
            _ => Value::Error,
        }
    }

    /// The predicate of a condition: `p`, or the `setp` of a comparison.
    fn condition(&mut self, expr: &'a Expr) -> Condition {
        match self.constant(expr) {
            Ok(Const::Bool(known)) => return Condition::Known(known),
            Ok(other) => {
                let message = format!("a condition is a `pred` or a comparison, this is {}", other.describe());
                self.fail(&codes::P0815, expr.span, message, "compare it: `x != 0`");
                return Condition::Error;
            }
            Err(Fail::Reported) => return Condition::Error,
            Err(Fail::NotConstant(..)) => {}
        }
        // `!` costs nothing here: a guard has one.
        let (inner, negated) = match &expr.kind {
            ExprKind::Unary(UnaryOp::Not, inner) => (&**inner, true),
            _ => (expr, false),
        };
        match self.value(inner) {
            Value::Reg(reg) if reg.ty.name() == "pred" => {
                let opposite = format!("!{}", reg.name);
                if negated { Condition::Register(opposite, reg.name) } else { Condition::Register(reg.name, opposite) }
            }
            Value::Error => Condition::Error,
            other => {
                let message = format!("a condition is a `pred` or a comparison, this is {}", other.describe());
                let help = match &other {
                    Value::Address(address) => {
                        format!("compare it: `p as {} != 0`, which is `setp.ne`", address.ty.number_name())
                    }
                    _ => "compare it: `x != 0`, which is `setp.ne`".to_owned(),
                };
                self.fail(&codes::P0815, expr.span, message, help);
                Condition::Error
            }
        }
    }

    fn if_else(
        &mut self,
        condition: &'a Expr,
        then: &'a Block,
        otherwise: Option<&'a Expr>,
        dest: Option<&Value>,
        span: Span,
    ) -> Value {
        let (predicate, opposite) = match self.condition(condition) {
            Condition::Known(known) => return self.chosen(known, then, otherwise, dest),
            Condition::Error => {
                // Both sides are still read, so that what is wrong in them is reported now.
                self.block(then, dest);
                return otherwise.map_or(Value::Error, |expr| self.lower(expr, dest));
            }
            Condition::Register(guard, opposite) => (guard, opposite),
        };
        if dest.is_none() && has_value(then) {
            return self.untyped_if(span);
        }
        if otherwise.is_none() && self.short(then, &predicate, span) {
            return Value::unit();
        }
        let number = self.f.code.number("if");
        let end = self.f.code.label(&format!("$if_{number}_end"));
        let other = otherwise.map(|_| self.f.code.label(&format!("$if_{number}_else")));
        self.jump(other.unwrap_or(end), &format!("@{opposite} "), condition.span);
        let value = self.block(then, dest);
        self.given(value, dest, span);
        if let (Some(label), Some(expr)) = (other, otherwise) {
            self.jump(end, "", span);
            self.place(label, span);
            self.lower(expr, dest);
        }
        self.place(end, span);
        match otherwise {
            Some(_) => dest.cloned().unwrap_or_else(Value::unit),
            None => Value::unit(),
        }
    }

    /// The side of an `if` whose condition is known. Where it leaves, what follows is not there either.
    fn chosen(&mut self, known: bool, then: &'a Block, otherwise: Option<&'a Expr>, dest: Option<&Value>) -> Value {
        let before = self.f.code.dead;
        let value = match otherwise {
            _ if known => self.block(then, dest),
            Some(expr) => self.lower(expr, dest),
            None => Value::unit(),
        };
        self.f.code.decided |= self.f.code.dead && !before;
        value
    }

    fn untyped_if(&mut self, span: Span) -> Value {
        let help = "give it a name with a type: `let x: u32 = if … { a } else { b };`";
        self.fail(&codes::P0804, span, "the value of this `if` has no type", help)
    }

    /// `if c { break }` and the like: one guarded jump.
    fn short(&mut self, then: &'a Block, predicate: &str, span: Span) -> bool {
        let [stmt] = then.stmts.as_slice() else { return false };
        let StmtKind::Expr(expr, _) = &stmt.kind else { return false };
        let label = match &expr.kind {
            ExprKind::Break(_) | ExprKind::Continue(_) => self.leave(expr),
            ExprKind::Return(None) if self.f.frames.len() == 1 && self.f.frames.iter().all(|frame| frame.returns()) => {
                self.inst(&format!("@{predicate} ret"), span);
                return true;
            }
            ExprKind::Return(None) => self.f.frames.last().and_then(|frame| frame.end),
            _ => return false,
        };
        if let Some(label) = label {
            self.jump(label, &format!("@{predicate} "), expr.span);
        }
        true
    }

    fn while_loop(&mut self, name: Option<&Ident>, condition: Option<&'a Expr>, body: &'a Block, span: Span) -> Value {
        let kind = if condition.is_some() { "while" } else { "loop" };
        let (start, end) = self.loop_labels(name, kind);
        let at = self.place_ahead(start, span);
        let invariants = self.place_invariants();
        let condition = match condition {
            None => Condition::Known(true),
            Some(expr) => self.condition(expr),
        };
        match condition {
            Condition::Known(false) => {
                self.f.code.withdraw(start, at);
                self.f.code.erase(at + 1..at + 1 + invariants);
                return Value::unit();
            }
            Condition::Register(_, opposite) => self.jump(end, &format!("@{opposite} "), span),
            Condition::Known(true) | Condition::Error => {}
        }
        self.enter(name, end, LoopKind::Loop(start));
        self.block(body, None);
        self.f.loops.pop();
        self.jump(start, "", span);
        self.f.code.withdraw(start, at);
        self.place(end, span);
        Value::unit()
    }

    fn labeled_block(&mut self, name: Option<&Ident>, block: &'a Block, dest: Option<&Value>, span: Span) -> Value {
        let Some(name) = name else { return self.block(block, dest) };
        let end = self.f.code.label(&format!("${}_end", name.name));
        self.enter(Some(name), end, if dest.is_some() { LoopKind::Value } else { LoopKind::Block });
        let value = self.block(block, dest);
        self.f.loops.pop();
        self.place(end, span);
        value
    }

    /// `$k` and `$k_end`, or `$while_1` and `$while_1_end`.
    fn loop_labels(&mut self, name: Option<&Ident>, kind: &'static str) -> (Label, Label) {
        let base = match name {
            Some(name) => format!("${}", name.name),
            None => format!("${kind}_{}", self.f.code.number(kind)),
        };
        (self.f.code.label(&base), self.f.code.label(&format!("{base}_end")))
    }

    fn enter(&mut self, name: Option<&Ident>, end: Label, kind: LoopKind) {
        let depth = self.f.frames.len();
        self.f.loops.push(Loop { name: name.map(|name| name.name.clone()), end, kind, depth });
    }

    /// Target of `break` or `continue`.
    fn leave(&mut self, expr: &Expr) -> Option<Label> {
        let (name, next) = match &expr.kind {
            ExprKind::Break(name) => (name.as_ref(), false),
            ExprKind::Continue(name) => (name.as_ref(), true),
            _ => return None,
        };
        let depth = self.f.frames.len();
        let mut own = self.f.loops.iter().rev().take_while(|l| l.depth == depth);
        let found = match name {
            Some(name) => own.find(|l| l.name.as_ref() == Some(&name.name)),
            None => own.find(|l| matches!(l.kind, LoopKind::Loop(_))),
        };
        match (found.map(|l| (l.end, l.kind)), next) {
            (Some((_, LoopKind::Value)), false) => {
                let help = "write `if … { a } else { b }`, or declare the register in front of the block";
                self.fail(&codes::P0809, expr.span, "this block gives a value, which `break` leaves out", help);
                None
            }
            (Some((end, ..)), false) => Some(end),
            (Some((_, LoopKind::Loop(start))), true) => Some(start),
            _ => self.no_loop(name, if next { "continue" } else { "break" }, expr.span),
        }
    }

    fn no_loop(&mut self, name: Option<&Ident>, what: &str, span: Span) -> Option<Label> {
        let diagnostic = match name {
            Some(name) => {
                Diagnostic::error(&codes::P0809, name.span, format!("no loop here is called `'{}`", name.name))
                    .help(format!("name the loop: `'{}: loop {{ … }}`", name.name))
            }
            None => Diagnostic::error(&codes::P0809, span, format!("`{what}` stands in no loop"))
                .help("use `return` to leave the kernel"),
        };
        self.report(diagnostic);
        None
    }
}

/// Returns true if a block ends in an expression.
fn has_value(block: &Block) -> bool {
    let valued = |kind: &ExprKind| {
        !matches!(
            kind,
            ExprKind::If(..)
                | ExprKind::While(..)
                | ExprKind::Loop(..)
                | ExprKind::For(..)
                | ExprKind::Match(..)
                | ExprKind::Block(..)
                | ExprKind::Break(_)
                | ExprKind::Continue(_)
                | ExprKind::Return(_)
                | ExprKind::Assign(..)
                | ExprKind::AssignOp(..)
                | ExprKind::Call(..)
                | ExprKind::Error
        )
    };
    matches!(block.stmts.last().map(|stmt| &stmt.kind), Some(StmtKind::Expr(expr, false)) if valued(&expr.kind))
}
