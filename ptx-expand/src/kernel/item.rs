//! Items: helper functions, structs, their methods, and generic parameters.

use super::{Reader, is_for_tools};
use crate::argument::{Argument, OURS, is_builtin_name};
use ptx_core::diag::codes;
use ptx_language::tree::{self, Expr, Field, Function, Generic, Impl, Param, Pointer, Struct, TypeKind};
use syn::ext::IdentExt;

impl Reader {
    /// A helper function of a kernel or a kernel module, where a `const fn` is the host's.
    pub fn function(&mut self, item: &syn::ItemFn) -> Function {
        self.not_constant(&item.sig, "write `fn` alone");
        self.helper(item)
    }

    /// A helper function, which may be a `const fn`: it computes constants, too.
    pub fn helper(&mut self, item: &syn::ItemFn) -> Function {
        let has = |name: &str| item.attrs.iter().any(|a| a.path().is_ident(name));
        let (noinline, cooperative) = (has("noinline"), has("cooperative"));
        for attribute in item.attrs.iter().filter(|a| !is_for_tools(a)) {
            if !["noinline", "inline", "cooperative"].iter().any(|name| attribute.path().is_ident(name)) {
                self.attribute_without_meaning(attribute, "a helper takes `#[noinline]` and `#[cooperative]`");
            }
        }
        self.no_host_qualifiers(&item.sig, "write `fn` or `const fn`");
        let (params, _) = self.params(&item.sig.inputs);
        let function = self.signature_and_body(&item.sig, params, &item.block);
        self.keep_levels(&function.name, &item.attrs);
        Function { noinline, cooperative, ..function }
    }

    fn signature_and_body(&mut self, sig: &syn::Signature, params: Vec<Param>, body: &syn::Block) -> Function {
        let start = self.host.token(sig.fn_token.span);
        let name = self.ident(&sig.ident);
        let generics = self.generics(&sig.generics);
        sig.inputs.iter().for_each(|input| self.no_attributes(parameter_attributes(input)));
        self.declared_once(generics.iter().map(|generic| &generic.name).chain(params.iter().map(|param| &param.name)));
        let result = match &sig.output {
            syn::ReturnType::Default => None,
            syn::ReturnType::Type(_, ty) => Some(self.ty(ty)),
        };
        let body = self.block(body);
        let span = start.to(body.span);
        let (external, constant) = (self.external, sig.constness.is_some());
        Function { name, generics, params, result, body, noinline: false, cooperative: false, constant, external, span }
    }

    /// A struct between the items of a module or in a body.
    pub fn struct_item(&mut self, item: &syn::ItemStruct) -> Struct {
        if let Some(clause) = &item.generics.where_clause {
            self.refuse(clause, "`where` clauses", "the arguments that are written are those that exist");
        }
        let none =
            syn::FieldsNamed { brace_token: syn::token::Brace::default(), named: syn::punctuated::Punctuated::new() };
        let fields = match &item.fields {
            syn::Fields::Named(fields) => fields,
            syn::Fields::Unit => &none,
            syn::Fields::Unnamed(fields) => {
                self.refuse(
                    fields,
                    "structs without names for their fields",
                    "name them: `struct Pair { a: u32, b: u32 }`",
                );
                &none
            }
        };
        let read = self.struct_(&item.ident, fields);
        self.declared_once(read.fields.iter().map(|field| &field.name));
        Struct { generics: self.generics(&item.generics), align: self.alignment(&item.attrs), ..read }
    }

    /// A struct that a kernel takes by value.
    pub fn struct_(&mut self, name: &syn::Ident, fields: &syn::FieldsNamed) -> Struct {
        if OURS.iter().any(|ours| name == ours) {
            let message = format!("`{name}` is `ptx_launch`'s among the parameters of a kernel");
            self.error(&codes::P0817, name, message, "give the struct another name");
        } else if is_builtin_name(name) {
            let message = format!("`{name}` is a type of the kernel language");
            self.error(&codes::P0817, name, message, "give the struct another name");
        }
        let name = self.ident(name);
        let mut read = Vec::with_capacity(fields.named.len());
        for field in &fields.named {
            if let Some(name) = &field.ident {
                let align = self.alignment(&field.attrs);
                read.push(Field { name: self.ident(name), ty: self.ty(&field.ty), align });
            }
        }
        Struct { name, generics: Vec::new(), fields: read, align: None }
    }

