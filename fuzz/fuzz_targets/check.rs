//! Any bytes can be checked, and what passes prints back: `cargo +nightly fuzz run check`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ptx_core::check::check;
use ptx_core::emit::tree::print_tree;
use ptx_core::lower::Options;
use ptx_core::parse::parse_text;

fuzz_target!(|text: &[u8]| {
    let (tree, earlier) = parse_text(text);
    if let (Some(checked), _) = check(tree, earlier, &Options::default()) {
        assert_eq!(print_tree(checked.tree()), text);
    }
});
