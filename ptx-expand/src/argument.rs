//! The parameters of a kernel, as the host sees them.

mod tile;

pub use tile::{Map, MapOption, Tile};

use syn::{Expr, Ident, Type};

/// A parameter of a kernel.
pub struct Argument {
    /// Its name in the launch function.
    pub name: Ident,
    /// Its name in the kernel: `x`, or `inputs.x` for the field of a struct.
    pub text: String,
    /// Its type, as written.
    pub ty: Type,
    /// Bytes and alignment, where the PTX declares them and not the type.
    pub layout: Option<(u64, u64)>,
    /// `#[align(16)]` on memory: the alignment of its address, which every launch checks. It may name constants of an instance.
    pub align: Option<Expr>,
}

/// Meaning of a parameter's type to the host.
pub enum Passing {
    /// `&[T]`: anything that can be read as that.
    Read(Type),
    /// `&mut [T]`: anything that can be written as that.
    Write(Type),
    /// `TensorMap`: 128 bytes, by reference.
    Map,
    /// `Texture`: an object of the device, by reference.
    Texture,
    /// `Surface`: one that kernels write.
    Surface,
    /// A number or a struct.
    Value(Type),
}

impl Argument {
    /// The way it is passed.
    pub fn passing(&self) -> Passing {
        match bare(&self.ty) {
            Type::Reference(reference) => match bare(&reference.elem) {
                Type::Slice(slice) if reference.mutability.is_some() => Passing::Write((*slice.elem).clone()),
                Type::Slice(slice) => Passing::Read((*slice.elem).clone()),
                _ => Passing::Value(self.ty.clone()),
            },
            ty if is(ty, "TensorMap") => Passing::Map,
            ty if is(ty, "Texture") => Passing::Texture,
            ty if is(ty, "Surface") => Passing::Surface,
            ty => match Tile::from_type(ty) {
                Some(tile) if tile.mutable => Passing::Write(tile.element),
                Some(tile) => Passing::Read(tile.element),
                None => Passing::Value(ty.clone()),
            },
        }
    }

    /// Returns true if host expressions see it as an integer.
    pub fn is_integer(&self) -> bool {
        const INTEGERS: [&str; 10] = ["u8", "u16", "u32", "u64", "usize", "i8", "i16", "i32", "i64", "isize"];
        INTEGERS.iter().any(|name| is(&self.ty, name))
    }

    /// Its bytes, if it is a built-in type of kernels.
    pub fn known_size(&self) -> Option<u64> {
        size(&self.ty)
    }
}

/// The bytes of a built-in type of kernels.
pub fn size(ty: &Type) -> Option<u64> {
    BUILTIN.iter().find(|(name, _)| is(ty, name)).map(|(_, size)| *size)
}

/// Types that a macro recognizes by the last word of their path, because it cannot resolve the path.
pub const OURS: [&str; 5] = ["TensorMap", "Texture", "Surface", "Tile", "TileMut"];

/// The type without the brackets around it, visible or not: a macro's argument has some.
pub fn bare(ty: &Type) -> &Type {
    match ty {
        Type::Paren(inner) => bare(&inner.elem),
        Type::Group(inner) => bare(&inner.elem),
        ty => ty,
    }
}

/// The types of kernels that are not Rust's own.
pub const KNOWN: [&str; 5] = ["f16", "bf16", "f16x2", "bf16x2", "e4m3"];

/// The built-in types of kernels, and their bytes.
const BUILTIN: [(&str, u64); 14] = [
    ("u8", 1),
    ("u16", 2),
    ("u32", 4),
    ("u64", 8),
    ("u128", 16),
    ("i8", 1),
    ("i16", 2),
    ("i32", 4),
    ("i64", 8),
    ("i128", 16),
    ("f16", 2),
    ("bf16", 2),
    ("f32", 4),
    ("f64", 8),
];

/// The name is a built-in type of kernels.
pub fn is_builtin_name(name: &Ident) -> bool {
    BUILTIN.iter().any(|(known, _)| name == known) || KNOWN.iter().any(|known| name == known)
}

/// Returns true if a type is this name alone.
fn is(ty: &Type, name: &str) -> bool {
    matches!(bare(ty), Type::Path(path) if path.qself.is_none() && path.path.is_ident(name))
}
