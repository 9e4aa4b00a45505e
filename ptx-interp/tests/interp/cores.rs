//! Blocks on several cores: the result is that of one core, whatever they do to each other, and so is what the watcher finds.

use crate::harness::{kernel, launch, one_in, program, words_at};
use ptx_interp::{Fault, FaultKind, Machine, Options, Stats};
use std::process::Command;

const BLOCKS: u32 = 256;
const WORDS: usize = 128 * BLOCKS as usize;
/// Spins, so that there is enough to do; `%r9` is the thread's number in the grid and `%d9` the address of its word.
const WORK: &str = "
  mov.u32 %r1, %ctaid.x; mad.lo.u32 %r9, %r1, 128, %t; mad.wide.u32 %d9, %r9, 4, %out; mov.u32 %r2, 0; mov.u32 %r3, %r9;
LOOP: mad.lo.u32 %r3, %r3, 1664525, 1013904223; add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 100; @%p1 bra LOOP;";

type Outcome = (Result<Stats, String>, Vec<u32>);

/// All of a fault's message.
pub(crate) fn told(fault: &Fault) -> String {
    format!("{fault}; {}; {:?}; {:?}; {:?}", fault.culprit(), fault.span, fault.parties(), fault.advice())
}

/// Result of a body on so many cores; memory starts as 0, 1, 2 …
fn run(body: &str, watch: bool, cores: usize, step_limit: Option<u64>) -> Outcome {
    let mut machine = Machine::new();
    machine.cores(cores);
    // A word behind those that are written.
    let out = machine.alloc(4 * WORDS as u64 + 4).unwrap();
    let start: Vec<u8> = (0..WORDS as u32).flat_map(u32::to_le_bytes).collect();
    machine.write(out, &start).unwrap();
    let options = Options { watch, seed: 0, step_limit };
    let program = program(&kernel(&format!("{WORK}\n{body} ret;")));
    let result = launch(&mut machine, &program, BLOCKS, 128, &out.to_le_bytes(), options);
    (result.map_err(|fault| told(&fault)), words_at(&machine, out, WORDS))
}

/// One core, two (with `PTX_THOROUGH`) and five give the same, watched and not; gives what comes of it unwatched, and what the watcher finds.
fn both(body: &str) -> (Outcome, Option<String>) {
    let [plain, watched] = [false, true].map(|watch| {
        let alone = run(body, watch, 1, None);
        for cores in [5, 2].into_iter().step_by(one_in(2)) {
            let together = run(body, watch, cores, None);
            assert!(together == alone, "{cores} cores, watched: {watch}: {:?} instead of {:?}", together.0, alone.0);
        }
        alone
    });
    (plain, watched.0.err())
}

fn same(body: &str) -> Outcome {
    both(body).0
}

#[test]
fn blocks_that_share_nothing() {
    let (stats, words) = same("ld.global.u32 %r4, [%d9]; add.u32 %r4, %r4, %r3; st.global.u32 [%d9], %r4;");
    assert!(stats.is_ok());
    assert_ne!(words[WORDS - 1], WORDS as u32 - 1);
}

/// A process that can have no more threads: no memory holds stacks of this size.
#[test]
#[cfg(target_os = "linux")]
fn without_threads_one_core_runs_all() {
    let arguments = ["--exact", "cores::blocks_that_share_nothing", "--test-threads", "1"];
    let mut again = Command::new(std::env::current_exe().unwrap());
    let output = again.args(arguments).env("RUST_MIN_STACK", (1u64 << 60).to_string()).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && shown.contains("1 passed"), "{shown}");
}

/// Each block reads what the one before it has written.
#[test]
fn blocks_that_read_what_others_wrote() {
    let (_, words) = same(
        "
  setp.eq.u32 %p2, %r1, 0; @%p2 bra FIRST; ld.global.u32 %r4, [%d9+-512]; bra STORE; FIRST: mov.u32 %r4, 5;
STORE: add.u32 %r4, %r4, 1; st.global.u32 [%d9], %r4;",
    );
    assert_eq!(words[WORDS - 1], 5 + BLOCKS);
}

/// All write the same words: the last block's stay.
#[test]
fn blocks_that_overwrite_each_other() {
    let ((_, words), found) = both("mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %out; st.global.u32 [%d1], %r1;");
    assert_eq!(words[127], BLOCKS - 1);
    assert!(found.is_some_and(|found| found.contains("data race")));
}

/// All read a word, in parts that know nothing of each other, and the last block writes it: the first reader is named.
#[test]
fn a_word_that_all_read_and_one_writes() {
    for block in [3, 60, 130, 200, 255].into_iter().step_by(one_in(3)) {
        let (_, found) = both(&format!(
            "
  ld.global.u32 %r4, [%out+16]; add.u32 %r4, %r4, %r3; add.u64 %d9, %d9, 0; setp.eq.u32 %p2, %r9, 4; @%p2 bra DONE;
  st.global.u32 [%d9], %r4; DONE: setp.eq.u32 %p2, %r1, {block}; @%p2 st.global.u32 [%out+16], 7;"
        ));
        assert!(found.is_some_and(|found| found.contains("data race")), "block {block}");
    }
}

