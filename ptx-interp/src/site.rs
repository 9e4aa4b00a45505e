//! One instruction while it is decoded: its operands as sources and destinations, its modifiers, its types.
//!
//! It remembers which modifiers a decoder asked for, so that none is ignored by accident.

use super::ctx::{Ctx, Flow, Step};
use super::exec::{Dst, Src};
use super::field::Field;
use super::layout::{Home, Layout};
use super::soft::{self, Round};
use super::space::{Where, code_address};
use super::special;
use ptx_core::ir::{Base, Element, Function, Index, Inst, LabelId, Module, Operand, RegId, Symbol};
use ptx_core::isa::{Class, OperandKind, OperandSpec, Row, Type, TypeOf};
use std::cell::RefCell;

/// Why an instruction cannot be decoded.
pub(super) type Refusal = String;
/// A decoded instruction.
pub(super) type Decoded = Result<Step, Refusal>;

/// An instruction and all that its decoding needs.
pub(super) struct Site<'a> {
    pub module: &'a Module,
    pub layout: &'a Layout,
    /// The function's number.
    pub function: usize,
    pub inst: &'a Inst,
    pub row: &'static Row,
    /// The first instruction of each function in the program's code.
    pub starts: &'a [u32],
    /// The field of a program over the real numbers.
    pub field: Option<Field>,
    /// All modifiers as written.
    pub modifiers: Vec<&'static str>,
    asked: RefCell<Vec<String>>,
}

/// An address operand.
#[derive(Clone, Copy)]
pub(super) struct Address {
    pub base: Src,
    pub offset: u64,
    pub space: Where,
}

/// The components of vector registers, in order.
pub(super) const COMPONENTS: [&str; 4] = ["x", "y", "z", "w"];

/// Hints: they change how fast an instruction is, or what other devices see; here nothing.
const HINTS: &[&str] = &[
    "weak",
    "relaxed",
    "acquire",
    "release",
    "acq_rel",
    "sc",
    "volatile",
    "mmio",
    "cta",
    "cluster",
    "gpu",
    "sys",
    "ca",
    "cg",
    "cs",
    "lu",
    "cv",
    "wb",
    "wt",
    "nc",
    "L2::cache_hint",
    "L2::64B",
    "L2::128B",
    "L2::256B",
    "unified",
    "aligned",
    "uni",
    "noftz",
    "full",
];
/// The same, by their start.
const HINT_FAMILIES: &[&str] = &["L1::", "L2::", "level::"];

