//! The statement tree to PTX: what is being lowered, and the few ways to write an instruction.
//!
//! One file a concern: `module` and `kernel` frame the text, `stmt`, `expr`, `flow` and `call` write the body,
//! `ptx` copies `ptx!` blocks, `constant` evaluates, `memory` declares variables, `resolve` understands names and types.

mod call;
mod cast;
mod constant;
mod expr;
mod flow;
mod infer;
mod kernel;
mod literal;
mod memory;
mod module;
mod params;
mod ptx;
mod resolve;
mod splice;
mod stmt;
mod view;

pub(crate) use cast::instruction as cast;
pub(crate) use ptx::ends;

use super::names::Names;
use super::scope::Scopes;
use super::spoken::Spoken;
use super::types::{self, Ty};
use super::value::{Array, Const, Reg, Value};
use super::{Entry, Lowered, Variant, tree};
use crate::diag::{Code, Diagnostic, codes};
use crate::isa::Type;
use crate::span::Span;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;

/// Text and where it comes from.
pub(crate) type Pieces = Vec<(String, Span)>;

/// No module of a person's hand is larger; one that is has a `for` too many.
const MOST_PIECES: usize = 2_000_000;

/// Everything that lowering knows.
pub(crate) struct Lowerer<'a> {
    variant: &'a Variant<'a>,
    module: &'a tree::Module,
    diagnostics: Vec<Diagnostic>,
    /// The same, to find repetitions.
    told: HashSet<Diagnostic>,
    scopes: Scopes<'a>,
    /// Symbols of the module.
    symbols: Rc<Names>,
    /// Variables of the module.
    globals: Pieces,
    /// What `ptx!` items declare.
    declared: BTreeSet<String>,
    /// Finished functions.
    functions: Pieces,
    entries: Vec<Entry>,
    /// The function that is being written.
    f: Body,
    /// Helpers that are being expanded, and constants that are being evaluated, by address: a second time is recursion.
    expanding: Vec<usize>,
    evaluating: Vec<usize>,
    /// `#[noinline]` helpers that are written, by what makes them different.
    called: HashMap<(usize, String), String>,
    /// Variables of the module that are written, by the address of what declares them and what makes them different.
    statics: HashMap<(usize, String), Value>,
    /// In the source of the prelude: the call that led there.
    over: Option<Span>,
    /// Files of `.file`, in order.
    files: Vec<String>,
    unchecked: Vec<Span>,
    /// Names in `ptx!` whose declaration was refused.
    refused: Vec<Span>,
    spoken: Spoken,
}

/// The body of an entry or a function while it is written.
#[derive(Default)]
struct Body {
    /// Instructions and what is declared among them.
    text: Pieces,
    /// Variables in memory, declared first.
    variables: Pieces,
    /// The threads of a block, in an entry whose attribute gives constants.
    threads: Option<u64>,
    /// How many temporaries of each register type there are.
    temporaries: BTreeMap<&'static str, u32>,
    registers: Names,
    labels: Names,
    symbols: Names,
    /// Every label made, and how many jumps go there.
    targets: Vec<(String, u32)>,
    /// `if`, `while` … : how many there are.
    counts: HashMap<&'static str, u32>,
    loops: Vec<flow::Loop>,
    frames: Vec<call::Frame>,
    params: Vec<params::Param>,
    raw: bool,
    lineinfo: bool,
    /// Nothing reaches what would be written now.
    dead: bool,
    /// … because of a condition that is known: what follows is left out, as the other side of that `if` is.
    decided: bool,
    /// The statement whose `.loc` stands before the next instruction.
    line: Option<Span>,
    /// How many turns of `for` are written.
    turns: u32,
    /// The number of helper calls that are written.
    calls: u32,
    /// A limit was passed and reported.
    full: bool,
}

/// A label: its place in [`Body::targets`].
#[derive(Clone, Copy, Debug)]
struct Label(usize);

impl<'a> Lowerer<'a> {
    /// Reports, once: an unrolled loop and a second instance say nothing new.
    fn report(&mut self, mut diagnostic: Diagnostic) {
        diagnostic.span = self.at(diagnostic.span);
        if self.told.insert(diagnostic.clone()) {
            self.diagnostics.push(diagnostic);
        }
    }

    /// Reports an error and gives the value that stays silent.
    fn fail(&mut self, code: &'static Code, span: Span, message: impl Into<String>, help: impl Into<String>) -> Value {
        self.report(Diagnostic::error(code, span, message).help(help));
        Value::Error
    }

    /// The span to use: the call's, in the source of the prelude.
    fn at(&self, span: Span) -> Span {
        self.over.unwrap_or(span)
    }

    /// Writes text as it is.
    fn push(&mut self, text: impl Into<String>, span: Span) {
        if self.f.text.len() >= MOST_PIECES {
            self.overflow(span);
            return;
        }
        let span = self.at(span);
        self.f.text.push((text.into(), span));
    }

