//! Every pass on a small kernel: what it becomes without the pass and with it. `UPDATE_EXPECT=1` renews the files.

use super::{PASSES, Without, sugar, without_debug};
use expect_test::expect_file;
use ptx_core::parse::parse_text;
use std::path::PathBuf;

const HEAD: &str = ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 16 .b8 smem[];\n";

/// A pass and a kernel that needs it.
const CASES: [(&str, &str); 13] = [
    (
        "labels",
        ".visible .entry k()\n{ .reg .b32 %r<3>;\n$func_begin0: mov.u32 %r1, %tid.x; $tmp0: mov.u32 %r2, %ntid.x; \
         st.shared.u32 [smem], %r2;\n$tmp1: ret; $func_end0: }",
    ),
    (
        "params",
        ".visible .entry k(.param .u32 k_n, .param .f32 factor)\n{ .reg .b32 %r<3>; .reg .f32 %f<2>;\n\
         ld.param.u32 %r1, [k_n]; ld.param.f32 %f1, [factor]; add.s32 %r2, %r1, 1; mul.f32 %f1, %f1, %f1; ret; }",
    ),
    (
        "waits",
        ".visible .entry k()\n{ .reg .b32 %r<3>;\nmov.u32 %r1, smem; mov.u32 %r2, 0;\n\
         { .reg .pred P1; LAB_WAIT: mbarrier.try_wait.parity.shared::cta.b64 P1, [%r1], %r2;\n\
         @P1 bra.uni DONE; bra.uni LAB_WAIT; DONE: }\n\
         { .reg .pred P1; W: mbarrier.try_wait.parity.shared::cta.b64 P1, [%r1], %r2; @P1 bra D; bra W; D: }\nret; }",
    ),
    (
        "flow",
        ".visible .entry k()\n{ .reg .b32 %r<3>; .reg .pred %p<4>;\nmov.u32 %r1, %tid.x; setp.gt.u32 %p1, %r1, 7;\n\
         @%p1 bra $ELSE; mov.u32 %r2, 1; bra.uni $END; $ELSE: mov.u32 %r2, 2; $END:\n\
         $TOP: add.u32 %r2, %r2, %r1; setp.lt.u32 %p2, %r2, 100; @%p2 bra $TOP;\n\
         setp.eq.u32 %p3, %r1, 3; @%p3 bra $OUT; add.u32 %r2, %r2, 1; $OUT: ret; }",
    ),
    (
        "arrays",
        ".visible .entry k(.param .u64 d)\n{ .reg .b64 %rd<3>; .reg .f32 %f<12>;\nld.param.u64 %rd1, [d];\n\
         wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%f8, %f7, %f6, %f5, %f4, %f3, %f2, %f1}, %rd1, %rd1, \
         1, 1, 1, 0, 0;\nadd.f32 %f9, %f8, %f1; ret; }",
    ),
    (
        "constants",
        ".visible .entry k(.param .f32 x)\n{ .reg .f32 %f<6>; .reg .f64 %fd<2>;\nld.param.f32 %f1, [x];\n\
         mul.f32 %f2, %f1, 0f3FB8AA3B; fma.rn.f32 %f3, %f2, 0fBF000000, 0f3DCCCCCD; mov.f32 %f4, 0f40490FDB;\n\
         mov.f64 %fd1, 0d3FF71547652B82FE; add.f32 %f5, %f3, 0fFF800000; ret; }",
    ),
    (
        "operators",
        ".visible .entry k(.param .u32 n)\n{ .reg .b32 %r<9>; .reg .b64 %rd<3>;\nld.param.u32 %r1, [n];\n\
         mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mul.lo.s32 %r4, %r2, %r3; add.s32 %r5, %r4, %r1;\n\
         shr.u32 %r6, %r5, 4; and.b32 %r7, %r6, 15; cvt.u64.u32 %rd1, %r7; max.s32 %r8, %r5, 0; shr.s32 %r8, %r6, 1; ret; }",
    ),
    (
        "expressions",
        ".visible .entry k(.param .u32 n)\n{ .reg .b32 %r<9>; .reg .b64 %rd<3>; .reg .pred %p1;\nld.param.u32 %r1, [n];\n\
         shl.b32 %r2, %r1, 3; add.u32 %r3, %r2, %r1; shr.u32 %r4, %r3, 1; setp.lt.u32 %p1, %r4, 7; @%p1 bra $E;\n\
         st.shared.u32 [smem], %r1; $E: ret; }",
    ),
    (
        "names",
        ".visible .entry _Z5scalePfi(.param .u64 _Z5scalePfi_param_0, .param .u32 _Z5scalePfi_param_1)\n\
         { .reg .b32 %r<4>;\nmov.u32 %r1, %tid.x; mov.u32 %r2, %laneid; add.u32 %r3, %r1, %r2; ret; }",
    ),
    (
        "repeats",
        ".visible .entry k(.param .u32 n)\n{ .reg .b32 %r<9>;\nld.param.u32 %r1, [n];\n\
         add.u32 %r2, %r1, 16; st.shared.u32 [smem+0], %r2; add.u32 %r3, %r1, 48; st.shared.u32 [smem+4], %r3;\n\
         add.u32 %r4, %r1, 80; st.shared.u32 [smem+12], %r4; ret; }",
    ),
    (
        "islands",
        ".visible .entry k(.param .u32 n)\n{ .reg .b32 %r<9>;\nld.param.u32 %r1, [n];\n\
         ld.shared.u32 %r2, [smem]; ld.shared.u32 %r3, [smem+4]; add.u32 %r4, %r3, %r1; mov.u32 %r5, %tid.x;\n\
         st.shared.u32 [smem], %r4; st.shared.u32 [smem+4], %r5; add.u32 %r6, %r4, 1; st.shared.u32 [smem+8], %r6; ret; }",
    ),
    (
        "addresses",
        ".visible .entry k(.param .u64 .ptr .global .align 4 x, .param .u64 .ptr .global .align 4 y)\n\
         { .reg .b32 %r<3>; .reg .b64 %rd<7>; .reg .f32 %f<3>;\n\
         ld.param.u64 %rd1, [x]; cvta.to.global.u64 %rd1, %rd1; ld.param.u64 %rd2, [y]; cvta.to.global.u64 %rd2, %rd2;\n\
         mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4; add.u64 %rd4, %rd1, %rd3; mul.wide.u32 %rd5, %r1, 4; add.u64 %rd6, %rd2, %rd5;\n\
         ld.global.f32 %f1, [%rd4]; add.f32 %f2, %f1, %f1; st.global.f32 [%rd6], %f2; ret; }",
    ),
    (
        "lets",
        ".visible .entry k(.param .u32 n)\n{ .reg .b32 %r<9>; .reg .pred %p1;\nld.param.u32 %r1, [n];\n\
         setp.lt.u32 %p1, %r1, 7; @%p1 bra $E; add.u32 %r2, %r1, 1; st.shared.u32 [smem], %r2; $E: ret; }",
    ),
];

