//! Host expressions: `grid`, `block`, `cluster`, `shared`, and the conditions of `safe`.
//!
//! In them every integer of the signature is an `Int` and every slice a `Len`, so that lengths compare with counts of
//! any type and nothing wraps; literals become `int(…)`, and casts, which have no meaning then, are dropped.

use super::Launch;
use super::argument::Passing;
use super::data::rt;
use super::function::{local, written};
use super::tile::dim;
use crate::kernel::Argument;
use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::Expr;

impl Launch<'_> {
    /// The configuration of the launch, after the conditions were checked.
    pub fn host(&self, config: &Ident) -> TokenStream {
        let attribute = self.attribute_config();
        let over = self.takes_config().then(|| quote!(#config.over));
        let result = match over {
            Some(over) => quote!(#over(#attribute)?),
            None => attribute,
        };
        let shadows = self.shadows().chain(self.dim_shadows());
        let conditions = self.kernel.launch.safe.iter().flatten().map(|c| self.condition(c));
        quote! {{
            #(#shadows)*
            #(#conditions)*
            #result
        }}
    }

    fn attribute_config(&self) -> TokenStream {
        let (rt, launch) = (rt(), &self.kernel.launch);
        let start = match &launch.grid {
            Some(grid) => {
                let grid = host_expr(grid);
                quote!(#rt::Config::grid(#grid))
            }
            None => quote!(#rt::Config::new()),
        };
        let sizes = [("block", &launch.block), ("cluster", &launch.cluster), ("shared", &launch.shared)];
        let sizes = sizes.into_iter().filter_map(|(name, value)| {
            let (name, value) = (Ident::new(name, proc_macro2::Span::call_site()), host_expr(value.as_ref()?));
            Some(quote!(.#name(#value)))
        });
        let cooperative = launch.cooperative.then(|| quote!(.cooperative(true)));
        let pdl = launch.pdl.then(|| quote!(.pdl(true)));
        quote!(#start #(#sizes)* #cooperative #pdl)
    }

    /// The parameters as host expressions see them.
    fn shadows(&self) -> impl Iterator<Item = TokenStream> {
        self.kernel.params.iter().filter(|p| self.is_named(&p.name)).filter_map(shadow)
    }

    /// The dimensions of tiles as host expressions see them.
    fn dim_shadows(&self) -> impl Iterator<Item = TokenStream> {
        let named = |name: &&str| self.is_named(&local(name));
        self.dim_names().filter(named).map(|text| {
            let (rt, name, variable) = (rt(), written(text), dim(text));
            quote!(#[allow(non_snake_case)] let #name = #rt::int(#variable);)
        })
    }

    /// Whether any host expression has this name.
    fn is_named(&self, name: &Ident) -> bool {
        let launch = &self.kernel.launch;
        let sizes = [&launch.grid, &launch.block, &launch.cluster, &launch.shared].into_iter().flatten();
        sizes.chain(launch.safe.iter().flatten()).any(|e| names(e.to_token_stream(), name))
    }

    /// Returns an error with the values of what the condition names, if it does not hold.
    fn condition(&self, condition: &Expr) -> TokenStream {
        let (rt, kernel, text) = (rt(), self.reference(), text(condition));
        let named = self.kernel.params.iter().filter(|p| names(condition.to_token_stream(), &p.name));
        let values = named.filter_map(|p| {
            let name = &p.name;
            match p.passing() {
                Passing::Read(_) | Passing::Write(_) => {
                    let text = format!("{name}.len()");
                    Some(quote!((#text, #name.len())))
                }
                Passing::Value(_) if p.is_integer() => {
                    let text = name.to_string();
                    Some(quote!((#text, #name)))
                }
                _ => None,
            }
        });
        let holds = host_expr(condition);
        quote! {
            #[allow(clippy::nonminimal_bool)]
            if !(#holds) {
                return ::core::result::Result::Err(#rt::unmet(#kernel, #text, &[#(#values),*]));
            }
        }
    }
}

fn shadow(argument: &Argument) -> Option<TokenStream> {
    let (name, rt) = (&argument.name, rt());
    match argument.passing() {
        Passing::Read(t) => Some(quote!(let #name = #rt::Len::new(#rt::ReadSlice::<#t>::len(&#name));)),
        Passing::Write(t) => Some(quote!(let #name = #rt::Len::new(#rt::WriteSlice::<#t>::len(&#name));)),
        Passing::Value(_) if argument.is_integer() => Some(quote!(let #name = #rt::int(#name);)),
        _ => None,
    }
}

/// An expression over `Int`s. What is called by name keeps its arguments as they are.
fn host_expr(expr: &Expr) -> TokenStream {
    let rt = rt();
    match expr {
        Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(literal), .. }) => quote!(#rt::int(#literal)),
        Expr::Cast(cast) => host_expr(&cast.expr),
        Expr::Paren(inner) => {
            let inner = host_expr(&inner.expr);
            quote!((#inner))
        }
        Expr::Group(inner) => host_expr(&inner.expr),
        Expr::Binary(binary) => {
            let (left, op, right) = (host_expr(&binary.left), binary.op, host_expr(&binary.right));
            quote!(#left #op #right)
        }
        Expr::Unary(unary) => {
            let (op, inner) = (unary.op, host_expr(&unary.expr));
            quote!(#op #inner)
        }
        Expr::Tuple(tuple) => {
            let parts = tuple.elems.iter().map(host_expr);
            quote!((#(#parts),*))
        }
        Expr::MethodCall(call) => {
            let (receiver, method, turbofish) = (host_expr(&call.receiver), &call.method, &call.turbofish);
            let args = call.args.iter().map(host_expr);
            quote!(#receiver.#method #turbofish(#(#args),*))
        }
        other => other.to_token_stream(),
    }
}

/// Whether a name occurs in tokens.
fn names(tokens: TokenStream, name: &Ident) -> bool {
    tokens.into_iter().any(|tree| match tree {
        TokenTree::Ident(ident) => ident == *name,
        TokenTree::Group(group) => names(group.stream(), name),
        _ => false,
    })
}

/// A condition as the user wrote it; without the source, as Rust prints its tokens.
fn text(condition: &Expr) -> String {
    let (first, last) = crate::tokens::ends(condition);
    let whole = first.join(last).and_then(|span| span.source_text());
    whole.unwrap_or_else(|| spaced(condition.to_token_stream()))
}

/// Tokens with blanks around operators only.
fn spaced(tokens: TokenStream) -> String {
    let text = tokens.to_string();
    ["(", ")", ".", ",", "::"].iter().fold(text, |text, mark| match *mark {
        "(" => text.replace(" (", "(").replace("( ", "("),
        ")" => text.replace(" )", ")"),
        "." => text.replace(" . ", "."),
        "," => text.replace(" ,", ","),
        _ => text.replace(" :: ", "::"),
    })
}
