//! The Rust that a kernel becomes: a module with its PTX, and a launch function.

use crate::compile::Compiled;
use crate::kernel::Launchable;
use proc_macro2::TokenStream;
use quote::quote;

/// A kernel that stands alone.
pub fn single(kernel: &Launchable, compiled: &Compiled) -> TokenStream {
    let _ = (kernel, compiled);
    quote!()
}
