//! `ptx prove`: the exit status, the verdicts, and the meaning of instructions beside that of the CPU device.

use super::{file, one_in, said};
use ptx_core::check::{Checked, check};
use ptx_core::host::{Expr, Operator};
use ptx_interp::{Launch, Machine, Options, Program};
use ptx_prove::{Contract, Passed, Property, Verdict, prove};

/// `y[i] += a * x[i]` for `i < n`.
const SAXPY: &str = ".version 8.0
.target sm_80
.address_size 64
.visible .entry saxpy(.param .u32 n, .param .f32 a, .param .u64 x, .param .u64 y)
{
    .reg .pred %p<2>;
    .reg .b32 %r<6>;
    .reg .f32 %f<5>;
    .reg .b64 %rd<8>;
    ld.param.u32 %r1, [n];
    ld.param.f32 %f1, [a];
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 bra DONE;
    mul.wide.u32 %rd3, %r5, 4;
    add.s64 %rd4, %rd1, %rd3;
    ld.global.f32 %f2, [%rd4];
    add.s64 %rd5, %rd2, %rd3;
    ld.global.f32 %f3, [%rd5];
    fma.rn.f32 %f4, %f2, %f1, %f3;
    st.global.f32 [%rd5], %f4;
DONE:
    ret;
}
";

/// The sums of blocks of 256, by a tree in shared memory.
const REDUCE: &str = ".version 8.0
.target sm_80
.address_size 64
.visible .entry reduce(.param .u64 x, .param .u64 out, .param .u32 n)
{
    .shared .align 4 .b8 sm[1024];
    .reg .pred %p<5>;
    .reg .b32 %r<20>;
    .reg .f32 %f<8>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [out];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %tid.x;
    shl.b32 %r4, %r2, 8;
    or.b32 %r5, %r4, %r3;
    setp.lt.u32 %p1, %r5, %r1;
    mov.f32 %f1, 0f00000000;
    mul.wide.u32 %rd3, %r5, 4;
    add.s64 %rd4, %rd1, %rd3;
    @%p1 ld.global.f32 %f1, [%rd4];
    shl.b32 %r6, %r3, 2;
    mov.u32 %r7, sm;
    add.u32 %r8, %r7, %r6;
    st.shared.f32 [%r8], %f1;
    mov.u32 %r9, 128;
LOOP:
    bar.sync 0;
    setp.ge.u32 %p2, %r3, %r9;
    @%p2 bra SKIP;
    shl.b32 %r10, %r9, 2;
    add.u32 %r11, %r8, %r10;
    ld.shared.f32 %f2, [%r11];
    ld.shared.f32 %f3, [%r8];
    add.f32 %f4, %f2, %f3;
    st.shared.f32 [%r8], %f4;
SKIP:
    shr.u32 %r9, %r9, 1;
    setp.ne.u32 %p3, %r9, 0;
    @%p3 bra LOOP;
    setp.ne.u32 %p4, %r3, 0;
    @%p4 bra DONE;
    ld.shared.f32 %f5, [sm];
    mul.wide.u32 %rd5, %r2, 4;
    add.s64 %rd6, %rd2, %rd5;
    st.global.f32 [%rd6], %f5;
DONE:
    ret;
}
";

/// A thread that ends before the barrier orders nothing: another one may read its value early.
const EARLY: &str = ".version 8.0
.target sm_80
.address_size 64
.visible .entry early(.param .u64 out, .param .u32 n)
{
    .shared .align 4 .b8 sm[1024];
    .reg .pred %p<3>;
    .reg .b32 %r<10>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    shl.b32 %r3, %r2, 2;
    mov.u32 %r4, sm;
    add.u32 %r5, %r4, %r3;
    st.shared.u32 [%r5], %r2;
    setp.ge.u32 %p1, %r2, %r1;
    @%p1 bra D;
    bar.sync 0;
    xor.b32 %r6, %r3, 4;
    add.u32 %r7, %r4, %r6;
    ld.shared.u32 %r8, [%r7];
    mul.wide.u32 %rd2, %r2, 4;
    add.u64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r8;
D:  ret;
}
";

/// `out[c][r] = in[r][c]`: rows of a stride that is a parameter.
const TRANSPOSE: &str = ".version 8.0
.target sm_80
.address_size 64
.visible .entry tr(.param .u64 out, .param .u64 src, .param .u32 rows, .param .u32 cols)
{
    .reg .pred %p<5>;
    .reg .b32 %r<20>;
    .reg .f32 %f<8>;
    .reg .b64 %rd<12>;
    ld.param.u64 %rd1, [src];
    ld.param.u64 %rd2, [out];
    ld.param.u32 %r1, [rows];
    ld.param.u32 %r2, [cols];
    mov.u32 %r3, %ctaid.y;
    mov.u32 %r4, %ctaid.x;
    mov.u32 %r5, %tid.x;
    mov.u32 %r6, %tid.y;
    mad.lo.u32 %r7, %r3, 16, %r6;
    mad.lo.u32 %r8, %r4, 16, %r5;
    setp.lt.u32 %p1, %r7, %r1;
    setp.lt.and.u32 %p2, %r8, %r2, %p1;
    @!%p2 bra D;
    cvt.u64.u32 %rd3, %r7;
    cvt.u64.u32 %rd4, %r2;
    cvt.u64.u32 %rd5, %r8;
    mad.lo.u64 %rd6, %rd3, %rd4, %rd5;
    shl.b64 %rd6, %rd6, 2;
    add.u64 %rd7, %rd1, %rd6;
    ld.global.f32 %f1, [%rd7];
    cvt.u64.u32 %rd4, %r1;
    mad.lo.u64 %rd6, %rd5, %rd4, %rd3;
    shl.b64 %rd6, %rd6, 2;
    add.u64 %rd7, %rd2, %rd6;
    st.global.f32 [%rd7], %f1;
D:
    ret;
}
";

