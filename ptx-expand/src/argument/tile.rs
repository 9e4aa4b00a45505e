//! `Tile<T, (M, K)>` and `TileMut` in a signature, and the tensor maps of `#[tma]`.

use proc_macro2::Ident;
use quote::format_ident;
use syn::{GenericArgument, PathArguments, Type};

/// The element and the dimensions of a `Tile` or `TileMut`, and whether it is the latter.
pub struct Tile {
    /// `T`
    pub element: Type,
    /// `(M, K)`, outermost first.
    pub dims: Vec<Ident>,
    /// True if it is written.
    pub mutable: bool,
}

impl Tile {
    /// Reads a type; `None` for any other type.
    pub fn from_type(ty: &Type) -> Option<Tile> {
        let Type::Path(path) = ty else { return None };
        let last = path.path.segments.last()?;
        let mutable = last.ident == "TileMut";
        let PathArguments::AngleBracketed(args) = &last.arguments else { return None };
        let mut types = args.args.iter().filter_map(|arg| match arg {
            GenericArgument::Type(ty) => Some(ty),
            _ => None,
        });
        let (element, dims) = (types.next()?.clone(), types.next().map(names).unwrap_or_default());
        (mutable || last.ident == "Tile").then_some(Tile { element, dims, mutable })
    }
}

/// The names in `(M, K)`, or in `N` alone.
fn names(ty: &Type) -> Vec<Ident> {
    match ty {
        Type::Tuple(tuple) => tuple.elems.iter().flat_map(names).collect(),
        Type::Path(path) => path.path.get_ident().cloned().into_iter().collect(),
        _ => Vec::new(),
    }
}

/// A tensor map that `#[tma]` declares.
pub struct Map {
    /// The index of the parameter that it maps.
    pub of: usize,
    /// Its name in the kernel: `a_map` for the parameter `a`.
    pub name: String,
    /// The options of the attribute.
    pub options: Vec<MapOption>,
}

/// An option of `#[tma]`.
pub enum MapOption {
    /// `box = [64, 64]`
    Box(Vec<syn::Expr>),
    /// A method of the builder, and the variant of a type of the runtime that it takes.
    Word {
        /// `swizzle`
        method: Ident,
        /// `Swizzle`
        ty: Ident,
        /// `B128`
        variant: Ident,
    },
}

impl Map {
    /// The map of a parameter, not configured yet.
    pub fn new(of: usize, argument: &Ident) -> Map {
        Map { of, name: format_ident!("{argument}_map").to_string(), options: Vec::new() }
    }
}
