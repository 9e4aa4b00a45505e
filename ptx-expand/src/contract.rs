//! `#[ptx_contract]`: condition functions of a struct of parameters, which the host expressions of kernels call: `requires(p.covers([x.len(), y.len()]))`.
//!
//! The functions stay what they are in Rust. Launches call a second form of each (`view`), over integers without a type; launches from text and proofs
//! evaluate the same tree (`describe`).

mod read;
mod tree;
mod view;

pub(crate) use read::operator;
pub use read::read;
pub use tree::{Call, Contract, Pattern, Place, Tree};

use crate::kernel::Reader;
use crate::nesting;
use crate::report;
use crate::root::{Given, Root};
use proc_macro2::TokenStream;
use ptx_core::diag::codes;
use quote::quote;

/// The name of the attribute.
pub const NAME: &str = "ptx_contract";

/// Expands the attribute.
pub fn expand(options: TokenStream, item: TokenStream) -> TokenStream {
    if let Err(deep) = nesting::check_nesting(&item) {
        return deep.refuse();
    }
    let mut reader = Reader::default();
    let given = match options.is_empty() {
        true => None,
        false => match syn::parse2::<Given>(options.clone()) {
            Ok(Given(path)) => Some(path),
            Err(_) => {
                let help = "write `#[ptx_contract]`, or `#[ptx_contract(crate = path::to::ptx_launch)]`";
                reader.error(&codes::P0903, &options, "a contract has no such option", help);
                None
            }
        },
    };
    let implementation: syn::ItemImpl = match syn::parse2(item.clone()) {
        Ok(implementation) => implementation,
        Err(error) => {
            let help = report::kind_or_syntax(&item, "impl", "`#[ptx_contract]` stands on an `impl`", &error);
            return report::refuse(&mut reader, &error, help);
        }
    };
    let root = Root::or_report(given.as_ref(), &mut reader, &implementation.self_ty);
    let view = expand_in(&mut reader, &implementation, root.as_ref());
    let diagnostics = report::report(&reader.host, &reader.diagnostics, &[]);
    // Launches alone may call them.
    quote!(#[allow(dead_code)] #implementation #view #diagnostics)
}

/// The second form of the functions, for an `impl` that stands where `root` is seen from.
pub fn expand_in(reader: &mut Reader, item: &syn::ItemImpl, root: Option<&Root>) -> Option<TokenStream> {
    let before = reader.diagnostics.len();
    let contract = read(reader, item)?;
    (reader.first_error(before).is_none()).then(|| root.map(|root| view::view(&contract, root)))?
}

/// The `impl` without the attribute, if it has it.
pub fn contract_of(item: &syn::Item) -> Option<syn::ItemImpl> {
    let syn::Item::Impl(item) = item else { return None };
    let at = item.attrs.iter().position(is_contract)?;
    let mut item = item.clone();
    item.attrs.remove(at);
    Some(item)
}

fn is_contract(attribute: &syn::Attribute) -> bool {
    attribute.path().segments.last().is_some_and(|last| last.ident == NAME)
}
