//! Tokens.

use ptx_core::lex::{Builder, lex};
use ptx_core::span::Span;
use ptx_core::token::Kind;
use ptx_core::token::Kind::{Dot, Float, Int, Punct, Str, Unknown, Word};

/// Kinds and texts of all tokens but `Eof`, after checking that nothing is lost.
fn cut(text: &str) -> Vec<(Kind, String)> {
    let (source, _) = lex(text.as_bytes());
    let mut back = Vec::new();
    for id in 0..source.tokens.len() as u32 {
        back.extend_from_slice(source.trivia(id));
        back.extend_from_slice(source.bytes(id));
    }
    assert_eq!(back, text.as_bytes());
    (0..source.tokens.len() as u32 - 1).map(|id| (source.kind(id), source.text(id).to_owned())).collect()
}

fn kinds(text: &str) -> Vec<Kind> {
    cut(text).into_iter().map(|(kind, _)| kind).collect()
}

fn texts(text: &str) -> Vec<String> {
    cut(text).into_iter().map(|(_, text)| text).collect()
}

fn codes_of(bytes: &[u8]) -> Vec<&'static str> {
    lex(bytes).1.iter().map(|d| d.code.id).collect()
}

#[test]
fn an_instruction() {
    assert_eq!(
        texts("@!%p1 ld.shared::cta.v4.f32 {%f1, _}, [$x+-8];"),
        [
            "@",
            "!",
            "%p1",
            "ld",
            ".shared::cta",
            ".v4",
            ".f32",
            "{",
            "%f1",
            ",",
            "_",
            "}",
            ",",
            "[",
            "$x",
            "+",
            "-",
            "8",
            "]",
            ";"
        ]
    );
}

#[test]
fn modifiers_keep_their_pieces() {
    let text = "a.mbarrier::complete_tx::bytes.128x256b.m64n8k16.L2::cache_hint.cta_group::1.128x128b";
    assert_eq!(
        texts(text),
        [
            "a",
            ".mbarrier::complete_tx::bytes",
            ".128x256b",
            ".m64n8k16",
            ".L2::cache_hint",
            ".cta_group::1",
            ".128x128b"
        ]
    );
    assert_eq!(texts(".a::"), [".a", ":", ":"]);
}

#[test]
fn integers() {
    for text in ["0", "12", "0x1F", "0XaB", "0b101", "017", "5U", "0x7fU"] {
        assert_eq!(cut(text), [(Int, text.to_owned())]);
    }
    assert_eq!(kinds("5u"), [Int, Word]);
    assert_eq!(kinds("0b2"), [Int, Word]);
}

#[test]
fn floats() {
    for text in ["1.5", "1.", "1e3", "1.e3", "1.5E-3", ".5", ".5e+3", "0f3F800000", "0F3f800000", "0d3ff0000000000000"]
    {
        assert_eq!(cut(text), [(Float, text.to_owned())]);
    }
    assert_eq!(kinds("1e"), [Int, Word]);
    assert_eq!(kinds("0f3f8"), [Int, Word]);
    assert_eq!(kinds("0f3F8000000"), [Float, Int]);
}

#[test]
fn dots_beside_numbers() {
    assert_eq!(kinds("1.x"), [Int, Dot]);
    assert_eq!(kinds("bb.1"), [Word, Dot]);
    assert_eq!(kinds("tex .2d"), [Word, Dot]);
    assert_eq!(texts("a[0..4]"), ["a", "[", "0", ".", ".", "4", "]"]);
    assert_eq!(kinds("..."), [Punct(b'.'); 3]);
    assert_eq!(kinds("a[1..]"), [Word, Punct(b'['), Int, Punct(b'.'), Punct(b'.'), Punct(b']')]);
}

#[test]
fn names_may_start_with_a_percent_sign() {
    assert_eq!(texts("%r1 %3 % 3 10%3"), ["%r1", "%3", "%", "3", "10", "%3"]);
}

#[test]
fn trivia() {
    let (source, diagnostics) = lex(b"\xef// \xff\n# 1 \"x\"\n/* a /* b */ \r\n\0a\0\0");
    assert_eq!(diagnostics.len(), 2); // the byte in front, the first NUL
    assert_eq!(source.kind(0), Unknown);
    assert_eq!(source.text(1), "a");
    assert_eq!(source.trivia(2), b"\0\0");
}

#[test]
fn byte_order_marks_are_trivia_of_the_first_token() {
    for text in ["\u{feff}a b", "\0\0\u{feff}a b", "// c\n\u{feff}# 1 \"x\"\na b", "\u{feff}\u{feff}a b"] {
        assert_eq!(texts(text), ["a", "b"], "{text:?}");
        assert!(codes_of(text.as_bytes()).contains(&"P0001"), "{text:?}");
    }
    assert_eq!(texts("a \u{feff} b"), ["a", "\u{feff}", "b"]);
}

#[test]
fn what_never_ends_is_kept_and_reported() {
    assert_eq!(codes_of(b"a /* b"), ["P0002"]);
    assert_eq!(codes_of(b"a /*"), ["P0002"]);
    assert_eq!(codes_of(b"a /*/"), ["P0002"]);
    assert_eq!(codes_of(b"\"abc\nx;"), ["P0003"]);
    assert_eq!(codes_of(b"\""), ["P0003"]);
    assert_eq!(texts("\"abc\nx;"), ["\"abc", "x", ";"]);
    assert_eq!(kinds("\"C:\\\" d \"b\nc\""), [Str, Word, Str]);
}

#[test]
fn bytes_that_ptx_does_not_have() {
    assert_eq!(codes_of("a # b ' `é` \\".as_bytes()), ["P0001"; 4]);
    assert_eq!(kinds("é\u{7f}"), [Unknown]);
    // A form feed is a blank, a vertical tab is none.
    assert_eq!((codes_of(b"a \x0b b"), codes_of(b"a \x0c b").len()), (vec!["P0001"], 0));
}

#[test]
fn a_builder_keeps_the_spans_of_its_pieces() {
    let mut builder = Builder::new();
    builder.push("add.s32 ", Span::new(7, 8));
    builder.push("%r1", Span::new(9, 10));
    builder.push(" // c\n", Span::new(10, 11));
    builder.push(", 'x", Span::new(11, 12));
    let (source, diagnostics) = builder.finish();
    let spans: Vec<u32> = (0..source.tokens.len() as u32).map(|t| source.span(t).lo).collect();
    assert_eq!(spans, [7, 7, 9, 11, 11, 11, 11]);
    assert_eq!(diagnostics[0].span, Span::new(11, 12));
    assert_eq!(source.trivia(3), b" // c\n");
}

#[test]
fn tokens_of_any_length_have_their_place() {
    for len in [65_533, 65_534, 65_535, 65_536, 1 << 20] {
        let name = "x".repeat(len);
        let (source, _) = lex(format!("a {name} /* c */ b{name}.c"));
        let texts: Vec<&str> = (0..4).map(|token| source.text(token)).collect();
        assert_eq!(texts, ["a", &name, &format!("b{name}"), ".c"]);
        assert_eq!([source.trivia(1), source.trivia(2), source.trivia(3)], [b" ".as_slice(), b" /* c */ ", b""]);
    }
}
