//! Passing of a kernel's parameters at a launch.

use super::Launch;
use super::tile::dim;
use crate::argument::{Argument, KNOWN, Map, Passing, Tile, bare, is_builtin_name};
use crate::kernel::Taken as Struct;
use crate::root::Root;
use crate::tokens::{joined, local};
use proc_macro2::{Literal, Span, TokenStream, TokenTree};
use ptx_language::EntryParam;
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{Expr, Ident, Type};

/// Returns true for a number.
fn is_literal(expr: &Expr) -> bool {
    matches!(expr, Expr::Lit(_))
}

impl Argument {
    /// The variable that holds it while it is bound to the stream.
    pub fn bound(&self) -> Ident {
        local(&format!("bound_{}", self.name))
    }

    /// The parameter of the launch function.
    fn declaration(&self, root: &Root) -> TokenStream {
        let (name, ty, mutable) = (&self.name, self.declared_type(root), self.mutability());
        quote!(#mutable #name: #ty)
    }

    /// Memory that is written is bound by `&mut`.
    fn mutability(&self) -> Option<TokenStream> {
        matches!(self.passing(), Passing::Write(_)).then(|| quote!(mut))
    }

    /// The type of the parameter of the launch function. The bound stands where the user's type does, for the compiler's notes.
    fn declared_type(&self, root: &Root) -> TokenStream {
        let (first, last) = crate::tokens::ends(&self.ty);
        let rank = Tile::from_type(&self.ty).map(|tile| tile.dims.len());
        let bound = |name: &str, element: Type| {
            let name = Ident::new(&format!("{name}{}", if rank.is_some() { "Tile" } else { "Slice" }), first);
            let (element, path) = (absolute(&element, root), located(&root.expansion(), first));
            let (open, close) = (quote_spanned!(first=> #path::#name<), quote_spanned!(last=> >));
            let rank = rank.map(|rank| quote!(, #rank));
            quote!(impl #open #element #rank #close)
        };
        match self.passing() {
            Passing::Read(element) => bound("Read", element),
            Passing::Write(element) => bound("Write", element),
            Passing::Map => quote!(&#root::TensorMap),
            Passing::Texture => quote!(&#root::Texture<'_>),
            Passing::Surface => quote!(&mut #root::Surface<'_>),
            Passing::Value(ty) => absolute(&ty, root).into_token_stream(),
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

    /// Checks that the address of memory is as aligned as its attribute requires.
    pub fn alignment(&self, kernel: &TokenStream, root: &Root) -> Option<TokenStream> {
        let align = self.memory_align()?;
        let (bound, rt, name) = (self.bound(), root.expansion(), &self.text);
        let align = if is_literal(align) { align.to_token_stream() } else { self.align_name().to_token_stream() };
        Some(quote!(#rt::aligned(&#bound, #align, #kernel, #name)?;))
    }

    /// The alignment of memory.
    fn memory_align(&self) -> Option<&Expr> {
        self.align.as_ref().filter(|_| matches!(self.passing(), Passing::Read(_) | Passing::Write(_)))
    }

    /// An alignment that is more than a number.
    pub fn computed_align(&self) -> Option<&Expr> {
        self.memory_align().filter(|align| !is_literal(align))
    }

    /// The variable of the launch function with that.
    pub fn align_name(&self) -> Ident {
        local(&format!("align_{}", self.name))
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
            Taken::Argument(argument) => argument.text.clone(),
            Taken::Dim(name) => (*name).to_owned(),
            Taken::Map(map) => map.name.clone(),
        }
    }
}

impl Launch<'_> {
    /// The parameters of a launch function.
    pub fn declarations(&self) -> Vec<TokenStream> {
        self.signature(|argument| argument.declaration(self.root), |name, ty| quote!(#name: #ty))
    }

    /// The names of the parameters of a launch function.
    pub fn names(&self) -> Vec<TokenStream> {
        self.signature(|argument| argument.name.to_token_stream(), |name, _| name.to_token_stream())
    }

    /// Each parameter of the signature: a struct with its type, or an argument that is no field of one.
    fn signature(
        &self,
        argument: impl Fn(&Argument) -> TokenStream,
        of_struct: impl Fn(&Ident, TokenStream) -> TokenStream,
    ) -> Vec<TokenStream> {
        let mut all = Vec::new();
        for (at, own) in self.kernel.params.iter().enumerate() {
            match self.kernel.structs.iter().find(|taken| taken.numbers.contains(&at)) {
                None => all.push(argument(own)),
                Some(taken) if taken.numbers.start == at => {
                    let path = self.struct_path(&taken.ty);
                    let types = self.fields(taken).map(|(_, field)| field.declared_type(self.root));
                    all.push(of_struct(&taken.name, quote!(#path<#(#types),*>)));
                }
                Some(_) => {}
            }
        }
        all
    }

    /// The path of a struct of arguments, seen from the launch function.
    pub fn struct_path(&self, name: &Ident) -> TokenStream {
        let module = &self.statics;
        quote!(#module::#name)
    }

    /// The fields of a struct of arguments.
    pub fn fields<'a>(&'a self, taken: &'a Struct) -> impl Iterator<Item = (&'a Ident, &'a Argument)> {
        taken.fields.iter().zip(self.kernel.params.get(taken.numbers.clone()).unwrap_or_default())
    }

    /// Takes structs apart.
    pub fn taken_apart(&self) -> TokenStream {
        let each = self.kernel.structs.iter().map(|taken| {
            let (path, name) = (self.struct_path(&taken.ty), &taken.name);
            let fields = self.fields(taken).map(|(field, argument)| {
                let (variable, mutable) = (&argument.name, argument.mutability());
                quote!(#field: #mutable #variable)
            });
            quote!(let #path { #(#fields),* } = #name;)
        });
        joined(each)
    }

    /// The arguments in the order of the entry's parameters.
    pub fn args(&self) -> Vec<TokenStream> {
        self.taken().iter().map(|taken| taken.arg(self.root)).collect()
    }

    /// The parameters of the entries as the PTX declares them, in statics: most instances of a kernel have the same.
    pub fn param_lists(&self) -> TokenStream {
        let rt = self.inner_rt();
        let taken = self.taken();
        joined(self.declared_lists().iter().enumerate().map(|(at, list)| {
            let params = taken.iter().zip(list).map(|(taken, &(size, align))| {
                let name = taken.name();
                let (size, align) = (Literal::u64_unsuffixed(size), Literal::u64_unsuffixed(align));
                quote!(#rt::Param { name: #name, size: #size, align: #align })
            });
            let name = list_name(at);
            quote!(#[allow(dead_code)] static #name: &[#rt::Param] = &[#(#params),*];)
        }))
    }

    /// The static with the parameters of an entry.
    pub fn params(&self, entry: &str) -> Ident {
        let of_entry = self.declared_params(entry);
        list_name(self.declared_lists().iter().position(|list| *list == of_entry).unwrap_or(0))
    }

    /// Each list of bytes and alignments that an entry of the kernel has; without entries, that of the signature.
    fn declared_lists(&self) -> Vec<Vec<(u64, u64)>> {
        let entries = self.compiled.entries_of(self.index);
        let mut lists = Vec::new();
        for list in entries.iter().map(|entry| self.declared_params(&entry.name)) {
            if !lists.contains(&list) {
                lists.push(list);
            }
        }
        if lists.is_empty() {
            lists.push(self.declared_params(""));
        }
        lists
    }

    /// Bytes and alignment of an entry's parameters in the PTX; none of a kernel with errors.
    pub fn declared_params(&self, entry: &str) -> Vec<(u64, u64)> {
        match self.compiled.params.get(entry) {
            _ if self.compiled.failed => Vec::new(),
            Some(params) => params.clone(),
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
        let entry = self.compiled.entries_of(self.index).first();
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

/// The name of a static with parameters.
fn list_name(at: usize) -> Ident {
    format_ident!("PARAMS_{at}")
}

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

/// The same tokens as if the user had written them at a place, so that errors there do not speak of the macro.
pub fn located(tokens: &TokenStream, place: Span) -> TokenStream {
    let at = |mut token: TokenTree| {
        token.set_span(place);
        token
    };
    tokens.clone().into_iter().map(at).collect()
}
