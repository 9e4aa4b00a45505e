//! Texts of diagnostics.

use ptx_core::diag::{Diagnostic, codes};
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
