//! Operands against a form: which written operand is which of the row's, and whether each fits the row.

mod address;
mod vector;

use crate::diag::plural;
use crate::ir::{Base, Element, Module, Operand, Param, Register, Symbol, VarId};
use crate::isa::find::Form;
use crate::isa::{Access, Class, Count, OperandKind, OperandSpec, Range, SpecialRegister, Type, TypeOf, Value};
use address::Holders;
use std::borrow::Cow;

/// Why operands do not fit.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Why {
    /// Another number of operands.
    Count,
    /// Not this kind of operand: an address where a register stands, a vector of another width.
    Shape(Cow<'static, str>),
    /// A register of the wrong class or width: what it is, what is wanted.
    Class { found: &'static str, wanted: Type },
    /// A register that does not go with the one before it in a vector: what each is.
    Beside { found: &'static str, before: &'static str },
    /// A literal where only a register may stand, or of the wrong kind.
    Literal(Type),
    /// A literal out of range.
    Range(Range),
    /// A variable of another space than the instruction's.
    Space(&'static str),
}

/// The first operand (as written) that does not fit, and why.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mismatch {
    pub(super) operand: usize,
    pub(super) why: Why,
}

/// Environment in which operands are resolved.
#[derive(Clone, Copy)]
pub(super) struct Binder<'a> {
    pub(super) form: &'a Form,
    pub(super) registers: &'a [Register],
    pub(super) module: &'a Module,
    /// The parameters of the entry it stands in; as the variables below in the order of their numbers, since later declarations have later ones.
    pub(super) entry_params: &'a [Param],
    /// The variables that the function's body has declared so far.
    pub(super) locals: &'a [VarId],
}

type Fit = Result<(), Why>;

/// Operands as the IR has them, borrowed where they are what is written, and what the rules say of them.
type Bound<'w, E> = (Cow<'w, [Operand]>, Result<(), E>);