    /// `impl<const N: u32> Ring<N> { … }`
    pub fn impl_(&mut self, item: &syn::ItemImpl) -> Impl {
        self.no_attributes(&item.attrs);
        if let Some((_, path, _)) = &item.trait_ {
            self.refuse(path, "traits", "write the methods in an `impl` of the struct");
        }
        let generics = self.generics(&item.generics);
        let target = self.ty(&item.self_ty);
        let mut of = Impl { generics, target, consts: Vec::new(), functions: Vec::new() };
        for item in &item.items {
            match item {
                syn::ImplItem::Const(item) => {
                    self.no_attributes(&item.attrs);
                    let (name, ty, value) = (self.ident(&item.ident), self.ty(&item.ty), self.expr(&item.expr));
                    of.consts.push(tree::Const { name, ty, value });
                }
                syn::ImplItem::Fn(item) => of.functions.push(self.method_item(item)),
                other => self.refuse(other, "such item in an `impl`", "an `impl` may hold `const` and `fn` items"),
            }
        }
        self.declared_once(of.consts.iter().map(|item| &item.name).chain(of.functions.iter().map(|item| &item.name)));
        of
    }

    /// A method or an associated function. `const fn` is for the host, if that has the struct too.
    fn method_item(&mut self, item: &syn::ImplItemFn) -> Function {
        for attribute in item.attrs.iter().filter(|a| !is_for_tools(a) && !a.path().is_ident("inline")) {
            self.attribute_without_meaning(attribute, "methods are written where they are called");
        }
        self.no_host_qualifiers(&item.sig, "write `fn` or `const fn`");
        let params = item.sig.inputs.iter().filter_map(|input| self.method_param(input)).collect();
        let function = self.signature_and_body(&item.sig, params, &item.block);
        self.keep_levels(&function.name, &item.attrs);
        function
    }

    /// Remembers the lint levels of a function, for the names in it that nothing uses.
    pub fn keep_levels(&mut self, name: &tree::Ident, attributes: &[syn::Attribute]) {
        let levels: Vec<_> = super::levels(attributes).cloned().collect();
        if !levels.is_empty() {
            self.levels.insert(name.span, levels);
        }
    }

    fn method_param(&mut self, input: &syn::FnArg) -> Option<Param> {
        let syn::FnArg::Receiver(receiver) = input else { return self.param(input).map(|(param, _)| param) };
        let span = self.host.token(receiver.self_token.span);
        if receiver.colon_token.is_some() {
            self.refuse(&receiver.ty, "a type for `self`", "write `self`, `&self` or `&mut self`");
        }
        let own = tree::Path::name(tree::Ident { name: "Self".to_owned(), span });
        let own = tree::Type { kind: TypeKind::Path(own), span };
        let ty = match &receiver.reference {
            None => own,
            Some(_) => tree::Type { kind: TypeKind::Ref(receiver.mutability.is_some(), Box::new(own)), span },
        };
        let mutable = receiver.reference.is_none() && receiver.mutability.is_some();
        let name = tree::Ident { name: "self".to_owned(), span };
        Some(Param { name, mutable, ty, align: None, pointer: Pointer::default(), fields: Vec::new() })
    }

    /// Reports `const`, `async` and the like on a function.
    pub fn no_qualifiers(&mut self, signature: &syn::Signature) {
        let help = "write `fn` alone";
        self.not_constant(signature, help);
        self.no_host_qualifiers(signature, help);
    }

    fn not_constant(&mut self, signature: &syn::Signature, help: &str) {
        if let Some(token) = &signature.constness {
            self.error(&codes::P0904, token, "`const` has no meaning on a function of a kernel", help);
        }
    }

    fn no_host_qualifiers(&mut self, signature: &syn::Signature, help: &str) {
        if let Some(token) = &signature.asyncness {
            self.error(&codes::P0904, token, "`async` has no meaning on a function of a kernel", help);
        }
        if let Some(abi) = &signature.abi {
            self.error(&codes::P0904, abi, "a calling convention has no meaning on a function of a kernel", help);
        }
        if let Some(dots) = &signature.variadic {
            self.error(&codes::P0904, dots, "a function of a kernel has a fixed number of parameters", "");
        }
    }

    /// Generic parameters.
    pub fn generics(&mut self, generics: &syn::Generics) -> Vec<Generic> {
        if let Some(clause) = &generics.where_clause {
            self.refuse(clause, "`where` clauses", "`instances` lists the arguments that exist");
        }
        generics.params.iter().filter_map(|p| self.generic(p)).collect()
    }

    fn generic(&mut self, param: &syn::GenericParam) -> Option<Generic> {
        match param {
            syn::GenericParam::Type(param) => {
                self.no_builtin(&param.ident);
                if !param.bounds.is_empty() {
                    self.refuse(&param.bounds, "bounds", "`instances` lists the types that exist");
                }
                Some(Generic { name: self.ident(&param.ident), constant: None })
            }
            syn::GenericParam::Const(param) => {
                self.no_builtin(&param.ident);
                Some(Generic { name: self.ident(&param.ident), constant: Some(self.ty(&param.ty)) })
            }
            syn::GenericParam::Lifetime(param) => {
                self.refuse(param, "lifetimes", "write `&[T]` or `&mut [T]`");
                None
            }
        }
    }

