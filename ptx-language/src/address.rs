//! Addresses: a register or a variable with a constant behind it, whose state space and element are known.

use super::types::{AddressTy, Ty};
use std::rc::Rc;

/// The part of an address that no constant is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Base {
    /// A register, with its `%`.
    Register(String),
    /// A variable.
    Variable(String),
}

/// The distance from one row of a tile to the next, in elements.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Pitch {
    /// Known.
    Const(u64),
    /// The dimension of a tile: the parameter of this index.
    Param(usize),
}

/// An address.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Address {
    /// The register or the variable.
    pub(crate) base: Base,
    /// The bytes that are added.
    pub(crate) offset: i64,
    /// Its type.
    pub(crate) ty: Rc<AddressTy>,
    /// The distance of its rows, if it is a tile's.
    pub(crate) pitch: Option<Pitch>,
}

impl Address {
    /// The address in a register.
    pub(crate) fn register(name: String, ty: Rc<AddressTy>) -> Address {
        Address { base: Base::Register(name), offset: 0, ty, pitch: None }
    }

    /// The address of a variable.
    pub(crate) fn variable(name: String, ty: Rc<AddressTy>) -> Address {
        Address { base: Base::Variable(name), offset: 0, ty, pitch: None }
    }

    /// Its name as an operand: `%x`, `%x+12`, `tile`.
    pub(crate) fn text(&self) -> String {
        let (Base::Register(name) | Base::Variable(name)) = &self.base;
        match self.offset {
            0 => name.clone(),
            offset => format!("{name}{offset:+}"),
        }
    }

    /// The modifiers of an instruction on it: `shared.f32`.
    pub(crate) fn kind(&self) -> String {
        let element = self.ty.element.innermost().scalar().map_or_else(|| "b32".to_owned(), super::types::stored);
        format!("{}.{element}", self.ty.space.ptx())
    }

    /// The type of a register that holds one element: `f32`.
    pub(crate) fn register_name(&self) -> String {
        self.ty.element.innermost().scalar().map_or_else(|| "b32".to_owned(), super::types::name)
    }

    /// The register that is this address, if one is.
    pub(crate) fn in_register(&self) -> Option<&str> {
        match &self.base {
            Base::Register(name) if self.offset == 0 => Some(name),
            _ => None,
        }
    }

    /// The same, with another type.
    pub(crate) fn of(self, ty: AddressTy) -> Address {
        Address { ty: Rc::new(ty), pitch: None, ..self }
    }

    /// So many bytes further on; `None` on overflow.
    pub(crate) fn plus(mut self, bytes: i128) -> Option<Address> {
        self.offset = i64::try_from(i128::from(self.offset) + bytes).ok()?;
        Some(self)
    }

    /// The address of a field of the struct that it points to.
    pub(crate) fn field(&self, name: &str) -> Option<Address> {
        let Ty::Struct(of) = &self.ty.element else { return None };
        let at = of.field(name)?;
        let (_, element) = of.fields.get(at)?;
        let (_, offset) = *of.memory.as_ref()?.own.get(at)?;
        let ty = AddressTy { element: element.clone(), ..(*self.ty).clone() };
        self.clone().of(ty).plus(i128::from(offset))
    }
}
