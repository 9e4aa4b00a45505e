//! Attributes go on where their macros asked for the fields of a struct.

use crate::{fields, module, single};
use proc_macro2::{Group, Ident, TokenStream};
use syn::parse::{ParseStream, Parser};

/// Expands an attribute whose first struct without fields now has them: `module { options } { item } { fields }`.
pub fn resume(input: TokenStream) -> TokenStream {
    let parts = |input: ParseStream<'_>| {
        let kind: Ident = input.parse()?;
        let [options, item, fields] = [input.parse::<Group>()?, input.parse()?, input.parse()?];
        Ok((kind, options.stream(), item.stream(), fields))
    };
    match parts.parse2(input) {
        Ok((kind, options, item, fields)) => {
            let expand = if kind == "module" { module::expand } else { single::expand };
            expand(fields::with_fields(options, &fields), item)
        }
        Err(error) => error.into_compile_error(),
    }
}
