//! The procedural macros of `ptx-ffi`: a function becomes its description, and the symbols that other languages call; a struct becomes a part of
//! such a description. `ptx-ffi` holds the calls and their checks; nothing here reads a kernel's body.

#![forbid(unsafe_code)]

mod args;
mod emit;
mod item;
mod options;

use proc_macro::TokenStream;

/// Exports a function, or a kernel with tile parameters, to PyTorch, JAX, NumPy and CuPy. The documentation of `ptx-ffi` lists its options.
#[proc_macro_attribute]
pub fn export(options: TokenStream, item: TokenStream) -> TokenStream {
    let item = proc_macro2::TokenStream::from(item);
    let exported = options::parse(options.into()).and_then(|options| {
        let function = item::parse(item.clone(), &options)?;
        Ok(emit::emit(&function, &options))
    });
    let mut output = item;
    output.extend(exported.unwrap_or_else(|error| error.into_compile_error()));
    output.into()
}

/// Makes a struct of arguments: an exported function that takes it has its fields as parameters. The documentation of `ptx-ffi` shows one.
#[proc_macro_derive(Args, attributes(args))]
pub fn args(item: TokenStream) -> TokenStream {
    args::derive(item.into()).unwrap_or_else(|error| error.into_compile_error()).into()
}
