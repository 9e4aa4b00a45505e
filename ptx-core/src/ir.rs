//! The IR: names resolved, scopes flattened, every instruction bound to a row of the table.
//!
//! It has no text of its own; spans lead back to the tree, which the emitter prints.

pub mod annotation;

use self::annotation::{Annotation, Kind};
use crate::isa::{Arch, Member, Row, SpecialRegister, Type, Version};
use crate::span::Span;
use std::ops::Deref;
use std::sync::Arc;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);
        impl $name {
            /// As an index.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )* };
}

ids! {
    /// A register of a function.
    RegId
    /// A variable of the module: [`Module::variables`].
    VarId
    /// A function of the module: [`Module::functions`].
    FuncId
    /// A label of a function.
    LabelId
    /// A `.callprototype` of a function.
    ProtoId
    /// A `.branchtargets` or `.calltargets` list of a function.
    TargetsId
}

/// A whole module.
#[derive(Clone, Debug)]
pub struct Module {
    /// `.version`.
    pub version: Version,
    /// `.target`.
    pub arch: Arch,
    /// The other words of `.target`: `texmode_independent`, `debug` …
    pub options: Vec<String>,
    /// 32 or 64.
    pub address_size: u32,
    /// True if other modules will be linked to it, so that `.extern` names may be defined there. Such a module cannot
    /// be loaded alone.
    pub relocatable: bool,
    /// True if registers or `.local` variables stand outside of functions, which share them (before PTX 3.0). Every function lists them.
    pub shares_locals: bool,
    /// Every variable: of the module, parameters, and those of functions.
    pub variables: Vec<Variable>,
    /// Every function, prototypes too.
    pub functions: Vec<Function>,
}

impl Module {
    /// The entry of this name that has a body.
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<&Function> {
        self.functions.iter().find(|function| function.entry && function.defined && function.name == name)
    }
}

/// A state space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// `.global`
    Global,
    /// `.shared`
    Shared,
    /// `.const`
    Const,
    /// `.local`
    Local,
    /// `.param`
    Param,
    /// `.tex`, or a `.texref`, `.samplerref`, `.surfref` variable.
    Opaque,
}

/// A variable with storage.
#[derive(Clone, Debug)]
pub struct Variable {
    /// As written.
    pub name: String,
    /// Its space.
    pub space: Space,
    /// The element type.
    pub ty: Type,
    /// 1, 2 or 4 (`.v2`, `.v4`).
    pub vector: u32,
    /// Array dimensions; 0 stands for `[]`.
    pub dims: Vec<u64>,
    /// Alignment in bytes.
    pub align: u64,
    /// Size in bytes; 0 for an array without size.
    pub size: u64,
    /// `.extern`, `.visible`, `.weak`, `.common`, without the dot.
    pub linkage: Option<&'static str>,
    /// For a pointer parameter (`.ptr`): the space and the alignment it points to.
    pub points_to: Option<(Option<Space>, u64)>,
    /// The initializer, byte by byte, and the addresses in it.
    pub init: Option<Init>,
    /// Position of its declaration.
    pub span: Span,
}

/// An initializer.
#[derive(Clone, Debug, Default)]
pub struct Init {
    /// The bytes, zero where an address goes.
    pub bytes: Vec<u8>,
    /// The addresses in it.
    pub relocations: Vec<Relocation>,
}

/// An address in an initializer.
#[derive(Clone, Debug)]
pub struct Relocation {
    /// Position in the bytes.
    pub at: u64,
    /// Number of bytes.
    pub width: u32,
    /// Of what.
    pub of: Symbol,
    /// The added constant.
    pub offset: i64,
    /// True if it is wrapped in `generic()`.
    pub generic: bool,
    /// `mask()`: which byte of the address (shift), if one is selected.
    pub mask: Option<u64>,
}

/// Something with an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Symbol {
    /// A variable.
    Var(VarId),
    /// A function.
    Func(FuncId),
}

/// An entry or a function.
#[derive(Clone, Debug)]
pub struct Function {
    /// As written.
    pub name: String,
    /// `.entry` or `.func`.
    pub entry: bool,
    /// `.extern`, `.visible`, `.weak`, without the dot.
    pub linkage: Option<&'static str>,
    /// Return parameters: `.param` variables or registers.
    pub returns: Vec<Param>,
    /// Parameters.
    pub params: Vec<Param>,
    /// True if it takes more.
    pub variadic: bool,
    /// Performance and cluster directives.
    pub limits: Vec<Limit>,
    /// The registers of all its scopes.
    pub registers: Vec<Register>,
    /// The variables declared in its body.
    pub variables: Vec<VarId>,
    /// The labels.
    pub labels: Vec<Label>,
    /// `.callprototype`s.
    pub prototypes: Vec<Signature>,
    /// `.branchtargets` and `.calltargets`.
    pub targets: Vec<Vec<Operand>>,
    /// Conditions that stand between the instructions, in order.
    pub annotations: Vec<Annotation>,
    /// The instructions, in order.
    pub insts: Vec<Inst>,
    /// The spans of their operands; [`Function::operand_span`] finds one.
    pub operand_spans: Vec<Span>,
    /// True if it has a body.
    pub defined: bool,
    /// True if its signature has been read.
    pub declared: bool,
    /// Its name's span.
    pub span: Span,
}

