//! The statement tree to PTX: the state of one lowering, and the few ways to write an instruction.
//!
//! The state has parts: [`errors`] what is wrong, [`output`] the finished module, [`body`] the function that is being written
//! (its [`code`] and its [`registers`]), `scope` the names. The other files are the work on them, one file a concern: `module`
//! and `kernel` frame the text, `stmt`, `expr`, `flow` and `call` write the body, `ptx` copies `ptx!` blocks, `constant`
//! evaluates, `memory` declares variables, `resolve` finds the meaning of names and types.

mod access;
mod address;
mod annotation;
mod arguments;
mod body;
mod call;
mod cast;
mod code;
mod constant;
mod elements;
mod errors;
mod expr;
mod flow;
mod infer;
mod kernel;
mod literal;
mod memory;
mod module;
mod output;
mod params;
mod ptx;
mod register_method;
mod registers;
mod resolve;
mod splice;
mod stmt;
mod structs;
mod view;

pub use cast::instruction as cast;
pub use ptx::ends;

use self::body::Body;
use self::code::Label;
use self::errors::Errors;
use self::output::Output;
use super::scope::Scopes;
use super::types::{self, Const, Ty};
use super::value::{Array, Reg, Value};
use super::{Lowered, Variant, tree};
use ptx_core::diag::{Code, Diagnostic, codes};
use ptx_core::hash::Map;
use ptx_core::isa::Type;
use ptx_core::span::Span;
use std::rc::Rc;

/// Text and where it comes from.
pub(crate) type Pieces = Vec<(String, Span)>;

/// The state of one lowering.
pub(crate) struct Lowerer<'a> {
    variant: &'a Variant<'a>,
    module: &'a tree::Module,
    errors: Errors,
    scopes: Scopes<'a>,
    out: Output,
    /// The function that is being written.
    f: Body,
    /// Helpers that are being expanded, and constants that are being evaluated, by address: a second time is recursion.
    expanding: Vec<usize>,
    evaluating: Vec<usize>,
    /// The evaluations of constants and functions since the outermost one began.
    evaluations: usize,
    /// An evaluation was refused because it goes too deep: the others, which lead to the same place, say nothing.
    is_too_deep: bool,
    /// The values of constants of modules and structs, by address: one for each list of the struct's arguments.
    constants: Map<usize, Vec<(Vec<types::Argument>, Const)>>,
    /// The struct types that exist, by the address of their declaration.
    structs: Map<usize, Vec<Rc<types::StructTy>>>,
}

impl<'a> Lowerer<'a> {
    /// Reports a diagnostic, once.
    fn report(&mut self, diagnostic: Diagnostic) {
        self.errors.report(diagnostic);
    }

    /// Reports an error and gives the value that stays silent.
    fn fail(&mut self, code: &'static Code, span: Span, message: impl Into<String>, help: impl Into<String>) -> Value {
        let (diagnostic, help) = (Diagnostic::error(code, span, message), help.into());
        self.report(if help.is_empty() { diagnostic } else { diagnostic.help(help) });
        Value::Error
    }

    /// The span to use: the call's, in the source of the prelude.
    fn at(&self, span: Span) -> Span {
        self.errors.at(span)
    }

    /// Writes text as it is.
    fn push(&mut self, text: impl Into<String>, span: Span) {
        let multiplied = self.f.turns > 0 || self.f.calls > 0;
        if !self.f.code.push(text.into(), self.errors.at(span), multiplied) {
            self.overflow(span);
        }
    }

    fn overflow(&mut self, span: Span) {
        if !self.f.code.full {
            self.f.code.full = true;
            self.fail(
                &codes::P0818,
                span,
                "this kernel unrolls into more than a million instructions",
                "write the outer `for` as `while`",
            );
        }
    }

    /// Writes one instruction of our own.
    fn inst(&mut self, text: &str, span: Span) {
        if let Some(line) = self.take_line() {
            self.push(line, span);
        }
        self.push(format!("    {text};\n"), span);
    }

    /// Declares a register under the user's name.
    fn register(&mut self, name: &str, ty: Type, span: Span) -> Reg {
        let reg = self.named(name, ty);
        let class = types::register(ty).unwrap_or("b32");
        self.push(format!("    .reg .{class} {};\n", reg.name), span);
        reg
    }

    /// A register under the user's name, which may be that of a part: `pair.0` is `%pair_0`.
    fn named(&mut self, name: &str, ty: Type) -> Reg {
        let emitted = self.f.registers.named(name);
        self.out.spoken.note(&emitted, name, Vec::new());
        Reg { name: emitted, ty }
    }

