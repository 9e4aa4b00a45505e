//! One instruction: its operands and their types.

use ptx_core::ir::{Function, Inst, Operand};
use ptx_core::isa::{Class, OperandKind, OperandSpec, Row, Type};

/// An instruction with its form.
#[derive(Clone, Copy)]
pub(crate) struct Site<'m> {
    pub(crate) function: &'m Function,
    pub(crate) inst: &'m Inst,
    pub(crate) row: &'static Row,
}

impl<'m> Site<'m> {
    pub(crate) fn operand(&self, at: usize) -> &'m Operand {
        self.inst.operands.get(at).unwrap_or(&Operand::Absent)
    }

    /// Returns true if a modifier is there, in the name or in a slot.
    pub(crate) fn is(&self, modifier: &str) -> bool {
        self.row.parts.contains(&modifier) || self.inst.has(modifier)
    }

    /// All modifiers, those of the name first.
    pub(crate) fn modifiers(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.row.parts.iter().copied().chain(self.inst.slots.iter().flatten().map(|member| member.text))
    }

    /// The first of these modifiers that is there.
    pub(crate) fn one_of<T: Copy>(&self, choices: &[(&str, T)]) -> Option<T> {
        choices.iter().find(|(name, _)| self.is(name)).map(|(_, value)| *value)
    }

    /// The type of the operand at this place.
    pub(crate) fn ty(&self, at: usize) -> Option<Type> {
        self.type_of(self.row.operands.get(at)?)
    }

    fn type_of(&self, spec: &OperandSpec) -> Option<Type> {
        match &spec.kind {
            OperandKind::Value(value) => value.ty.given(&self.inst.slots),
            OperandKind::Pair(first, _) => self.type_of(first),
            _ => None,
        }
    }

    /// The last type among the modifiers: that of an element of an access.
    pub(crate) fn last_type(&self) -> Option<Type> {
        self.modifiers().filter_map(Type::find).last()
    }

    /// The declared width of a register.
    pub(crate) fn width(&self, operand: &Operand) -> u32 {
        match operand {
            Operand::Reg(register) | Operand::Part(register, _) | Operand::Sum(register, _) => {
                self.function.registers.get(register.index()).map_or(64, |register| register.ty.bits())
            }
            _ => 64,
        }
    }
}

/// Bits and sign of an integer type of at most 64 bits.
pub(crate) fn integer(ty: Type) -> Option<(u32, bool)> {
    match ty.class() {
        Class::Bits | Class::Unsigned if ty.bits() <= 64 => Some((ty.bits(), false)),
        Class::Signed if ty.bits() <= 64 => Some((ty.bits(), true)),
        _ => None,
    }
}
