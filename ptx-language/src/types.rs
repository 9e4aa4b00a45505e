//! The types of the language: the names a user writes, and what PTX calls the registers that hold them. A struct has constants
//! as arguments, and a constant may be a struct, so constants are here, too.

mod constant;
pub(crate) mod layout;
mod space;

pub(crate) use constant::Const;

use layout::Layout;
pub(crate) use space::{AddressTy, Space};

use ptx_core::isa::{Class, Type};
use std::rc::Rc;

/// A type whose names are resolved.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ty {
    /// One register.
    Scalar(Type),
    /// `[T; N]`: that many of them.
    Array(Box<Ty>, u64),
    /// `(A, B)`, and `()`.
    Tuple(Vec<Ty>),
    /// `Ring<4>`: the registers of its fields.
    Struct(Rc<StructTy>),
    /// `Shared<f32>`: one register.
    Address(Rc<AddressTy>),
}

/// A struct with its arguments.
#[derive(Clone, Debug)]
pub(crate) struct StructTy {
    /// The address of its declaration.
    pub(crate) item: usize,
    /// The scope of its declaration, where its `impl`s are.
    pub(crate) scope: usize,
    /// As the user writes it: `Ring<4>`.
    pub(crate) name: String,
    /// Its generic arguments.
    pub(crate) args: Vec<Argument>,
    /// Names and types of its fields, in order.
    pub(crate) fields: Vec<(String, Ty)>,
    /// The registers of a value.
    pub(crate) registers: u64,
    /// Its layout in memory; `None` if memory cannot hold it.
    pub(crate) memory: Option<Layout>,
}

/// A generic argument of a struct.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Argument {
    /// `f32`
    Type(Ty),
    /// `4`
    Const(Const),
}

impl PartialEq for StructTy {
    fn eq(&self, other: &StructTy) -> bool {
        self.item == other.item && self.args == other.args
    }
}

impl StructTy {
    /// The struct with these fields. `aligns` has the least alignment of each in memory, in bytes, and of the whole.
    pub(crate) fn new(
        item: usize,
        scope: usize,
        name: String,
        args: Vec<Argument>,
        fields: Vec<(String, Ty)>,
        aligns: (Vec<u64>, u64),
    ) -> StructTy {
        let registers = fields.iter().fold(0u64, |sum, (_, part)| sum.saturating_add(part.registers()));
        let memory = layout::of_fields(&fields, &aligns);
        StructTy { item, scope, name, args, fields, registers, memory }
    }

    /// The index of a field.
    pub(crate) fn field(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|(field, _)| field == name)
    }

    /// The names of the fields, for help.
    pub(crate) fn field_names(&self) -> Vec<&str> {
        self.fields.iter().map(|(name, _)| name.as_str()).collect()
    }
}

impl Argument {
    /// As the user writes it.
    pub(crate) fn name(&self) -> String {
        match self {
            Argument::Type(ty) => ty.name(),
            Argument::Const(value) => value.text(),
        }
    }
}

impl Ty {
    /// The lengths of an array, outermost first; none of any other type.
    pub(crate) fn extents(&self) -> Vec<u64> {
        match self {
            Ty::Array(element, len) => std::iter::once(*len).chain(element.extents()).collect(),
            Ty::Scalar(_) | Ty::Tuple(_) | Ty::Struct(_) | Ty::Address(_) => Vec::new(),
        }
    }

    /// Number of its registers.
    pub(crate) fn registers(&self) -> u64 {
        match self {
            Ty::Scalar(_) | Ty::Address(_) => 1,
            Ty::Array(element, count) => element.registers().saturating_mul(*count),
            Ty::Tuple(parts) => parts.iter().fold(0u64, |sum, part| sum.saturating_add(part.registers())),
            Ty::Struct(of) => of.registers,
        }
    }

    /// The type of the elements of an array of arrays.
    pub(crate) fn innermost(&self) -> &Ty {
        match self {
            Ty::Array(element, _) => element.innermost(),
            other => other,
        }
    }

