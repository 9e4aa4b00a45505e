//! Findings of the watcher: for each a kernel that triggers it, and the corrected one that does not.

mod asynchronous;
mod barriers;
mod cores;
mod follow;
mod idioms;
mod memory;
mod messages;
mod mistakes;
mod outside;
mod pipelines;
mod races;
mod ranks;
mod resources;
mod scopes;
mod tensor;
mod tiles;

use crate::harness::{kernel, launch, program, words_at};
use ptx_core::diag::codes;
use ptx_interp::{Fault, FaultKind, Launch, Machine, Options};

/// A finding's code, threads of a block, blocks, what both bodies begin with, the wrong one and the right one.
#[derive(Clone, Copy)]
struct Case {
    code: &'static str,
    threads: u32,
    blocks: u32,
    both: &'static str,
    wrong: &'static str,
    right: &'static str,
    cluster: u32,
    target: &'static str,
    cooperative: bool,
}

impl Case {
    /// The same in clusters of so many blocks.
    const fn clusters(self, cluster: u32) -> Case {
        Case { cluster, ..self }
    }

    /// The same in a cooperative launch.
    const fn cooperative(self) -> Case {
        Case { cooperative: true, ..self }
    }

    /// The same for another target.
    const fn on(self, target: &'static str) -> Case {
        Case { target, ..self }
    }
}

const fn case(
    code: &'static str,
    (threads, blocks): (u32, u32),
    both: &'static str,
    wrong: &'static str,
    right: &'static str,
) -> Case {
    Case { code, threads, blocks, both, wrong, right, cluster: 1, target: "sm_100a", cooperative: false }
}

/// Each thread has a word of shared memory at `%r1`, its neighbor's is at `%r2`, thread 0 has `%p1`.
const TILE: &str =
    ".shared .align 128 .b8 tile[1024]; shl.b32 %r1, %t, 2; xor.b32 %r2, %r1, 4; setp.eq.u32 %p1, %t, 0;";
/// The same, and an mbarrier for one arrival.
const BAR: &str = ".shared .align 128 .b8 tile[1024]; .shared .align 8 .b64 bar; mov.u32 %r1, tile; mov.u32 %r2, bar;
  setp.eq.u32 %p1, %t, 0; @%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 fence.mbarrier_init.release.cluster; bar.sync 0;";

/// 32 columns of tensor memory at `%r3`.
const TMEM: &str = ".shared .align 4 .u32 slot; {ALLOC} ld.shared.u32 %r3, [slot];";

/// Short forms in bodies.
const WORDS: &[(&str, &str)] = &[
    ("{MMA}", "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %d1, %d1, %p2, 1, 1, 0, 0;"),
    (
        "{REGS}",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, {%r10, %r11, %r12, %r13}, %d1, %p2, 1, 1, 0;",
    ),
    ("{LOAD}", "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%out], 16, [%r2];"),
    ("{STORE}", "cp.async.bulk.global.shared::cta.bulk_group [%out], [%r1], 16; cp.async.bulk.commit_group;"),
    ("{ALLOC}", "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;"),
    ("{FREE}", "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 32;"),
    ("{MUL}", "tcgen05.mma.cta_group::1.kind::f16 [%r3], %d1, %d1, %r5, %p3;"),
    ("{MUL2}", "tcgen05.mma.cta_group::2.kind::f16 [%r3], %d1, %d1, %r5, %p3;"),
    ("{ADD}", "tcgen05.mma.cta_group::1.kind::f16 [%r3], %d1, %d1, %r5, %p4;"),
    ("{COMMIT}", "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];"),
    ("{PUT}", "tcgen05.st.sync.aligned.32x32b.x8.b32 [%r4], {%r2, %r2, %r2, %r2, %r2, %r2, %r2, %r2};"),
    ("{PUT2}", "tcgen05.st.sync.aligned.32x32b.x2.b32 [%r4], {%r2, %r2};"),
    ("{LOAD_ONLY}", "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r10, %r11}, [%r4];"),
    ("{GET}", "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r10, %r11}, [%r4]; tcgen05.wait::ld.sync.aligned;"),
    ("{STORED}", "tcgen05.wait::st.sync.aligned;"),
    ("{BEFORE}", "tcgen05.fence::before_thread_sync;"),
    ("{AFTER}", "tcgen05.fence::after_thread_sync;"),
    ("{WAIT}", "W1: mbarrier.try_wait.parity.shared.b64 %p10, [bar], 0; @!%p10 bra W1;"),
    ("{WAIT_AGAIN}", "W2: mbarrier.try_wait.parity.shared.b64 %p10, [bar], 1; @!%p10 bra W2;"),
    ("{RELAXED}", "W3: mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64 %p10, [bar], 0; @!%p10 bra W3;"),
    ("{RELAXED_DONE}", "W4: mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64 %p10, [done], 0; @!%p10 bra W4;"),
    ("{ALL_DONE}", "W5: mbarrier.try_wait.parity.shared.b64 %p10, [done], 0; @!%p10 bra W5;"),
    ("{END}", "bar.sync 0; @!%p2 bra FREED; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 32; FREED:"),
    // An mbarrier for an arrival of the other block, which is waited for, and the end.
    (
        "{MEET}",
        "@%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 fence.mbarrier_init.release.cluster; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
    ),
    ("{LEARN}", "W6: mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p10, [bar], 0; @!%p10 bra W6;"),
    ("{PART}", "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"),
    (
        "{END2}",
        "bar.sync 0; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; @!%p2 bra OUT;
         tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r3, 32; OUT:",
    ),
];

