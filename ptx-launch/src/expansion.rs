//! Items for the macros' expansions. Not for people: the macros write it, and `tests/contract.rs` shows how.

pub use ptx_macros::resume;
pub use ptx_runtime::expansion::*;
