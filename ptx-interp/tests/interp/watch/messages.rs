//! Messages of findings: the thread, the place, the content of the address, and the fix.

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
fn a_race_is_told_of_two_threads() {
    // All lanes read the word of lane 0, or of lane 3, in one access.
    for (writer, race) in [
        (
            0,
            found(
                ".shared .align 4 .u32 slot; setp.eq.u32 %p1, %t, 0; @%p1 st.shared.u32 [slot], 7; ld.shared.u32 %r1, [slot];",
            ),
        ),
        (
            3,
            found(
                ".shared .align 4 .u32 slot; setp.eq.u32 %p1, %t, 3; @%p1 st.shared.u32 [slot], 7; ld.shared.u32 %r1, [slot];",
            ),
        ),
    ] {
        let other = race.parties().first().and_then(|party| party.thread);
        assert_eq!(other, Some([writer, 0, 0]), "{race:?}");
        assert!(race.thread.is_some() && race.thread != other, "{race:?}");
    }
}

/// An mbarrier in which thread 0 has arrived.
macro_rules! arrived {
    ($rest:literal) => {
        concat!(
            ".shared .align 8 .b64 bar; setp.eq.u32 %p1, %t, 0; @%p1 mbarrier.init.shared.b64 [bar], 1; bar.sync 0;
             @%p1 mbarrier.arrive.shared.b64 _, [bar];",
            $rest,
            "W: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 1; @!%p2 bra W;"
        )
    };
}

#[test]
fn a_wait_for_the_wrong_parity_is_no_missing_arrival() {
    let all = found(arrived!("V: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra V;"));
    says(&all, "the phase of parity 0 has been completed");
    says(&all, "so the wait is for the other parity; wait for 0");
    let some = found(arrived!("@%p1 exit;"));
    says(&some, "wait for parity 0 if the phase before is meant, or let 1 more arrivals come");
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
fn lanes_that_take_no_part_are_told_apart() {
    let ended = found("setp.ge.u32 %p1, %t, 20; @%p1 exit; shfl.sync.bfly.b32 %r1, %t, 16, 31, -1;");
    says(&ended, "lane 4 reads the value of lane 20, which has ended");
    says(&ended, "lane 20 ended here");
    says(&ended, "0 for a sum");
    let case = case("", (20, 1), "", "", "");
    let text = written_out(&case, "shfl.sync.bfly.b32 %r1, %t, 16, 31, -1;");
    let absent = run(&text, &case, Options::default()).unwrap_err();
    says(&absent, "lane 4 reads the value of lane 20, which does not exist: this warp has 20 threads");
    let masked = found("setp.lt.u32 %p1, %t, 16; @!%p1 exit; shfl.sync.bfly.b32 %r1, %t, 16, 31, 0xffff;");
    says(&masked, "lane 0 reads the value of lane 16, which the member mask 0x0000ffff does not name");
}

/// Warp 0 reads what warp 1 has not written yet.
#[test]
fn a_read_before_the_write_of_another_thread_wants_a_barrier() {
    let missing = format!("{TILE} xor.b32 %r3, %r1, 128; st.shared.u32 [%r1], %t; ld.shared.u32 %r4, [%r3];");
    let read = |body: &str| {
        let case = case("", (64, 1), "", "", "");
        let text = written_out(&case, body);
        (run(&text, &case, Options::default()).unwrap_err(), text)
    };
    let (fault, text) = read(&missing);
    assert_eq!(fault.finding().map(|code| code.id), Some("W0104"));
    says(&fault, "let a barrier stand between the write and this read: `bar.sync 0;` (`block::sync()`)");
    let store = fault.parties()[0].span;
    assert_eq!(&text[store.lo as usize..store.hi as usize], "st.shared.u32 [%r1], %t;");
    // With a barrier, or without a store, nobody wrote it at all.
    for body in [
        format!("{TILE} st.shared.u32 [%r1], %t; bar.sync 0; ld.shared.u32 %r4, [%r1+512];"),
        format!("{TILE} ld.shared.u32 %r4, [%r1];"),
    ] {
        says(&read(&body).0, "write it first; shared memory holds nothing when a block begins");
    }
    // Loads of vectors tell it where the value matters.
    let vector = format!(
        "{TILE} xor.b32 %r3, %r1, 128; and.b32 %r3, %r3, -8; st.shared.u32 [%r1], %t; ld.shared.v2.u32 {{%r4, %r5}}, [%r3]; st.global.u32 [%out], %r4;"
    );
    says(&read(&vector).0, "let a barrier stand between the write and this read");
    // A copy of the other warp is a write, too; a wait for copies is none, and no barrier.
    let copied = format!("{TILE} {COPY} cp.async.wait_all; xor.b32 %r3, %r1, 128; ld.shared.u32 %r4, [%r3];");
    says(&read(&copied).0, "let a barrier stand between the write and this read");
    let waited = format!("{TILE} cp.async.wait_all; ld.shared.u32 %r4, [%r1];");
    says(&read(&waited).0, "write it first; shared memory holds nothing when a block begins");
}

/// Each thread copies four bytes into the tile.
const COPY: &str = "mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %out; cp.async.ca.shared.global [%r1], [%d1], 4;";

#[test]
fn a_wait_for_what_nobody_committed_wants_the_commit() {
    let case = case("", (32, 1), "", "", "");
    for (body, commit) in [
        (format!("{TILE} {COPY} cp.async.wait_group 0; ld.shared.u32 %r3, [%r1];"), "`cp.async.commit_group`"),
        (
            format!(
                "{TILE} st.shared.u32 [%r1], 1; fence.proxy.async; bar.warp.sync -1; setp.eq.u32 %p1, %t, 0; mov.u32 %r3, tile;
                 @%p1 cp.async.bulk.global.shared::cta.bulk_group [%out], [%r3], 128; @%p1 cp.async.bulk.wait_group.read 0;
                 bar.warp.sync -1; st.shared.u32 [%r1], 2;"
            ),
            "`cp.async.bulk.commit_group`",
        ),
    ] {
        says(&run(&written_out(&case, &body), &case, Options::default()).unwrap_err(), commit);
    }
}

#[test]
fn a_trace_tells_what_was_read_and_what_was_written() {
    let text =
        written_out(&case("", (1, 1), "", "", ""), "mov.u32 %r1, 5; add.u32 %r1, %r1, 2; st.global.u32 [%out], %r1;");
    let mut machine = Machine::new();
    let out = machine.alloc(4).unwrap();
    let told = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let (lines, source) = (told.clone(), text.clone());
    let tell = move |traced: &ptx_interp::Traced| {
        let what = &source[traced.span.lo as usize..traced.span.hi as usize];
        lines.lock().unwrap().push(format!("{what} {:?} {:?}", traced.reads, traced.writes));
    };
    machine.trace(Some(ptx_interp::Tracer::new(vec![([0; 3], [0; 3])], tell)));
    launch(&mut machine, &program(&text), 1, 1, &out.to_le_bytes(), Options::default()).unwrap();
    let told = told.lock().unwrap();
    assert!(told.contains(&"add.u32 %r1, %r1, 2; [(\"%r1\", 5)] [(\"%r1\", 7)]".to_string()), "{told:#?}");
    assert!(told.contains(&format!("st.global.u32 [%out], %r1; [(\"%out\", {out}), (\"%r1\", 7)] []")), "{told:#?}");
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
        cooperative: false,
        params: &out.to_le_bytes(),
        options: Options { watch: false, ..Options::default() },
    };
    let fault = machine.launch(&program(&text), &launch).unwrap_err();
    says(&fault, "96 threads spinning in the loop at `WAIT`");
}