    /// The host takes these names for what they are everywhere.
    fn no_builtin(&mut self, name: &syn::Ident) {
        if OURS.iter().any(|ours| name == ours) || is_builtin_name(name) {
            let message = format!("`{name}` is a type of the kernel language");
            self.error(&codes::P0904, name, message, "give the parameter another name");
        }
    }

    /// Parameters, for the tree and for the host.
    pub fn params<'a>(&mut self, inputs: impl IntoIterator<Item = &'a syn::FnArg>) -> (Vec<Param>, Vec<Argument>) {
        inputs.into_iter().filter_map(|input| self.param(input)).unzip()
    }

    pub fn param(&mut self, input: &syn::FnArg) -> Option<(Param, Argument)> {
        let syn::FnArg::Typed(typed) = input else {
            let help = "methods stand in an `impl` beside their struct; elsewhere, name the parameter";
            self.error(&codes::P0904, input, "a function of a kernel has no `self`", help);
            return None;
        };
        let syn::Pat::Ident(pattern) = &*typed.pat else {
            self.error(&codes::P0904, &typed.pat, "a parameter is a name", "take the parts out with `let` in the body");
            return None;
        };
        let name = self.ident(&pattern.ident);
        let ty = self.ty(&typed.ty);
        let align = aligned(&typed.attrs);
        let layout = align.as_ref().and_then(|align| Some((bytes(&typed.ty)?, number(align)?)));
        let text = pattern.ident.unraw().to_string();
        let argument = Argument { name: pattern.ident.clone(), text, ty: (*typed.ty).clone(), layout, align };
        let align = self.alignment(&typed.attrs);
        let pointer = self.pointer(&typed.attrs, &ty);
        let mutable = pattern.mutability.is_some();
        Some((Param { name, mutable, ty, align, pointer, fields: Vec::new() }, argument))
    }

    /// `#[generic]`, `#[bare]`
    fn pointer(&mut self, attributes: &[syn::Attribute], ty: &tree::Type) -> Pointer {
        const KINDS: [(&str, Pointer); 2] = [("generic", Pointer::Generic), ("bare", Pointer::Bare)];
        let named = |a: &syn::Attribute| KINDS.iter().find(|(name, _)| a.path().is_ident(name)).map(|(_, kind)| *kind);
        let Some((attribute, kind)) = attributes.iter().find_map(|a| Some((a, named(a)?))) else {
            return Pointer::default();
        };
        if !matches!(&ty.kind, TypeKind::Ref(..)) {
            let help = "it says what the PTX tells of a `&[T]` or `&mut [T]`";
            self.error(&codes::P0851, attribute, "this attribute stands on a pointer", help);
        }
        kind
    }

    /// `#[align(64)]`
    pub fn alignment(&mut self, attributes: &[syn::Attribute]) -> Option<Expr> {
        let attribute = attributes.iter().find(|a| a.path().is_ident("align"))?;
        match attribute.parse_args::<syn::Expr>() {
            Ok(value) => Some(self.expr(&value)),
            Err(error) => {
                self.error(&codes::P0851, attribute, error.to_string(), "write `#[align(64)]`");
                None
            }
        }
    }
}

/// The expression in `#[align(64)]`.
fn aligned(attributes: &[syn::Attribute]) -> Option<syn::Expr> {
    attributes.iter().find(|a| a.path().is_ident("align"))?.parse_args().ok()
}

/// The number that an expression is.
fn number(expr: &syn::Expr) -> Option<u64> {
    match expr {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(literal), .. }) => literal.base10_parse().ok(),
        _ => None,
    }
}

/// Number of bytes of a parameter that is passed by value and whose alignment an attribute may set: a `TensorMap` or
/// `[u8; 24]`.
fn bytes(ty: &syn::Type) -> Option<u64> {
    match ty {
        syn::Type::Path(path) if path.path.segments.last()?.ident == "TensorMap" => Some(128),
        syn::Type::Array(array) => {
            let syn::Type::Path(element) = &*array.elem else { return None };
            let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(length), .. }) = &array.len else { return None };
            if element.path.is_ident("u8") { length.base10_parse().ok() } else { None }
        }
        _ => None,
    }
}

/// The attributes of a parameter.
pub fn parameter_attributes(input: &syn::FnArg) -> &[syn::Attribute] {
    match input {
        syn::FnArg::Typed(typed) => &typed.attrs,
        syn::FnArg::Receiver(receiver) => &receiver.attrs,
    }
}
