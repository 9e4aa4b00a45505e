//! `#[ptx_test]`: a test that runs on the CPU device under several seeds.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::Parser;
use syn::{Error, ItemFn, LitInt};

/// How often a test runs without `seeds`.
const SEEDS: u64 = 4;

/// Expands the attribute.
pub fn expand(options: TokenStream, item: TokenStream) -> TokenStream {
    test(options, item).unwrap_or_else(|error| error.to_compile_error())
}

fn test(options: TokenStream, item: TokenStream) -> Result<TokenStream, Error> {
    let mut seeds = SEEDS;
    let option = syn::meta::parser(|meta| {
        if !meta.path.is_ident("seeds") {
            return Err(meta.error("`#[ptx_test]` has one option, `seeds = 8`: how many interleavings to try"));
        }
        seeds = meta.value()?.parse::<LitInt>()?.base10_parse()?;
        if seeds == 0 { Err(meta.error("a test that runs with no seed tests nothing")) } else { Ok(()) }
    });
    option.parse2(options)?;
    let function: ItemFn = syn::parse2(item)?;
    if function.sig.inputs.len() != 1 {
        let message = "a kernel's test takes the device that it runs on: `fn name(device: &Device)`";
        return Err(Error::new_spanned(&function.sig.ident, message));
    }
    let (attributes, name, output, body) =
        (&function.attrs, &function.sig.ident, &function.sig.output, &function.block);
    let input = &function.sig.inputs;
    Ok(quote! {
        #[test]
        #(#attributes)*
        fn #name() #output {
            fn run(#input) #output #body
            ::ptx_launch::expansion::each_seed(#seeds, run)
        }
    })
}
