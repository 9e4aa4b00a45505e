//! Any bytes parse without a panic and print back: `cargo +nightly fuzz run roundtrip`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ptx_core::emit::tree::print_tree;
use ptx_core::lex::lex;
use ptx_core::parse::{parse_body, parse_text};

fuzz_target!(|text: &[u8]| {
    assert_eq!(print_tree(&parse_text(text).0), text);
    assert_eq!(print_tree(&parse_body(lex(text).0).0), text);
});
