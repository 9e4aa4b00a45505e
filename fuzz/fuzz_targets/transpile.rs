//! Any module can be written as Rust and raised without a panic: `cargo +nightly fuzz run transpile corpus-folder`. What
//! comes out need not be right, or compile: that is what the proof is for.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ptx_core::emit::rust::plain;
use ptx_core::parse::parse_text;
use ptx_transpile::{same, sugar};

fuzz_target!(|text: &[u8]| {
    let (tree, _) = parse_text(text);
    let _ = plain(&tree, "m");
    let _ = sugar(&tree, "m", &[]);
    assert_eq!(same::difference(&tree, &tree, true), None);
});