const WHOLE: [&str; 6] = ["--grid", "n.div_ceil(256)", "--assume", "len(x) >= 4*n", "--assume", "len(y) >= 4*n"];
const SUMS: [&str; 6] =
    ["--grid", "n.div_ceil(256)", "--assume", "len(x) >= 4*n", "--assume", "len(out) >= 4*n.div_ceil(256)"];

/// The exit status, the output and the errors of a proof with blocks of 256.
fn proved(text: &str, options: &[&str]) -> (i32, String, String) {
    let file = file(text);
    said(&[&["prove", file.name(), "--block", "256"], options].concat())
}

#[test]
fn the_exit_status_is_the_verdict() {
    let (code, out, err) = proved(SAXPY, &WHOLE);
    assert!(code == 0 && out.contains("bounds: 3 proved\n") && err.is_empty(), "{out}{err}");
    // The buffers may be empty.
    let (code, out, _) = proved(SAXPY, &["--grid", "n.div_ceil(256)"]);
    assert!(code == 1 && out.contains("reads bytes 0..4 of `x`, which has 0 bytes"), "{out}");
    assert!(out.contains("ptx run ") && out.contains("--arg u32:1"), "{out}");
    // One element is missing.
    let short = ["--grid", "n.div_ceil(256)", "--assume", "len(x) >= 4*n - 4", "--assume", "len(y) >= 4*n"];
    assert_eq!(proved(SAXPY, &short).0, 1);
    // The index wraps behind 2^24 blocks of 256, so that two threads write y[0].
    let (code, out, _) = proved(SAXPY, &WHOLE[2..]);
    assert!(code == 1 && out.contains("16777216"), "{out}");
    // A free number that bounds the grid.
    let free = ["--grid", "g", "--assume", "g <= 65535"];
    assert_eq!(proved(SAXPY, &[&free, &WHOLE[2..]].concat()).0, 0);
    // An instruction that is not described.
    let cluster = "    barrier.cluster.arrive;\n    barrier.cluster.wait;\n    mov.u32 %r2, %ctaid.x;";
    let other = SAXPY.replace("    mov.u32 %r2, %ctaid.x;", cluster).replace("sm_80", "sm_90");
    let (code, out, err) = proved(&other, &WHOLE);
    assert!(code == 2 && out.contains("barrier.cluster") && err.is_empty(), "{out}{err}");
}

#[test]
fn threads_that_end_order_nothing() {
    let (code, out, _) = proved(EARLY, &["--grid", "1", "--assume", "len(out) >= 1024"]);
    assert!(code != 0 && !out.contains("races: 3 proved"), "{out}");
    let all = EARLY.replace("    @%p1 bra D;\n", "");
    assert_eq!(proved(&all, &["--grid", "1", "--assume", "len(out) >= 1024"]).0, 0);
}

/// Rows of a stride that is a parameter, in two dimensions.
/// A barrier that not all threads reach, and a shuffle of the whole warp that not all lanes reach, are not proved.
#[test]
fn what_all_threads_must_reach_is_not_proved_where_some_pass_by() {
    let kernel = |guard: &str, instruction: &str| {
        format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 y)\n{{\n.reg .pred p, q;\n.reg .b32 t, v;\n\
             .reg .b64 a, d;\nld.param.u64 a, [y];\nmov.u32 t, %tid.x;\nmul.wide.u32 d, t, 4;\nadd.s64 a, a, d;\nmov.u32 v, t;\n\
             setp.ge.u32 p, t, {guard};\n@p bra DONE;\n{instruction}\nDONE:\nst.global.u32 [a], v;\nret;\n}}\n"
        )
    };
    let options = ["--grid", "1", "--assume", "len(y) >= 1024"];
    let whole = "shfl.sync.down.b32 v, t, 1, 31, 0xffffffff;";
    for (guard, instruction, expected) in
        [("256", whole, 0), ("128", whole, 0), ("136", whole, 1), ("256", "bar.sync 0;", 0), ("128", "bar.sync 0;", 2)]
    {
        let (code, out, err) = proved(&kernel(guard, instruction), &options);
        assert_eq!(code, expected, "{guard} {instruction}\n{out}{err}");
    }
}

/// A barrier with a guard that all threads have alike is one that all may pass by.
#[test]
fn a_barrier_that_may_be_left_out_orders_nothing() {
    let options = ["--grid", "1", "--assume", "len(out) >= 1024"];
    let guarded = |guard: &str| {
        let text = EARLY.replace("    @%p1 bra D;\n", "").replace("%r2, %r1;", "%r1, 5;");
        text.replace("    bar.sync 0;", &format!("    {guard} bar.sync 0;"))
    };
    assert_eq!(proved(&guarded(""), &options).0, 0);
    for guard in ["@%p1", "@!%p1"] {
        let (code, out, _) = proved(&guarded(guard), &options);
        assert!(code != 0 && out.contains("races: 2 proved, 1 ") && out.contains("barriers: 1 proved"), "{out}");
    }
}

