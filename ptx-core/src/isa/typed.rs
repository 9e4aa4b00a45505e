//! The types of operands, which follow from the modifiers of a form.

use super::{Member, Type};

/// The type of an operand, before a form's modifiers are known.
#[derive(Clone, Debug, PartialEq)]
pub enum TypeOf {
    /// A type of the table.
    Fixed(Type),
    /// The type that stands in this slot.
    Slot(usize),
    /// Made from the type in a slot: `wide(type)`.
    Made(Shift, usize),
}

/// Derivation of one type from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shift {
    /// The same class, twice as wide (`mul.wide`).
    Wide,
    /// `.b` of the same width.
    Bits,
    /// `.s` of the same width.
    Signed,
    /// `.u` of the same width.
    Unsigned,
}

impl TypeOf {
    /// The type, given what stands in a form's slots; `None` if the slot is empty or holds no type.
    pub fn given(&self, slots: &[Option<&Member>]) -> Option<Type> {
        let slot = |at: usize| slots.get(at).copied().flatten()?.ty;
        match self {
            TypeOf::Fixed(ty) => Some(*ty),
            TypeOf::Slot(at) => slot(*at),
            TypeOf::Made(shift, at) => shift.of(slot(*at)?),
        }
    }
}

impl Shift {
    /// The derived type.
    pub fn of(self, ty: Type) -> Option<Type> {
        let (class, bits) = match self {
            Shift::Wide => (ty.name().trim_end_matches(|c: char| c.is_ascii_digit()), ty.bits() * 2),
            Shift::Bits => ("b", ty.bits()),
            Shift::Signed => ("s", ty.bits()),
            Shift::Unsigned => ("u", ty.bits()),
        };
        Type::find(&format!("{class}{bits}"))
    }
}
