//! The canonical layout.

use expect_test::{Expect, expect};
use ptx_core::emit::fmt::format;
use ptx_core::parse::parse_text;

/// Formats and checks that the tokens are the same and that formatting again changes nothing.
fn formatted(text: &str) -> String {
    let (tree, _) = parse_text(text.as_bytes());
    let once = format(&tree);
    let (again, _) = parse_text(&once[..]);
    let cut = |t: &ptx_core::syntax::Tree| -> Vec<_> {
        (0..t.source.tokens.len() as u32).map(|id| (t.source.kind(id), t.source.bytes(id).to_vec())).collect()
    };
    let once = String::from_utf8(once).unwrap();
    assert_eq!(cut(&tree), cut(&again), "{text:?}");
    assert_eq!(String::from_utf8(format(&again)).unwrap(), once);
    once
}

fn check(text: &str, expected: &Expect) {
    expected.assert_eq(&formatted(text));
}

#[test]
fn a_module() {
    check(
        "//\r\n// head\n.version 8.7 // v\n.target   sm_90a,debug\n.address_size 64\n\n\n.extern .func (.param .b32 r) vprintf(.param \
         .b64 a,.param .b64 b);\n.global .align 4 .b8 a[2][3]={{1,2},{ 3 }}; .shared.b32 x;\n\
         .visible .entry k(.param .u64 .ptr .global .align 4 p,// first\n.param .b32 n)\n.maxntid 128,1,1 .minnctapersm 2{\n\n\
         .reg .b32 %r< 5 >;\nL1: /* a */ @ ! %p1 add .s32 %r1 , %r1,-1;{ ret; }\n\n\n// own\nbra L1;// same\n}\n\
         .func f { ret; }\n// end\n\n",
        &expect![[r#"
            //
            // head
            .version 8.7 // v
            .target sm_90a, debug
            .address_size 64

            .extern .func (.param .b32 r) vprintf(
                .param .b64 a,
                .param .b64 b
            );
            .global .align 4 .b8 a[2][3] = {{1, 2}, {3}};
            .shared .b32 x;

            .visible .entry k(
                .param .u64 .ptr .global .align 4 p, // first
                .param .b32 n
            )
            .maxntid 128, 1, 1
            .minnctapersm 2
            {
                .reg .b32 %r<5>;
            L1: /* a */
                @!%p1 add.s32 %r1, %r1, -1;
                {
                    ret;
                }

                // own
                bra L1; // same
            }

            .func f
            {
                ret;
            }

            // end
        "#]],
    );
}

#[test]
fn operands() {
    check(
        ".entry k{ld.global.v4.f32 { %f1,_ , a.x},[ %rd1+ -8 ];call.uni (r) , f,( a,b );mov.b32 a,10 % 3?1:2;\n\
         setp.lt.s32 p | q,a,! b; mov.b64 %rd1, (.s64) -5; prefetch.L1[a];x: .callprototype (.param .b32 _)_(.param .b64 _) ;\n\
         .loc 1 2 3,function_name $L+8,inlined_at 1 2 3\n ld.const.b32 a,[b].unified; mov.u32 t, %tid.x; tex .2d a,b[2];}",
        &expect![[r#"
            .entry k
            {
                ld.global.v4.f32 {%f1, _, a.x}, [%rd1+ -8];
                call.uni (r), f, (a, b);
                mov.b32 a, 10 % 3 ? 1 : 2;
                setp.lt.s32 p|q, a, !b;
                mov.b64 %rd1, (.s64)-5;
                prefetch.L1 [a];
            x:
                .callprototype (.param .b32 _) _ (.param .b64 _);
                .loc 1 2 3, function_name $L+8, inlined_at 1 2 3
                ld.const.b32 a, [b].unified;
                mov.u32 t, %tid.x;
                tex.2d a, b[2];
            }
        "#]],
    );
}

#[test]
fn sections_wide_lines_and_comments_inside() {
    let wide = (0..40).map(|n| format!("%r{n}")).collect::<Vec<_>>().join(",");
    check(
        &format!(
            ".section .debug_info{{\n.b8 1,2\nl0:\n.b32 .debug_abbrev+4\n}}\n.entry k {{ add.s32 a, // one\n /* two */ b\n// three\n, c; mma {{{wide}}}; }}"
        ),
        &expect![[r#"
            .section .debug_info
            {
                .b8 1, 2
            l0:
                .b32 .debug_abbrev+4
            }

            .entry k
            {
                add.s32 a, // one
                    /* two */ b
                    // three
                    , c;
                mma {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8, %r9, %r10, %r11, %r12, %r13, %r14, %r15, %r16,
                    %r17, %r18, %r19, %r20, %r21, %r22, %r23, %r24, %r25, %r26, %r27, %r28, %r29, %r30, %r31, %r32,
                    %r33, %r34, %r35, %r36, %r37, %r38, %r39};
            }
        "#]],
    );
}

#[test]
fn what_does_not_parse_is_kept() {
    check(
        ".entry k {\n  add.s32   a  b ;\n ret; }\n  foo   bar\n",
        &expect![[r#"
            .entry k
            {
                add.s32   a  b ;
                ret;
            }

            foo   bar
        "#]],
    );
}

#[test]
fn names_that_are_mistaken_stay_whole() {
    check(
        ".param _,.d.a;\n.global .b8 .str.1[4],b.c.d;\n.entry k(.param.u64 .p.q,.param .u64 a.b) { ret; }",
        &expect![[r#"
            .param _, .d.a;
            .global .b8 .str.1[4], b.c.d;

            .entry k(
                .param .u64 .p .q,
                .param .u64 a.b
            )
            {
                ret;
            }
        "#]],
    );
}

/// The number of a constant bank is a part of an instruction's modifier, and an operand of a declaration.
#[test]
fn banks_behind_labels_and_blanks_stay_what_they_are() {
    for text in [
        ".entry k() { u:.const[3] .u32 x; v: .const[3] .u32 y; w:ld.const[2].u32 a,[b]; ld .const[2].u32 a,[b]; }",
        ".entry{u:.const[3]",
        ".e\0n.const[2]",
        "\0.const[2] .u32 x;\n.extern\t.const[2] .u32 y[];",
    ] {
        formatted(text);
    }
}
