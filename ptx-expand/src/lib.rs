//! Expansion of the macros of `ptx-launch`, as a library: `ptx-macros` is the compiler's door to it, `ptx transpile`
//! a second one. `ptx-language` defines the meaning of a kernel, `ptx-core` that of PTX.
//!
//! ```text
//! Rust tokens ─kernel─► statement tree ─ptx-language─► PTX tokens ─ptx-core─► PTX text and diagnostics ─launch, report─► Rust tokens
//! ```

#![forbid(unsafe_code)]
//!
//! A tool has no compiler around it: [`modules`] takes a source file as text.
//!
//! ```
//! let source = r#"
//!     #[ptx_kernel(arch = "sm_80", block = 32)]
//!     fn clear(x: &mut [u32]) { ptx! { st.global.u32 [x], 0; } }
//! "#;
//! let modules = ptx_expand::modules(source)?;
//! assert_eq!(modules[0].name, "clear");
//! assert!(modules[0].ptx[0].contains("st.global.u32 [%x], 0;"));
//!
//! let wrong = ptx_expand::modules(&source.replace("st.", "sd.")).unwrap_err();
//! assert_eq!(wrong.to_string(), "3:38: [P0201] there is no instruction `sd`");
//! # Ok::<(), ptx_expand::Failure>(())
//! ```

#![allow(unreachable_pub, reason = "`pub` is what a module shows to the others; the crate's own are below")]

mod argument;
mod attribute;
mod compile;
mod contract;
mod describe;
mod embed;
mod fields;
mod kernel;
mod launch;
mod launchable;
mod module;
mod nesting;
mod param;
mod part;
mod prelude;
pub mod program;
#[cfg_attr(not(feature = "proved"), path = "proof/absent.rs")]
pub mod proof;
mod report;
mod resume;
mod root;
mod single;
mod source;
pub mod temp_dir;
mod test;
mod text_module;
mod tokens;
pub mod tool;

pub use contract::expand as contract;
pub use module::expand as module;
pub use param::expand as param;
pub use part::expand as part;
pub use resume::resume;
pub use single::expand as kernel;
pub use source::{Failure, Module, modules, modules_with_library};
pub use test::expand as test;
pub use text_module::{expand as text, expand_file as file};