impl<'a> Site<'a> {
    pub(super) fn new(
        module: &'a Module,
        layout: &'a Layout,
        function: usize,
        inst: &'a Inst,
        row: &'static Row,
        starts: &'a [u32],
    ) -> Site<'a> {
        let mut modifiers = row.parts.clone();
        modifiers.extend(inst.slots.iter().flatten().map(|m| m.text));
        Site { module, layout, function, inst, row, starts, field: None, modifiers, asked: RefCell::default() }
    }

    /// The instruction over the real numbers.
    pub(super) fn over(self, field: Option<Field>) -> Site<'a> {
        Site { field, ..self }
    }

    // ---- modifiers ----

    /// Returns true if a modifier is there, in the name or in a slot.
    pub(super) fn is(&self, modifier: &str) -> bool {
        self.asked.borrow_mut().push(modifier.to_string());
        self.modifiers.contains(&modifier)
    }

    /// Takes note of modifiers that change nothing here, or that the decoder finds in another way.
    pub(super) fn accept(&self, modifiers: &[&str]) {
        self.asked.borrow_mut().extend(modifiers.iter().map(|m| m.to_string()));
    }

    /// The same of every modifier there is.
    pub(super) fn accept_all(&self) {
        self.accept(&self.modifiers);
    }

    /// The first of these that is there.
    pub(super) fn one_of<T: Copy>(&self, choices: &[(&str, T)]) -> Option<T> {
        let mut found = None;
        for (name, value) in choices {
            if self.is(name) && found.is_none() {
                found = Some(*value);
            }
        }
        found
    }

    /// The types among the modifiers, in order.
    pub(super) fn types(&self) -> Vec<Type> {
        self.modifiers.iter().filter_map(|m| Type::find(m)).collect()
    }

    /// A modifier that no decoder asked for and that is no hint: it would be ignored.
    pub(super) fn ignored(&self) -> Option<&'static str> {
        let asked = self.asked.borrow();
        let known = |m: &str| Type::find(m).is_some() || asked.iter().any(|a| a == m);
        let hint = |m: &str| HINTS.contains(&m) || HINT_FAMILIES.iter().any(|f| m.starts_with(f));
        let name = self.row.parts.iter().copied().find(|m| !known(m));
        name.or_else(|| self.inst.slots.iter().flatten().map(|m| m.text).find(|m| !known(m) && !hint(m)))
    }

    /// `.rn` and its like; `.rn` where none is written.
    pub(super) fn round(&self) -> Round {
        const MODES: [(&str, Round); 9] = [
            ("rn", Round::Nearest),
            ("rz", Round::Zero),
            ("rm", Round::Down),
            ("rp", Round::Up),
            ("rna", Round::Away),
            ("rni", Round::Nearest),
            ("rzi", Round::Zero),
            ("rmi", Round::Down),
            ("rpi", Round::Up),
        ];
        self.one_of(&MODES).unwrap_or(Round::Nearest)
    }

    // ---- types ----

    /// The type of the operand at this place of the row.
    pub(super) fn ty(&self, at: usize) -> Result<Type, Refusal> {
        let spec = self.row.operands.get(at).ok_or_else(|| format!("operand {at} that its form does not have"))?;
        self.type_of(spec)
    }

    fn type_of(&self, spec: &OperandSpec) -> Result<Type, Refusal> {
        match &spec.kind {
            OperandKind::Value(value) => self.resolve(&value.ty),
            OperandKind::Pair(first, _) => self.type_of(first),
            OperandKind::Group(members) => members.first().map_or(Err("an empty group".into()), |m| self.type_of(m)),
            _ => Err(format!("operand `{}` that has no type", spec.name)),
        }
    }

    fn resolve(&self, ty: &TypeOf) -> Result<Type, Refusal> {
        ty.given(&self.inst.slots).ok_or_else(|| "a slot without a type".into())
    }

    /// The type that the instruction works on: that of its first source, else of its destination.
    pub(super) fn main_type(&self) -> Option<Type> {
        let read = self.row.operands.iter().filter(|o| o.access == ptx_core::isa::Access::Read);
        read.chain(&self.row.operands).find_map(|o| self.type_of(o).ok())
    }

    // ---- operands ----

    /// The function's IR.
    pub(super) fn body(&self) -> &'a Function {
        &self.module.functions[self.function]
    }

    /// An operand.
    pub(super) fn operand(&self, at: usize) -> &'a Operand {
        self.inst.operands.get(at).unwrap_or(&Operand::Absent)
    }

    /// Returns true if an optional operand is there.
    pub(super) fn there(&self, at: usize) -> bool {
        *self.operand(at) != Operand::Absent
    }

    /// The first slot of a register.
    pub(super) fn slot(&self, register: RegId) -> Result<u32, Refusal> {
        let slots = self.layout.functions.get(self.function).map(|f| &f.slots);
        slots.and_then(|s| s.get(register.index())).copied().ok_or_else(|| "a register that is not declared".into())
    }

    /// The declared width of a register, or of one component.
    pub(super) fn width(&self, register: RegId) -> u32 {
        self.body().registers.get(register.index()).map_or(64, |r| r.ty.bits())
    }

    /// Number of components of a register: 1 unless it is declared as a vector.
    pub(super) fn vector(&self, register: RegId) -> u32 {
        self.body().registers.get(register.index()).map_or(1, |r| r.vector.max(1))
    }

    /// The operand of this name, if it is there.
    pub(super) fn named(&self, name: &str) -> Option<usize> {
        let at = self.row.operand(name)?;
        self.there(at).then_some(at)
    }

    /// A source of the type that the row gives this operand.
    pub(super) fn src(&self, at: usize) -> Result<Src, Refusal> {
        let ty = self.ty(at)?;
        self.source(self.operand(at), ty)
    }

    /// Consecutive sources.
    pub(super) fn srcs<const N: usize>(&self, first: usize) -> Result<[Src; N], Refusal> {
        let mut found = [Src::Value(0); N];
        for (i, to) in found.iter_mut().enumerate() {
            *to = self.src(first + i)?;
        }
        Ok(found)
    }

    /// An operand as a source of a type.
    pub(super) fn source(&self, operand: &Operand, ty: Type) -> Result<Src, Refusal> {
        Ok(match operand {
            Operand::Reg(register) => Src::Reg(self.slot(*register)?),
            Operand::Part(register, part) => Src::Reg(self.component(*register, part)?),
            Operand::Not(inner) => match self.source(inner, ty)? {
                Src::Reg(slot) => Src::Not(slot),
                Src::Value(value) => Src::Value(u64::from(value == 0)),
                _ => return Err("`!` on something that is no predicate".into()),
            },
            Operand::Sum(register, offset) => self.sum(*register, *offset, ty)?,
            Operand::Int(value) => Src::Value(match self.field.filter(|_| ty.class() == Class::Float) {
                Some(field) => field.encode(field.integer((*value as i64).into()), ty.bits()),
                None => literal_int(*value, ty),
            }),
            Operand::F32(bits) => Src::Value(self.float(f64::from(f32::from_bits(*bits)), Some(*bits), ty)),
            Operand::F64(bits) => Src::Value(self.float(f64::from_bits(*bits), None, ty)),
            Operand::Special(register) => Src::Special(special::read(register)?),
            Operand::Symbol(symbol, offset) | Operand::Element(Base::Symbol(symbol), offset) => {
                self.symbol(*symbol, *offset as u64)?.base
            }
            Operand::Element(..) => Src::Reg(self.element_slot()?),
            Operand::Func(id) => Src::Value(code_address(id.index())),
            Operand::Sink => Src::Value(0),
            other => return Err(format!("the operand {other:?} as a source")),
        })
    }

    /// A float literal as the bits of a type.
    fn float(&self, value: f64, single: Option<u32>, ty: Type) -> u64 {
        match self.field {
            Some(field) => field.encode(field.float(value), ty.bits().min(64)),
            None => literal_float(value, single, ty),
        }
    }

    /// `%r1+4` outside of an address: ptxas adds to an integer register before the instruction, in the operand's width.
    fn sum(&self, register: RegId, offset: i64, ty: Type) -> Result<Src, Refusal> {
        match ty.class() {
            Class::Bits | Class::Unsigned | Class::Signed if ty.bits() <= 64 => {
                Ok(Src::Sum(self.slot(register)?, ty.bits() as u8, offset.cast_unsigned()))
            }
            _ => Err(format!("a sum as an operand of type .{}", ty.name())),
        }
    }

    /// A predicate source, true where the operand is absent.
    pub(super) fn predicate(&self, at: usize) -> Result<Src, Refusal> {
        match self.operand(at) {
            Operand::Absent => Ok(Src::Value(1)),
            operand => self.source(operand, pred()?),
        }
    }

    /// A destination of the type that the row gives this operand.
    pub(super) fn dst(&self, at: usize) -> Result<Dst, Refusal> {
        let ty = self.ty(at)?;
        match self.operand(at) {
            Operand::Pair(first, _) => self.destination(first, ty),
            operand => self.destination(operand, ty),
        }
    }

    /// The second half of a pair destination (a predicate), if it is there.
    pub(super) fn second(&self, at: usize) -> Result<Option<Dst>, Refusal> {
        match self.operand(at) {
            Operand::Pair(_, second) => self.destination(second, pred()?).map(Some),
            _ => Ok(None),
        }
    }

    /// An operand as a destination: values are cut to the type's width.
    pub(super) fn destination(&self, operand: &Operand, ty: Type) -> Result<Dst, Refusal> {
        let slot = match operand {
            Operand::Reg(register) if self.width(*register) == 1 && ty.bits() > 1 => {
                return Err("a predicate as a destination of several bits".into());
            }
            Operand::Reg(register) => self.slot(*register)?,
            Operand::Part(register, part) => self.component(*register, part)?,
            Operand::Sink | Operand::Absent => self.trash(),
            other => return Err(format!("the operand {other:?} as a destination")),
        };
        Ok(Dst { slot, mask: soft::mask(ty.bits()) })
    }

    /// The slots that nobody reads.
    fn trash(&self) -> u32 {
        self.layout.functions.get(self.function).map_or(0, |f| f.registers - 2)
    }

    /// The slot of `%v.x`.
    fn component(&self, register: RegId, part: &str) -> Result<u32, Refusal> {
        let at = "xyzw".find(part).or_else(|| "rgba".find(part)).filter(|_| part.len() == 1);
        let index = at.ok_or_else(|| format!("the selector `.{part}`"))? as u32;
        if index >= self.vector(register) {
            return Err(format!("the component `.{part}`, which a vector of {} does not have", self.vector(register)));
        }
        Ok(self.slot(register)? + index * self.width(register).div_ceil(64))
    }

    /// The operand's elements: of a vector, of a vector register, or the operand alone.
    pub(super) fn elements(&self, at: usize) -> Vec<Operand> {
        match self.operand(at) {
            Operand::Vector(elements) | Operand::List(elements) => elements.clone(),
            Operand::Reg(register) => {
                let count = self.vector(*register);
                if count < 2 {
                    return vec![Operand::Reg(*register)];
                }
                COMPONENTS.iter().take(count as usize).map(|part| Operand::Part(*register, part)).collect()
            }
            Operand::Absent => Vec::new(),
            operand => vec![operand.clone()],
        }
    }

    /// The address of a symbol, in the symbol's own space.
    pub(super) fn symbol(&self, symbol: Symbol, offset: u64) -> Result<Address, Refusal> {
        let id = match symbol {
            Symbol::Func(id) => {
                let base = Src::Value(code_address(id.index()).wrapping_add(offset));
                return Ok(Address { base, offset: 0, space: Where::Generic });
            }
            Symbol::Var(id) => id,
        };
        let home = self.layout.home(id).ok_or("a variable without a place")?;
        let (base, space) = match home {
            Home::Global(index) => (Src::Global(index, offset), Where::Global),
            Home::Shared(at) => (Src::Value(at.wrapping_add(offset)), Where::Shared),
            Home::Dynamic => (Src::Dynamic(offset), Where::Shared),
            Home::Const(at) => (Src::Value(at.wrapping_add(offset)), Where::Const),
            Home::Param(at) => (Src::Value(at.wrapping_add(offset)), Where::Param),
            Home::Frame(at) => (Src::Frame(at.wrapping_add(offset)), Where::Local),
        };
        Ok(Address { base, offset: 0, space })
    }

    /// A memory operand. Where the instruction names no space, a symbol brings its own.
    pub(super) fn address(&self, at: usize, space: Where) -> Result<Address, Refusal> {
        let Operand::Memory { base, offset, .. } = self.operand(at) else {
            return Err(format!("the operand {:?} as an address", self.operand(at)));
        };
        match base {
            Base::Reg(register) => Ok(Address { base: Src::Reg(self.slot(*register)?), offset: *offset as u64, space }),
            Base::Absolute => Ok(Address { base: Src::Value(*offset as u64), offset: 0, space }),
            Base::Symbol(symbol) => self.symbol(*symbol, *offset as u64),
            Base::Element(element) => {
                let space = self.symbol(Symbol::Var(element.array), 0)?.space;
                Ok(Address { base: Src::Reg(self.element_slot()?), offset: 0, space })
            }
        }
    }

    /// The slot that holds the address of an element while its instruction runs.
    fn element_slot(&self) -> Result<u32, Refusal> {
        let sizes = self.layout.functions.get(self.function);
        sizes.map(|sizes| sizes.element).ok_or_else(|| "a function without a frame".into())
    }

    /// A step whose address is that of an element by a value that is no constant: computed in front of the step.
    pub(super) fn with_element(&self, step: Step) -> Decoded {
        let element = self.inst.operands.iter().find_map(|operand| match operand {
            Operand::Memory { base: Base::Element(element), offset, .. }
            | Operand::Element(Base::Element(element), offset) => Some((element, *offset as u32)),
            _ => None,
        });
        let Some((Element { array, index, size }, offset)) = element.map(|(element, offset)| (*element, offset)) else {
            return Ok(step);
        };
        let array = self.symbol(Symbol::Var(array), 0)?.base;
        let index = match index {
            Index::Reg(register) => Src::Reg(self.slot(register)?),
            Index::Special(register) => Src::Special(special::read(register)?),
            Index::Symbol(symbol) => self.symbol(symbol, 0)?.base,
        };
        let to = Dst { slot: self.element_slot()?, mask: u64::MAX };
        Ok(Box::new(move |ctx, group| {
            let (arrays, indices) = (ctx.fetch(array), ctx.fetch(index));
            let distance = |lane: usize| (indices[lane] as u32).wrapping_mul(size).wrapping_add(offset);
            ctx.store(to, group, |lane| arrays[lane].wrapping_add(distance(lane).into()));
            step(ctx, group)
        }))
    }

    /// The program counter of a label of this function.
    pub(super) fn target(&self, label: LabelId) -> Result<u32, Refusal> {
        let found = self.body().labels.get(label.index()).ok_or("a label that is not defined")?;
        let start = self.starts.get(self.function).copied().ok_or("a function without code")?;
        Ok(start + found.at.min(self.body().insts.len() as u32))
    }

    // ---- the common shapes of steps ----

    /// The first destination, and the sources that follow it.
    fn result_and_sources<const N: usize>(&self) -> Result<(Dst, [Src; N]), Refusal> {
        Ok((self.dst(0)?, self.srcs(1)?))
    }

    /// The unused bits of each source in 64, and whether it is signed.
    fn extensions<const N: usize>(&self) -> Result<[(u32, bool); N], Refusal> {
        let mut types = [(0, false); N];
        for (i, to) in types.iter_mut().enumerate() {
            let ty = self.ty(1 + i)?;
            *to = (64 - ty.bits().min(64), ty.class() == Class::Signed);
        }
        Ok(types)
    }

    /// `d = f(a, b, …)` on raw bits; the sources follow the destination.
    pub(super) fn map<const N: usize>(&self, f: impl Fn([u64; N]) -> u64 + Send + Sync + 'static) -> Decoded {
        let (dst, srcs) = self.result_and_sources()?;
        Ok(Box::new(move |ctx, group| Ok(apply(ctx, group, dst, srcs, &f))))
    }

    /// The same on integers: each source is extended to 64 bits by its type, the result is cut.
    pub(super) fn int<const N: usize>(&self, f: impl Fn([u64; N]) -> u64 + Send + Sync + 'static) -> Decoded {
        let types = self.extensions()?;
        self.map(move |args: [u64; N]| f(extend_all(args, &types)))
    }
}