#[test]
fn strides_may_be_parameters() {
    let file = file(TRANSPOSE);
    let size = |name: &str| format!("len({name}) >= 4*rows*cols");
    let (whole, out) = (size("src"), size("out"));
    let common = [
        "prove",
        file.name(),
        "--block",
        "4,4",
        "--grid",
        "(cols.div_ceil(16), rows.div_ceil(16))",
        "--assume",
        &whole,
    ];
    assert_eq!(said(&[&common[..], &["--assume", &out]].concat()).0, 0);
    let (code, text, _) = said(&[&common[..], &["--assume", "len(out) >= 4*rows*cols - 4"]].concat());
    assert!(code == 1 && text.contains("writes bytes"), "{text}");
}

#[test]
fn bad_usage_says_so() {
    let cases: [(&[&str], &str); 5] = [
        (&["--assume", "len(z) >= 4*n"], "the parameters are `n`, `a`, `x`, `y`"),
        (&["--assume", "n +"], "error: `--assume 'n +'`"),
        (&["--grid", "n / m"], "divide by constants"),
        (&["--assume", "n"], "conditions such as"),
        (&["--entry", "sax"], "there is no entry `sax`; the file has `saxpy`"),
    ];
    for (options, expected) in cases {
        let (code, _, err) = proved(SAXPY, options);
        assert!(code == 2 && err.contains(expected), "{options:?}: {err}");
    }
    let right = file(SAXPY);
    let (code, _, err) = said(&["prove", right.name()]);
    assert!(code == 2 && err.contains("--block 256"), "{err}");
    // Of a file with errors nothing is refuted.
    let wrong = file(&SAXPY.replace("setp.ge.u32", "setp.ge.b32"));
    let (code, out, _) = said(&["prove", wrong.name(), "--block", "256"]);
    assert!(code == 2 && out.contains("this is not valid PTX: 1 error"), "{out}");
}

#[test]
fn json_has_a_line_for_each_verdict() {
    let (code, out, _) = proved(SAXPY, &["--grid", "n.div_ceil(256)", "--format", "json"]);
    let lines: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(code == 1 && lines.len() == 9, "{out}");
    let first = lines.iter().find(|line| line["kind"] == "bounds").unwrap();
    assert_eq!((first["line"].as_u64(), first["verdict"].as_str()), (Some(22), Some("refuted")), "{first}");
    assert_eq!(first["counterexample"]["threads"][0]["thread"], serde_json::json!([0, 0, 0]), "{first}");
    assert!(first["counterexample"]["run"].as_str().unwrap().starts_with("ptx run "), "{first}");
}

/// Threads of which the first 64 write what they read in the opposite order; the rest has nothing to do.
const SYMMETRIC: &str = ".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 y)
{
    .shared .align 4 .b8 sm[1024];
    .reg .pred %p<5>;
    .reg .b32 %r<20>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [y];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, sm;
    mad.lo.u32 %r3, %r1, 4, %r2;
    setp.lt.u32 %p1, %r1, 64;
    @%p1 st.shared.u32 [%r3], %r1;
    bar.sync 0;
    xor.b32 %r4, %r1, 63;
    mad.lo.u32 %r5, %r4, 4, %r2;
    setp.lt.u32 %p2, %r1, 64;
    @!%p2 bra DONE;
    ld.shared.u32 %r6, [%r5];
    mad.wide.u32 %rd2, %r1, 4, %rd1;
    st.global.u32 [%rd2], %r6;
DONE:
    ret;
}
";

const FREE: [&str; 4] = ["--grid", "1", "--assume", "len(y) >= 256"];

/// A read of shared memory that nobody wrote is refuted, by the thread that reads it.
#[test]
fn shared_memory_is_written_before_it_is_read() {
    let (code, out, err) = proved(SYMMETRIC, &FREE);
    assert!(code == 0 && out.contains("initialization: 1 proved\n"), "{out}{err}");
    let (code, out, _) = proved(&SYMMETRIC.replace("%r1, 64;\n    @%p1", "%r1, 60;\n    @%p1"), &FREE);
    let expected = "thread 0 of block 0 reads bytes 252..256 of `sm`, which no thread wrote before";
    assert!(code == 1 && out.contains(expected) && out.contains("this shows it: ptx run "), "{out}");
}

/// Barriers of halves of the block order the threads of each half, and no others.
#[test]
fn named_barriers_order_the_threads_that_they_count() {
    let kernel = |numbers: [u32; 2], count: u32, other: u32| {
        let [first, second] = numbers;
        format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 y)\n{{\n.shared .align 4 .b8 sm[1024];\n.reg .pred p;\n\
             .reg .b32 t, a, b, v, s;\n.reg .b64 d, e;\nld.param.u64 d, [y];\nmov.u32 t, %tid.x;\nmov.u32 s, sm;\nmad.lo.u32 a, t, 4, s;\n\
             st.shared.u32 [a], t;\nsetp.lt.u32 p, t, 128;\n@p bra FIRST;\nbar.sync {second}, {count};\nbra JOIN;\nFIRST:\n\
             bar.sync {first}, {count};\nJOIN:\nxor.b32 b, t, {other};\nmad.lo.u32 b, b, 4, s;\nld.shared.u32 v, [b];\n\
             mad.wide.u32 e, t, 4, d;\nst.global.u32 [e], v;\nret;\n}}\n"
        )
    };
    let options = ["--grid", "1", "--assume", "len(y) >= 1024"];
    for (numbers, count, other, is_proved) in
        [([1, 2], 128, 127, true), ([1, 2], 128, 128, false), ([1, 2], 96, 1, false), ([1, 1], 128, 1, false)]
    {
        let (code, out, err) = proved(&kernel(numbers, count, other), &options);
        assert_eq!(code == 0, is_proved, "{numbers:?} {count} {other}\n{out}{err}");
    }
}

