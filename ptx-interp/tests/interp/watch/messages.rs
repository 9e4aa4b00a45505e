//! What findings say: who, where, what lies there, and what to do.

use super::{Case, TILE, case, run, written_out};
use crate::harness::{launch, program};
use ptx_interp::{Fault, Launch, Machine, Options};

fn found(body: &'static str) -> Fault {
    let case = case("", (64, 1), "", "", "");
    run(&written_out(&case, body), &case, Options::default()).unwrap_err()
}

fn says(fault: &Fault, words: &str) {
    let told = format!("{fault}; {}; {:?}; {:?}", fault.culprit(), fault.parties(), fault.advice());
    assert!(told.contains(words), "{words}\nis not in\n{told}");
}

#[test]
fn addresses_have_names() {
    let race =
        found(".shared .align 4 .b8 a[64]; .shared .align 4 .b8 b[64]; mov.u32 %r1, b; st.shared.u32 [%r1+8], %t;");
    says(&race, "address 0x48, byte 8 of `b`");
    says(&found("ld.global.u32 %r1, [%out]; st.global.u32 [%out+12], %t;"), "byte 12 of the 4096 that `out` points to");
    says(
        &found(".local .align 4 .b8 x[8]; .local .align 4 .b8 y[8]; mov.u32 %r1, y; ld.local.u32 %r2, [%r1+4];"),
        "byte 4 of `y`",
    );
    says(
        &found(
            ".shared .align 4 .b8 a[64]; .shared .align 4 .b8 b[64]; mov.u32 %r1, a; st.shared.u32 [b], 0; st.shared.u32 [%r1+64], %t;",
        ),
        "leaves `a`, which has 64 bytes: from byte 64 on",
    );
    says(
        &found(".shared .align 4 .b8 a[64]; mov.u32 %r1, a; st.shared.u32 [%r1+68], %t;"),
        "4 bytes behind `a`, which has 64 bytes",
    );
    says(&found(".global .align 4 .b8 sums[64]; st.global.u32 [sums+4], %t;"), "byte 4 of `sums`");
    says(&found("ld.global.u32 %r1, [%out+4096];"), "right behind the 4096 bytes that `out` points to");
    says(&found("ld.global.u32 %r1, [%out+4104];"), "8 bytes behind the 4096 bytes that `out` points to");
}

#[test]
fn registers_and_loops_have_names() {
    says(&found("add.u32 %r7, %r8, 1;"), "the register `%r8`, which 32 threads of the warp have not written");
    let spin = found("WAIT: ld.acquire.gpu.global.u32 %r1, [%out+8]; setp.eq.u32 %p1, %r1, 0; @%p1 bra WAIT;");
    says(
        &spin,
        "64 threads spinning in the loop at `WAIT` until somebody changes 4 bytes at byte 8 of the 4096 that `out`",
    );
    let turn = found("mov.u32 %r1, 0; TURN: setp.eq.u32 %p1, %r1, 0; @%p1 bra TURN;");
    says(&turn, "a loop that never ends, since no turn of it changes anything");
    let stores =
        found("mov.u32 %r1, 0; TURN: st.relaxed.gpu.global.u32 [%out], 7; setp.eq.u32 %p1, %r1, 0; @%p1 bra TURN;");
    says(&stores, "a loop that never ends, since no turn of it changes anything");
    let barrier = found("setp.lt.u32 %p1, %t, 32; @%p1 exit; bar.sync 1, 64;");
    says(&barrier, "32 threads of warp 1 waiting at barrier 1 for 64 threads; 32 have arrived; 1 warp has ended");
}

#[test]
fn a_seed_repeats_a_run() {
    let wrong = "shl.b32 %r1, %t, 2; xor.b32 %r2, %r1, 128; .shared .align 4 .b8 s[256]; st.shared.u32 [%r1], %t; ld.shared.u32 %r3, [%r2];";
    let case = case("", (64, 2), "", "", "");
    let text = written_out(&case, wrong);
    for seed in [0, 1, 2, 77] {
        let once = || run(&text, &case, Options { seed, ..Options::default() }).unwrap_err();
        assert_eq!(once(), once());
        assert_eq!(once().repeat_with(), seed);
    }
}

/// Two launches: the second one may begin before the first has ended.
#[test]
fn data_of_the_launch_before_needs_its_wait() {
    let first = program(&written_out(
        &case("", (32, 1), "", "", ""),
        "mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %out; st.global.u32 [%d1], %t; red.relaxed.gpu.global.add.u32 [%out+256], 1;",
    ));
    let second = |body: &str| program(&written_out(&case("", (64, 1), TILE, "", "").on("sm_90a"), body));
    let both = |second: &ptx_interp::Program, between: bool| {
        let mut machine = Machine::new();
        let out = machine.alloc(4096).unwrap();
        machine.write(out, &[0; 4096]).unwrap();
        launch(&mut machine, &first, 1, 32, &out.to_le_bytes(), Options::default()).unwrap();
        if between {
            machine.write(out, &[0; 4096]).unwrap();
        }
        launch(&mut machine, second, 1, 64, &out.to_le_bytes(), Options::default()).map(|_| ())
    };
    let early = second("ld.global.u32 %r3, [%out]; griddepcontrol.wait;");
    let fault = both(&early, false).unwrap_err();
    assert_eq!(fault.finding().map(|code| code.id), Some("W0204"), "{fault}");
    both(&early, true).unwrap();
    both(&second("griddepcontrol.launch_dependents; griddepcontrol.wait; ld.global.u32 %r3, [%out];"), false).unwrap();
    // One thread waits, and the others learn it at a barrier.
    both(&second("@%p1 griddepcontrol.wait; bar.sync 0; ld.global.u32 %r3, [%out];"), false).unwrap();
    both(&second("@%p1 griddepcontrol.wait; ld.global.u32 %r3, [%out];"), false).unwrap_err();
    // Launches that overlap may meet in atomics, if the scope of both is the GPU.
    both(&second("atom.relaxed.gpu.global.add.u32 %r3, [%out+256], 1; griddepcontrol.wait;"), false).unwrap();
    for apart in
        ["atom.relaxed.gpu.global.add.u32 %r3, [%out], 1;", "atom.relaxed.cta.global.add.u32 %r3, [%out+256], 1;"]
    {
        let fault = both(&second(&format!("{apart} griddepcontrol.wait;")), false).unwrap_err();
        assert_eq!(fault.finding().map(|code| code.id), Some("W0204"), "{fault}");
    }
    // A kernel that never waits begins when the one before has ended.
    both(&second("ld.global.u32 %r3, [%out];"), false).unwrap();
}

#[test]
fn waits_in_loops_are_found_beside_waits_at_barriers() {
    let case: Case = case("", (32, 4), "", "", "");
    let body = "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 3; @%p1 exit; WAIT: ld.relaxed.gpu.global.u32 %r2, [%out]; setp.ne.u32 %p2, %r2, 4; @%p2 bra WAIT;";
    let text = written_out(&case, body);
    let mut machine = Machine::new();
    let out = machine.alloc(4).unwrap();
    machine.write(out, &[0; 4]).unwrap();
    let launch = Launch {
        entry: "k",
        grid: [4, 1, 1],
        block: [32, 1, 1],
        cluster: [1, 1, 1],
        dynamic_shared: 0,
        params: &out.to_le_bytes(),
        options: Options { watch: false, ..Options::default() },
    };
    let fault = machine.launch(&program(&text), &launch).unwrap_err();
    says(&fault, "96 threads spinning in the loop at `WAIT`");
}
