//! The procedural macros of `ptx-launch`: a door. What a kernel means is `ptx-core`'s work.
//!
//! ```text
//! Rust tokens ─kernel─► statement tree ─ptx-core─► PTX text and diagnostics ─launch, report─► Rust tokens
//! ```

#![allow(unreachable_pub, reason = "the crate exports macros only: `pub` is what a module shows to the others")]

mod attribute;
mod compile;
mod kernel;
mod launch;
mod module;
mod param;
mod prelude;
mod report;
mod single;
mod text_module;
mod tokens;

use proc_macro::TokenStream;

/// Makes a GPU kernel of a function: its PTX as a constant, and a typed launch of the same name.
#[proc_macro_attribute]
pub fn ptx_kernel(options: TokenStream, item: TokenStream) -> TokenStream {
    single::expand(options.into(), item.into()).into()
}

/// Makes one PTX module of several kernels and of the constants, helpers and statics that they share.
#[proc_macro_attribute]
pub fn ptx_module(options: TokenStream, item: TokenStream) -> TokenStream {
    module::expand(options.into(), item.into()).into()
}

/// In a kernel: its instructions. At item level: a whole PTX module, which becomes a constant and a typed launch for
/// every entry.
#[proc_macro]
pub fn ptx(body: TokenStream) -> TokenStream {
    text_module::expand(body.into()).into()
}

/// A PTX module from a file, checked: a constant and a typed launch for every entry.
#[proc_macro]
pub fn ptx_file(input: TokenStream) -> TokenStream {
    text_module::expand_file(input.into()).into()
}

/// Lets a `#[repr(C)]` struct be passed to kernels by value.
#[proc_macro_derive(KernelParam)]
pub fn kernel_param(item: TokenStream) -> TokenStream {
    param::expand(item.into()).into()
}