/// A finding of a sample run is a refutation, too. A barrier in memory is described by its pipeline, where that is proved.
#[test]
fn launches_are_tried_where_something_is_not_described() {
    let cluster = "    barrier.cluster.arrive;\n    barrier.cluster.wait;\n    mov.u32 %r1";
    let other = SYMMETRIC.replace("sm_80", "sm_90").replace("    mov.u32 %r1", cluster);
    assert_eq!(proved(&other, &FREE).0, 2);
    let wait = |parity: u32| {
        let text = format!(
            "    .shared .align 8 .b64 bar;\n    mov.u32 %r7, bar;\n    mov.u32 %r8, %tid.x;\n    setp.eq.u32 %p3, %r8, 0;\n    \
             @%p3 mbarrier.init.shared.b64 [%r7], 256;\n    bar.sync 1;\n    mbarrier.arrive.shared.b64 %rd3, [%r7];\nWAIT:\n    \
             mbarrier.try_wait.parity.shared.b64 %p3, [%r7], {parity};\n    @!%p3 bra WAIT;\n    mov.u32 %r1"
        );
        other.replace("    mov.u32 %r1", &text)
    };
    let (code, out, err) = proved(&wait(0), &FREE);
    assert_eq!(code, 0, "{out}{err}");
    let (code, out, err) = proved(&wait(0).replace("[%r7], 256", "[%r7], 257"), &FREE);
    assert!(code == 1 && out.contains("waiting for the phase of parity 0"), "{out}{err}");
}

/// `y[x[i]] = i`: an index from memory.
const SCATTER: &str = ".version 8.0
.target sm_80
.address_size 64
.visible .entry scatter(.param .u64 x, .param .u64 y, .param .u32 n)
{
    .reg .pred %p<3>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r2, 256, %r3;
    setp.ge.u32 %p1, %r4, %r1;
    @%p1 bra D;
    mul.wide.u32 %rd3, %r4, 4;
    add.u64 %rd3, %rd1, %rd3;
    ld.global.u32 %r5, [%rd3];
    setp.ge.u32 %p2, %r5, %r1;
    @%p2 bra D;
    mul.wide.u32 %rd4, %r5, 4;
    add.u64 %rd4, %rd2, %rd4;
    st.global.u32 [%rd4], %r4;
D:  ret;
}
";

/// A launch chooses what its buffers hold: the command line that shows a refutation has the bytes, and its run has the finding.
#[test]
fn buffers_hold_what_refutes() {
    let options = ["--grid", "n.div_ceil(256)", "--assume", "len(x) >= 4*n", "--assume", "len(y) >= 4*n"];
    let unchecked = SCATTER.replace("    @%p2 bra D;\n", "");
    let atomic = SCATTER.replace("st.global.u32", "red.global.add.u32");
    let atomic_unchecked = atomic.replace("    @%p2 bra D;\n", "");
    assert_eq!(proved(&atomic, &options).0, 0, "{}", proved(&atomic, &options).1);
    for (text, bytes, finding) in
        [(SCATTER, "", "race"), (&unchecked, "", "race"), (&atomic_unchecked, ":0xff", "bytes behind the")]
    {
        let file = file(text);
        let (code, out, err) = said(&[&["prove", file.name(), "--block", "256"], &options[..]].concat());
        assert_eq!(code, 1, "{out}{err}");
        let line = out.lines().find_map(|line| line.split_once("this shows it: ptx ")).unwrap().1;
        assert!(line.contains(&format!("{bytes} --arg /tmp/y.bin:")), "{line}");
        let (code, out, err) = said(&line.split(' ').collect::<Vec<_>>());
        assert!(code == 1 && (out.clone() + &err).contains(finding), "{out}{err}");
    }
}