    /// The registers of an array under the user's name.
    fn named_array(&mut self, name: &str, element: &Ty, len: u64) -> Array {
        let ty = Ty::Array(Box::new(element.clone()), len);
        let base = self.f.registers.named_array(name, ty.registers());
        self.out.spoken.note(&base, name, ty.extents());
        Array { base, start: 0, element: element.clone(), len }
    }

    /// A register for a value without a name: `%u32_0`.
    fn temporary(&mut self, ty: Type) -> Reg {
        self.f.registers.temporary(ty)
    }

    /// The register to write a result to: the one that is asked for, or a temporary.
    fn destination(&mut self, dest: Option<&Value>, ty: Type, span: Span) -> Option<Reg> {
        match dest {
            None => Some(self.temporary(ty)),
            Some(Value::Reg(reg)) if types::meet(reg.ty, ty) => Some(reg.clone()),
            Some(Value::Error) => None,
            Some(Value::Address(address)) => {
                let (from, to) = (types::name(ty), address.ty.name());
                let message = format!("this is `{from}`, and what it is written to is `{to}`");
                let help = Self::address_help(&Value::Error, &address.ty);
                self.fail(&codes::P0802, span, message, help);
                None
            }
            Some(other) => {
                let (from, to) = (types::name(ty), other.describe());
                let help = format!("convert it, `… as {}`, or declare the register as `{from}`", to.trim_matches('`'));
                self.fail(&codes::P0802, span, format!("this is `{from}`, and what it is written to is {to}"), help);
                None
            }
        }
    }

    /// `mov` between registers or from a constant.
    fn mov(&mut self, dest: &Reg, operand: &str, span: Span) {
        match types::moved(dest.ty) {
            Some(suffix) => self.inst(&format!("mov.{suffix} {}, {operand}", dest.name), span),
            None => {
                let ty = dest.ty.name();
                let help = format!("keep the value in a `u32` and convert it, `x as {}`", types::name(dest.ty));
                self.fail(&codes::P0803, span, format!("no instruction moves a `.{ty}` register"), help);
            }
        }
    }

    /// Jumps to a label, if anything gets here. The guard is `@%p ` or empty.
    fn jump(&mut self, label: Label, guard: &str, span: Span) {
        if let Some(name) = self.f.code.jump_to(label) {
            self.inst(&format!("{guard}bra {name}"), span);
            self.f.code.dead = guard.is_empty();
        }
    }

    /// Places a label. A jump to what follows is not written, nor a label that nothing jumps to.
    fn place(&mut self, label: Label, span: Span) {
        if let Some(text) = self.f.code.place(label) {
            self.push(text, span);
        }
    }

    /// Places a label that something may jump to later; returns its piece.
    fn place_ahead(&mut self, label: Label, span: Span) -> usize {
        let text = self.f.code.place_ahead(label);
        let at = self.f.code.text.len();
        if let Some(text) = text {
            self.push(text, span);
        }
        at
    }

    /// A value as an operand of type `ty`: a register's name, a literal, the address of a variable in a register.
    fn operand(&mut self, value: &Value, ty: Type, span: Span) -> Option<String> {
        match value {
            Value::Reg(reg) => Some(reg.name.clone()),
            Value::Const(value) => self.literal(value, ty, span),
            Value::Address(address) => self.materialized(address, None, span).map(|reg| reg.name),
            Value::Array(_) | Value::Tuple(_) | Value::Struct(..) | Value::List(..) => {
                let what = value.describe();
                self.fail(&codes::P0803, span, format!("{what} is no operand"), expr::one_of(value));
                None
            }
            Value::Error => None,
        }
    }

    /// A constant as an operand; where no instruction takes it as an immediate, a register that holds it.
    fn literal(&mut self, value: &Const, ty: Type, span: Span) -> Option<String> {
        let text = self.immediate(value, ty, span)?;
        if matches!(ty.name(), "f16" | "bf16" | "f16x2" | "bf16x2") {
            let reg = self.temporary(ty);
            self.mov(&reg, &text, span);
            return Some(reg.name);
        }
        Some(text)
    }
}

/// Lowers a module for one variant. What it makes is complete for what was right; every error is reported.
pub fn lower(module: &tree::Module, variant: &Variant<'_>) -> (Lowered, Vec<Diagnostic>) {
    let mut lowerer = Lowerer {
        variant,
        module,
        errors: Errors::default(),
        scopes: Scopes::default(),
        out: Output::default(),
        f: Body::default(),
        expanding: Vec::new(),
        evaluating: Vec::new(),
        evaluations: 0,
        is_too_deep: false,
        constants: Map::default(),
        structs: Map::default(),
    };
    lowerer.module();
    lowerer.finish()
}