impl Binder<'_> {
    /// The operands in the order of the row's, absent ones filled in, and what the row's rules say of them; or the mismatch
    /// of the choice of optional operands that came furthest. Of several choices, one that the rules allow.
    pub(super) fn bind<'w, E>(
        &self,
        written: &'w [Operand],
        rules: impl Fn(&[Operand]) -> Result<(), E>,
    ) -> Result<Bound<'w, E>, Mismatch> {
        self.choose(&self.form.row.operands, written, rules)
    }

    fn choose<'w, E>(
        &self,
        specs: &[OperandSpec],
        written: &'w [Operand],
        rules: impl Fn(&[Operand]) -> Result<(), E>,
    ) -> Result<Bound<'w, E>, Mismatch> {
        let mut fallback = None;
        let groups = specs.iter().map(|s| s.group).max().unwrap_or(0).min(8);
        let mut best = Mismatch { operand: 0, why: Why::Count };
        for chosen in 0u32..1 << groups {
            let present = |s: &OperandSpec| s.group == 0 || chosen >> (s.group - 1) & 1 == 1;
            if specs.iter().filter(|s| present(s)).count() != written.len() {
                continue;
            }
            match self.bind_present(specs, present, written) {
                Ok(bound) => match rules(&bound) {
                    Ok(()) => return Ok((bound, Ok(()))),
                    broken => fallback = fallback.or(Some((bound, broken))),
                },
                Err(miss) if miss.operand >= best.operand => best = miss,
                Err(_) => {}
            }
        }
        fallback.ok_or(best)
    }

    fn bind_present<'w>(
        &self,
        specs: &[OperandSpec],
        present: impl Fn(&OperandSpec) -> bool,
        written: &'w [Operand],
    ) -> Result<Cow<'w, [Operand]>, Mismatch> {
        let mut made: Option<Vec<Operand>> = None;
        let mut next = 0;
        for spec in specs {
            let operand = present(spec).then(|| written.get(next)).flatten();
            let other = match operand {
                Some(operand) => self.fitted(spec, operand).map_err(|why| Mismatch { operand: next, why })?,
                None => Some(Operand::Absent),
            };
            match (&mut made, other) {
                (None, None) => {}
                (None, Some(other)) => made = Some(written[..next].iter().cloned().chain([other]).collect()),
                (Some(made), other) => made.extend(other.or_else(|| operand.cloned())),
            }
            next += usize::from(operand.is_some());
        }
        Ok(made.map_or(Cow::Borrowed(written), Cow::Owned))
    }

    /// The operand as the IR has it, if that is not how it is written: in brackets, too, absent ones are filled in.
    fn fitted(&self, spec: &OperandSpec, operand: &Operand) -> Result<Option<Operand>, Why> {
        match (&spec.kind, operand) {
            (
                OperandKind::Memory { space, rest, narrow, short, handles, .. },
                Operand::Memory { base, offset, rest: written },
            ) => {
                let holders = Holders { narrow: *narrow, short: *short, handles: *handles };
                self.base(space, holders, *base, *offset)?;
                if written.iter().any(Operand::is_literal) {
                    return Err(Why::Shape("a register or a vector in braces".into()));
                }
                if *offset != 0 && !written.is_empty() {
                    return Err(Why::Shape("an address without an offset before a comma".into()));
                }
                let filled = |list: Vec<Operand>| Operand::Memory {
                    base: *base,
                    offset: *offset,
                    rest: list.into_iter().collect(),
                };
                Ok(made(self.inside(rest, written)?).map(filled))
            }
            (OperandKind::Memory { bare: true, .. }, Operand::Reg(_) | Operand::Sum(..) | Operand::Symbol(..)) => {
                let Some(address) = in_brackets(operand) else { return Ok(None) };
                Ok(self.fitted(spec, &address)?.or(Some(address)))
            }
            (OperandKind::Memory { element: true, .. }, Operand::Element(base, offset)) => {
                let address = Operand::Memory { base: *base, offset: *offset, rest: Default::default() };
                Ok(self.fitted(spec, &address)?.or(Some(address)))
            }
            // The braces around one register mean nothing.
            (OperandKind::Value(Value { count: Some(count), .. }), Operand::Vector(elements)) if count.is_one() => {
                self.fit(spec, operand)?;
                Ok(elements.first().cloned())
            }
            (OperandKind::Value(_), Operand::List(list)) if list.len() == 1 && list[0].is_literal() => {
                Ok(self.fitted(spec, &list[0])?.or_else(|| list.first().cloned()))
            }
            (OperandKind::Memory { unified: true, .. }, Operand::Unified(inner)) => match **inner {
                Operand::Memory { base: Base::Symbol(_) | Base::Element(_), .. } => {
                    Err(Why::Shape("an address in a register before `.unified`".into()))
                }
                _ => Ok(self.fitted(spec, inner)?.or_else(|| Some(inner.as_ref().clone()))),
            },
            _ => self.fit(spec, operand).map(|()| None),
        }
    }

    fn fit(&self, spec: &OperandSpec, operand: &Operand) -> Fit {
        if *operand == Operand::Error {
            return Ok(());
        }
        match (&spec.kind, operand) {
            (OperandKind::Value(value), Operand::Func(_)) if spec.access == Access::Read && is_typed(value) => Ok(()),
            (OperandKind::Value(value), _) => self.value(value, spec.access, operand),
            (OperandKind::Pair(..), Operand::Pair(x, y)) if [x, y].iter().all(|o| ***o == Operand::Sink) => {
                Err(Why::Shape("a register in one half of the pair".into()))
            }
            (OperandKind::Pair(a, b), Operand::Pair(x, y)) => self.fit(a, x).and_then(|()| self.fit(b, y)),
            (OperandKind::Pair(a, b), _) if b.group != 0 => self.fit(a, operand),
            (OperandKind::Group(specs), Operand::Vector(written)) => self.group(specs, written),
            (OperandKind::Label, Operand::Label(_))
            | (OperandKind::Func, Operand::Func(_))
            | (OperandKind::List, Operand::List(_))
            | (OperandKind::Branches, Operand::Targets(_))
            | (OperandKind::Callees, Operand::Targets(_) | Operand::Proto(_)) => Ok(()),
            (OperandKind::Symbol(_), Operand::Symbol(Symbol::Var(var), 0)) if self.is_argument(*var) => {
                Err(Why::Shape("a variable with an address".into()))
            }
            (OperandKind::Symbol(space), Operand::Symbol(Symbol::Var(var), _)) => self.variable(space, *var),
            (
                OperandKind::Symbol(space),
                Operand::Element(Base::Element(Element { array: var, .. }) | Base::Symbol(Symbol::Var(var)), _),
            ) => self.variable(space, *var),
            (OperandKind::Symbol(space), Operand::Func(_)) => self.function(space),
            (OperandKind::Callee, Operand::Reg(reg)) if self.vector_of(reg.index()) == 1 => {
                let holds = |ty: &str| self.register(Type::find(ty), false, reg.index());
                holds("u64").or_else(|_| holds("i32"))
            }
            (kind, _) => Err(Why::Shape(wanted_shape(kind).into())),
        }
    }

    /// Operands in brackets after an address, or in a group.
    fn inside<'w>(&self, specs: &[OperandSpec], written: &'w [Operand]) -> Result<Cow<'w, [Operand]>, Why> {
        let all = |_: &[Operand]| Ok::<(), ()>(());
        self.choose(specs, written, all).map(|(bound, _)| bound).map_err(|miss| match miss.why {
            Why::Count => {
                let required = specs.iter().filter(|s| s.group == 0).count();
                Why::Shape(format!("{} in brackets or braces", plural(required, "operand")).into())
            }
            why => why,
        })
    }

    fn value(&self, value: &Value, access: Access, operand: &Operand) -> Fit {
        let Some(count) = &value.count else { return self.scalar(value, access, operand) };
        let number = self.number(count);
        match operand {
            Operand::Vector(elements) if count.takes(number, elements.len()) => self.elements(value, access, elements),
            Operand::Vector(elements) => {
                let wanted = plural(number as usize, "element");
                Err(Why::Shape(format!("a vector of {wanted} (this one has {})", elements.len()).into()))
            }
            Operand::Reg(reg) if number > 1 && self.vector_of(reg.index()) == number => {
                self.register(self.type_of(&value.ty), value.wider, reg.index())
            }
            Operand::Reg(reg) if number == 1 && self.vector_of(reg.index()) > 1 && vector::is_regrouped(value) => {
                match (self.registers.get(reg.index()), self.type_of(&value.ty)) {
                    (Some(register), Some(wanted)) => vector::regrouped(register.ty, register.vector, wanted),
                    _ => Ok(()),
                }
            }
            Operand::Special(special) if value.special && special.vector && number == 4 => {
                special_fits(special, self.type_of(&value.ty), value.wider)
            }
            Operand::Sink if number == 1 => Err(Why::Shape("a register".into())),
            _ if (number == 1 || count.most.is_some()) && !count.braces => self.scalar(value, access, operand),
            _ => Err(Why::Shape(format!("a vector of {} in braces", plural(number as usize, "element")).into())),
        }
    }

    fn number(&self, count: &Count) -> u32 {
        let member = count.slot.and_then(|s| self.form.slots.get(s).copied().flatten());
        (member.map_or(1, |m| m.number) * count.times).div_ceil(count.over).saturating_sub(count.minus)
    }

    fn scalar(&self, value: &Value, access: Access, operand: &Operand) -> Fit {
        let ty = self.type_of(&value.ty);
        match operand {
            Operand::Error => Ok(()),
            Operand::Sink if value.sink => Ok(()),
            Operand::Symbol(Symbol::Var(var), 0) if ty.is_some_and(|t| t.class() == Class::Opaque) => {
                if ty.is_some_and(|ty| self.is_one_handle(*var, ty)) {
                    Ok(())
                } else {
                    Err(Why::Shape("a register with a handle".into()))
                }
            }
            Operand::Not(inner) if value.negatable && is_predicate(ty) => match **inner {
                Operand::Reg(reg) if self.is_packed(reg.index()) => Err(Why::Shape("a predicate behind `!`".into())),
                _ => self.scalar(value, access, inner),
            },
            Operand::Neg(inner) if value.negatable && !is_predicate(ty) => match **inner {
                Operand::Reg(reg) | Operand::Part(reg, _) if self.is_packed(reg.index()) => {
                    Err(Why::Shape("a register that holds one number".into()))
                }
                _ => self.scalar(value, access, inner),
            },
            Operand::Reg(reg) if value.register => {
                if self.vector_of(reg.index()) != 1 {
                    return Err(Why::Shape("a scalar register".into()));
                }
                if is_predicate(ty) && matches!(value.ty, TypeOf::Slot(_)) && self.is_packed(reg.index()) {
                    return Ok(());
                }
                self.register(ty, value.wider, reg.index())
            }
            Operand::Sum(reg, _) if takes_sums(value, access, ty) && self.converts(ty, reg.index()) => Ok(()),
            Operand::Sum(reg, _) if takes_sums(value, access, ty) => self.scalar(value, access, &Operand::Reg(*reg)),
            Operand::Symbol(Symbol::Var(_), offset) if *offset != 0 && takes_addresses(value, access, ty) => Ok(()),
            Operand::Part(reg, selector) if value.register => self.part(value, access, reg.index(), selector),
            Operand::Special(special) if value.special && access == Access::Read => match special.vector {
                false => special_fits(special, ty, value.wider),
                true => Err(Why::Shape("one component of the special register, such as `.x`".into())),
            },
            Operand::Int(bits) if value.literal => literal_int(value, ty, *bits),
            Operand::F32(_) if value.literal => literal_float(ty, 32),
            Operand::F64(_) if value.literal => literal_float(ty, 64),
            Operand::F32(_) if access == Access::Read && is_held_alone(value) => Ok(()),
            Operand::Int(_) | Operand::F32(_) | Operand::F64(_) => Err(Why::Shape("a register".into())),
            _ => Err(Why::Shape(if value.register { "a register" } else { "a constant" }.into())),
        }
    }

    fn part(&self, value: &Value, access: Access, reg: usize, selector: &str) -> Fit {
        let elements = self.vector_of(reg);
        let component = has_component(4, selector) && value.selectors.is_empty();
        let fits = match elements {
            1 => value.selectors.iter().any(|m| m.text == selector),
            _ => component && (has_component(elements, selector) || self.reaches_behind(value, access)),
        };
        match fits {
            true => self.register(self.type_of(&value.ty), value.wider, reg),
            false => Err(Why::Shape(format!("an operand without `.{selector}`").into())),
        }
    }

    /// Returns true if ptxas takes `%v.z` of a register with two elements. It crashes on it in copies and where nothing is written.
    fn reaches_behind(&self, value: &Value, access: Access) -> bool {
        let writes = |spec: &OperandSpec| spec.access != Access::Read;
        access == Access::Write || !value.special && self.form.row.operands.iter().any(writes)
    }

    /// Returns true if ptxas converts a register of a sum, because its width is not that of the type that a modifier
    /// names.
    fn converts(&self, wanted: Option<Type>, reg: usize) -> bool {
        let (Some(wanted), Some(register)) = (wanted, self.registers.get(reg)) else { return false };
        let named = self.form.slots.iter().flatten().any(|member| member.ty == Some(wanted));
        let integer = |ty: Type| matches!(ty.class(), Class::Bits | Class::Unsigned | Class::Signed);
        let fits = register.ty.class() == Class::Bits || integer(register.ty) && integer(wanted);
        named && fits && register.ty.bits() != wanted.bits() && register.vector == 1
    }

    fn is_packed(&self, reg: usize) -> bool {
        self.registers.get(reg).is_some_and(|r| r.ty.class() == Class::Packed)
    }

    fn vector_of(&self, reg: usize) -> u32 {
        self.registers.get(reg).map_or(1, |r| r.vector)
    }

    fn register(&self, wanted: Option<Type>, wider: bool, reg: usize) -> Fit {
        match (wanted, self.registers.get(reg)) {
            (Some(wanted), Some(register)) => declared(register.ty, Some(wanted), wider),
            _ => Ok(()),
        }
    }

    fn type_of(&self, ty: &TypeOf) -> Option<Type> {
        ty.given(&self.form.slots)
    }
}

