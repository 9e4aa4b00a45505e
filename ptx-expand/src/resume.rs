//! Attributes go on where their macros asked for the fields of a struct, or for the items of a part.

use crate::{fields, module, part, single};
use proc_macro2::{Group, Ident, TokenStream};
use syn::parse::{ParseStream, Parser};

/// Expands an attribute whose first struct without fields now has them, or whose first part is known: `module { options } { item } { fields }`,
/// `part { options } { item } { items }`.
pub fn resume(input: TokenStream) -> TokenStream {
    let parts = |input: ParseStream<'_>| {
        let kind: Ident = input.parse()?;
        let [options, item, found] = [input.parse::<Group>()?, input.parse()?, input.parse()?];
        Ok((kind, options.stream(), item.stream(), found))
    };
    match parts.parse2(input) {
        Ok((kind, options, item, items)) if kind == "part" => {
            let (options, module) = part::resumed(options, item, &items);
            module::expand(options, module)
        }
        Ok((kind, options, item, fields)) => {
            let expand = if kind == "module" { module::expand } else { single::expand };
            expand(fields::with_fields(options, &fields), item)
        }
        Err(error) => error.into_compile_error(),
    }
}
