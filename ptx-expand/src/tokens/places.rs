//! The places that a host expression reads: `n`, `p.strides`, `x` of `x.len()`.

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};
use std::fmt::Write;
use syn::{Expr, Member};

/// A name, with the fields behind it.
pub struct Place {
    /// Its tokens.
    pub tokens: Vec<TokenTree>,
    /// The method that is called on it, where it stands first.
    pub method: Option<Ident>,
}

impl Place {
    /// Its text.
    pub fn name(&self) -> String {
        let mut name = String::new();
        for token in &self.tokens {
            // Writing to a string does not fail.
            let _ = write!(name, "{token}");
        }
        name
    }

    /// Returns true if an error shows both in the same way.
    pub fn is_same(&self, other: &Place) -> bool {
        self.name() == other.name() && self.method == other.method
    }
}

/// `x`, or `inputs.x`; an element of an array too: `p.strides[0]`.
pub fn field_path(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Paren(inner) => field_path(&inner.expr),
        Expr::Group(inner) => field_path(&inner.expr),
        Expr::Path(path) => path.path.get_ident().map(ToString::to_string),
        Expr::Field(of) => match &of.member {
            Member::Named(name) => Some(format!("{}.{name}", field_path(&of.base)?)),
            Member::Unnamed(_) => None,
        },
        Expr::Index(index) => match &*index.index {
            Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(at), .. }) => {
                Some(format!("{}[{}]", field_path(&index.expr)?, at.base10_parse::<u64>().ok()?))
            }
            _ => None,
        },
        _ => None,
    }
}

/// The places that tokens read: a name for which `is_value` is true, with the fields behind it. Each once, in order.
pub fn find_places(tokens: TokenStream, is_value: &dyn Fn(&Ident) -> bool, places: &mut Vec<Place>) {
    let trees: Vec<TokenTree> = tokens.into_iter().collect();
    let is_dot = |at: usize| matches!(trees.get(at), Some(TokenTree::Punct(dot)) if dot.as_char() == '.');
    let mut at = 0;
    while let Some(tree) = trees.get(at) {
        let mut end = at + 1;
        match tree {
            TokenTree::Group(group) => find_places(group.stream(), is_value, places),
            TokenTree::Ident(name) if is_value(name) && (at == 0 || !is_dot(at - 1)) => {
                end = place_end(&trees, at);
                let method = match trees.get(end..) {
                    Some([TokenTree::Punct(dot), TokenTree::Ident(method), ..]) if dot.as_char() == '.' => {
                        Some(method.clone())
                    }
                    _ => None,
                };
                let place = Place { tokens: trees[at..end].to_vec(), method };
                if !places.iter().any(|known| known.name() == place.name()) {
                    places.push(place);
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
        let is_call = matches!(rest, [TokenTree::Group(group), ..] if group.delimiter() == Delimiter::Parenthesis)
            || matches!(rest, [TokenTree::Punct(colon), ..] if colon.as_char() == ':');
        if dot.as_char() != '.' || is_call && matches!(field, TokenTree::Ident(_)) {
            break;
        }
        end += 2;
    }
    end
}