#[test]
fn every_pass_before_and_after() {
    for (pass, kernel) in CASES {
        let (tree, diagnostics) = parse_text(format!("{HEAD}{kernel}\n").as_bytes());
        assert!(diagnostics.is_empty(), "{pass}: {diagnostics:?}");
        let text = |without: Without| match sugar(&tree, "m", &[without]) {
            Ok(sugared) => sugared.text,
            Err(why) => why,
        };
        let both = format!("without {pass}:\n\n{}\nwith {pass}:\n\n{}", text([pass].into()), text(Without::new()));
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/tests").join(pass).with_extension("txt");
        expect_file![path].assert_eq(&both);
    }
    assert_eq!(CASES.map(|(pass, _)| pass), PASSES.map(|(pass, _)| pass));
}

#[test]
fn labels_that_nothing_names_are_left_out() {
    let kernel = format!("{HEAD}.visible .entry k()\n{{ $L__tmp0: bar.sync 0; ret; $L__tmp1: $L__func_end0: }}\n");
    let text = sugar(&parse_text(kernel.as_bytes()).0, "m", &[]).map(|sugared| sugared.text).unwrap();
    assert!(!text.contains("tmp0") && !text.contains("func_end0"), "{text}");
}

#[test]
fn divisions_that_the_language_writes_as_shifts_stay_divisions() {
    let kernel = format!(
        "{HEAD}.visible .entry k()\n{{ .reg .u32 %r<5>; mov.u32 %r0, %tid.x; div.u32 %r1, %r0, 12; add.u32 %r1, %r1, %r0; \
         mul.lo.u32 %r1, %r1, %r0; sub.u32 %r1, %r1, 3; div.u32 %r2, %r1, 32; rem.u32 %r3, %r1, 8; st.shared.u32 [smem], %r2; \
         st.shared.u32 [smem], %r3; ret; }}\n"
    );
    let text = sugar(&parse_text(kernel.as_bytes()).0, "m", &[]).map(|sugared| sugared.text).unwrap();
    let all = ["tid_x / 12", "div.u32 r2, r1, 32;", "rem.u32 r3, r1, 8;"];
    assert!(all.iter().all(|part| text.contains(part)), "{text}");
}

