//! `#[ptx_test]`: a test that runs on the CPU device under several seeds.

use crate::embed::{self, ptxas::Ptxas};
use crate::kernel::Reader;
use crate::report;
use crate::root::Root;
use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::Parser;
use syn::{Error, ItemFn, LitInt};

/// Number of runs of a test without `seeds`.
const SEEDS: u64 = 4;

/// Expands the attribute.
pub fn expand(options: TokenStream, item: TokenStream) -> TokenStream {
    test(options, item).unwrap_or_else(|error| error.to_compile_error())
}

fn test(options: TokenStream, item: TokenStream) -> Result<TokenStream, Error> {
    let (mut seeds, mut given, mut is_assembled) = (SEEDS, None, false);
    let option = syn::meta::parser(|meta| {
        if meta.path.is_ident("crate") {
            given = Some(meta.value()?.call(syn::Path::parse_mod_style)?);
            return Ok(());
        }
        if meta.path.is_ident("assembled") {
            is_assembled = true;
            return Ok(());
        }
        if !meta.path.is_ident("seeds") {
            return Err(meta.error(
                "`#[ptx_test]` takes `seeds = 8`, how many interleavings to try, `assembled`, and `crate = path`",
            ));
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
    let mut reader = Reader::default();
    let Some(root) = Root::or_report(given.as_ref(), &mut reader, name) else {
        return Ok(report::report(&reader.host, &reader.diagnostics, &[]));
    };
    let rt = root.expansion();
    let (ptxas, tracked) = (is_assembled.then(Ptxas::find), is_assembled.then(|| embed::tracked(&rt)));
    let ignored = matches!(ptxas, Some(None)).then(|| {
        quote!(#[ignore = "no ptxas when it was built: set PTXAS, or `pip install nvidia-cuda-nvcc` in the active environment"])
    });
    let path = ptxas.flatten().map(|ptxas| ptxas.0.to_string_lossy().into_owned());
    let run = match path {
        Some(path) => quote!(#rt::each_seed_assembled(#seeds, #name, #path)),
        None => quote!(#rt::each_seed(#seeds, #name)),
    };
    // The inner function has the same name, so that the body finds what it would find without the attribute.
    Ok(quote! {
        #[#rt::core::prelude::v1::test]
        #ignored
        #(#attributes)*
        fn #name() #output {
            #tracked
            fn #name(#input) #output #body
            #run
        }
    })
}
