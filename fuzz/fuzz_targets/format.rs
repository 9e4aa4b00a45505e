//! Formatting changes no token, and nothing the second time: `cargo +nightly fuzz run format`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ptx_core::emit::fmt::format;
use ptx_core::parse::parse_text;
use ptx_core::syntax::Tree;

fn texts(tree: &Tree) -> Vec<&[u8]> {
    (0..tree.source.tokens.len() as u32).map(|id| tree.source.bytes(id)).collect()
}

fuzz_target!(|text: &[u8]| {
    let (tree, _) = parse_text(text);
    let once = format(&tree);
    let (again, _) = parse_text(&once[..]);
    assert_eq!(texts(&tree), texts(&again));
    assert_eq!(format(&again), once);
});