/// The type of predicates.
fn pred() -> Result<Type, Refusal> {
    Type::find("pred").ok_or_else(|| "no type .pred".into())
}

// What does not depend on the function that is applied stands in functions of its own: there are hundreds of those, and the
// compiler would make all of it anew for each.

#[inline]
fn extend_all<const N: usize>(mut args: [u64; N], types: &[(u32, bool); N]) -> [u64; N] {
    args.iter_mut().zip(types).for_each(|(arg, ty)| *arg = extend(*arg, *ty));
    args
}

/// The values of one lane.
#[inline]
fn of_lane<const N: usize>(args: &[[u64; 32]; N], lane: usize) -> [u64; N] {
    std::array::from_fn(|i| args[i][lane])
}

fn extend(value: u64, (unused, signed): (u32, bool)) -> u64 {
    if signed { ((value << unused) as i64 >> unused) as u64 } else { value << unused >> unused }
}

/// Runs a pure function over the lanes.
#[inline]
pub(super) fn apply<const N: usize>(
    ctx: &mut Ctx,
    group: u32,
    dst: Dst,
    srcs: [Src; N],
    f: &impl Fn([u64; N]) -> u64,
) -> Flow {
    let mut args = [[0; 32]; N];
    let args = ctx.fetch_all(srcs, &mut args);
    ctx.store(dst, group, |lane| f(of_lane(args, lane)));
    Flow::Next
}

