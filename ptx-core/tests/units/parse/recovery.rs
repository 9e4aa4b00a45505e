//! Input that is not PTX: one mistake is one diagnostic, and everything else survives.

use super::{body, body_outline, mistakes, module, outline_of};

fn in_body(text: &str) -> Vec<String> {
    mistakes(text, body(text))
}

fn in_module(text: &str) -> Vec<String> {
    mistakes(text, module(text))
}

#[test]
fn one_bad_line_costs_one_diagnostic() {
    let lines = [
        "add.s32 %r1 %r2, 3;",
        "add.s32 %r1, , 3;",
        "add.s32 %r1, %r2, ;",
        "ld.b32 %r1, [%rd1;",
        "ld.b32 %r1, %rd1];",
        "mov.b64 {%r1, %r2, %rd1;",
        "mov.b64 %r1, %r2}, %rd1;",
        "call (r, f, (p);",
        "@p 5;",
        "= 4;",
        "5;",
        "%;",
        ".reg .b32 %r<5;",
        ".reg .b32 , x;",
        ".pragma ;",
        "add.s32 #a;",
    ];
    for line in lines {
        let text = format!("mov.b32 a, 1;\n{line}\nmov.b32 b, 2;\n");
        let found = in_body(&text);
        let lexed = usize::from(line.contains('#'));
        assert_eq!(found.len() + lexed, 1, "{line}: {found:?}");
        assert_eq!(body_outline(&text), "mov error mov", "{line}");
    }
}

#[test]
fn a_missing_semicolon_loses_nothing() {
    let text = "mov.b32 a, 1\nmov.b32 b, 2;\nadd.s32 a, a, b\n.loc 1 2 3\nadd.s32 a, a, b\n@p bra L;\nadd.s32 a, a, b\nL:\nret\n";
    assert_eq!(in_body(text), ["P0101 mov", "P0101 .loc", "P0101 @", "P0101 L", "P0101 "]);
    assert_eq!(body_outline(text), "mov mov add .loc add bra add label ret");
}

#[test]
fn bad_lines_stop_at_a_label_or_a_directive() {
    let text = "mov.b32 a a\nL1:\nmov.b32 b b\n.loc 1 2 3\nmov.b32 c c\n@p ret;";
    assert_eq!(in_body(text), ["P0101 a", "P0101 b", "P0101 c"]);
    assert_eq!(body_outline(text), "error label error .loc error ret");
}

#[test]
fn a_bad_header_keeps_its_body() {
    let text = ".entry k(.param .u64) (5) { mov.b32 a, 1; }\n.entry l(.param) { ret; }\n.func 5\n.entry m { ret; }";
    assert_eq!(in_module(text), ["P0101 (", "P0101 5"]);
    assert_eq!(outline_of(text), "func(mov) func(ret) func func(ret)");
}

#[test]
fn bad_items() {
    let text = "foo bar;\n.version 8.7\n.entri k(.param .u64 a) {\n.reg .b32 r;\nret;\n}\n.entry l { ret; }";
    assert_eq!(in_module(text), ["P0101 foo", "P0101 .u64"]);
    assert_eq!(outline_of(text), "error .version error func(ret)");
}

#[test]
fn braces_without_partners() {
    assert_eq!(in_module(".entry k {\nret;\n\n.visible .entry l { ret; }"), ["P0102 {"]);
    assert_eq!(outline_of(".entry k {\nret;\n\n.visible .entry l { ret; }"), "func(ret) func(ret)");
    assert_eq!(in_module(".entry k { { { ret;"), ["P0102 {"]);
    assert_eq!(in_module(".entry k { ret; } }\n.entry l { ret; }"), ["P0102 }"]);
    assert_eq!(in_body("ret; } ret;"), ["P0102 }"]);
    assert_eq!(in_body(".entry k { ret; } ret;").len(), 1);
}

#[test]
fn an_empty_statement_is_refused() {
    assert_eq!(in_body("ret;;"), ["P0101 ;"]);
}

#[test]
fn depth_is_bounded() {
    let nested = |open: &str, close: &str, n: usize| format!("{}{}", open.repeat(n), close.repeat(n));
    assert_eq!(in_body(&nested("{ ", "} ", 200)), [""; 0]);
    assert_eq!(in_body(&nested("{ ", "} ", 100_000)), ["P0103 {"]);
    for (open, close) in [("(", ")"), ("[", "]"), ("{", "}"), ("-", "1"), ("1?", ":1"), ("a[", "]"), ("f(", ")")] {
        let found = in_body(&format!("mov.b32 a, {}; ret;", nested(open, close, 100_000)));
        assert_eq!(found.len(), 1, "{open}: {found:?}");
    }
    assert_eq!(in_body(&format!("mov.b32 a, 1{};", "+1".repeat(100_000))), ["P0103 +"]);
    assert_eq!(in_body(&"{".repeat(100_000)).len(), 2);
}

#[test]
fn noise_has_a_limit() {
    let found = in_body(&"= ;".repeat(20_000));
    assert_eq!((found.len(), found[10_000].as_str()), (10_001, "P0104 ="));
}