    /// The type of a register that holds it, if one does.
    pub(crate) fn register(&self) -> Option<Type> {
        match self {
            Ty::Scalar(ty) => Some(*ty),
            Ty::Address(of) => of.space.register(),
            _ => None,
        }
    }

    /// The scalar it is, if it is one.
    pub(crate) fn scalar(&self) -> Option<Type> {
        match self {
            Ty::Scalar(ty) => Some(*ty),
            _ => None,
        }
    }

    /// As the user writes it.
    pub(crate) fn name(&self) -> String {
        match self {
            Ty::Scalar(ty) => name(*ty),
            Ty::Array(element, count) => format!("[{}; {count}]", element.name()),
            Ty::Tuple(parts) => format!("({})", parts.iter().map(Ty::name).collect::<Vec<_>>().join(", ")),
            Ty::Struct(of) => of.name.clone(),
            Ty::Address(of) => of.name(),
        }
    }
}

/// The scalar of this name: PTX's, with `i` for its `s`.
pub(crate) fn find(name: &str) -> Option<Type> {
    let signed = name.strip_prefix('i').filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let ty = match signed {
        Some(rest) => Type::find(&format!("s{rest}")),
        None => Type::find(name),
    }?;
    register(ty).map(|_| ty)
}

/// The language's name for a type of registers: `i32` for `s32`.
pub fn language_type(ptx: &str) -> Option<String> {
    Type::find(ptx).filter(|ty| ty.info().declares).map(name)
}

/// The name of a type in a table of the documentation; other words stay.
pub(crate) fn listed(name: &str) -> String {
    Type::find(name).map_or_else(|| name.to_owned(), self::name)
}

/// As the user writes it: `i32` for `.s32`.
pub(crate) fn name(ty: Type) -> String {
    match (ty.class(), ty.name().strip_prefix('s')) {
        (Class::Signed | Class::Packed, Some(rest)) => format!("i{rest}"),
        _ => ty.name().to_owned(),
    }
}

/// The type a register is declared with to hold it; `None` if no register can.
pub(crate) fn register(ty: Type) -> Option<&'static str> {
    let info = ty.info();
    if info.declares { Some(info.name) } else { info.registers.first().copied() }
}

/// The type in `mov` and `selp`; `None` if they have none for it (8 bits).
pub(crate) fn moved(ty: Type) -> Option<String> {
    (ty.class() == Class::Pred || ty.bits() >= 16).then(|| stored(ty))
}

/// The instruction that copies a register of this type.
pub fn move_of(ty: Type) -> Option<String> {
    moved(ty).map(|suffix| format!("mov.{suffix}"))
}

/// The type in `ld` and `st`.
pub(crate) fn stored(ty: Type) -> String {
    match ty.class() {
        Class::Packed => format!("b{}", ty.bits()),
        Class::Float if !matches!(ty.name(), "f32" | "f64") => format!("b{}", ty.bits()),
        _ => ty.name().to_owned(),
    }
}

/// The untyped bits of the same width.
pub(crate) fn bits(ty: Type) -> String {
    format!("b{}", ty.bits())
}

/// Returns true if a register of one may be used as the other: the same type, or the same width and one of them
/// untyped.
pub fn meet(a: Type, b: Type) -> bool {
    a == b || (a.bits() == b.bits() && (a.class() == Class::Bits || b.class() == Class::Bits))
}

/// Returns true if its values are integers.
pub(crate) fn is_integer(ty: Type) -> bool {
    matches!(ty.class(), Class::Bits | Class::Unsigned | Class::Signed)
}

/// Exponent and mantissa bits of a float.
pub(crate) fn float_format(ty: Type) -> Option<(u32, u32)> {
    match ty.name() {
        "f64" => Some((11, 52)),
        "f32" => Some((8, 23)),
        "f16" => Some((5, 10)),
        "bf16" => Some((8, 7)),
        _ => None,
    }
}
