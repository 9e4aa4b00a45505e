//! The pages of the codes in errors.

use ptx_core::diag::codes;

/// The page of a code, such as `P0201`: its meaning, a wrong example, the right one.
pub fn explain(code: &str) -> Option<String> {
    let found = codes::ALL.iter().find(|known| known.id.eq_ignore_ascii_case(code.trim()))?;
    Some(format!("{}: {}\n\n{}", found.id, found.title, found.explain.trim_end()))
}
