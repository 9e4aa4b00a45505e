//! The instruction table: what the `.isa` files say, as data. `isa/README.md` explains their notation.
//!
//! Nothing here names an opcode. The files are read once, at first use, and live as long as the program.

pub mod find;
pub mod gate;
pub mod read;
pub mod rule;
pub mod show;
mod typed;
mod types;

pub use gate::{Arch, Gate, Suffix, TOOLKITS, Toolkit, Version};
pub use read::{Facts, Operands};
pub use typed::{Shift, TypeOf};
pub use types::{Class, Type, TypeInfo};

use crate::hash::Map;
use std::fmt;
use std::sync::OnceLock;

/// One value a modifier slot can have.
#[derive(Debug)]
pub struct Member {
    /// Without its dot: `f32`, `shared::cta`, `m64n128k16`.
    pub text: &'static str,
    /// Its number, for counts: 4 for `.v4`, 128 for `.m64n128k16`.
    pub number: u32,
    /// The type of this name, if there is one.
    pub ty: Option<Type>,
    /// Targets and versions that have it, beyond the gate of its row.
    pub gate: Option<Gate>,
}

/// A place for one modifier in a row.
#[derive(Debug)]
pub struct Slot {
    /// The set's name (`type`), or the modifier itself where only one is possible (`f32`).
    pub name: &'static str,
    /// Members that fit.
    pub members: &'static [Member],
    /// True if it may be absent.
    pub optional: bool,
    /// 0 if it may stand anywhere; else it keeps its place among the slots with the same number: types and `^` have 1,
    /// `^^` has 2.
    pub order: u8,
}

/// Use of an operand by an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads it.
    Read,
    /// Writes it.
    Write,
    /// Reads and writes it.
    ReadWrite,
}

/// Number of elements of a vector operand.
#[derive(Clone, Debug, PartialEq)]
pub struct Count {
    /// The member number of this slot, times…
    pub slot: Option<usize>,
    /// … this …
    pub times: u32,
    /// … divided by this …
    pub over: u32,
    /// … less this.
    pub minus: u32,
    /// There may be more elements, up to this number; then one register without braces may also stand for all.
    pub most: Option<u32>,
    /// True if one element stands in braces too.
    pub braces: bool,
}

impl Count {
    /// Returns true for `*1`: one element, with or without braces.
    pub fn is_one(&self) -> bool {
        let fixed = self.slot.is_none() && self.most.is_none() && !self.braces;
        fixed && self.times == 1 && self.over == 1 && self.minus == 0
    }

    /// Returns true if a vector of this length may stand where `number` elements are wanted.
    pub fn takes(&self, number: u32, length: usize) -> bool {
        let most = self.most.unwrap_or(number).max(number) as usize;
        length == number as usize || (number as usize..=most).contains(&length) && length.is_power_of_two()
    }
}

/// One operand of a row.
#[derive(Debug)]
pub struct OperandSpec {
    /// Its name in the manual.
    pub name: &'static str,
    /// Read or written.
    pub access: Access,
    /// 0 if it must be there; else the number of its optional group, whose operands come and go together.
    pub group: u8,
    /// Its syntax.
    pub kind: OperandKind,
}

impl OperandSpec {
    /// It and all that stand in its pair, brackets or braces.
    pub fn each(&self, visit: &mut dyn FnMut(&OperandSpec)) {
        visit(self);
        match &self.kind {
            OperandKind::Pair(a, b) => [a, b].into_iter().for_each(|o| o.each(visit)),
            OperandKind::Memory { rest: list, .. } | OperandKind::Group(list) => {
                list.iter().for_each(|o| o.each(visit))
            }
            _ => {}
        }
    }
}

/// Syntax of an operand.
#[derive(Debug)]
pub enum OperandKind {
    /// A register, a literal, or a vector of them.
    Value(Value),
    /// `[a]`, `[a, c]`.
    Memory {
        /// The spaces its address may be in: a slot, or a fixed one; empty for generic.
        space: SpaceOf,
        /// Operands after the address, inside the brackets.
        rest: Vec<OperandSpec>,
        /// True if `.unified` may follow.
        unified: bool,
        /// True if ptxas takes the address without its brackets.
        bare: bool,
        /// True if an element of an array may stand without brackets around it: `x[1]`.
        element: bool,
        /// True if 32-bit registers may hold addresses of 64 bits.
        narrow: bool,
        /// Registers of 8 and 16 bits that may hold it.
        short: Short,
        /// The name of a texture, sampler or surface as the address.
        handles: Handles,
    },
    /// `a|b`; the second may be optional.
    Pair(Box<OperandSpec>, Box<OperandSpec>),
    /// A group in braces of different things: `{a, b}`.
    Group(Vec<OperandSpec>),
    /// A label.
    Label,
    /// A function's name.
    Func,
    /// A register with a function's address.
    Callee,
    /// A parenthesized list (of a call).
    List,
    /// A label of `.branchtargets`.
    Branches,
    /// A label of `.calltargets` or `.callprototype`.
    Callees,
    /// The address of a variable in one of these spaces (any: generic), without brackets.
    Symbol(SpaceOf),
}