/// Returns true if a register with so many elements has this component.
pub(super) fn has_component(elements: u32, selector: &str) -> bool {
    "xyzw".find(selector).is_some_and(|at| (at as u32) < elements)
}

/// An address written without its brackets.
fn in_brackets(operand: &Operand) -> Option<Operand> {
    let (base, offset) = match operand {
        Operand::Reg(reg) => (Base::Reg(*reg), 0),
        Operand::Sum(reg, offset) => (Base::Reg(*reg), *offset),
        Operand::Symbol(symbol, offset) => (Base::Symbol(*symbol), *offset),
        _ => return None,
    };
    Some(Operand::Memory { base, offset, rest: Default::default() })
}

/// The operands, if any differs from the source.
pub(super) fn made(bound: Cow<[Operand]>) -> Option<Vec<Operand>> {
    match bound {
        Cow::Borrowed(_) => None,
        Cow::Owned(made) => Some(made),
    }
}

/// Returns true if the operand is of a type that a modifier names, and of no other: then ptxas takes the name of a
/// function. `mov` has a form for that.
fn is_typed(value: &Value) -> bool {
    value.register && value.literal && !value.special && !value.wider && !matches!(value.ty, TypeOf::Fixed(_))
}

/// Returns true if ptxas takes `%r1+4`: where a number is read that a literal could be.
fn takes_sums(value: &Value, access: Access, ty: Option<Type>) -> bool {
    let plain = value.register && value.literal && value.selectors.is_empty();
    plain && access == Access::Read && !is_predicate(ty)
}

