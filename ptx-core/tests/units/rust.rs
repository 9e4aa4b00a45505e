//! PTX as text of a macro, and the reasons for changes in it.

use ptx_core::emit::rust::{Reason, plain};
use ptx_core::parse::parse_text;

fn body(text: &[u8]) -> (String, Vec<Reason>) {
    let made = plain(&parse_text(text).0, "m");
    let inner = made.text.split_once("ptx! {").and_then(|(_, rest)| rest.strip_suffix("}\n}\n"));
    (inner.unwrap_or_default().to_owned(), made.rewritten.iter().map(|r| r.reason).collect())
}

#[test]
fn what_rust_takes_stays() {
    let text = "\n.version 8.0 // it's `odd`\n/* a */ .target sm_80\n.pragma \"a\\nb\";\t.entry k() { ret; }\n";
    assert_eq!(body(text.as_bytes()), (text.to_owned(), vec![]));
}

#[test]
fn what_rust_refuses_is_rewritten() {
    let cases: [(&[u8], &str, Reason); 7] = [
        (b"/* /* */ .version 8.0", "/* / * */ .version 8.0", Reason::Nested),
        (b".version 8.0\r\n", ".version 8.0\n", Reason::LineEnd),
        (b".version 8.0\n\0\0", ".version 8.0\n", Reason::Control),
        (b"// \xff\n.version 8.0", "// ?\n.version 8.0", Reason::NotUtf8),
        (b".file 1 \"C:\\dir\"", ".file 1 \"C:/dir\"", Reason::Escape),
        (b".loc\"a\"", ".loc \"a\"", Reason::Prefix),
        (b".version 8.0 // end", ".version 8.0 // end\n", Reason::LastLine),
    ];
    for (text, expected, reason) in cases {
        assert_eq!(body(text), (expected.to_owned(), vec![reason]), "{}", text.escape_ascii());
    }
}
