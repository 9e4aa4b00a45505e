//! Rust signatures for the entries of a PTX module, and whether the entry's parameters are of these types.

use crate::argument::{Argument, Passing};
use crate::attribute::Attribute;
use crate::kernel::Reader;
use crate::launchable::Launchable;
use proc_macro2::Ident;
use ptx_core::diag::codes;
use ptx_core::ir::Variable;
use syn::Token;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};

/// `#[ptx_kernel(block = 256)] pub fn add(a: &[f32], n: u32)`
pub struct Signature {
    /// As a function, with an empty body.
    pub item: syn::ItemFn,
}

impl Parse for Signature {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attrs = input.call(syn::Attribute::parse_outer)?;
        let (vis, sig) = (input.parse()?, input.parse()?);
        let block = syn::parse_quote!({});
        Ok(Signature { item: syn::ItemFn { attrs, vis, sig, block } })
    }
}

/// Tokens that may stand between two signatures.
pub fn separator(input: ParseStream<'_>) -> syn::Result<()> {
    if input.parse::<Option<Token![;]>>()?.is_some() || input.is_empty() {
        return Ok(());
    }
    input.parse::<Token![,]>().map(drop)
}

impl Signature {
    /// The entry's name, as Rust has it.
    pub fn name(&self) -> String {
        self.item.sig.ident.unraw().to_string()
    }
}

/// The options of a kernel that the text of a module does not decide.
const OF_LAUNCHES: [&str; 13] = [
    "block",
    "grid",
    "cluster",
    "shared",
    "cooperative",
    "pdl",
    "requires",
    "unsafe",
    "allow",
    "no_local",
    "no_spills",
    "max_registers",
    "occupancy",
];

impl Reader {
    /// An entry with the Rust types of its signature.
    pub(super) fn signed(&mut self, signature: &Signature, params: &[&Variable]) -> Launchable {
        let mut item = signature.item.clone();
        let attribute = self.launch_options(&mut item);
        self.allowed.extend(attribute.allowed.iter().map(|code| (*code, None)));
        let (_, mut launchable) = self.kernel(attribute, &item);
        if !launchable.generics.is_empty() {
            self.error(&codes::P0904, &item.sig.generics, "an entry of a PTX text has no generic parameters", "");
        }
        if launchable.params.len() != params.len() {
            let (has, wants) = (launchable.params.len(), params.len());
            let message = format!("the signature has {has} parameters, the entry in the PTX {wants}");
            self.error(&codes::P0911, &item.sig.ident, message, "write one for each `.param`, in their order");
        }
        for (argument, param) in launchable.params.iter_mut().zip(params) {
            self.fits(argument, param);
            argument.layout = Some((param.size, param.align));
        }
        launchable
    }

    fn launch_options(&mut self, item: &mut syn::ItemFn) -> Attribute {
        let is_kernel = |a: &syn::Attribute| a.path().segments.last().is_some_and(|s| s.ident == "ptx_kernel");
        let Some(at) = item.attrs.iter().position(is_kernel) else { return Attribute::default() };
        let attribute = match item.attrs.remove(at).meta {
            syn::Meta::List(list) => self.attribute(list.tokens),
            _ => Attribute::default(),
        };
        for name in attribute.given.iter().filter(|name| !of_launches(name)) {
            let help = "the PTX says it; a signature takes `block`, `grid`, `cluster`, `shared`, `cooperative`, `pdl`, `requires`, `allow`";
            self.error(&codes::P0906, name, format!("`{name}` has no meaning for a PTX text"), help);
        }
        attribute
    }

    /// Compares sizes, as far as the macro has them.
    fn fits(&mut self, argument: &Argument, param: &Variable) {
        let size = match argument.passing() {
            Passing::Map => Some(128),
            Passing::Value(_) => argument.known_size(),
            _ => Some(8),
        };
        if size.is_some_and(|size| size != param.size) {
            let has = size.unwrap_or(0);
            let message = format!("the entry's parameter `{}` has {} bytes, this type {has}", param.name, param.size);
            self.error(&codes::P0911, &argument.ty, message, "write a type of that size");
        }
    }
}

fn of_launches(name: &Ident) -> bool {
    OF_LAUNCHES.iter().any(|of| name == of)
}