/// The name of a texture, sampler or surface as an address: ptxas takes it in some places, where it is an address in
/// global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handles {
    /// It is refused.
    Refused,
    /// It is taken where the instruction names a state space.
    InSpaces,
    /// It is taken.
    Taken,
}

/// The literals allowed: `(0..31)`, `(24..256:8)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The least.
    pub lo: i64,
    /// The greatest.
    pub hi: i64,
    /// Step from one literal to the next.
    pub step: Step,
    /// True if only the lower 32 bits of a literal count.
    pub wraps: bool,
}

/// Step between the literals of a [`Range`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// By adding this: `(24..256:8)`.
    Add(i64),
    /// By doubling: `(32..512:*2)`.
    Double,
}

impl Range {
    /// Returns true if `value` is one of them.
    pub fn contains(self, value: i64) -> bool {
        let value = if self.wraps { i64::from(value as u32) } else { value };
        // The distance of a number outside of the range may not fit into 64 bits.
        (self.lo..=self.hi).contains(&value)
            && match self.step {
                Step::Add(step) => (value - self.lo) % step == 0,
                Step::Double => value % self.lo == 0 && (value / self.lo).count_ones() == 1,
            }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.lo == self.hi, self.step) {
            (true, _) => write!(f, "equal to {}", self.lo),
            (false, Step::Add(1)) => write!(f, "from {} to {}", self.lo, self.hi),
            (false, Step::Add(step)) => write!(f, "from {} to {} in steps of {step}", self.lo, self.hi),
            (false, Step::Double) => write!(f, "{} times a power of two, up to {}", self.lo, self.hi),
        }
    }
}

/// A register or literal operand.
#[derive(Debug)]
pub struct Value {
    /// Its type.
    pub ty: TypeOf,
    /// Elements; `None` for a scalar.
    pub count: Option<Count>,
    /// True if it may be a register.
    pub register: bool,
    /// True if it may be a literal.
    pub literal: bool,
    /// The literals allowed.
    pub range: Option<Range>,
    /// True if `!` (of a predicate) or `-` (of a number) may stand before it.
    pub negatable: bool,
    /// True if `_` may stand for it.
    pub sink: bool,
    /// True if a wider register may hold it (`ld`, `st`, `cvt`).
    pub wider: bool,
    /// True if it may be a special register.
    pub special: bool,
    /// True if it is an address: the names of variables, with an offset too, are for another row, which defines where
    /// they are.
    pub address: bool,
    /// Selectors that may follow it (`.b0`, `.h1`): the members of a set.
    pub selectors: &'static [Member],
}

/// Addresses that a register of 8 or 16 bits may not hold. Elsewhere ptxas takes it, though the address is cut.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Short {
    /// ptxas makes several instructions of this one, with a register of its own for the address.
    pub refused: bool,
    /// Only a generic or global address is refused, not one in a window of its own.
    pub whole: bool,
    /// First target that refuses it.
    pub from: Option<Arch>,
}