/// Each change makes a proved kernel harmful: none of them is proved.
#[test]
fn mutants_are_not_proved() {
    assert_eq!(proved(REDUCE, &SUMS).0, 0, "{}", proved(REDUCE, &SUMS).1);
    let mutants: &[(&str, &str, &str, &[&str])] = &[
        (SAXPY, "setp.ge.u32", "setp.gt.u32", &WHOLE),
        (SAXPY, "    @%p1 bra DONE;\n", "", &WHOLE),
        (SAXPY, "%r5, 4;", "%r5, 8;", &WHOLE),
        (SAXPY, "mad.lo.s32 %r5, %r2, %r3, %r4", "mad.lo.s32 %r5, %r2, 255, %r4", &WHOLE),
        (SAXPY, "mad.lo.s32 %r5, %r2, %r3, %r4", "mov.u32 %r5, %r2", &WHOLE),
        (SAXPY, "st.global.f32 [%rd5]", "st.global.f32 [%rd5+4]", &WHOLE),
        (SAXPY, "ld.global.f32 %f2, [%rd4]", "ld.global.f32 %f2, [%rd4+-4]", &WHOLE),
        (SAXPY, "ld.global.f32 %f2, [%rd4]", "ld.global.f32 %f2, [%rd4+2]", &WHOLE),
        (REDUCE, "    bar.sync 0;\n", "", &SUMS),
        (REDUCE, "    bar.sync 0;\n", "    @%p1 bar.sync 0;\n", &SUMS),
        (REDUCE, "setp.ge.u32 %p2", "setp.gt.u32 %p2", &SUMS),
        (REDUCE, "mov.u32 %r9, 128", "mov.u32 %r9, 256", &SUMS),
        (REDUCE, "sm[1024]", "sm[1020]", &SUMS),
        (REDUCE, "setp.lt.u32", "setp.le.u32", &SUMS),
        (REDUCE, "shl.b32 %r6, %r3, 2", "shl.b32 %r6, %r3, 1", &SUMS),
        (REDUCE, "    @%p4 bra DONE;\n", "", &SUMS),
        (REDUCE, "    st.shared.f32 [%r8], %f1;\n", "", &SUMS),
        (REDUCE, "    st.shared.f32 [%r8], %f1;", "    @%p1 st.shared.f32 [%r8], %f1;", &SUMS),
        (SYMMETRIC, "setp.lt.u32 %p1, %r1, 64", "setp.lt.u32 %p1, %r1, 63", &FREE),
        (SYMMETRIC, "xor.b32 %r4, %r1, 63", "xor.b32 %r4, %r1, 127", &FREE),
        (SYMMETRIC, "    bar.sync 0;\n", "    bar.sync 0, 32;\n", &FREE),
        (REDUCE, "mul.wide.u32 %rd5, %r2, 4", "mul.wide.u32 %rd5, %r2, 2", &SUMS),
    ];
    for (kernel, from, to, options) in one_in(3, mutants) {
        assert!(kernel.contains(from), "`{from}` is not in the kernel");
        let (code, out, _) = proved(&kernel.replace(from, to), options);
        assert!(code == 1 || code == 2, "`{from}` as `{to}`: {out}");
    }
}

/// Instructions with operands `{a}`, `{b}`, `{c}`, and the widths of the result and of the operands.
#[rustfmt::skip]
const MEANINGS: &[(&str, u32, u32)] = &[
    ("add.u32 {d}, {a}, {b}", 32, 32), ("sub.s32 {d}, {a}, {b}", 32, 32), ("mul.lo.u32 {d}, {a}, {b}", 32, 32),
    ("mul.hi.u32 {d}, {a}, {b}", 32, 32), ("mul.hi.s32 {d}, {a}, {b}", 32, 32), ("mul.wide.u32 {d}, {a}, {b}", 64, 32),
    ("mul.wide.s32 {d}, {a}, {b}", 64, 32), ("mad.lo.s32 {d}, {a}, {b}, {c}", 32, 32), ("mul24.lo.u32 {d}, {a}, {b}", 32, 32),
    ("mul24.lo.s32 {d}, {a}, {b}", 32, 32), ("min.s32 {d}, {a}, {b}", 32, 32), ("max.u32 {d}, {a}, {b}", 32, 32), ("abs.s32 {d}, {a}", 32, 32),
    ("neg.s32 {d}, {a}", 32, 32), ("div.u32 {d}, {a}, 7", 32, 32), ("rem.u32 {d}, {a}, 12", 32, 32), ("div.s32 {d}, {a}, 5", 32, 32),
    ("rem.s32 {d}, {a}, 6", 32, 32), ("div.u32 {d}, 100, {b}", 32, 32), ("and.b32 {d}, {a}, 240", 32, 32), ("and.b32 {d}, {a}, -32", 32, 32), ("and.b32 {d}, {a}, {b}", 32, 32),
    ("or.b32 {d}, {a}, 12", 32, 32), ("xor.b32 {d}, {a}, 29", 32, 32), ("not.b32 {d}, {a}", 32, 32), ("shl.b32 {d}, {a}, 5", 32, 32),
    ("shl.b32 {d}, 3, {b}", 32, 32), ("shr.u32 {d}, {a}, 3", 32, 32), ("shr.s32 {d}, {a}, 31", 32, 32), ("shr.u32 {d}, {a}, 32", 32, 32),
    ("shf.l.wrap.b32 {d}, {a}, {b}, 7", 32, 32), ("shf.r.wrap.b32 {d}, {a}, {b}, 9", 32, 32), ("shf.r.clamp.b32 {d}, {a}, {b}, 40", 32, 32),
    ("bfe.u32 {d}, {a}, 3, 9", 32, 32), ("bfe.s32 {d}, {a}, 3, 9", 32, 32), ("bfi.b32 {d}, {a}, {b}, 4, 7", 32, 32),
    ("prmt.b32 {d}, {a}, {b}, 0x5410", 32, 32), ("prmt.b32 {d}, {a}, {b}, 0x1076", 32, 32), ("lop3.b32 {d}, {a}, 15, {c}, 0xea", 32, 32),
    ("lop3.b32 {d}, {a}, 15, 255, 0xc0", 32, 32), ("popc.b32 {d}, {a}", 32, 32), ("clz.b32 {d}, {a}", 32, 32), ("brev.b32 {d}, {a}", 32, 32),
    ("cvt.s64.s32 {d}, {a}", 64, 32), ("cvt.u64.u32 {d}, {a}", 64, 32), ("cvt.u32.u64 {d}, {a}", 32, 64), ("cvt.s32.s8 {d}, {a}", 32, 32),
    ("cvt.u32.u16 {d}, {a}", 32, 32), ("cvt.s16.s32 {d}, {a}", 32, 32), ("cvt.u8.u32 {d}, {a}", 32, 32), ("mov.b64 {d}, { {a}, {b} }", 64, 32), ("add.s64 {d}, {a}, {b}", 64, 64),
    ("mul.lo.s64 {d}, {a}, {b}", 64, 64), ("shr.s64 {d}, {a}, 9", 64, 64), ("and.b64 {d}, {a}, 0xffff0000", 64, 64), ("min.s64 {d}, {a}, {b}", 64, 64),
    ("setp.lt.s32 q, {a}, {b}; selp.b32 {d}, {a}, {c}, q", 32, 32), ("setp.hi.u32 q, {a}, {b}; selp.b32 {d}, 1, 0, q", 32, 32),
    ("setp.eq.u32 q, {a}, {b}; @!q add.u32 {d}, {a}, 1; @q mov.u32 {d}, 7", 32, 32), ("set.ge.u32.s32 {d}, {a}, {b}", 32, 32),
    ("setp.ne.u32 q, {a}, {b}; setp.lt.and.u32 q, {a}, {c}, q; selp.b32 {d}, 3, 4, q", 32, 32),
    ("mad.wide.u32 {e}, {a}, {b}, 5; cvt.u32.u64 {d}, {e}", 32, 32), ("setp.gt.s32 q, {a}, 0; @q bra L1; mov.u32 {d}, 1; bra L2; L1: mov.u32 {d}, {b}; L2:", 32, 32),
];