impl Function {
    /// Its directive of that name, without the dot.
    pub fn limit(&self, name: &str) -> Option<&Limit> {
        self.limits.iter().find(|limit| limit.name == name)
    }

    /// The conditions that its author takes for granted.
    pub fn assumptions(&self) -> impl Iterator<Item = &Annotation> {
        self.annotations.iter().filter(|one| one.kind == Kind::Assume)
    }

    /// Position of an operand of one of its instructions; that of the instruction if there is no such operand.
    pub fn operand_span(&self, inst: &Inst, at: usize) -> Span {
        let own = inst.operands.get(at).and_then(|_| self.operand_spans.get(inst.spans as usize + at));
        own.copied().unwrap_or(inst.span)
    }

    /// The types of what it returns and takes.
    pub fn signature(&self, module: &Module) -> (Vec<Option<ParamType>>, Vec<Option<ParamType>>) {
        let types = |list: &[Param]| list.iter().map(|p| self.param_type(*p, module)).collect();
        (types(&self.returns), types(&self.params))
    }

    /// The type of a parameter of its own.
    pub fn param_type(&self, param: Param, module: &Module) -> Option<ParamType> {
        Some(match param {
            Param::Var(id) => {
                let v = module.variables.get(id.index())?;
                ParamType { ty: v.ty, size: v.size, align: v.align, register: false, array: !v.dims.is_empty() }
            }
            Param::Reg(id) => {
                let r = self.registers.get(id.index())?;
                let size = r.ty.bytes() * u64::from(r.vector);
                ParamType { ty: r.ty, size, align: r.align, register: true, array: false }
            }
        })
    }
}

/// A parameter of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Param {
    /// A `.param` variable.
    Var(VarId),
    /// A register (`.func` only).
    Reg(RegId),
}

/// The signature of a `.callprototype`.
#[derive(Clone, Debug)]
pub struct Signature {
    /// Its label.
    pub name: String,
    /// Type, vector, element count and alignment of each return value.
    pub returns: Vec<ParamType>,
    /// The same for each parameter.
    pub params: Vec<ParamType>,
    /// True if it takes more.
    pub variadic: bool,
    /// Its position.
    pub span: Span,
}

/// The type of a parameter without its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamType {
    /// Element type.
    pub ty: Type,
    /// Bytes.
    pub size: u64,
    /// Alignment.
    pub align: u64,
    /// True if it is a register, not `.param`.
    pub register: bool,
    /// True if it is an array, perhaps of one element.
    pub array: bool,
}

/// `.maxntid 128, 1, 1`
#[derive(Clone, Debug)]
pub struct Limit {
    /// Without the dot.
    pub name: String,
    /// Its numbers.
    pub values: Vec<u64>,
    /// Its position.
    pub span: Span,
}

/// A register.
#[derive(Clone, Debug)]
pub struct Register {
    /// As written (`%r3` for the third of `%r<5>`).
    pub name: String,
    /// Its declared type.
    pub ty: Type,
    /// 1, 2 or 4 for `.v2`, `.v4` registers.
    pub vector: u32,
    /// In bytes: declared, or its size. Calls compare it.
    pub align: u64,
    /// Position of its declaration.
    pub span: Span,
}

/// A label and the instruction that follows it.
#[derive(Clone, Debug)]
pub struct Label {
    /// As written.
    pub name: String,
    /// An index into [`Function::insts`]; may be one past the last.
    pub at: u32,
    /// Its position.
    pub span: Span,
}

/// An instruction.
#[derive(Clone, Debug)]
pub struct Inst {
    /// The form it has. `None` for an instruction in `unchecked { }`, which the interpreter refuses.
    pub row: Option<&'static Row>,
    /// For each modifier slot of the row: its member, or `None` where an optional one is absent. Instructions of one form
    /// share them.
    pub slots: Arc<[Option<&'static Member>]>,
    /// `@p`, `@!p`.
    pub guard: Option<Guard>,
    /// The operands, in the order of the row's; absent optional ones are [`Operand::Absent`].
    pub operands: Vec<Operand>,
    /// All its tokens.
    pub span: Span,
    /// The opcode and its modifiers.
    pub name_span: Span,
    /// Start of the spans of its operands in [`Function::operand_spans`].
    pub spans: u32,
}

/// `@p`, `@!p`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The predicate.
    pub register: RegId,
    /// True if it is negated.
    pub negated: bool,
}