/// Which state space an address is in.
#[derive(Clone, Debug, PartialEq)]
pub enum SpaceOf {
    /// Any, or generic.
    Generic,
    /// One of these names: `shared`, `global`.
    Fixed(Vec<&'static str>),
    /// The one in this slot. If the slot is empty: generic, but variables must be in one of these spaces (none: any).
    Slot(usize, Vec<&'static str>),
    /// Tensor memory: the address is in a register of this type, never a variable.
    Register(Type),
}

/// One instruction form: one line of a file.
#[derive(Debug)]
pub struct Row {
    /// The opcode and the modifiers that name the instruction, in their only order: `mul.lo`.
    pub name: &'static str,
    /// The opcode: `mul`.
    pub opcode: &'static str,
    /// The parts of the name behind the opcode.
    pub parts: Vec<&'static str>,
    /// The modifiers.
    pub slots: &'static [Slot],
    /// The operands.
    pub operands: Operands,
    /// Targets and versions that have it.
    pub gate: Gate,
    /// The first version that no longer has it.
    pub until: Option<Version>,
    pub(crate) rules: read::Rules,
    /// The manual's section.
    pub section: &'static str,
    /// The form as written in the file, for help texts.
    pub text: &'static str,
    /// `integer.isa`
    pub file: &'static str,
    /// The line there.
    pub line: u32,
}

impl PartialEq for Row {
    fn eq(&self, other: &Row) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Row {
    /// The opcode: `mul`.
    pub fn opcode(&self) -> &'static str {
        self.opcode
    }

    /// Rules that the columns cannot express.
    pub fn rules(&self) -> &[rule::Rule] {
        self.rules.of(self)
    }

    /// The place of the operand of this name.
    pub fn operand(&self, name: &str) -> Option<usize> {
        self.operands.iter().position(|operand| operand.name == name)
    }
}

/// One `sreg` line.
#[derive(Debug, PartialEq)]
pub struct SpecialRegister {
    /// `%tid`
    pub name: &'static str,
    /// The type of the register or of one component.
    pub ty: Type,
    /// The types that it had in earlier versions of PTX; instructions of these types still read it.
    pub earlier: Vec<Type>,
    /// The component (`x`), or empty.
    pub component: &'static str,
    /// True if it can be used whole, as a vector.
    pub vector: bool,
    /// Targets and versions that have it.
    pub gate: Gate,
    /// The directive (with its dot) that a kernel must have to read it; or empty.
    pub needs: &'static str,
    /// The manual's section.
    pub section: &'static str,
}

impl SpecialRegister {
    /// Returns true for one integer under a name without a component.
    pub fn is_integer(&self) -> bool {
        let integer = matches!(self.ty.class(), Class::Signed | Class::Unsigned | Class::Bits);
        integer && !self.vector && self.component.is_empty()
    }
}

/// One `directive` or `feature` line.
#[derive(Debug)]
pub struct DirectiveInfo {
    /// A directive's has its dot.
    pub name: &'static str,
    /// Its allowed place: `module`, `function`, `entry`, `body`, `debug` …
    pub place: &'static str,
    /// The form, for help texts.
    pub text: &'static str,
    /// Targets and versions that have it.
    pub gate: Gate,
    /// The first version without it.
    pub until: Option<Version>,
    /// The manual's section.
    pub section: &'static str,
}

/// One `target` line.
#[derive(Debug)]
pub struct TargetInfo {
    /// The target.
    pub arch: Arch,
    /// The first PTX version that takes it.
    pub since: Version,
    /// True if ptxas still assembles for it.
    pub assembled: bool,
    /// Limits by name: `shared`, `registers`, `threads` …
    pub limits: Vec<(&'static str, u64)>,
}

impl TargetInfo {
    /// The limit of that name; targets that ptxas no longer assembles for have none.
    pub fn limit(&self, name: &str) -> Option<u64> {
        self.limits.iter().find(|(limit, _)| *limit == name).map(|(_, most)| *most)
    }
}

/// Modifiers that ptxas passes over where they mean nothing.
#[derive(Clone, Debug)]
pub struct Idle {
    /// Without their dots.
    pub words: Vec<&'static str>,
    /// True if it does so on every instruction whose opcode has none of that name.
    pub all: bool,
    /// The instructions on which it does; of `all`, those on which it does not.
    pub names: Vec<&'static str>,
}

/// All that the files say. Rows are parsed when their opcode is first asked for.
#[derive(Debug)]
pub struct Table {
    pub(crate) index: read::Index,
    /// Every type.
    pub types: Vec<TypeInfo>,
    /// By name, without the dot.
    pub type_names: Map<&'static str, Type>,
    /// Every special register, one entry a component; by its name as written: `%tid.x`, `%laneid`.
    pub specials: Map<&'static str, SpecialRegister>,
    /// By name, with the dot.
    pub directives: Map<&'static str, DirectiveInfo>,
    /// Features that are neither directives nor instructions, by the names of their `feature` lines.
    pub features: Map<&'static str, DirectiveInfo>,
    /// Every target, oldest first.
    pub targets: Vec<TargetInfo>,
    /// Modifiers that ptxas ignores.
    pub idle: Vec<Idle>,
}

/// The table, read at first use.
pub fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(read::table)
}

impl Table {
    /// The forms of an opcode; empty if there is no such opcode.
    pub fn forms(&'static self, opcode: &str) -> &'static [Row] {
        self.index.forms(self, opcode)
    }

    /// Every opcode, sorted.
    pub fn opcodes(&self) -> Vec<&'static str> {
        self.index.opcodes()
    }

    /// Every form, by opcode.
    pub fn rows(&'static self) -> impl Iterator<Item = &'static Row> {
        self.opcodes().into_iter().flat_map(|o| self.forms(o))
    }

    /// The row of a target.
    pub fn target(&self, arch: Arch) -> Option<&TargetInfo> {
        self.targets.iter().find(|t| t.arch == arch)
    }

    /// Mistakes in the files themselves; a test requires that there are none.
    pub fn mistakes(&'static self) -> Vec<String> {
        self.index.mistakes(self)
    }
}