/// The values of operands.
const VALUES: [u64; 8] = [0, 1, 5, 0x7fff_ffff, 0x8000_0000, 0xffff_fff9, 0x1234_5678, 0xdead_beef];

/// A module whose entry `run` stores the result, and whose entry `look` writes byte 0 of `out` if the result is `e`, and a byte far behind it if not.
/// The operands are parameters, or these numbers.
fn module(meaning: &str, (result, operand): (u32, u32), numbers: Option<[u64; 3]>) -> Checked {
    let line =
        meaning.replace("{d}", "d").replace("{a}", "a").replace("{b}", "b").replace("{c}", "c").replace("{e}", "e");
    let loads = match numbers {
        None => format!("ld.param.u{operand} a, [pa]; ld.param.u{operand} b, [pb]; ld.param.u{operand} c, [pc];"),
        Some([a, b, c]) => format!("mov.b{operand} a, {a}; mov.b{operand} b, {b}; mov.b{operand} c, {c};"),
    };
    let entry = |name: &str, more: &str, end: &str| {
        format!(
            ".visible .entry {name}(.param .u{operand} pa, .param .u{operand} pb, .param .u{operand} pc, .param .u64 out{more})
{{ .reg .pred q, w; .reg .b{operand} a, b, c; .reg .b{result} d, x; .reg .b64 e, o;
{loads} ld.param.u64 o, [out];
{line};
{end} ret; }}
"
        )
        .replace(":;", ":")
    };
    let text = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n{}{}",
        entry("run", "", &format!("st.global.u{result} [o], d;")),
        entry(
            "look",
            &format!(", .param .u{result} pe"),
            &format!(
                ".reg .b16 z; mov.u16 z, 0; ld.param.u{result} x, [pe]; setp.eq.u{result} w, d, x; selp.u64 e, 0, 1048576, w; add.u64 o, o, e; \
                 st.global.u8 [o], z;"
            ),
        ),
    );
    let (tree, found) = ptx_core::parse::parse_text(text.as_str());
    let (checked, found) = check(tree, found, &Default::default());
    checked.unwrap_or_else(|| panic!("{meaning}: {found:?}\n{text}"))
}

/// The result on the CPU device.
fn computed(program: &Program, values: [u64; 3], result: u32, operand: u32) -> u64 {
    let mut machine = Machine::new();
    let out = machine.alloc(8).unwrap();
    let mut params: Vec<u8> =
        values.iter().flat_map(|value| value.to_le_bytes()[..operand as usize / 8].to_vec()).collect();
    params.resize(params.len().next_multiple_of(8), 0);
    params.extend(out.to_le_bytes());
    let (grid, block, cluster) = ([1; 3], [1; 3], [1; 3]);
    let (options, entry) = (Options { watch: false, ..Options::default() }, "run");
    let launch =
        Launch { entry, grid, block, cluster, dynamic_shared: 0, cooperative: false, params: &params, options };
    machine.launch(program, &launch).unwrap();
    let mut bytes = [0; 8];
    machine.read(out, &mut bytes[..result as usize / 8]).unwrap();
    u64::from_le_bytes(bytes)
}

