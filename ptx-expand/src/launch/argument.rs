//! Passing of a kernel's parameters at a launch.

use super::Launch;
use super::function::local;
use super::tile::{Map, Tile, dim};
use crate::kernel::Argument;
use crate::root::Root;
use proc_macro2::{Literal, Span, TokenStream, TokenTree};
use ptx_core::kernel::EntryParam;
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{Ident, Type};

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
            ty => match Tile::of(ty) {
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

    /// Its bytes, if it is one of the types that every kernel knows.
    pub fn known_size(&self) -> Option<u64> {
        BUILTIN.iter().find(|(name, _)| is(&self.ty, name)).map(|(_, size)| *size)
    }

    /// The variable that holds it while it is bound to the stream.
    pub fn bound(&self) -> Ident {
        local(&format!("bound_{}", self.name))
    }

    /// The parameter of the launch function. The bound stands where the user's type does, for the compiler's notes.
    pub fn declaration(&self, root: &Root) -> TokenStream {
        let name = &self.name;
        let (first, last) = crate::tokens::ends(&self.ty);
        let rank = Tile::of(&self.ty).map(|tile| tile.dims.len());
        let bound = |name: &str, element: Type| {
            let name = Ident::new(&format!("{name}{}", if rank.is_some() { "Tile" } else { "Slice" }), first);
            let (element, path) = (absolute(&element, root), located(&root.expansion(), first));
            let (open, close) = (quote_spanned!(first=> #path::#name<), quote_spanned!(last=> >));
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
            Passing::Map => quote!(#name: &#root::TensorMap),
            Passing::Texture => quote!(#name: &#root::Texture<'_>),
            Passing::Surface => quote!(#name: &mut #root::Surface<'_>),
            Passing::Value(ty) => {
                let ty = absolute(&ty, root);
                quote!(#name: #ty)
            }
        }
    }

    /// Ties memory to the stream.
    pub fn binding(&self, stream: &Ident, root: &Root) -> Option<TokenStream> {
        let (name, bound, rt) = (&self.name, self.bound(), root.expansion());
        match self.passing() {
            Passing::Read(t) => {
                let t = absolute(&t, root);
                Some(quote!(let #bound = #rt::ReadSlice::<#t>::bind(&#name, #stream)?;))
            }
            Passing::Write(t) => {
                let t = absolute(&t, root);
                Some(quote!(let #bound = #rt::WriteSlice::<#t>::bind(&mut #name, #stream)?;))
            }
            Passing::Texture => Some(quote!(let #bound = #rt::Texture::bind(#name, #stream)?;)),
            Passing::Surface => Some(quote!(let #bound = #rt::Surface::bind(#name, #stream)?;)),
            Passing::Map | Passing::Value(_) => None,
        }
    }

    /// The argument as the driver takes it.
    fn arg(&self, root: &Root) -> TokenStream {
        let (name, bound, rt) = (&self.name, self.bound(), root.expansion());
        match self.passing() {
            Passing::Map => quote!(#rt::Arg::new(#name)),
            Passing::Value(_) => {
                let rt = located(&rt, name.span());
                quote_spanned!(name.span()=> #rt::Arg::new(&#name))
            }
            _ => quote!(#rt::Bound::arg(&#bound)),
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
    fn arg(&self, root: &Root) -> TokenStream {
        let variable = match self {
            Taken::Argument(argument) => return argument.arg(root),
            Taken::Dim(name) => dim(name),
            Taken::Map(map) => local(&map.name),
        };
        let rt = root.expansion();
        quote!(#rt::Arg::new(&#variable))
    }

    /// Its name in the signature.
    fn name(&self) -> String {
        match self {
            Taken::Argument(argument) => argument.name.unraw().to_string(),
            Taken::Dim(name) => (*name).to_owned(),
            Taken::Map(map) => map.name.clone(),
        }
    }
}

impl Launch<'_> {
    /// The arguments in the order of the entry's parameters.
    pub fn args(&self) -> Vec<TokenStream> {
        self.taken().iter().map(|taken| taken.arg(self.root)).collect()
    }

    /// The parameters of an entry as the PTX declares them.
    pub fn params(&self, entry: &str) -> Vec<TokenStream> {
        let rt = self.inner_rt();
        let param = |(taken, (size, align)): (&Taken<'_>, (u64, u64))| {
            let (name, size, align) = (taken.name(), Literal::u64_unsuffixed(size), Literal::u64_unsuffixed(align));
            quote!(#rt::Param { name: #name, size: #size, align: #align })
        };
        self.taken().iter().zip(self.declared_params(entry)).map(param).collect()
    }

    /// Bytes and alignment of an entry's parameters in the PTX; none of a kernel with errors.
    pub fn declared_params(&self, entry: &str) -> Vec<(u64, u64)> {
        match self.compiled.params.iter().find(|(name, _)| name == entry) {
            _ if self.compiled.failed => Vec::new(),
            Some((_, params)) => params.clone(),
            None => self.kernel.params.iter().filter_map(|param| param.layout).collect(),
        }
    }

    /// The parameters of the signature, and the bytes that each has in the PTX.
    pub fn argument_sizes(&self, entry: &str) -> Vec<(&Argument, u64)> {
        let sized = |(taken, (size, _))| match taken {
            Taken::Argument(argument) => Some((argument, size)),
            Taken::Dim(_) | Taken::Map(_) => None,
        };
        self.taken().into_iter().zip(self.declared_params(entry)).filter_map(sized).collect()
    }

    /// Parameters of the entry, in order.
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
}

/// The types of kernels that are not Rust's own.
const KNOWN: [&str; 5] = ["f16", "bf16", "f16x2", "bf16x2", "e4m3"];

/// The type by paths that hold everywhere, as far as it is made of those that kernels know: the names around the kernel, such as
/// an alias `u32`, mean nothing to its PTX. The paths stand where the type does.
pub fn absolute(ty: &Type, root: &Root) -> Type {
    match bare(ty) {
        Type::Path(path) if path.qself.is_none() => match path.path.get_ident() {
            Some(name) if KNOWN.iter().any(|known| name == known) => {
                let root = located(&quote!(#root), name.span());
                Type::Verbatim(quote_spanned!(name.span()=> #root::prelude::#name))
            }
            Some(name) if is_builtin_name(name) => {
                let rt = located(&root.expansion(), name.span());
                Type::Verbatim(quote_spanned!(name.span()=> #rt::core::primitive::#name))
            }
            _ => ty.clone(),
        },
        Type::Array(array) => {
            let elem = Box::new(absolute(&array.elem, root));
            Type::Array(syn::TypeArray { elem, ..array.clone() })
        }
        Type::Tuple(tuple) => {
            let mut tuple = tuple.clone();
            tuple.elems.iter_mut().for_each(|elem| *elem = absolute(elem, root));
            Type::Tuple(tuple)
        }
        _ => ty.clone(),
    }
}

/// The type without the brackets around it, visible or not: a macro's argument has some.
pub fn bare(ty: &Type) -> &Type {
    match ty {
        Type::Paren(inner) => bare(&inner.elem),
        Type::Group(inner) => bare(&inner.elem),
        ty => ty,
    }
}

/// The same tokens as if the user had written them at a place, so that errors there do not speak of the macro.
pub fn located(tokens: &TokenStream, place: Span) -> TokenStream {
    let at = |mut token: TokenTree| {
        token.set_span(place);
        token
    };
    tokens.clone().into_iter().map(at).collect()
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

/// The name is a type that every kernel knows.
pub fn is_builtin_name(name: &Ident) -> bool {
    BUILTIN.iter().any(|(known, _)| name == known) || KNOWN.iter().any(|known| name == known)
}

/// Returns true if a type is this name alone.
fn is(ty: &Type, name: &str) -> bool {
    matches!(bare(ty), Type::Path(path) if path.qself.is_none() && path.path.is_ident(name))
}
