//! Value of an expression: registers, constants, addresses.

use super::address::{Address, Base};
use super::types::{Const, StructTy, Ty};
use ptx_core::isa::Type;
use std::rc::Rc;

/// A register.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reg {
    /// With its `%`.
    pub(crate) name: String,
    /// Its type in the language.
    pub(crate) ty: Type,
}

/// Registers `%base<start>` and on, seen as an array.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Array {
    /// With its `%`.
    pub(crate) base: String,
    /// The number of the first register.
    pub(crate) start: u64,
    /// Type of an element.
    pub(crate) element: Ty,
    /// Number of elements.
    pub(crate) len: u64,
}

/// The value of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// A register.
    Reg(Reg),
    /// Several.
    Array(Array),
    /// A constant.
    Const(Const),
    /// Several values.
    Tuple(Vec<Value>),
    /// A struct: the values of its fields, in the order of the declaration.
    Struct(Rc<StructTy>, Vec<Value>),
    /// An array whose elements are no consecutive registers: of structs, of tuples.
    List(Ty, Vec<Value>),
    /// An address.
    Address(Address),
    /// An error that has been reported.
    Error,
}

impl Value {
    /// `()`
    pub(crate) fn unit() -> Value {
        Value::Tuple(Vec::new())
    }

    /// Its type, unless it is a bare literal.
    pub(crate) fn ty(&self) -> Option<Ty> {
        match self {
            Value::Reg(reg) => Some(Ty::Scalar(reg.ty)),
            Value::Array(array) => Some(Ty::Array(Box::new(array.element.clone()), array.len)),
            Value::Const(value) => value.ty(),
            Value::Tuple(parts) => parts.iter().map(Value::ty).collect::<Option<_>>().map(Ty::Tuple),
            Value::Struct(ty, _) => Some(Ty::Struct(Rc::clone(ty))),
            Value::List(element, items) => Some(Ty::Array(Box::new(element.clone()), items.len() as u64)),
            Value::Address(address) => Some(Ty::Address(Rc::clone(&address.ty))),
            Value::Error => None,
        }
    }

    /// Returns true if helpers see it although it is declared outside of them: a constant, a variable in memory.
    pub(crate) fn is_anywhere(&self) -> bool {
        match self {
            Value::Const(_) | Value::Error => true,
            Value::Address(address) => matches!(address.base, Base::Variable(_)),
            _ => false,
        }
    }

    /// Its name in messages.
    pub(crate) fn describe(&self) -> String {
        match (self, self.ty()) {
            (Value::Const(value), _) => value.describe(),
            (_, Some(ty)) => format!("`{}`", ty.name()),
            _ => "this".into(),
        }
    }
}

/// The parts of a value that has parts.
pub(crate) fn parts(value: &Value) -> Option<Vec<Value>> {
    match value {
        Value::Tuple(parts) | Value::Struct(_, parts) | Value::List(_, parts) => Some(parts.clone()),
        Value::Array(array) => Some((0..array.len).map(|at| array.at(at)).collect()),
        Value::Const(Const::Array(items) | Const::Tuple(items) | Const::Struct(_, items)) => {
            Some(items.iter().cloned().map(Value::Const).collect())
        }
        _ => None,
    }
}

/// Number of parts of a value that has parts.
pub(crate) fn count_parts(value: &Value) -> usize {
    match value {
        Value::Tuple(parts) | Value::Struct(_, parts) | Value::List(_, parts) => parts.len(),
        Value::Array(array) => usize::try_from(array.len).unwrap_or(usize::MAX),
        Value::Const(Const::Array(items) | Const::Tuple(items) | Const::Struct(_, items)) => items.len(),
        _ => 0,
    }
}

/// One of the [`parts`] of a value.
pub(crate) fn part(value: &Value, at: usize) -> Option<Value> {
    match value {
        Value::Tuple(parts) | Value::Struct(_, parts) | Value::List(_, parts) => parts.get(at).cloned(),
        Value::Array(array) => (at < count_parts(value)).then(|| array.at(at as u64)),
        Value::Const(Const::Array(items) | Const::Tuple(items) | Const::Struct(_, items)) => {
            items.get(at).cloned().map(Value::Const)
        }
        _ => None,
    }
}

impl Value {
    /// The field of a struct or the part of a tuple that has this name; of an address, that of the field.
    pub(crate) fn field(&self, name: &str) -> Option<Value> {
        let at = match self {
            Value::Address(address) => return address.field(name).map(Value::Address),
            Value::Struct(ty, _) | Value::Const(Const::Struct(ty, _)) => ty.field(name)?,
            Value::Tuple(_) | Value::Const(Const::Tuple(_)) => name.parse().ok()?,
            _ => return None,
        };
        part(self, at)
    }
}

impl Array {
    /// The element of this number.
    pub(crate) fn at(&self, index: u64) -> Value {
        let start = self.start + index * self.element.registers();
        match &self.element {
            Ty::Scalar(ty) => Value::Reg(Reg { name: format!("{}{start}", self.base), ty: *ty }),
            Ty::Array(element, len) => {
                Value::Array(Array { base: self.base.clone(), start, element: (**element).clone(), len: *len })
            }
            Ty::Tuple(_) | Ty::Struct(_) | Ty::Address(_) => Value::Error,
        }
    }

    /// The names of the registers of elements `from..to`.
    pub(crate) fn names(&self, from: u64, to: u64) -> Vec<String> {
        let each = self.element.registers();
        (self.start + from * each..self.start + to * each).map(|n| format!("{}{n}", self.base)).collect()
    }
}