/// The verdict on `look` with these values and this result.
fn looked(checked: &Checked, values: [u64; 3], expected: u64) -> Verdict {
    let number = |value: u64| {
        let half = |bits: u64| Expr::Int((bits & 0xffff_ffff) as i64);
        let high = Expr::Binary(Operator::Shl, Box::new([half(value >> 32), Expr::Int(32)]), String::new());
        Expr::Binary(Operator::Add, Box::new([high, half(value)]), String::new())
    };
    let is = |at: usize, value: u64| {
        Expr::Binary(Operator::Eq, Box::new([Expr::Argument(at), number(value)]), String::new())
    };
    let mut assume: Vec<Expr> = values.iter().enumerate().map(|(at, value)| is(at, *value)).collect();
    assume.push(is(4, expected));
    assume.push(Expr::Binary(Operator::Eq, Box::new([Expr::Len(3), Expr::Int(1)]), String::new()));
    let contract = Contract {
        block: [1; 3],
        cluster: [1; 3],
        grid: Some(Expr::Int(1)),
        assume,
        params: (0..5).map(Passed::Argument).collect(),
        elements: vec![1; 5],
        ..Contract::default()
    };
    let report = prove(checked, "look", &contract).unwrap();
    let mut bounds = report.findings.into_iter().filter(|finding| finding.property == Property::Bounds);
    bounds.next().unwrap().verdict
}

#[test]
fn instructions_mean_what_the_cpu_device_computes() {
    let (mut proved, mut open) = (0, Vec::new());
    for (meaning, result, operand) in MEANINGS {
        let checked = module(meaning, (*result, *operand), None);
        let program = Program::new(&checked).unwrap();
        for (at, value) in VALUES.iter().enumerate() {
            let wide = |value: u64| if *operand == 64 { value | value << 40 } else { value };
            let values = [*value, VALUES[(at * 3 + 1) % 8], VALUES[(at * 5 + 2) % 8]].map(wide);
            let expected = computed(&program, values, *result, *operand);
            // As parameters, which are symbols, and as numbers.
            for checked in [&checked, &module(meaning, (*result, *operand), Some(values))] {
                match looked(checked, values, expected) {
                    Verdict::Proved => proved += 1,
                    Verdict::Unknown(_) => open.push((*meaning, values)),
                    refuted => panic!("{meaning} of {values:x?} is {expected:#x}, but {refuted:?}"),
                }
                let wrong = looked(checked, values, expected ^ 1);
                assert_ne!(
                    wrong,
                    Verdict::Proved,
                    "{meaning} of {values:x?} is {expected:#x}, and not {:#x}",
                    expected ^ 1
                );
            }
        }
    }
    assert!(open.len() * 10 < proved, "{proved} proved, and open {open:?}");
}

/// Rows of 64 whose numbers are in memory, and a loop that ends where a counter that doubles passes a number.
const ANNOTATED: &str = ".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 index, .param .u64 y, .param .u32 n)
{
    .reg .pred %p<3>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [index];
    ld.param.u64 %rd2, [y];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    mul.wide.u32 %rd3, %r2, 4;
    add.u64 %rd4, %rd1, %rd3;
    ld.global.u32 %r3, [%rd4];
    .pragma \"assume %r3 < %r1\";
    mul.wide.u32 %rd5, %r3, 4;
    add.u64 %rd6, %rd2, %rd5;
    mov.u32 %r4, 1;
LOOP:
    .pragma \"invariant %r4 <= 4096\";
    ld.global.u32 %r5, [%rd6];
    shl.b32 %r4, %r4, 1;
    min.u32 %r4, %r4, 4096;
    mul.wide.u32 %rd7, %r4, 4;
    add.u64 %rd7, %rd2, %rd7;
    prefetch.global.L1 [%rd7];
    setp.lt.u32 %p1, %r4, %r5;
    @%p1 bra LOOP;
    ret;
}
";

