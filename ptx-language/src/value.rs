//! Value of an expression: registers, constants, addresses.

use super::address::{Address, Base};
use super::types::{self, StructTy, Ty};
use ptx_core::isa::{Arch, Type};
use std::rc::Rc;

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Const {
    /// An integer, and its type unless it is a bare literal that adopts one.
    Int(i128, Option<Type>),
    /// A float, likewise.
    Float(f64, Option<Type>),
    /// `true`
    Bool(bool),
    /// `"m64n256k16"`
    Str(String),
    /// `[1, 2]`
    Array(Vec<Const>),
    /// `(1, 2)`
    Tuple(Vec<Const>),
    /// `Config { stages: 4 }`: its fields in the order of the declaration.
    Struct(Rc<StructTy>, Vec<Const>),
    /// `arch`, `sm_90a`
    Arch(Arch),
}

impl Const {
    /// Its name in messages.
    pub(crate) fn describe(&self) -> String {
        match self {
            Const::Int(_, None) => "an integer".into(),
            Const::Float(_, None) => "a float".into(),
            Const::Int(_, Some(ty)) | Const::Float(_, Some(ty)) => format!("`{}`", types::name(*ty)),
            Const::Bool(_) => "`bool`".into(),
            Const::Str(_) => "a string".into(),
            Const::Array(items) => match self.ty() {
                Some(ty) => format!("`{}`", ty.name()),
                None => format!("an array of {}", items.len()),
            },
            Const::Tuple(_) => "a tuple".into(),
            Const::Struct(ty, _) => format!("`{}`", ty.name),
            Const::Arch(_) => "a target".into(),
        }
    }

    /// Its scalar type, if it has one.
    pub(crate) fn scalar(&self) -> Option<Type> {
        match self {
            Const::Int(_, ty) | Const::Float(_, ty) => *ty,
            Const::Bool(_) => Type::find("pred"),
            _ => None,
        }
    }

    /// Its type, unless it is a bare literal or a list of them.
    pub(crate) fn ty(&self) -> Option<Ty> {
        match self {
            Const::Struct(ty, _) => Some(Ty::Struct(Rc::clone(ty))),
            Const::Array(items) => {
                let element = items.first()?.ty()?;
                let alike = items.iter().all(|item| item.ty().as_ref() == Some(&element));
                alike.then(|| Ty::Array(Box::new(element), items.len() as u64))
            }
            other => other.scalar().map(Ty::Scalar),
        }
    }

    /// A type that it may have, for help.
    pub(crate) fn example(&self) -> String {
        match self {
            Const::Float(_, None) => "f32".to_owned(),
            Const::Array(items) => {
                let element = items.first().map_or_else(|| "u32".to_owned(), Const::example);
                format!("[{element}; {}]", items.len())
            }
            Const::Tuple(items) => format!("({})", items.iter().map(Const::example).collect::<Vec<_>>().join(", ")),
            other => other.ty().map_or_else(|| "u32".to_owned(), |ty| ty.name()),
        }
    }

    /// As text: in a modifier `.{NAME}`, in the name of an instance.
    pub(crate) fn text(&self) -> String {
        match self {
            Const::Int(value, _) => value.to_string(),
            Const::Float(value, _) => value.to_string(),
            Const::Bool(value) => value.to_string(),
            Const::Str(text) => text.clone(),
            Const::Arch(arch) => arch.to_string(),
            Const::Array(items) | Const::Tuple(items) => items.iter().map(Const::text).collect::<Vec<_>>().join(", "),
            Const::Struct(_, fields) => fields.iter().map(Const::text).collect::<Vec<_>>().join(", "),
        }
    }
}

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