/// What a register holds at first is its declaration only where that is `mut`, if another statement writes it.
#[test]
fn registers_that_are_written_again_are_mut() {
    let kernel = format!(
        "{HEAD}.visible .entry k(.param .u32 n)\n{{ .reg .u32 %r<5>; ld.param.u32 %r4, [n]; mov.u32 %r0, %tid.x; add.u32 %r1, %r0, 12; \
         add.u32 %r2, %r0, %r4; $L: add.u32 %r1, %r1, %r2; st.shared.u32 [smem], %r1; bra $L; }}\n"
    );
    let text = sugar(&parse_text(kernel.as_bytes()).0, "m", &[]).map(|sugared| sugared.text).unwrap();
    let all = ["let mut r1: u32 = tid_x + 12;", "let r2: u32 = tid_x + n;"];
    assert!(all.iter().all(|part| text.contains(part)), "{text}");
}

#[test]
fn what_a_debugger_reads_goes() {
    let text = ".version 8.0\n.target sm_80, debug\n.address_size 64\n.file 1 \"a.cu\"\n.entry k() {\n.loc 1 2 3\nret;\n}\n\
                .section .debug_str\n{\nname: .b8 65,0\n}\n";
    let without = without_debug(&parse_text(text.as_bytes()).0).unwrap();
    let without = String::from_utf8(without).unwrap();
    assert_eq!(without.trim_end(), ".version 8.0\n.target sm_80\n.address_size 64\n.entry k() {\nret;\n}");
    assert_eq!(without_debug(&parse_text(without.as_bytes()).0), None);
}

#[test]
fn what_the_language_cannot_declare_is_said() {
    let why = |text: &str| sugar(&parse_text(text.as_bytes()).0, "m", &[]).map(|s| s.text).unwrap_err();
    assert_eq!(
        why(".version 8.0\n.target sm_80, texmode_unified\n.address_size 64\n"),
        "the option `texmode_unified` of .target"
    );
    assert_eq!(why(".version 8.0\n.target sm_80\n.address_size 64\n"), "a module without a function");
    assert_eq!(
        why(".version 8.0\n.target sm_80\n.address_size 64\n.entry k() .pragma \"nounroll\"; { ret; }\n"),
        "the directive `.pragma` of an entry"
    );
}

/// A negative literal of an unsigned operation has the same bits as an unsigned one, and the operation is an operator.
#[test]
fn negative_literals_of_unsigned_operations_are_operators() {
    const OPERATIONS: [&str; 9] = [
        "add.u32 %r1, %r1, -1",
        "sub.u32 %r1, %r1, -2147483648",
        "mul.lo.u32 %r1, %r1, -3",
        "and.b32 %r1, %r1, -16",
        "xor.b32 %r1, %r1, -1",
        "setp.lt.u32 %p1, %r1, -5",
        "add.u64 %rd1, %rd1, -8",
        "and.b64 %rd1, %rd1, -256",
        "add.u16 %h1, %h1, -1",
    ];
    for operation in OPERATIONS {
        let entry = format!(
            ".visible .entry k() {{ .reg .b32 %r<2>; .reg .b64 %rd<2>; .reg .b16 %h<2>; .reg .pred %p<2>;\n\
             mov.u32 %r1, 4; mov.u64 %rd1, 4; mov.u16 %h1, 4; {operation}; ret; }}"
        );
        let tree = parse_text(format!("{HEAD}{entry}").as_bytes()).0;
        let text = sugar(&tree, "m", &[["islands"].into_iter().collect::<Without>()]).unwrap().text;
        assert!(!text.contains("ptx!"), "{operation}\n{text}");
    }
}

/// Each directive of clusters is an option, alone and beside others.
#[test]
fn directives_of_clusters_are_options() {
    let options = [
        (".explicitcluster", "explicit_cluster"),
        (".reqnctapercluster 2", "required_cluster = 2"),
        (".explicitcluster .reqnctapercluster 2, 2", "cluster = (2, 2)"),
        (".maxclusterrank 8", "max_cluster = 8"),
        (".explicitcluster .maxclusterrank 8", "explicit_cluster, max_cluster = 8"),
        (".reqntid 32 .maxclusterrank 8", "block = 32, max_cluster = 8"),
    ];
    for (directives, option) in options {
        let text = format!("{HEAD}.visible .entry k() {directives} {{ bar.sync 0; ret; }}");
        let text = sugar(&parse_text(text.as_bytes()).0, "m", &[]).unwrap().text;
        assert!(text.contains(&format!("{option})]")), "{text}");
    }
}
