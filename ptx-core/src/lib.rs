//! PTX as a library: text to a lossless tree, the tree to a checked module, and back to text.
//!
//! ```
//! use ptx_core::{check, edit::EditError, emit, lower, parse};
//!
//! let text = ".version 8.0
//! .target sm_80
//! .address_size 64
//! .visible .entry scale(.param .u64 x)
//! {
//!     .reg .f32 %v;    // one value
//!     .reg .b64 %at;
//!     ld.param.u64 %at, [x];
//!     ld.globl.f32 %v, [%at];
//!     ret;
//! }";
//!
//! // Phases never abort: they return what they could make, and every diagnostic.
//! let (tree, found) = parse::parse_text(text);
//! let (checked, found) = check::check(tree.clone(), found, &lower::Options::default());
//! assert!(checked.is_none());
//! assert_eq!(found[0].message, "`ld` has no modifier `.globl`");
//! assert_eq!(found[0].help[0], "did you mean `.global`?");
//! let wrong = found[0].span;
//! assert_eq!(&text[wrong.lo as usize..wrong.hi as usize], ".globl");
//!
//! // An edit changes the bytes that it is about; printing walks the tree.
//! let (mut tree, found) = parse::parse_text(text.replace(".globl", ".global"));
//! tree.rename(None, "%v", "%value")?;
//! tree.set_directive(".target", "sm_90")?;
//! let (checked, found) = check::check(tree, found, &lower::Options::default());
//! let checked = checked.ok_or(EditError::NotFound)?;
//! assert!(found.is_empty() && emit::ptx::print(&checked).contains("    .reg .f32 %value;    // one value\n"));
//! # Ok::<(), EditError>(())
//! ```
//!
//! | to | is |
//! |---|---|
//! | read a text | [`parse::parse_text`]; [`lex`] alone for tokens |
//! | look at it, change it | [`syntax::Tree`], [`edit`] |
//! | know what it means | [`lower::lower`] gives [`ir`], without looking at whole functions |
//! | know that it is right | [`check::check`], the only maker of a [`Checked`](check::Checked) module |
//! | write it | [`emit::ptx::print`] a checked module, [`emit::tree::print_tree`] any tree, [`emit::fmt::format`] in one layout |
//! | write it as Rust | the crate `ptx-transpile` |
//! | ask about an instruction | [`isa::table`], read from one line a form |
//! | write kernels in Rust's syntax | the crate `ptx-language`: a statement tree to PTX tokens |
//! | run it | the crate `ptx-interp` |
//!
//! Nothing here reads a file or a network, calls a compiler, or panics on any input.

#![forbid(unsafe_code)]
pub mod check;
pub mod diag;
pub mod edit;
pub mod emit;
pub mod hash;
pub mod host;
pub mod ir;
pub mod isa;
pub mod lex;
pub mod lower;
pub mod parse;
pub mod span;
pub mod syntax;
pub mod token;

pub use ptx_target::sort;

// The example of the package's page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