/// Returns true if ptxas takes `s+4`, an integer.
fn takes_addresses(value: &Value, access: Access, ty: Option<Type>) -> bool {
    let integer = |t: Type| matches!(t.class(), Class::Bits | Class::Unsigned | Class::Signed);
    !value.address && takes_sums(value, access, ty) && ty.is_none_or(integer)
}

/// Returns true if only a register may hold it, of 32 bits that are no integer: then ptxas takes `0f3F800000` for
/// one.
fn is_held_alone(value: &Value) -> bool {
    value.register && !value.literal && matches!(value.ty, TypeOf::Fixed(ty) if matches!(ty.name(), "b32" | "f32"))
}

fn is_predicate(ty: Option<Type>) -> bool {
    ty.is_some_and(|t| t.class() == Class::Pred)
}

/// Checks that a register declared as `found` may hold a value of type `wanted`.
fn declared(found: Type, wanted: Option<Type>, wider: bool) -> Fit {
    let Some(wanted) = wanted else { return Ok(()) };
    let same = wanted.held_by(found);
    let wide = wider && found.bits() > wanted.bits() && widens(found.class(), wanted.class());
    if same || wide { Ok(()) } else { Err(Why::Class { found: found.name(), wanted }) }
}

fn special_fits(special: &SpecialRegister, wanted: Option<Type>, wider: bool) -> Fit {
    if wanted.is_some_and(|w| w.class() == Class::Float) {
        return Err(Why::Shape("a register".into()));
    }
    let now = declared(special.ty, wanted, wider);
    if special.earlier.iter().any(|t| declared(*t, wanted, false).is_ok()) { Ok(()) } else { now }
}