#[test]
fn assumptions_are_taken_and_listed_and_invariants_proved() {
    let options =
        ["--grid", "1", "--assume", "len(index) >= 1024", "--assume", "len(y) >= 4*n", "--assume", "n >= 5000"];
    let (code, out, err) = proved(ANNOTATED, &options);
    assert!(code == 0 && out.contains("assumed in line 16: %r3 < %r1\n") && err.is_empty(), "{out}{err}");
    let (_, json, _) = proved(ANNOTATED, &[&options[..], &["--format", "json"]].concat());
    assert!(json.contains(r#""condition":"%r3 < %r1""#), "{json}");
    // Without the assumption the index may be any number.
    let (code, out, _) = proved(&ANNOTATED.replace("    .pragma \"assume %r3 < %r1\";\n", ""), &options);
    assert!(code != 0 && !out.contains("assumed"), "{out}");
    // An assumption that is not enough.
    assert_ne!(proved(&ANNOTATED.replace("%r3 < %r1", "%r3 <= %r1"), &options).0, 0);
    // Invariants that do not hold at the first turn, that no turn keeps, or that are no conditions.
    for wrong in ["%r4 > 1", "%r4 <= 2048", "%r4 < %r5"] {
        let (code, out, _) = proved(&ANNOTATED.replace("%r4 <= 4096\"", &format!("{wrong}\"")), &options);
        assert!(code == 2 && out.contains("the invariant is not proved"), "{wrong}: {out}");
    }
}

/// A condition at the end of one side of a branch is none of the other side.
#[test]
fn assumptions_hold_for_the_threads_that_come_to_them() {
    let side = "    setp.lt.u32 %p2, %r2, 16;\n    @%p2 bra SIDE;\n    .pragma \"assume %r3 < %r1\";\nSIDE:\n";
    let text = ANNOTATED.replace("    .pragma \"assume %r3 < %r1\";\n", side);
    let options =
        ["--grid", "1", "--assume", "len(index) >= 1024", "--assume", "len(y) >= 4*n", "--assume", "n >= 5000"];
    let (code, out, _) = proved(&text, &options);
    assert!(code != 0 && out.contains("assumed in line 18"), "{out}");
}

/// A barrier of the grid orders its blocks, which are resident at once by the attribute.
#[test]
fn a_barrier_of_the_grid_orders_its_blocks() {
    let (code, out, err) = said(&["prove", concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/15_grid_sync.rs")]);
    assert!(code == 0 && err.is_empty(), "{out}{err}");
    let options = ["--cooperative", "--grid", "b", "--assume", "b <= 1000", "--assume", "len(parts) >= 4*b"];
    let options = [&options[..], &["--assume", "len(out) >= 4*b"]].concat();
    assert_eq!(proved(TURN, &options).0, 0, "{}", proved(TURN, &options).1);
    let mutants: [(&str, &str); 22] = [
        ("    bar.sync 0;\n", ""),
        ("    st.global.u32 [%rd4], %r2;\n", "    st.global.u32 [%rd4], %r2;\n    ld.global.u32 %r9, [%rd1];\n"),
        ("MET:\n    bar.sync 0;\n    @%p1 bra SEEN;", "MET:\n    @%p1 bra SEEN;\n    bar.sync 0;"),
        ("atom.acq_rel.gpu", "atom.relaxed.gpu"),
        ("atom.acq_rel.gpu", "atom.acq_rel.cta"),
        ("ld.acquire.gpu", "ld.relaxed.gpu"),
        ("ld.acquire.gpu.global.u32 %r6, [arrived]", "ld.acquire.gpu.global.u32 %r6, [arrived+4]"),
        ("mov.u32 %r4, 1", "mov.u32 %r4, 2"),
        ("2147483649", "2147483650"),
        ("setp.ne.u32 %p2, %r2, 0", "setp.gt.u32 %p2, %r2, 1"),
        ("setp.ne.u32 %p1, %r1, 0", "setp.gt.u32 %p1, %r1, 1"),
        ("2147483648", "1073741824"),
        ("setp.ge.u32 %p3", "setp.lt.u32 %p3"),
        ("@%p3 bra SEEN", "@!%p3 bra SEEN"),
        ("@%p3 bra SEEN", "@%p2 bra SEEN"),
        ("xor.b32 %r7, %r5, %r6", "xor.b32 %r7, %r4, %r6"),
        ("    bra WAIT;\n", "    bra SEEN;\n"),
        (".u32 arrived;", ".u32 arrived = 1;"),
        (".visible .entry turn", ".visible .entry other() { st.global.u32 [arrived], 0; ret; }\n.visible .entry turn"),
        // The counter by an index, by its address in another variable, and in a loop that adds no share.
        (".u32 arrived;", ".u32 arrived[4];\n.visible .entry other() { st.global.u32 arrived[0], 0; ret; }"),
        (".u32 arrived;", ".u32 arrived;\n.global .u64 to = arrived;"),
        ("    st.global.u32 [%rd4], %r2;\n", FLIPPED),
    ];
    for (from, to) in one_in(4, mutants) {
        assert!(TURN.contains(from), "`{from}` is not in the kernel");
        let (code, out, _) = proved(&TURN.replace(from, to), &[&options[..], &["--entry", "turn"]].concat());
        assert!(code == 1 || code == 2, "`{from}` as `{to}`: {out}");
    }
}

/// Every block flips the counter's highest bit before the barrier.
const FLIPPED: &str = "    st.global.u32 [%rd4], %r2;
    atom.acq_rel.gpu.global.add.u32 %r15, [arrived], 2147483648;
AGAIN:
    ld.acquire.gpu.global.u32 %r16, [arrived];
    xor.b32 %r17, %r15, %r16;
    setp.ge.u32 %p5, %r17, 2147483648;
    @%p5 bra MET;
    bra AGAIN;
";

/// Each block writes its number, and reads that of the block opposite to it behind a barrier of the grid.
const TURN: &str = ".version 8.0
.target sm_80
.address_size 64
.global .align 4 .u32 arrived;
.visible .entry turn(.param .u64 parts, .param .u64 out)
{
    .reg .pred %p<8>;
    .reg .b32 %r<20>;
    .reg .b64 %rd<12>;
    ld.param.u64 %rd1, [parts];
    ld.param.u64 %rd2, [out];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %nctaid.x;
    mul.wide.u32 %rd3, %r2, 4;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra MET;
    add.u64 %rd4, %rd1, %rd3;
    st.global.u32 [%rd4], %r2;
MET:
    bar.sync 0;
    @%p1 bra SEEN;
    mov.u32 %r4, 1;
    setp.ne.u32 %p2, %r2, 0;
    @%p2 bra ADD;
    sub.u32 %r4, 2147483649, %r3;
ADD:
    atom.acq_rel.gpu.global.add.u32 %r5, [arrived], %r4;
WAIT:
    ld.acquire.gpu.global.u32 %r6, [arrived];
    xor.b32 %r7, %r5, %r6;
    setp.ge.u32 %p3, %r7, 2147483648;
    @%p3 bra SEEN;
    bra WAIT;
SEEN:
    bar.sync 0;
    @%p1 bra DONE;
    sub.u32 %r8, %r3, %r2;
    add.u32 %r8, %r8, -1;
    mul.wide.u32 %rd5, %r8, 4;
    add.u64 %rd6, %rd1, %rd5;
    ld.global.u32 %r9, [%rd6];
    add.u64 %rd7, %rd2, %rd3;
    st.global.u32 [%rd7], %r9;
DONE:
    ret;
}
";
