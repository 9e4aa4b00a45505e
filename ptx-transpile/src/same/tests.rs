//! Differences that count, and differences that do not.

use super::difference;
use ptx_core::parse::parse_text;

const A: &str = ".version 8.0\n.target sm_80\n.address_size 64\n\
    .global .align 4 .b32 table[2] = {1, 0x2};\n\
    .visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<3>; .reg .pred %p; .reg .b64 %rd<2>;\n\
    ld.param.u64 %rd1, [p];\n$top:\nadd.s32 %r1, %r2, 5;\nsetp.eq.s32 %p, %r1, -1;\n@%p bra $top;\n\
    mov.u64 %rd0, table;\nst.global.u32 [%rd1+8], %r1;\nret;\n}\n";

fn differs(b: &str) -> Option<(String, String)> {
    let found = difference(&parse_text(A.as_bytes()).0, &parse_text(b.as_bytes()).0, false)?;
    let text = |line: Option<super::Line>| line.map_or_else(String::new, |l| l.text);
    Some((text(found.a), text(found.b)))
}

#[test]
fn names_layout_and_spelling_do_not_count() {
    let b = ".version 8.0 .target sm_80 .address_size 64\n\
        .global .align 4 .u32 unused_name;\n\
        .global .align 4 .b32 t[2] = {1, 2};\n\
        .entry kernel(.param .b64 first)\n{\n.reg .u32 sum, x; .reg .f32 nobody;\n.reg .u64 a, b;\n\
        ld.param.u64 a, [first];\nloop: unused: { add.s32 sum, x, 0x5; .reg .pred q; setp.eq.s32 q, sum, -1; @q bra loop; }\n\
        mov.u64 b, t; // here\nst.global.u32 [a + 4 + 4], sum;\nret;\n}\n";
    let b = b.replace(".global .align 4 .u32 unused_name;\n", "").replace("a + 4 + 4", "a+0x8");
    assert_eq!(differs(&b), None);
}

#[test]
fn everything_else_counts() {
    for (from, to) in [
        (".version 8.0", ".version 8.1"),
        ("sm_80", "sm_90"),
        ("{1, 0x2}", "{1, 3}"),
        (".align 4", ".align 8"),
        ("u64 p)", "u32 p)"),
        ("add.s32", "add.u32"),
        ("%r2, 5", "%r2, 6"),
        ("%r2, 5", "%r1, 5"),
        ("@%p", "@!%p"),
        ("bra", "bra.uni"),
        ("+8", "+16"),
        ("ret;", "exit;"),
        ("$top:\nadd.s32 %r1, %r2, 5;", "add.s32 %r1, %r2, 5;\n$top:"),
        (".reg .b32", ".reg .b16"),
    ] {
        assert!(differs(&A.replacen(from, to, 1)).is_some(), "{from} became {to}");
    }
}

#[test]
fn registers_must_correspond_one_to_one() {
    let b = A.replacen("setp.eq.s32 %p, %r1, -1", "setp.eq.s32 %p, %r2, -1", 1);
    assert_eq!(differs(&b), Some(("setp.eq.s32 %3<1>, %1, -1".into(), "setp.eq.s32 %3<1>, %2, -1".into())));
}

#[test]
fn scopes_hide_names() {
    let scoped = |inner: &str, outer: &str| {
        format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.entry k()\n{{ .reg .b32 a, b, c; {{ .reg .b32 {inner}; \
             mov.b32 {inner}, 1; W: bra W; }} {{ W: bra W; }} mov.b32 {outer}, 2; }}"
        )
    };
    let parse = |text: String| parse_text(text.as_bytes()).0;
    assert_eq!(difference(&parse(scoped("a", "a")), &parse(scoped("b", "c")), false), None);
    let (a, b) = (scoped("a", "a"), scoped("z", "a").replace(".reg .b32 z; ", "").replace('z', "a"));
    assert!(difference(&parse(a), &parse(b), false).is_some());
}
