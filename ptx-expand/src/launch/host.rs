//! Host expressions: `grid`, `block`, `cluster`, `shared`, and the conditions of `requires`.
//!
//! In them every integer of the signature is an `Int` and every slice a `Len`, so that lengths compare with counts of
//! any type and nothing wraps; literals become `int(…)`, and casts, which have no meaning then, are dropped. Arithmetic is calls
//! of the runtime's traits, so that a division by zero is an error of the launch.

use super::Launch;
use super::argument::absolute;
use super::function::written;
use super::tile::dim;
use crate::argument::{Argument, Passing, is_builtin_name};
use crate::tokens::places::{Place, field_path, find_places};
use crate::tokens::{contains_ident, joined, local, source_text};
use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::{BinOp, Expr, Lifetime};

impl Launch<'_> {
    /// The configuration of the launch, after the conditions were checked.
    pub fn host(&self, config: &Ident) -> TokenStream {
        let (conditions, result) = (self.conditions(|_| true), self.config(config));
        self.as_host(quote!(#conditions #result))
    }

    /// Checks the conditions of `requires`: the first one that does not hold ends the launch. All of them share one list of values for the error.
    pub fn conditions(&self, wanted: impl Fn(&Expr) -> bool) -> TokenStream {
        let conditions: Vec<&Expr> = self.kernel.launch.requires.iter().filter(|condition| wanted(condition)).collect();
        if conditions.is_empty() {
            return TokenStream::new();
        }
        let (rt, kernel, unmet) = (self.rt(), self.reference(), local("unmet"));
        let (label, mut places) = (Lifetime::new("'conditions", Span::mixed_site()), Vec::new());
        let checks = joined(conditions.iter().map(|condition| {
            let (holds, text) = (self.host_expr(condition), source_text(condition));
            let named = Literal::byte_string(&self.find_named(condition, &mut places));
            quote!(if !(#holds) { break #label #rt::core::option::Option::Some(#rt::Unmet(#text, #named)); })
        }));
        let values = places.iter().map(|place| self.shown(place));
        quote! {
            #[allow(clippy::nonminimal_bool)]
            let #unmet = #label: {
                #checks
                #rt::core::option::Option::None
            };
            if let #rt::core::option::Option::Some(#unmet) = #unmet {
                return #rt::core::result::Result::Err(#rt::unmet(#kernel, #unmet, &[#(#values),*]));
            }
        }
    }

    /// The alignments of the wanted ones among those that are more than numbers, as variables.
    pub fn aligns(&self, wanted: impl Fn(&Expr) -> bool) -> TokenStream {
        let rt = self.rt();
        joined(self.computed_aligns().filter(|(_, align)| wanted(align)).map(|(argument, align)| {
            let (name, align) = (argument.align_name(), self.host_expr(&align));
            quote!(let #name: #rt::core::primitive::u64 = #rt::alignment(#align);)
        }))
    }

    /// The alignments that are more than numbers, each constant in them as an `Int`, because their types differ.
    pub fn computed_aligns(&self) -> impl Iterator<Item = (&Argument, Expr)> {
        let rt = self.rt();
        self.kernel
            .params
            .iter()
            .filter_map(move |argument| Some((argument, integers(argument.computed_align()?, &rt))))
    }

    /// A block in which the parameters that it names are as host expressions see them.
    pub fn as_host(&self, code: TokenStream) -> TokenStream {
        if code.is_empty() {
            return code;
        }
        let shadows = joined(self.shadows(&code).chain(self.struct_shadows(&code)).chain(self.dim_shadows(&code)));
        quote!({ #shadows #code })
    }

    /// The configuration of the attribute, over that of the call.
    pub fn config(&self, config: &Ident) -> TokenStream {
        let attribute = self.attribute_config();
        let over = self.takes_config().then(|| match self.kernel.is_safe() {
            true => quote!(#config.safely_over),
            false => quote!(#config.over),
        });
        match over {
            Some(over) => quote!(#over(#attribute)?),
            None => attribute,
        }
    }

    fn attribute_config(&self) -> TokenStream {
        let (rt, launch) = (self.rt(), &self.kernel.launch);
        let start = match &launch.grid {
            Some(grid) => {
                let grid = self.host_expr(grid);
                quote!(#rt::Config::grid(#grid))
            }
            None => quote!(#rt::Config::new()),
        };
        let sizes = [("block", &launch.block), ("cluster", &launch.cluster), ("shared", &launch.shared)];
        let sizes = sizes.into_iter().filter_map(|(name, value)| {
            let (name, value) = (Ident::new(name, Span::call_site()), self.host_expr(value.as_ref()?));
            Some(quote!(.#name(#value)))
        });
        let of_type = launch.sized_shared.then(|| {
            let kernel = self.reference();
            quote!(.shared((#kernel).dynamic_shared()))
        });
        let cooperative = launch.cooperative.then(|| quote!(.cooperative(true)));
        let pdl = launch.pdl.then(|| quote!(.pdl(true)));
        quote!(#start #(#sizes)* #of_type #cooperative #pdl)
    }

    /// The parameters as host expressions see them.
    fn shadows(&self, code: &TokenStream) -> impl Iterator<Item = TokenStream> {
        self.kernel.params.iter().filter(|p| self.is_named(&p.name, code)).filter_map(|p| self.shadow(p))
    }

    /// The structs of arguments as host expressions see them.
    fn struct_shadows(&self, code: &TokenStream) -> impl Iterator<Item = TokenStream> {
        self.kernel.structs.iter().filter(|taken| self.is_named(&taken.name, code)).map(|taken| {
            let (path, name) = (self.struct_path(&taken.ty), &taken.name);
            let fields = self.fields(taken).map(|(field, argument)| {
                let value = self.seen(argument).unwrap_or_else(|| match argument.passing() {
                    Passing::Surface => quote!(()),
                    _ => argument.name.to_token_stream(),
                });
                quote!(#field: #value)
            });
            quote!(let #name = #path { #(#fields),* };)
        })
    }

    /// The dimensions of tiles as host expressions see them.
    fn dim_shadows(&self, code: &TokenStream) -> impl Iterator<Item = TokenStream> {
        let named = |name: &&str| self.is_named(&written(name), code);
        self.dim_names().filter(named).map(|text| {
            let (rt, name, variable) = (self.rt(), written(text), dim(text));
            quote!(#[allow(non_snake_case)] let #name = #rt::int(#variable);)
        })
    }

    /// Returns true if any host expression has this name, and the code that is made of some of them. (A name of the runtime may be that of a parameter.)
    fn is_named(&self, name: &Ident, code: &TokenStream) -> bool {
        self.config_exprs().chain(&self.kernel.launch.requires).any(|e| contains_ident(e.to_token_stream(), name))
            && contains_ident(code.clone(), name)
    }

    /// The expressions of the configuration.
    pub fn config_exprs(&self) -> impl Iterator<Item = &Expr> {
        let launch = &self.kernel.launch;
        [&launch.grid, &launch.block, &launch.cluster, &launch.shared].into_iter().flatten()
    }

    /// The places that a condition names, as indices of `places`, which has those of all conditions.
    fn find_named(&self, condition: &Expr, places: &mut Vec<Place>) -> Vec<u8> {
        let mut own = Vec::new();
        find_places(condition.to_token_stream(), &|name| self.is_value(name), &mut own);
        let index = |place: Place| {
            let known = places.iter().position(|known| known.is_same(&place));
            known.unwrap_or_else(|| {
                places.push(place);
                places.len() - 1
            })
        };
        // Places beyond the last index that a byte has are not shown.
        own.into_iter().map(index).filter_map(|index| u8::try_from(index).ok()).collect()
    }
}

impl Launch<'_> {
    /// Returns true for parameters, and for the dimensions of tiles.
    fn is_value(&self, name: &Ident) -> bool {
        let structs = self.kernel.structs.iter().map(|taken| &taken.name);
        self.kernel.params.iter().map(|p| &p.name).chain(structs).any(|known| known == name)
            || self.dim_names().any(|dim| written(dim) == *name)
    }

    /// The text of a place, and its value as text: of memory the number of elements.
    fn shown(&self, place: &Place) -> TokenStream {
        let (rt, name, method) = (self.rt(), place.name(), &place.method);
        let place = place.tokens.iter().cloned().collect::<TokenStream>();
        let argument = self.kernel.params.iter().find(|p| p.text == name);
        let is_integer = argument.map_or_else(|| self.is_dim(&name), Argument::is_integer);
        match argument.map(Argument::passing) {
            Some(Passing::Read(_) | Passing::Write(_)) => {
                let text = format!("{name}.len()");
                quote!((#text, &#place.len()))
            }
            _ if is_integer => quote!((#name, &#place)),
            _ => {
                let shown = quote!({
                    #[allow(unused_imports)]
                    use #rt::Opaque as _;
                    #rt::Shown(&#place).shown()
                });
                let shown = match method.as_ref().filter(|_| self.is_struct(&name)) {
                    Some(method) => {
                        let method = method.to_string();
                        quote!({
                            #[allow(unused_imports)]
                            use #rt::Whole as _;
                            #rt::Receiver { of: &#place, function: #method, whole: || #shown }.shown()
                        })
                    }
                    None => shown,
                };
                quote!((#name, &#shown))
            }
        }
    }

    fn shadow(&self, argument: &Argument) -> Option<TokenStream> {
        let (name, seen) = (&argument.name, self.seen(argument)?);
        Some(quote!(let #name = #seen;))
    }

    /// A length or an integer as host expressions see it.
    fn seen(&self, argument: &Argument) -> Option<TokenStream> {
        let (name, rt) = (&argument.name, self.rt());
        match argument.passing() {
            Passing::Read(t) => {
                let t = absolute(&t, self.root);
                Some(quote!(#rt::Len::new(#rt::ReadSlice::<#t>::len(&#name))))
            }
            Passing::Write(t) => {
                let t = absolute(&t, self.root);
                Some(quote!(#rt::Len::new(#rt::WriteSlice::<#t>::len(&#name))))
            }
            Passing::Value(_) if argument.is_integer() => Some(quote!(#rt::int(#name))),
            _ => None,
        }
    }

    /// An expression over `Int`s.
    pub fn host_expr(&self, expr: &Expr) -> TokenStream {
        self.expr(expr, Literals::AreInts)
    }

    /// An expression of the host. Arithmetic whose result does not exist returns an error from the launch.
    fn expr(&self, expr: &Expr, literals: Literals) -> TokenStream {
        if let Some(value) = self.value(expr) {
            return value;
        }
        let rt = self.rt();
        let inner = |inner: &Expr| self.expr(inner, literals);
        match expr {
            Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(literal), .. }) if literals == Literals::AreInts => {
                quote!(#rt::int(#literal))
            }
            Expr::Cast(cast) if literals == Literals::AreInts => inner(&cast.expr),
            Expr::Cast(cast) => {
                let (value, ty) = (inner(&cast.expr), absolute(&cast.ty, self.root));
                quote!((#value as #ty))
            }
            Expr::Paren(paren) => {
                let inner = inner(&paren.expr);
                quote!((#inner))
            }
            Expr::Group(group) => inner(&group.expr),
            Expr::Binary(binary) => {
                let (left, op, right) = (inner(&binary.left), binary.op, inner(&binary.right));
                match operator(&op) {
                    Some((of, method)) => self.defined(expr, of, method, &left, &right),
                    None => quote!(#left #op #right),
                }
            }
            Expr::Unary(unary) => {
                let (op, value) = (unary.op, inner(&unary.expr));
                quote!(#op #value)
            }
            Expr::Tuple(tuple) => {
                let parts = tuple.elems.iter().map(inner);
                quote!((#(#parts),*))
            }
            Expr::Array(array) => {
                let parts = array.elems.iter().map(inner);
                quote!([#(#parts),*])
            }
            Expr::MethodCall(call) => {
                let receiver = inner(&call.receiver);
                let args: Vec<_> = call.args.iter().map(inner).collect();
                match (PARTIAL.iter().find(|name| call.method == name), args.as_slice()) {
                    (Some(method), [arg]) => self.defined(expr, "IntegerArithmetic", method, &receiver, arg),
                    _ if field_path(&call.receiver).is_some_and(|name| self.is_struct(&name)) => {
                        self.struct_call(call, &receiver, &args)
                    }
                    _ => {
                        let (method, turbofish) = (&call.method, &call.turbofish);
                        quote!(#receiver.#method #turbofish(#(#args),*))
                    }
                }
            }
            // What is called by name keeps its literals as they are.
            Expr::Call(call) => {
                let (function, args) = (&call.func, call.args.iter().map(|arg| self.expr(arg, Literals::Stay)));
                quote!(#function(#(#args),*))
            }
            Expr::Index(index) => {
                let (of, at) = (inner(&index.expr), self.expr(&index.index, Literals::Stay));
                quote!(#of[#at])
            }
            other => other.to_token_stream(),
        }
    }

    /// The call of a method of a struct of parameters. That of a condition function is an error of the launch where it has no result.
    fn struct_call(&self, call: &syn::ExprMethodCall, receiver: &TokenStream, args: &[TokenStream]) -> TokenStream {
        let (rt, kernel, method, turbofish) = (self.rt(), self.reference(), &call.method, &call.turbofish);
        quote!({
            #[allow(unused_imports)]
            use #rt::{Plain as _, Unviewed as _};
            #rt::Returned(#rt::Viewed(&#receiver).viewed().#method #turbofish(#(#args),*)).value(#kernel)?
        })
    }

    /// Returns true for a parameter, or the field of one, that is a struct by value.
    fn is_struct(&self, name: &str) -> bool {
        let types: Vec<_> = self.types().collect();
        let is_generic = |ty: &syn::Type| matches!(ty, syn::Type::Path(path) if types.iter().any(|known| path.path.is_ident(*known)));
        self.kernel.params.iter().filter(|param| param.text == name).any(|param| match param.passing() {
            Passing::Value(syn::Type::Path(ty)) => {
                let last = ty.path.segments.last().map(|last| &last.ident);
                !is_generic(&syn::Type::Path(ty.clone()))
                    && last.is_some_and(|name| {
                        !is_builtin_name(name) && name != "usize" && name != "isize" && name != "bool"
                    })
            }
            _ => false,
        })
    }

    /// `left op right`, or an error. (`?` would be three times the code.)
    fn defined(&self, expr: &Expr, of: &str, method: &str, left: &TokenStream, right: &TokenStream) -> TokenStream {
        let (rt, kernel, text, value) = (self.rt(), self.reference(), source_text(expr), local("value"));
        let [of, method] = [of, method].map(|name| Ident::new(name, Span::call_site()));
        quote! {
            (match #rt::#of::#method(#left, #right) {
                #rt::core::option::Option::Some(#value) => #value,
                #rt::core::option::Option::None => return #rt::without_value(#kernel, #text),
            })
        }
    }
}

/// An expression of constants, each of them an `Int`, because their types differ.
fn integers(expr: &Expr, rt: &TokenStream) -> Expr {
    let mut expr = expr.clone();
    match &mut expr {
        Expr::Lit(_) => {}
        Expr::Paren(paren) => *paren.expr = integers(&paren.expr, rt),
        Expr::Group(group) => *group.expr = integers(&group.expr, rt),
        Expr::Cast(cast) => return integers(&cast.expr, rt),
        Expr::Binary(binary) => {
            *binary.left = integers(&binary.left, rt);
            *binary.right = integers(&binary.right, rt);
        }
        other => return syn::parse_quote!(#rt::int(#other)),
    }
    expr
}

/// The treatment of literals in a host expression.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Literals {
    AreInts,
    Stay,
}

/// The operators that may have no result: the trait of the runtime, and its method.
fn operator(op: &BinOp) -> Option<(&'static str, &'static str)> {
    Some(match op {
        BinOp::Add(_) => ("Arithmetic", "add"),
        BinOp::Sub(_) => ("Arithmetic", "sub"),
        BinOp::Mul(_) => ("Arithmetic", "mul"),
        BinOp::Div(_) => ("Arithmetic", "div"),
        BinOp::Rem(_) => ("Arithmetic", "rem"),
        BinOp::Shl(_) => ("IntegerArithmetic", "shl"),
        BinOp::Shr(_) => ("IntegerArithmetic", "shr"),
        _ => return None,
    })
}

/// The methods of integers that may have no result.
const PARTIAL: [&str; 3] = ["div_ceil", "next_multiple_of", "pow"];