/// Halves of words that different blocks read and write, in pages that they share.
#[test]
fn neighbors_within_a_word() {
    let body = "
  mul.wide.u32 %d1, %r9, 2; add.u64 %d1, %d1, %out; ld.global.u16 %h1, [%d1]; cvt.u32.u16 %r5, %h1; add.u32 %r5, %r5, %r3;
  cvt.u16.u32 %h1, %r5; st.global.u16 [%d1], %h1; ld.global.u32 %r6, [%out+131000]; st.global.u16 [%d1], %h1;";
    let (_, found) = both(body);
    assert_eq!(found, None);
    let (_, found) = both(&format!("{body} setp.eq.u32 %p2, %r1, 200; @%p2 ld.global.u16 %h1, [%d1+-2];"));
    assert!(found.is_some_and(|found| found.contains("data race")));
}

/// The last block reads bytes that nobody wrote, or that a block of another part wrote.
#[test]
fn bytes_that_nobody_wrote() {
    for (writer, clean) in [(10, false), (150, false), (300, false)] {
        let body = format!(
            "
  setp.eq.u32 %p2, %r1, {writer}; @%p2 st.global.u32 [%out+131072], 5; setp.eq.u32 %p2, %r1, 255; @!%p2 bra DONE;
  ld.global.u32 %r4, [%out+131072]; DONE: st.global.u32 [%d9], %r3;"
        );
        assert_eq!(both(&body).1.is_none(), clean, "written by block {writer}");
    }
}

/// Flags that carry from block to block what is known: nothing is taken over beside them.
#[test]
fn flags_between_blocks() {
    for order in ["release", "relaxed"] {
        let (_, found) = both(&format!(
            "
  setp.eq.u32 %p2, %r1, 0; @%p2 bra STORE; setp.ne.u32 %p3, %t, 0; @%p3 bra TOGETHER;
WAIT: ld.acquire.gpu.global.u32 %r4, [%d9+-512]; setp.ne.u32 %p3, %r4, 77; @%p3 bra WAIT;
TOGETHER: bar.sync 0;
STORE: ld.global.u32 %r5, [%out+4]; bar.sync 0; setp.eq.u32 %p3, %t, 1; @%p3 st.global.u32 [%out+4], %r5; bar.sync 0;
  setp.eq.u32 %p3, %t, 0; @%p3 st.{order}.gpu.global.u32 [%d9], 77;"
        ));
        assert_eq!(found.is_none(), order == "release", "{found:?}");
    }
}

#[test]
fn atomics_and_clocks_see_one_order() {
    let (_, words) = same(
        "
  atom.global.add.u32 %r4, [%out], 1; setp.eq.u32 %p2, %r9, 0; @%p2 bra DONE; st.global.u32 [%d9], %r4;
DONE: mov.u32 %r5, %clock; st.global.u32 [%out+8], %r5;",
    );
    assert_eq!(words[WORDS - 1], WORDS as u32 - 1);
}

/// The first block waits for the last one.
#[test]
fn blocks_that_wait_for_later_ones() {
    let (stats, _) = same(
        "
  setp.eq.u32 %p2, %r1, 255; @%p2 bra LAST; setp.ne.u32 %p2, %r1, 0; @%p2 bra DONE;
WAIT: ld.volatile.global.u32 %r4, [%out+130560]; setp.ne.u32 %p3, %r4, 77; @%p3 bra WAIT; bra DONE;
LAST: mov.u32 %r4, 77; st.volatile.global.u32 [%out+130560], %r4;
DONE:",
    );
    assert!(stats.is_ok(), "{stats:?}");
}

#[test]
fn the_first_fault_in_the_order_of_the_grid_counts() {
    let (stats, _) = same(
        "
  st.global.u32 [%d9], %r3; setp.eq.u32 %p2, %r1, 100; @%p2 trap; setp.eq.u32 %p2, %r1, 200; @%p2 trap;",
    );
    assert!(stats.is_err_and(|fault| fault.contains("block (100, 0, 0)")));
}

#[test]
fn an_endless_block_ends_at_the_limit() {
    let body = "setp.eq.u32 %p2, %r1, 200; WAIT: @%p2 bra WAIT;";
    for cores in [1, 2] {
        let (stats, _) = run(body, false, cores, Some(800_000));
        assert!(stats.is_err_and(|fault| fault.contains("800000")), "{:?}", FaultKind::StepLimit);
    }
}

#[test]
fn what_blocks_print_stays_in_order() {
    let text = kernel(&format!(
        "{WORK}\n.local .align 8 .b8 args[8]; setp.ne.u32 %p2, %t, 0; @%p2 ret; st.local.u32 [args], %r1;
         {{ .param .b64 f; .param .b64 a; .param .b32 r; mov.u64 %d1, format; cvta.global.u64 %d1, %d1;
         mov.u64 %d2, args; cvta.local.u64 %d2, %d2; st.param.b64 [f], %d1; st.param.b64 [a], %d2;
         call (r), vprintf, (f, a); }} ret;"
    ));
    let declared = ".global .align 1 .b8 format[4] = {37, 100, 32, 0};\n\
        .extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);\n.visible .entry";
    let program = program(&text.replace(".visible .entry", declared));
    let printed = |cores: usize| {
        let mut machine = Machine::new();
        machine.cores(cores);
        let out = machine.alloc(4).unwrap();
        let options = Options { watch: false, ..Options::default() };
        launch(&mut machine, &program, BLOCKS, 128, &out.to_le_bytes(), options).unwrap().printed
    };
    assert_eq!(printed(2), (0..BLOCKS).map(|block| format!("{block} ")).collect::<String>());
    assert_eq!(printed(1), printed(2));
}
