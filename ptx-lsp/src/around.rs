//! What reads the files around a Rust file. Reading is the caller's.

use ptx_expand::program::Crate;
use std::fmt;
use std::sync::Arc;

/// Reads the crate around a Rust file.
#[derive(Clone)]
pub struct Around(pub Arc<dyn Fn() -> Crate + Send + Sync>);

impl fmt::Debug for Around {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Around")
    }
}
