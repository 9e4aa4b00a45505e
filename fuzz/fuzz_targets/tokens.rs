//! Any sequence of PTX's own tokens can be checked: `cargo +nightly fuzz run tokens`. Random bytes seldom get past the
//! parser; these do: every opcode, every modifier of the table, registers, literals, punctuation.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ptx_core::check::check;
use ptx_core::isa::table;
use ptx_core::lower::Options;
use ptx_core::parse::parse_text;
use std::sync::OnceLock;

const HEAD: &str = ".version 9.5\n.target sm_100a\n.address_size 64\n.global .b32 g[4];\n\
    .visible .entry k(.param .u64 p, .param .align 8 .b8 q[16]) {\n\
    .reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<8>; .reg .f32 %f<8>; .reg .b64 %d<4>; .reg .f64 %e<4>;\n\
    .shared .align 16 .b8 s[64];\n";

const OTHERS: &[&str] = &[
    ";\n",
    ",",
    " ",
    "[",
    "]",
    "{",
    "}",
    "(",
    ")",
    "|",
    "!",
    "-",
    "+",
    "@",
    ":",
    "<",
    ">",
    "=",
    "%p1",
    "%h1",
    "%r1",
    "%r2",
    "%f1",
    "%f2",
    "%d1",
    "%e1",
    "%tid.x",
    "%laneid",
    "g",
    "s",
    "p",
    "q",
    "k",
    "_",
    "L",
    "0",
    "1",
    "32",
    "0xffffffff",
    "-8",
    "1.5",
    "0f3F800000",
    "0d3FF0000000000000",
    ".reg",
    ".param",
    ".b32",
    ".shared",
    ".align",
    ".pragma",
    ".loc",
    "\"x\"",
    "18446744073709551616",
];

fn words() -> &'static [String] {
    static WORDS: OnceLock<Vec<String>> = OnceLock::new();
    WORDS.get_or_init(|| {
        let mut words: Vec<String> = OTHERS.iter().map(|w| (*w).to_owned()).collect();
        words.extend(table().rows().map(|r| format!("{} ", r.name)));
        let members = table().rows().flat_map(|r| r.slots).flat_map(|s| s.members);
        words.extend(members.map(|m| format!(".{}", m.text)));
        words.sort();
        words.dedup();
        words
    })
}

fuzz_target!(|data: &[u8]| {
    let mut text = HEAD.to_owned();
    for pair in data.chunks_exact(2) {
        let at = usize::from(u16::from_le_bytes([pair[0], pair[1]]));
        text.push_str(&words()[at % words().len()]);
    }
    text.push_str(";\nret;\n}\n");
    let (tree, earlier) = parse_text(text.as_bytes());
    let _ = check(tree, earlier, &Options::default());
});
