//! Whatever the bytes are: nothing panics, everything prints back, and formatting changes blanks only, once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use arbitrary::{Result, Unstructured};
use ptx_core::emit::{fmt, tree::print_tree};
use ptx_core::lex::lex;
use ptx_core::parse::{parse_body, parse_text};
use ptx_core::syntax::Tree;
use ptx_core::token::Kind;

/// Pieces of mutations: each means something to the lexer or the parser.
const PIECES: &[&str] = &[
    " ",
    "\n",
    "\r\n",
    "\t",
    "\0",
    "\u{feff}",
    "// c\n",
    "/* c */",
    "/*",
    "*/",
    "//",
    "# 1 \"f\"\n",
    "#",
    "\"s\"",
    "\"",
    ";",
    ",",
    ":",
    ".",
    "..",
    "...",
    "::",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "<",
    ">",
    "@",
    "!",
    "%",
    "|",
    "=",
    "+",
    "-",
    "?",
    "/",
    "*",
    "&",
    "add",
    ".s32",
    "%r1",
    "_",
    "L1:",
    "ret;",
    "1",
    "0x1F",
    "1.",
    "1.5",
    ".5",
    "0f3F800000",
    "1e",
    ".2d",
    ".x",
    "é",
    "\u{7f}",
    ".entry k",
    ".func",
    ".visible",
    ".global .b8 x",
    ".reg .b32 %r<5>;",
    ".param .b64 p",
    ".loc 1 2 3",
    ".version 8.7",
    ".target sm_90",
    ".pragma \"s\";",
    ".section .d {",
    ".b8 1",
    ".align 4",
    ".callprototype",
    "_ (",
    ".branchtargets",
    "@@DWARF .byte",
    ", inlined_at 1",
    "function_name",
    ".maxntid 1, 1",
    ".attribute(.managed)",
    "generic(",
    "= {1, 2}",
];

const SEEDS: &[&str] = &[
    "",
    ".version 8.7\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 .ptr .align 8 p, .param .u32 n)\n.maxntid 128, 1, 1\n{\n\
     \t.reg .b32 %r<5>;\n\tld.param.u32 %r1, [p+-8]; // c\n$L1:\t@!%p1 bra $L1;\n\t{ .reg .b32 t; call.uni (r), f, (a, b); }\n\
     \t.loc 1 2 3, function_name $L+8, inlined_at 1 2 3\n\tmov.b64 {%r1, _}, %rd1;\n\tret;\n}\n",
    ".global .align 4 .b8 a[2][3] = {{1, -2}, {0f3F800000, generic(x)+4}};\n.section .debug_info {\n.b8 1, 2\nl0:\n.b32 a-b\n}\n\
     .extern .func (.param .b32 r) printf (.param .b64 f, ...);\n.alias a, b;\n@@DWARF .byte 1\n",
];

fn mutated(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut text = u.choose(SEEDS)?.as_bytes().to_vec();
    for _ in 0..u.int_in_range(0..=12)? {
        let at = u.int_in_range(0..=text.len())?;
        match u.int_in_range(0..=9u8)? {
            0 => text.truncate(at),
            1 => drop(text.drain(at..text.len().min(at + 7))),
            2 => text.insert(at, u.arbitrary()?),
            _ => drop(text.splice(at..at, u.choose(PIECES)?.bytes())),
        }
    }
    Ok(text)
}

fn tokens(tree: &Tree) -> Vec<(Kind, &[u8])> {
    (0..tree.source.tokens.len() as u32).map(|id| (tree.source.kind(id), tree.source.bytes(id))).collect()
}

/// The properties, with the text in the message of the assertion that fails.
fn hold(text: &[u8]) {
    let shown = String::from_utf8_lossy(text);
    let (tree, _) = parse_text(text);
    assert_eq!(print_tree(&tree), text, "module: {shown:?}");
    let (body, _) = parse_body(lex(text).0);
    assert_eq!(print_tree(&body), text, "body: {shown:?}");
    let once = fmt::format(&tree);
    let (again, _) = parse_text(&once[..]);
    let differs = tokens(&again).into_iter().zip(tokens(&tree)).find(|(a, b)| a != b);
    assert_eq!((differs, again.source.tokens.len()), (None, tree.source.tokens.len()), "format: {shown:?}");
    let twice = fmt::format(&again);
    assert_eq!(String::from_utf8_lossy(&twice), String::from_utf8_lossy(&once), "format again: {shown:?}");
}

#[test]
fn noise() {
    arbtest::arbtest(|u| {
        hold(u.arbitrary()?);
        Ok(())
    })
    .budget_ms(1_000);
}

#[test]
fn mutations() {
    arbtest::arbtest(|u| {
        hold(&mutated(u)?);
        Ok(())
    })
    .budget_ms(4_000);
}
