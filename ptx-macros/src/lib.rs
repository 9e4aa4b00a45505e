//! The procedural macros of `ptx-launch`: a door to `ptx-expand`, which tools can call where no compiler runs.

use proc_macro::TokenStream;

/// Makes a GPU kernel of a function: its PTX as a constant, and a typed launch of the same name.
#[proc_macro_attribute]
pub fn ptx_kernel(options: TokenStream, item: TokenStream) -> TokenStream {
    ptx_expand::kernel(options.into(), item.into()).into()
}

/// Makes one PTX module of several kernels and of the constants, helpers and statics that they share.
#[proc_macro_attribute]
pub fn ptx_module(options: TokenStream, item: TokenStream) -> TokenStream {
    ptx_expand::module(options.into(), item.into()).into()
}

/// In a kernel: its instructions. At item level: a whole PTX module, which becomes a constant and a typed launch for
/// every entry.
#[proc_macro]
pub fn ptx(body: TokenStream) -> TokenStream {
    ptx_expand::text(body.into()).into()
}

/// A PTX module from a file, checked: a constant and a typed launch for every entry.
#[proc_macro]
pub fn ptx_file(input: TokenStream) -> TokenStream {
    ptx_expand::file(input.into()).into()
}

/// Lets a `#[repr(C)]` struct be passed to kernels by value.
#[proc_macro_derive(KernelParam)]
pub fn kernel_param(item: TokenStream) -> TokenStream {
    ptx_expand::param(item.into()).into()
}