    fn overflow(&mut self, span: Span) {
        if !self.f.full {
            self.f.full = true;
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
        let emitted = self.f.registers.unique(&format!("%{}", name.replace('.', "_")));
        self.spoken.note(&emitted, name, &Ty::Scalar(ty));
        Reg { name: emitted, ty }
    }

    /// The registers of an array under the user's name.
    fn named_array(&mut self, name: &str, element: &Ty, len: u64) -> Array {
        let ty = Ty::Array(Box::new(element.clone()), len);
        let base = self.f.registers.unique_array(&format!("%{}", name.replace('.', "_")), ty.registers());
        self.spoken.note(&base, name, &ty);
        Array { base, start: 0, element: element.clone(), len }
    }

    /// A register for a value without a name: `%u32_0`.
    fn temporary(&mut self, ty: Type) -> Reg {
        let class = types::register(ty).unwrap_or("b32");
        let count = self.f.temporaries.entry(class).or_default();
        *count += 1;
        Reg { name: format!("%{class}_{}", *count - 1), ty }
    }

    /// The register to write a result to: the one that is asked for, or a temporary.
    fn destination(&mut self, dest: Option<&Value>, ty: Type, span: Span) -> Option<Reg> {
        match dest {
            None => Some(self.temporary(ty)),
            Some(Value::Reg(reg)) if types::meet(reg.ty, ty) => Some(reg.clone()),
            Some(Value::Error) => None,
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

    /// A new label like this one.
    fn label(&mut self, base: &str) -> Label {
        let name = self.f.labels.unique(base);
        self.f.targets.push((name, 0));
        Label(self.f.targets.len() - 1)
    }

    /// The number of the next `if`, `while` …
    fn number(&mut self, what: &'static str) -> u32 {
        let count = self.f.counts.entry(what).or_default();
        *count += 1;
        *count
    }

    /// Jumps to a label, if anything gets here. The guard is `@%p ` or empty.
    fn jump(&mut self, label: Label, guard: &str, span: Span) {
        if self.f.dead {
            return;
        }
        let Some(target) = self.f.targets.get_mut(label.0) else { return };
        target.1 += 1;
        let text = format!("{guard}bra {}", target.0);
        self.inst(&text, span);
        self.f.dead = guard.is_empty();
    }

    /// Places a label. A jump to what follows is not written, nor a label that nothing jumps to.
    fn place(&mut self, label: Label, span: Span) {
        let Some((name, jumps)) = self.f.targets.get_mut(label.0) else { return };
        let jump = format!("    bra {name};\n");
        while self.f.text.pop_if(|(text, _)| *text == jump).is_some() {
            *jumps -= 1;
            self.f.dead = false;
            self.f.text.pop_if(|(text, _)| text.starts_with("    .loc"));
        }
        if *jumps > 0 {
            let text = format!("{name}:\n");
            self.f.dead = false;
            self.push(text, span);
        }
        self.f.decided &= self.f.dead;
    }

    /// Places a label that something may jump to later.
    fn place_ahead(&mut self, label: Label, span: Span) -> usize {
        self.f.dead = false;
        self.f.decided = false;
        let at = self.f.text.len();
        if let Some((name, _)) = self.f.targets.get(label.0).cloned() {
            self.push(format!("{name}:\n"), span);
        }
        at
    }

    /// Takes back a label placed ahead that nothing jumped to.
    fn withdraw(&mut self, label: Label, at: usize) {
        if let (Some((_, 0)), Some(piece)) = (self.f.targets.get(label.0), self.f.text.get_mut(at)) {
            piece.0.clear();
        }
    }

    /// A value as an operand of type `ty`: a register's name, a literal, the address of a variable in a register.
    fn operand(&mut self, value: &Value, ty: Type, span: Span) -> Option<String> {
        match value {
            Value::Reg(reg) => Some(reg.name.clone()),
            Value::Const(value) => self.literal(value, ty, span),
            Value::Symbol(symbol) => {
                let reg = self.temporary(symbol.address);
                self.mov(&reg, &symbol.name, span);
                Some(reg.name)
            }
            Value::Array(_) | Value::Tuple(_) => {
                let what = value.describe();
                self.fail(&codes::P0803, span, format!("{what} is no operand"), "name one element: `a[0]`");
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
        diagnostics: Vec::new(),
        told: HashSet::new(),
        scopes: Scopes::default(),
        symbols: Rc::default(),
        globals: Pieces::new(),
        declared: BTreeSet::new(),
        functions: Pieces::new(),
        entries: Vec::new(),
        f: Body::default(),
        expanding: Vec::new(),
        evaluating: Vec::new(),
        called: HashMap::new(),
        statics: HashMap::new(),
        over: None,
        files: Vec::new(),
        unchecked: Vec::new(),
        refused: Vec::new(),
        spoken: Spoken::default(),
    };
    lowerer.module();
    lowerer.finish()
}
