//! What the macros of `ptx-launch` do, as a library: `ptx-macros` is the compiler's door to it, `ptx transpile` a second
//! one. What a kernel means is `ptx-core`'s work.
//!
//! ```text
//! Rust tokens ─kernel─► statement tree ─ptx-core─► PTX text and diagnostics ─launch, report─► Rust tokens
//! ```

#![allow(unreachable_pub, reason = "`pub` is what a module shows to the others; the crate's own are below")]

mod attribute;
mod compile;
mod embed;
mod kernel;
mod launch;
mod module;
mod param;
mod prelude;
mod report;
mod single;
mod source;
mod test;
mod text_module;
mod tokens;

pub use module::expand as module;
pub use param::expand as param;
pub use single::expand as kernel;
pub use source::{Failure, Module, modules};
pub use test::expand as test;
pub use text_module::{expand as text, expand_file as file};
