//! Texts of diagnostics.

use ptx_core::diag::{Diagnostic, codes, near};
use ptx_core::span::Span;

#[test]
fn texts_do_not_grow_with_the_names_in_them() {
    let name = "é".repeat(1 << 20);
    let said = Diagnostic::error(&codes::P0501, Span::default(), format!("`{name}` is not declared"))
        .help(format!("did you mean `{name}`?"))
        .label(Span::default(), name.clone());
    for text in [&said.message, &said.help[0], &said.labels[0].text] {
        assert!(text.len() < 300 && text.contains('…'), "{}", text.len());
    }
    assert!(said.message.starts_with("`éé") && said.message.ends_with("éé` is not declared"));
}

/// Thousands of unknown names are not all compared with thousands of known ones.
#[test]
fn near_misses_end_at_a_limit() {
    let known = || std::iter::once("first").chain(std::iter::repeat_n("another name, much longer", 1 << 16));
    let misses = near::Misses::default();
    let look = || misses.nearest("frist", known());
    let found = (0..64).filter(|_| look().is_some()).count();
    assert!(found < 32, "{found}");
    assert_eq!(near::Misses::default().nearest("frist", known()), Some("first"));
}
