//! Host expressions: `grid`, `block`, `cluster`, `shared`, and the conditions of `requires`.
//!
//! In them every integer of the signature is an `Int` and every slice a `Len`, so that lengths compare with counts of
//! any type and nothing wraps; literals become `int(…)`, and casts, which have no meaning then, are dropped. Arithmetic is calls
//! of the runtime's traits, so that a division by zero is an error of the launch.

use super::Launch;
use super::argument::absolute;
use super::function::written;
use super::tile::dim;
use crate::argument::{Argument, Passing};
use crate::tokens::{contains_ident, joined, source_text};
use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{BinOp, Expr};

impl Launch<'_> {
    /// The configuration of the launch, after the conditions were checked.
    pub fn host(&self, config: &Ident) -> TokenStream {
        let (conditions, result) = (self.conditions(|_| true), self.config(config));
        self.as_host(quote!(#conditions #result))
    }

    /// Conditions of `requires`, each an early return.
    pub fn conditions(&self, wanted: impl Fn(&Expr) -> bool) -> TokenStream {
        joined(self.kernel.launch.requires.iter().filter(|condition| wanted(condition)).map(|c| self.condition(c)))
    }

    /// The alignments that are more than numbers, as variables.
    pub fn aligns(&self) -> TokenStream {
        let rt = self.rt();
        joined(self.kernel.params.iter().filter_map(|argument| {
            let align = integers(argument.computed_align()?, &rt);
            let (name, align) = (argument.align_name(), self.host_expr(&align));
            Some(quote!(let #name: #rt::core::primitive::u64 = #rt::alignment(#align);))
        }))
    }

    /// The names of these variables.
    pub fn align_names(&self) -> impl Iterator<Item = Ident> {
        let computed = self.kernel.params.iter().filter(|argument| argument.computed_align().is_some());
        computed.map(Argument::align_name)
    }

    /// A block in which the parameters are as host expressions see them.
    pub fn as_host(&self, code: TokenStream) -> TokenStream {
        let shadows = self.shadows().chain(self.struct_shadows()).chain(self.dim_shadows());
        quote!({ #(#shadows)* #code })
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
    fn shadows(&self) -> impl Iterator<Item = TokenStream> {
        self.kernel.params.iter().filter(|p| self.is_named(&p.name)).filter_map(|p| self.shadow(p))
    }

    /// The structs of arguments as host expressions see them.
    fn struct_shadows(&self) -> impl Iterator<Item = TokenStream> {
        self.kernel.structs.iter().filter(|taken| self.is_named(&taken.name)).map(|taken| {
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
    fn dim_shadows(&self) -> impl Iterator<Item = TokenStream> {
        let named = |name: &&str| self.is_named(&written(name));
        self.dim_names().filter(named).map(|text| {
            let (rt, name, variable) = (self.rt(), written(text), dim(text));
            quote!(#[allow(non_snake_case)] let #name = #rt::int(#variable);)
        })
    }

    /// Returns true if any host expression has this name.
    fn is_named(&self, name: &Ident) -> bool {
        self.config_exprs().chain(&self.kernel.launch.requires).any(|e| contains_ident(e.to_token_stream(), name))
    }

    /// The expressions of the configuration.
    pub fn config_exprs(&self) -> impl Iterator<Item = &Expr> {
        let launch = &self.kernel.launch;
        [&launch.grid, &launch.block, &launch.cluster, &launch.shared].into_iter().flatten()
    }

    /// Returns an error with the values of what the condition names, if it does not hold.
    fn condition(&self, condition: &Expr) -> TokenStream {
        let (rt, kernel, text) = (self.rt(), self.reference(), source_text(condition));
        let mut places = Vec::new();
        find_places(condition.to_token_stream(), &|name| self.is_value(name), &mut places);
        let values = places.iter().map(|place| self.shown(place));
        let holds = self.host_expr(condition);
        quote! {
            #[allow(clippy::nonminimal_bool)]
            if !(#holds) {
                return #rt::core::result::Result::Err(#rt::unmet(#kernel, #text, &[#(#values),*]));
            }
        }
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
    fn shown(&self, place: &[TokenTree]) -> TokenStream {
        let (rt, place) = (self.rt(), place.iter().cloned().collect::<TokenStream>());
        let name = place.to_string().replace(' ', "");
        let argument = self.kernel.params.iter().find(|p| p.text == name);
        let is_integer = argument.map_or_else(|| self.is_dim(&name), Argument::is_integer);
        match argument.map(Argument::passing) {
            Some(Passing::Read(_) | Passing::Write(_)) => {
                let text = format!("{name}.len()");
                quote!((#text, &#place.len()))
            }
            _ if is_integer => quote!((#name, &#place)),
            _ => quote!((#name, &{
                #[allow(unused_imports)]
                use #rt::Opaque as _;
                #rt::Shown(&#place).shown()
            })),
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
    fn host_expr(&self, expr: &Expr) -> TokenStream {
        self.expr(expr, Literals::AreInts)
    }

    /// An expression of the host. Arithmetic whose result does not exist returns an error from the launch.
    fn expr(&self, expr: &Expr, literals: Literals) -> TokenStream {
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

    /// `left op right`, or an error.
    fn defined(&self, expr: &Expr, of: &str, method: &str, left: &TokenStream, right: &TokenStream) -> TokenStream {
        let (rt, kernel, text) = (self.rt(), self.reference(), source_text(expr));
        let [of, method] = [of, method].map(|name| Ident::new(name, Span::call_site()));
        quote!(#rt::defined(#rt::#of::#method(#left, #right), #kernel, #text)?)
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

/// The places that tokens read: a name for which `is_value` is true, with the fields behind it. Each once, in order.
fn find_places(tokens: TokenStream, is_value: &dyn Fn(&Ident) -> bool, places: &mut Vec<Vec<TokenTree>>) {
    let trees: Vec<TokenTree> = tokens.into_iter().collect();
    let is_dot = |at: usize| matches!(trees.get(at), Some(TokenTree::Punct(dot)) if dot.as_char() == '.');
    let mut at = 0;
    while let Some(tree) = trees.get(at) {
        let mut end = at + 1;
        match tree {
            TokenTree::Group(group) => find_places(group.stream(), is_value, places),
            TokenTree::Ident(name) if is_value(name) && (at == 0 || !is_dot(at - 1)) => {
                end = place_end(&trees, at);
                let place = &trees[at..end];
                let same = |known: &Vec<TokenTree>| {
                    known.iter().map(ToString::to_string).eq(place.iter().map(ToString::to_string))
                };
                if !places.iter().any(same) {
                    places.push(place.to_vec());
                }
            }
            _ => {}
        }
        at = end;
    }
}

/// The end of a place: behind its last field. A method is no part of it.
fn place_end(trees: &[TokenTree], start: usize) -> usize {
    let mut end = start + 1;
    while let [TokenTree::Punct(dot), field @ (TokenTree::Ident(_) | TokenTree::Literal(_)), rest @ ..] = &trees[end..]
    {
        let is_call = matches!(rest, [TokenTree::Group(_), ..])
            || matches!(rest, [TokenTree::Punct(colon), ..] if colon.as_char() == ':');
        if dot.as_char() != '.' || is_call && matches!(field, TokenTree::Ident(_)) {
            break;
        }
        end += 2;
    }
    end
}