/// An operand.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// An optional operand that is not there.
    Absent,
    /// `_`
    Sink,
    /// `%r1`
    Reg(RegId),
    /// `%r1.x` of a vector register (0–3), or a selector of a video instruction (`.b0`, `.h1`, `.b3210`).
    Part(RegId, &'static str),
    /// `%r1+4` where a number stands, which no text mentions: ptxas adds before.
    Sum(RegId, i64),
    /// `%tid.x`
    Special(&'static SpecialRegister),
    /// An integer: its 64 bits, two's complement.
    Int(u64),
    /// A float in single-precision bits: `0f3F800000`.
    F32(u32),
    /// A float in double-precision bits: `1.5`, `0d…`.
    F64(u64),
    /// The address of a symbol: `x+4`.
    Symbol(Symbol, i64),
    /// The address of an element of an array, `x[3]`, `x[%r1+2]` or `x[%laneid]`, and its offset in bytes. Where an instruction takes
    /// an address in brackets, it becomes [`Operand::Memory`].
    Element(Base, i64),
    /// `[base+offset]`, `[base, {…}]`, `[base, a, b]`: what follows the address stands in `rest`.
    Memory {
        /// The address.
        base: Base,
        /// The added constant, in bytes.
        offset: i64,
        /// Coordinates and the like.
        rest: Rest,
    },
    /// `[a].unified`, until the form is known; afterwards it is the address in it.
    Unified(Box<Operand>),
    /// `{a, b}`
    Vector(Vec<Operand>),
    /// `(a, b)` of a call.
    List(Vec<Operand>),
    /// `a|b`
    Pair(Box<Operand>, Box<Operand>),
    /// `!p`
    Not(Box<Operand>),
    /// `-x` on a register, where an instruction takes that.
    Neg(Box<Operand>),
    /// A label.
    Label(LabelId),
    /// A function that is called.
    Func(FuncId),
    /// A call prototype.
    Proto(ProtoId),
    /// A list of targets.
    Targets(TargetsId),
    /// Could not be resolved; a diagnostic has the reason.
    Error,
}

/// Operands after an address in its brackets: nearly always none, so that it takes one word.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rest(Option<Box<Box<[Operand]>>>);

impl Deref for Rest {
    type Target = [Operand];

    fn deref(&self) -> &[Operand] {
        self.0.as_deref().map_or(&[], |list| list)
    }
}

impl FromIterator<Operand> for Rest {
    fn from_iter<I: IntoIterator<Item = Operand>>(operands: I) -> Self {
        let list: Box<[Operand]> = operands.into_iter().collect();
        Rest((!list.is_empty()).then(|| Box::new(list)))
    }
}

/// The base of an address.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Base {
    /// A register.
    Reg(RegId),
    /// A symbol.
    Symbol(Symbol),
    /// An element of an array by an index that is no constant.
    Element(Element),
    /// Nothing: the offset is the address.
    Absolute,
}

/// `x[%r1]`. Its distance from the beginning has 32 bits without a sign: the low bits of the index times the size, plus
/// the offset, whatever the width of an address.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Element {
    /// The variable.
    pub array: VarId,
    /// The index.
    pub index: Index,
    /// Bytes of an element; of a vector's component in an array of vectors.
    pub size: u32,
}

/// The index of an element, where it is no constant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Index {
    /// `x[%r1]`
    Reg(RegId),
    /// `x[%laneid]`
    Special(&'static SpecialRegister),
    /// `x[y]`: the address of `y`.
    Symbol(Symbol),
}

impl Base {
    /// The register in it.
    pub fn register(&self) -> Option<RegId> {
        match self {
            Base::Reg(register) | Base::Element(Element { index: Index::Reg(register), .. }) => Some(*register),
            Base::Element(_) | Base::Symbol(_) | Base::Absolute => None,
        }
    }

    /// The special register in it.
    pub fn special(&self) -> Option<&'static SpecialRegister> {
        match self {
            Base::Element(Element { index: Index::Special(special), .. }) => Some(special),
            _ => None,
        }
    }

    /// The symbol whose address is an index.
    pub fn index_symbol(&self) -> Option<Symbol> {
        match self {
            Base::Element(Element { index: Index::Symbol(symbol), .. }) => Some(*symbol),
            _ => None,
        }
    }

    /// The symbol whose memory it is in.
    pub fn symbol(&self) -> Option<Symbol> {
        match self {
            Base::Symbol(symbol) => Some(*symbol),
            Base::Element(element) => Some(Symbol::Var(element.array)),
            Base::Reg(_) | Base::Absolute => None,
        }
    }
}

impl Inst {
    /// The value of the slot with this name, `"f32"` for `.f32`; `None` if absent or no such slot.
    pub fn slot(&self, name: &str) -> Option<&'static str> {
        let row = self.row?;
        let at = row.slots.iter().position(|s| s.name == name)?;
        self.slots.get(at).copied().flatten().map(|m| m.text)
    }

    /// Returns true if a modifier is there, spelled without its dot.
    pub fn has(&self, modifier: &str) -> bool {
        self.slots.iter().flatten().any(|m| m.text == modifier)
    }
}

impl Operand {
    /// Returns true if it is a number, not a register or a name.
    pub fn is_literal(&self) -> bool {
        matches!(self, Operand::Int(_) | Operand::F32(_) | Operand::F64(_))
    }
}
