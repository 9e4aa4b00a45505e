//! How each parameter of a kernel is passed at a launch.

use super::Launch;
use super::data::rt;
use super::function::local;
use super::tile::{Map, Tile, dim};
use crate::kernel::Argument;
use proc_macro2::{Literal, TokenStream};
use ptx_core::kernel::EntryParam;
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{Ident, Type};

/// What a parameter's type means to the host.
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
    /// How it is passed.
    pub fn passing(&self) -> Passing {
        match &self.ty {
            Type::Reference(reference) => match &*reference.elem {
                Type::Slice(slice) if reference.mutability.is_some() => Passing::Write(absolute(&slice.elem)),
                Type::Slice(slice) => Passing::Read(absolute(&slice.elem)),
                _ => Passing::Value(absolute(&self.ty)),
            },
            ty if is(ty, "TensorMap") => Passing::Map,
            ty if is(ty, "Texture") => Passing::Texture,
            ty if is(ty, "Surface") => Passing::Surface,
            ty => match Tile::of(ty) {
                Some(tile) if tile.mutable => Passing::Write(absolute(&tile.element)),
                Some(tile) => Passing::Read(absolute(&tile.element)),
                None => Passing::Value(absolute(ty)),
            },
        }
    }

    /// Whether host expressions see it as an integer.
    pub fn is_integer(&self) -> bool {
        const INTEGERS: [&str; 10] = ["u8", "u16", "u32", "u64", "usize", "i8", "i16", "i32", "i64", "isize"];
        INTEGERS.iter().any(|name| is(&self.ty, name))
    }

    /// Its bytes, if it is one of the types that every kernel knows.
    pub fn known_size(&self) -> Option<u64> {
        BUILTIN.iter().find(|(name, _)| is(&self.ty, name)).map(|(_, size)| *size)
    }

    /// The variable that holds it while it is bound to the stream.
    pub fn bound(&self) -> Ident {
        local(&format!("bound_{}", self.name))
    }

    /// The parameter of the launch function. The bound stands where the user's type does, for the compiler's notes.
    pub fn declaration(&self) -> TokenStream {
        let name = &self.name;
        let (first, last) = crate::tokens::ends(&self.ty);
        let rank = Tile::of(&self.ty).map(|tile| tile.dims.len());
        let bound = |name: &str, element: Type| {
            let name = Ident::new(&format!("{name}{}", if rank.is_some() { "Tile" } else { "Slice" }), first);
            let (open, close) = (quote_spanned!(first=> ::ptx_launch::expansion::#name<), quote_spanned!(last=> >));
            let rank = rank.map(|rank| quote!(, #rank));
            quote!(impl #open #element #rank #close)
        };
        match self.passing() {
            Passing::Read(element) => {
                let bound = bound("Read", element);
                quote!(#name: #bound)
            }
            Passing::Write(element) => {
                let bound = bound("Write", element);
                quote!(mut #name: #bound)
            }
            Passing::Map => quote!(#name: &::ptx_launch::TensorMap),
            Passing::Texture => quote!(#name: &::ptx_launch::Texture<'_>),
            Passing::Surface => quote!(#name: &mut ::ptx_launch::Surface<'_>),
            Passing::Value(ty) => quote!(#name: #ty),
        }
    }

    /// Ties memory to the stream.
    pub fn binding(&self, stream: &Ident) -> Option<TokenStream> {
        let (name, bound, rt) = (&self.name, self.bound(), rt());
        match self.passing() {
            Passing::Read(t) => Some(quote!(let #bound = #rt::ReadSlice::<#t>::bind(&#name, #stream)?;)),
            Passing::Write(t) => Some(quote!(let #bound = #rt::WriteSlice::<#t>::bind(&mut #name, #stream)?;)),
            Passing::Texture => Some(quote!(let #bound = #rt::Texture::bind(#name, #stream)?;)),
            Passing::Surface => Some(quote!(let #bound = #rt::Surface::bind(#name, #stream)?;)),
            Passing::Map | Passing::Value(_) => None,
        }
    }

    /// The argument as the driver takes it.
    fn arg(&self) -> TokenStream {
        let (name, bound, rt) = (&self.name, self.bound(), rt());
        match self.passing() {
            Passing::Map => quote!(#rt::Arg::new(#name)),
            Passing::Value(_) => quote_spanned!(name.span()=> ::ptx_launch::expansion::Arg::new(&#name)),
            _ => quote!(#rt::Bound::arg(&#bound)),
        }
    }

    /// How the PTX declares it.
    fn param(&self) -> TokenStream {
        let (name, rt) = (self.name.unraw().to_string(), rt());
        if let Some((size, align)) = self.layout {
            let (size, align) = (Literal::u64_unsuffixed(size), Literal::u64_unsuffixed(align));
            return quote!(#rt::Param { name: #name, size: #size, align: #align });
        }
        match self.passing() {
            Passing::Map => quote!(#rt::Param::value::<::ptx_launch::TensorMap>(#name)),
            Passing::Value(ty) => quote!(#rt::Param::value::<#ty>(#name)),
            _ => quote!(#rt::Param::pointer(#name)),
        }
    }
}

/// Something that an entry takes.
enum Taken<'a> {
    /// A parameter of the signature.
    Argument(&'a Argument),
    /// A dimension that tiles name.
    Dim(&'a str),
    /// A tensor map that the launch makes.
    Map(&'a Map),
}

impl Taken<'_> {
    /// As the driver takes it.
    fn arg(&self) -> TokenStream {
        let variable = match self {
            Taken::Argument(argument) => return argument.arg(),
            Taken::Dim(name) => dim(name),
            Taken::Map(map) => local(&map.name),
        };
        let rt = rt();
        quote!(#rt::Arg::new(&#variable))
    }

    /// How the PTX declares it.
    fn param(&self) -> TokenStream {
        let rt = rt();
        match self {
            Taken::Argument(argument) => argument.param(),
            Taken::Dim(name) => quote!(#rt::Param::value::<u32>(#name)),
            Taken::Map(map) => {
                let name = &map.name;
                quote!(#rt::Param::value::<#rt::TensorMap>(#name))
            }
        }
    }
}

impl Launch<'_> {
    /// The arguments in the order of the entry's parameters.
    pub fn args(&self) -> Vec<TokenStream> {
        self.taken().iter().map(Taken::arg).collect()
    }

    /// The parameters as the PTX declares them.
    pub fn params(&self) -> Vec<TokenStream> {
        if self.compiled.failed {
            return Vec::new();
        }
        self.taken().iter().map(Taken::param).collect()
    }

    /// What the entry takes, in order.
    fn taken(&self) -> Vec<Taken<'_>> {
        let entry = self.compiled.entries.iter().find(|e| e.kernel == self.index);
        let params = entry.map(|e| e.params.as_slice()).unwrap_or_default();
        let taken = |param| match param {
            &EntryParam::Value(at) => match self.kernel.params.get(at) {
                Some(argument) => Some(Taken::Argument(argument)),
                None => self.kernel.maps.get(at - self.kernel.params.len()).map(Taken::Map),
            },
            EntryParam::Dim(name) => Some(Taken::Dim(name)),
            EntryParam::Map(of) => self.kernel.maps.iter().find(|m| m.of == *of).map(Taken::Map),
        };
        params.iter().filter_map(taken).collect()
    }

    /// Whether the types of the signature may be anything but what the language itself has.
    pub fn needs_scope(&self) -> bool {
        let named = |argument: &Argument| match argument.passing() {
            Passing::Read(ty) | Passing::Write(ty) | Passing::Value(ty) => !is_builtin(&ty),
            Passing::Map | Passing::Texture | Passing::Surface => false,
        };
        !self.kernel.generics.is_empty() || self.kernel.params.iter().any(named)
    }
}

/// The types of kernels that are not Rust's own.
const KNOWN: [&str; 5] = ["f16", "bf16", "f16x2", "bf16x2", "e4m3"];

/// The type by a path that holds everywhere, if it is one that kernels know.
pub fn absolute(ty: &Type) -> Type {
    match KNOWN.iter().find(|name| is(ty, name)) {
        Some(_) => Type::Verbatim(quote!(::ptx_launch::prelude::#ty)),
        None => ty.clone(),
    }
}

fn is_builtin(ty: &Type) -> bool {
    matches!(ty, Type::Verbatim(_)) || BUILTIN.iter().any(|(name, _)| is(ty, name))
}

/// The types that every kernel knows, and their bytes.
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

/// Whether a type is this name alone.
fn is(ty: &Type, name: &str) -> bool {
    matches!(ty, Type::Path(path) if path.qself.is_none() && path.path.is_ident(name))
}