/// A kernel with this body, and the words written out.
fn written_out(case: &Case, part: &str) -> String {
    let body = format!("{}\n{part}\nret;", case.both);
    let body = WORDS.iter().fold(body, |body, (word, text)| body.replace(word, text));
    kernel(&body).replace("sm_100a", case.target)
}

fn run(text: &str, case: &Case, options: Options) -> Result<(), Fault> {
    let mut machine = Machine::new();
    let out = machine.alloc(4096)?;
    machine.write(out, &[0; 4096])?;
    let launch = Launch {
        entry: "k",
        grid: [case.blocks, 1, 1],
        block: [case.threads, 1, 1],
        cluster: [case.cluster, 1, 1],
        dynamic_shared: 0,
        cooperative: case.cooperative,
        params: &out.to_le_bytes(),
        options,
    };
    machine.launch(&program(text), &launch).map(|_| ())
}

/// Each wrong kernel ends in its finding, each right one in none, whatever the interleaving.
fn all(cases: &[Case]) {
    let options = Options { step_limit: Some(20_000_000), ..Options::default() };
    let mut mistakes = Vec::new();
    for case in cases {
        match run(&written_out(case, case.wrong), case, options) {
            Err(found) if found.finding().map(|code| code.id) == Some(case.code) => {
                assert!(found.span.is_some() && found.thread.is_some() && found.block.is_some(), "{found:?}");
            }
            other => mistakes.push(format!("{} {}\n=> {other:?}", case.code, case.wrong)),
        }
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n\n"));
    all_right(cases, 8);
}

/// Right kernels have no finding under so many seeds.
fn all_right(cases: &[Case], seeds: u64) {
    let options = Options { step_limit: Some(20_000_000), ..Options::default() };
    let mut mistakes = Vec::new();
    for case in cases {
        let text = written_out(case, case.right);
        let failed = (0..seeds).find_map(|seed| run(&text, case, Options { seed, ..options }).err());
        mistakes.extend(failed.map(|fault| format!("{} {}\n=> {fault}", case.code, case.right)));
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n\n"));
}

#[test]
fn a_race_names_both_parties() {
    let wrong = format!("{TILE} st.shared.u32 [%r1], 1; ld.shared.u32 %r3, [%r2]; ret;");
    let case = case("W0201", (64, 1), "", "", "");
    let text = kernel(&wrong);
    let fault = run(&text, &case, Options::default()).unwrap_err();
    let at = |span: ptx_core::span::Span| text[span.lo as usize..span.hi as usize].to_string();
    assert_eq!(fault.kind, FaultKind::Race);
    assert_eq!((at(fault.span.unwrap()), fault.thread), ("ld.shared.u32 %r3, [%r2];".to_string(), Some([0, 0, 0])));
    let [other] = fault.parties() else { panic!("{fault:?}") };
    assert_eq!((at(other.span), other.thread), ("st.shared.u32 [%r1], 1;".to_string(), Some([1, 0, 0])));
    assert!(!fault.advice().is_empty() && fault.address == Some(4));
}

#[test]
fn an_endless_loop_is_named() {
    let text = kernel("mov.u32 %r1, 0; SPIN: setp.eq.u32 %p1, %r1, 0;\n@%p1 bra SPIN; ret;");
    let case = case("W0601", (32, 1), "", "", "");
    let fault = run(&text, &case, Options { step_limit: Some(1000), ..Options::default() }).unwrap_err();
    assert_eq!(fault.kind, FaultKind::StepLimit);
    assert!(fault.message.contains("`SPIN`"), "{fault}");
    assert_eq!(fault.parties().len(), 2);
}

#[test]
fn freed_memory_and_memory_nobody_wrote_are_told_apart() {
    let program = program(&kernel("ld.global.u32 %r1, [%out]; ret;"));
    let mut machine = Machine::new();
    let (fresh, freed) = (machine.alloc(64).unwrap(), machine.alloc(64).unwrap());
    machine.free(freed);
    let mut find = |address: u64| {
        let fault = launch(&mut machine, &program, 1, 1, &address.to_le_bytes(), Options::default()).unwrap_err();
        fault.finding().map(|code| code.id)
    };
    assert_eq!((find(fresh), find(freed)), (Some(codes::W0104.id), Some(codes::W0103.id)));
}

#[test]
fn registers_are_given_back_before_they_are_taken() {
    let body = |takes: u32| {
        kernel(&format!(
            "setp.lt.u32 %p1, %t, 128; @%p1 bra PRODUCER; setmaxnreg.inc.sync.aligned.u32 {takes}; bra DONE;
             PRODUCER: setmaxnreg.dec.sync.aligned.u32 40; DONE: ret;"
        ))
        .replace("{\n.reg .pred", "\n.maxntid 384, 1, 1 {\n.reg .pred")
    };
    let case = case("W0502", (384, 1), "", "", "");
    let found = run(&body(240), &case, Options::default()).unwrap_err();
    assert_eq!(found.finding().map(|code| code.id), Some("W0502"), "{found}");
    run(&body(232), &case, Options::default()).unwrap();
}

#[test]
fn without_the_watcher_a_race_runs() {
    let case = case("W0202", (32, 2), "", "", "");
    let text = kernel("st.global.u32 [%out], %t; ret;");
    assert!(run(&text, &case, Options::default()).is_err());
    run(&text, &case, Options { watch: false, ..Options::default() }).unwrap();
}

#[test]
fn launches_are_in_order_and_clusters_meet() {
    let program = program(&kernel(
        "mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, 4; mul.lo.u32 %r2, %r2, %r1; cvt.u64.u32 %d1, %r2; add.u64 %d1, %d1, %out;
         .shared .u32 x; setp.eq.u32 %p1, %t, 0; @%p1 st.shared.u32 [x], %r1;
         barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
         xor.b32 %r3, %r1, 1; mov.u32 %r4, x; mapa.shared::cluster.u32 %r5, %r4, %r3; ld.shared::cluster.u32 %r6, [%r5];
         @%p1 st.global.u32 [%d1], %r6; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ret;",
    ));
    let mut machine = Machine::new();
    let out = machine.alloc(8).unwrap();
    for seed in 0..4 {
        let launch = Launch {
            entry: "k",
            grid: [2, 1, 1],
            block: [64, 1, 1],
            cluster: [2, 1, 1],
            dynamic_shared: 0,
            cooperative: false,
            params: &out.to_le_bytes(),
            options: Options { seed, ..Options::default() },
        };
        machine.launch(&program, &launch).unwrap();
        assert_eq!(words_at(&machine, out, 2), [1, 0]);
    }
}
