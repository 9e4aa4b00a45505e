//! The parameters of every function of a text: of Rust, of device code, and of those that macros have in their bodies.

use crate::device_code::count_parameters;
use proc_macro2::{Delimiter, Group, LexError, TokenStream, TokenTree};

/// The signature of a function.
#[derive(Debug, PartialEq, Eq)]
pub struct Signature {
    /// The name, or the variable of a macro that stands for it.
    pub name: String,
    /// Its line, from 1.
    pub at: usize,
    /// Parameters, the receiver included.
    pub parameters: usize,
}

/// The signatures of a text, in their order.
///
/// # Errors
/// A text that is not made of Rust's tokens.
pub fn signatures(text: &str) -> Result<Vec<Signature>, LexError> {
    let mut found = Vec::new();
    collect(text.parse()?, &mut found);
    Ok(found)
}

fn collect(tokens: TokenStream, found: &mut Vec<Signature>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(word) if word == "fn" => found.extend(signature(&tokens[at + 1..])),
            TokenTree::Group(group) => collect(group.stream(), found),
            _ => {}
        }
    }
}

/// The signature behind `fn`; none for the type of a function.
fn signature(tokens: &[TokenTree]) -> Option<Signature> {
    let name = tokens.iter().take(2).find_map(|token| match token {
        TokenTree::Ident(name) => Some(name),
        _ => None,
    })?;
    let list = tokens.iter().find_map(parentheses)?;
    Some(Signature { name: name.to_string(), at: name.span().start().line, parameters: count_parameters(list) })
}

fn parentheses(token: &TokenTree) -> Option<&Group> {
    match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis => Some(group),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::signatures;

    #[test]
    fn functions_of_all_kinds_have_their_parameters() {
        let text = "
            trait A { fn a(&self, x: Map<u8, (u8, u8)>); }
            macro_rules! m { ($name:ident) => { fn $name<T: Of<u8>>(a: T, b: [T; 3],) {} }; }
            const F: fn(u8, u8) -> u8 = f; // fn comment(a: u8) {}
            pub unsafe fn none() { fn inner(f: impl Fn(u8, u8) -> u8) {} }
        ";
        let found: Vec<_> = signatures(text).unwrap_or_default();
        let found: Vec<_> = found.iter().map(|one| (&*one.name, one.at, one.parameters)).collect();
        assert_eq!(found, [("a", 2, 2), ("name", 3, 2), ("none", 5, 0), ("inner", 5, 1)]);
    }
}