/// Untyped bits hold everything and are held by everything; integers (of which ptxas thinks `.f16x2` is one) hold integers.
fn widens(found: Class, wanted: Class) -> bool {
    let integer = |c: Class| matches!(c, Class::Unsigned | Class::Signed);
    match (found, wanted) {
        (Class::Pred | Class::Opaque, _) => false,
        (Class::Bits, _) | (_, Class::Bits) => true,
        (found, wanted) => integer(wanted) && (integer(found) || found == Class::Packed),
    }
}

fn literal_int(value: &Value, ty: Option<Type>, bits: u64) -> Fit {
    match (ty, value.range) {
        (Some(ty), _) if !ty.info().takes_int => Err(Why::Literal(ty)),
        (_, Some(range)) if !range.contains(bits.cast_signed()) => Err(Why::Range(range)),
        _ => Ok(()),
    }
}

/// Floating-point operands take both widths of literal, untyped ones their own.
fn literal_float(ty: Option<Type>, bits: u32) -> Fit {
    match ty {
        Some(ty) if !ty.info().takes_float => Err(Why::Literal(ty)),
        Some(ty) if ty.class() == Class::Bits && ty.bits() != bits => Err(Why::Literal(ty)),
        _ => Ok(()),
    }
}

fn wanted_shape(kind: &OperandKind) -> &'static str {
    match kind {
        OperandKind::Memory { .. } => "an address in brackets",
        OperandKind::Pair(..) => "a pair `a|b`",
        OperandKind::Group(_) => "a group in braces",
        OperandKind::Label => "a label",
        OperandKind::Func => "the name of a function",
        OperandKind::Callee => "a register with the address of a function",
        OperandKind::List => "a list in parentheses",
        OperandKind::Branches => "the label of a `.branchtargets`",
        OperandKind::Callees => "the label of a `.calltargets` or `.callprototype`",
        OperandKind::Symbol(_) => "the name of a variable or function",
        OperandKind::Value(_) => "a register",
    }
}