/// An integer literal as the bits of a type.
fn literal_int(value: u64, ty: Type) -> u64 {
    match soft::format(ty.name()) {
        Some(format) if ty.class() == Class::Float => {
            soft::pack(soft::Num::int(i128::from(value as i64)), format, Round::Nearest, false)
        }
        _ if ty.class() == Class::Pred => u64::from(value != 0),
        _ => value & soft::mask(ty.bits()),
    }
}

/// A float literal as the bits of a type: untyped bits of 32 take it as `f32`.
fn literal_float(value: f64, single: Option<u32>, ty: Type) -> u64 {
    match (soft::format(ty.name()), single) {
        (Some(format), Some(bits)) if *format == soft::F32 => u64::from(bits),
        (Some(format), None) if *format == soft::F64 => value.to_bits(),
        // ptxas takes the digits of `0f…` as they are, not the number.
        (Some(format), Some(bits)) if *format == soft::F64 => u64::from(bits),
        (Some(format), _) => soft::pack(soft::unpack(value.to_bits(), &soft::F64), format, Round::Nearest, false),
        (None, Some(bits)) if ty.bits() <= 32 => u64::from(bits),
        (None, None) if ty.bits() <= 32 => u64::from((value as f32).to_bits()),
        (None, _) => value.to_bits(),
    }
}
