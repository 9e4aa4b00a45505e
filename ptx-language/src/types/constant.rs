//! Constants: the arguments of types, and values of expressions.

use super::{StructTy, Ty};
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
            Const::Int(_, Some(ty)) | Const::Float(_, Some(ty)) => format!("`{}`", super::name(*ty)),
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

    /// The scalars in it.
    pub(crate) fn elements(&self) -> usize {
        match self {
            // What holds nothing takes room, too.
            Const::Array(items) | Const::Tuple(items) | Const::Struct(_, items) => {
                items.iter().fold(0, |sum: usize, item| item.elements().saturating_add(sum)).max(1)
            }
            _ => 1,
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
