//! The procedural macro of `ptx-ffi`: a function becomes its description, and the symbols that other languages call. Calls and their
//! checks stand in `ptx-ffi`; nothing here reads a kernel's body.

#![forbid(unsafe_code)]

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
