//! What the watcher finds: for each finding a kernel that triggers it, and the corrected one that does not.

use crate::harness::{kernel, launch, program, words_at};
use ptx_core::diag::codes;
use ptx_core::interp::{Fault, FaultKind, Launch, Machine, Options};

/// A finding's code, threads of a block, blocks, what both bodies begin with, the wrong one and the right one.
struct Case {
    code: &'static str,
    threads: u32,
    blocks: u32,
    both: &'static str,
    wrong: &'static str,
    right: &'static str,
}

const fn case(
    code: &'static str,
    (threads, blocks): (u32, u32),
    both: &'static str,
    wrong: &'static str,
    right: &'static str,
) -> Case {
    Case { code, threads, blocks, both, wrong, right }
}

/// Each thread has a word of shared memory at `%r1`, its neighbour's is at `%r2`, thread 0 has `%p1`.
const TILE: &str =
    ".shared .align 128 .b8 tile[1024]; shl.b32 %r1, %t, 2; xor.b32 %r2, %r1, 4; setp.eq.u32 %p1, %t, 0;";
/// The same, and an mbarrier for one arrival.
const BAR: &str = ".shared .align 128 .b8 tile[1024]; .shared .align 8 .b64 bar; mov.u32 %r1, tile; mov.u32 %r2, bar;
  setp.eq.u32 %p1, %t, 0; @%p1 mbarrier.init.shared.b64 [bar], 1; bar.sync 0;";

#[rustfmt::skip]
const CASES: &[Case] = &[
    case("W0101", (32, 1), "", "st.global.u32 [%out+4096], 1;", "@%p1 st.global.u32 [%out+4092], 1;"),
    case("W0101", (32, 1), TILE, "st.shared.u32 [%r1+1020], 1;", "st.shared.u32 [%r1+896], 1;"),
    case("W0102", (1, 1), TILE, "ld.global.v2.u32 {%r3, %r4}, [%out+4];", "ld.global.v2.u32 {%r3, %r4}, [%out+8];"),
    case("W0104", (32, 1), TILE, "ld.shared.u32 %r3, [%r1];", "st.shared.u32 [%r1], 1; ld.shared.u32 %r3, [%r1];"),
    case("W0104", (32, 1), TILE, "st.shared.u16 [%r1], 1; ld.shared.u32 %r3, [%r1];",
        "st.shared.u16 [%r1], 1; st.shared.u16 [%r1+2], 1; ld.shared.u32 %r3, [%r1];"),
    case("W0104", (1, 1), ".local .u32 x;", "ld.local.u32 %r3, [x];", "st.local.u32 [x], 1; ld.local.u32 %r3, [x];"),
    case("W0105", (1, 1), ".const .u32 x = 1; cvta.const.u64 %d1, x;", "st.u32 [%d1], 2;", "ld.u32 %r1, [%d1];"),
    case("W0201", (64, 1), TILE, "st.shared.u32 [%r1], 1; ld.shared.u32 %r3, [%r2];",
        "st.shared.u32 [%r1], 1; bar.sync 0; ld.shared.u32 %r3, [%r2];"),
    case("W0201", (32, 1), TILE, "st.shared.u32 [%r1], 1; ld.shared.u32 %r3, [%r2];",
        "st.shared.u32 [%r1], 1; bar.warp.sync -1; ld.shared.u32 %r3, [%r2];"),
    // The barrier before the tile is written again is missing.
    case("W0201", (64, 1), TILE, "st.shared.u32 [%r1], 1; bar.sync 0; ld.shared.u32 %r3, [%r2]; st.shared.u32 [%r1], 2;",
        "st.shared.u32 [%r1], 1; bar.sync 0; ld.shared.u32 %r3, [%r2]; bar.sync 0; st.shared.u32 [%r1], 2;"),
    // Neighbours that write the bytes of one word are no race.
    case("W0201", (64, 1), ".shared .align 4 .b8 b[64]; mov.u32 %r1, b; add.u32 %r1, %r1, %t; mov.b16 %h1, 1;",
        "and.b32 %r1, %r1, 62; st.shared.u8 [%r1], %h1;", "st.shared.u8 [%r1], %h1;"),
    case("W0202", (32, 2), "mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %out;",
        "ld.global.u32 %r1, [%d1]; add.u32 %r1, %r1, 1; st.global.u32 [%d1], %r1;", "red.global.add.u32 [%d1], 1;"),
    // A flag: without release and acquire the data behind it is not ordered.
    case("W0202", (1, 2), "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 1; @%p1 bra READ;",
        "st.global.u32 [%out], 7; st.relaxed.gpu.global.u32 [%out+4], 1; ret;
         READ: ld.relaxed.gpu.global.u32 %r2, [%out+4]; setp.eq.u32 %p2, %r2, 0; @%p2 bra READ; ld.global.u32 %r3, [%out];",
        "st.global.u32 [%out], 7; st.release.gpu.global.u32 [%out+4], 1; ret;
         READ: ld.acquire.gpu.global.u32 %r2, [%out+4]; setp.eq.u32 %p2, %r2, 0; @%p2 bra READ; ld.global.u32 %r3, [%out];"),
    // The same with fences.
    case("W0202", (1, 2), "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 1; @%p1 bra READ;",
        "st.global.u32 [%out], 7; fence.acq_rel.cta; st.relaxed.cta.global.u32 [%out+4], 1; ret;
         READ: ld.relaxed.gpu.global.u32 %r2, [%out+8]; ld.global.u32 %r3, [%out];",
        "st.global.u32 [%out], 7; fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%out+4], 1; ret;
         READ: ld.relaxed.gpu.global.u32 %r2, [%out+4]; setp.eq.u32 %p2, %r2, 0; @%p2 bra READ;
         fence.acq_rel.gpu; ld.global.u32 %r3, [%out];"),
    case("W0203", (1, 2), "", "red.relaxed.cta.global.add.u32 [%out], 1;", "red.relaxed.gpu.global.add.u32 [%out], 1;"),
    case("W0301", (32, 1), "and.b32 %r1, %t, 1; setp.eq.u32 %p1, %r1, 0;", "@%p1 bra EVEN; bar.sync 0; bra DONE; EVEN: bar.sync 0; DONE:",
        "@%p1 bra EVEN; bar.warp.sync 0xaaaaaaaa; EVEN: bar.sync 0;"),
    case("W0302", (96, 1), "setp.lt.u32 %p1, %t, 32;", "@%p1 bra A; bar.sync 1, 96; bra B; A: bar.arrive 1, 64; B:",
        "@%p1 bra A; bar.sync 1, 96; bra B; A: bar.arrive 1, 96; B:"),
    case("W0303", (64, 1), "setp.lt.u32 %p1, %t, 32;", "@%p1 bar.sync 1, 64;", "bar.sync 1, 64;"),
    case("W0401", (64, 1), TILE, "st.shared.u32 [%r1], 1; bar.sync 0; mov.u32 %r3, tile;
        @%p1 cp.async.bulk.global.shared::cta.bulk_group [%out], [%r3], 64;
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
        "st.shared.u32 [%r1], 1; fence.proxy.async; bar.sync 0; mov.u32 %r3, tile;
        @%p1 cp.async.bulk.global.shared::cta.bulk_group [%out], [%r3], 64;
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"),
    case("W0402", (32, 1), "shl.b32 %r1, %t, 2; mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %out; .shared .align 16 .b8 tile[128];",
        "cp.async.ca.shared.global [%r1], [%d1], 4; cp.async.commit_group; ld.shared.u32 %r3, [%r1];",
        "cp.async.ca.shared.global [%r1], [%d1], 4; cp.async.commit_group; cp.async.wait_group 0; ld.shared.u32 %r3, [%r1];"),
    // His own copy is complete, but the neighbour's is not known to be.
    case("W0402", (32, 1), "shl.b32 %r1, %t, 2; mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %out; .shared .align 16 .b8 tile[128];",
        "cp.async.ca.shared.global [%r1], [%d1], 4; cp.async.wait_all; xor.b32 %r2, %r1, 4; ld.shared.u32 %r3, [%r2];",
        "cp.async.ca.shared.global [%r1], [%d1], 4; cp.async.wait_all; bar.sync 0; xor.b32 %r2, %r1, 4; ld.shared.u32 %r3, [%r2];"),
    case("W0402", (32, 1), BAR, "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;
        @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%out], 64, [%r2]; ld.shared.u32 %r3, [%r1];",
        "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;
        @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%out], 64, [%r2];
        WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra WAIT; ld.shared.u32 %r3, [%r1];"),
    case("W0403", (1, 1), BAR, "st.shared.v4.u32 [%r1], {1, 2, 3, 4}; fence.proxy.async;
        cp.async.bulk.global.shared::cta.bulk_group [%out], [%r1], 16; cp.async.bulk.commit_group; st.shared.u32 [%r1], 5;",
        "st.shared.v4.u32 [%r1], {1, 2, 3, 4}; fence.proxy.async;
        cp.async.bulk.global.shared::cta.bulk_group [%out], [%r1], 16; cp.async.bulk.commit_group;
        cp.async.bulk.wait_group.read 0; st.shared.u32 [%r1], 5;"),
    case("W0411", (32, 1), ".shared .align 8 .b64 bar; setp.eq.u32 %p1, %t, 0;", "@%p1 mbarrier.arrive.shared.b64 _, [bar];",
        "@%p1 mbarrier.init.shared.b64 [bar], 32; bar.sync 0; mbarrier.arrive.shared.b64 _, [bar];"),
    case("W0412", (32, 1), ".shared .align 8 .b64 bar; setp.eq.u32 %p1, %t, 0;", "mbarrier.init.shared.b64 [bar], 1;",
        "@%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 mbarrier.inval.shared.b64 [bar]; @%p1 mbarrier.init.shared.b64 [bar], 1;"),
    case("W0413", (32, 1), BAR, "mbarrier.arrive.shared.b64 _, [bar], 2;", "@%p1 mbarrier.arrive.shared.b64 _, [bar], 1;"),
    case("W0414", (1, 1), BAR, "st.shared.u32 [%r2], 0;", "mbarrier.inval.shared.b64 [bar]; st.shared.u32 [%r2], 0;"),
    // The first use of an mbarrier needs an order, too.
    case("W0201", (64, 1), ".shared .align 8 .b64 bar; setp.eq.u32 %p1, %t, 0; @%p1 mbarrier.init.shared.b64 [bar], 64;",
        "mbarrier.arrive.shared.b64 _, [bar];", "bar.sync 0; mbarrier.arrive.shared.b64 _, [bar];"),
    case("W0601", (1, 1), "mov.u32 %r1, 0;", "LOOP: add.u32 %r1, %r1, 0; setp.lt.u32 %p1, %r1, 10; @%p1 bra LOOP;",
        "LOOP: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 10; @%p1 bra LOOP;"),
];

fn run(text: &str, case: &Case, options: Options) -> Result<(), Fault> {
    let mut machine = Machine::new();
    let out = machine.alloc(4096)?;
    machine.write(out, &[0; 4096])?;
    launch(&mut machine, &program(text), case.blocks, case.threads, &out.to_le_bytes(), options).map(|_| ())
}

#[test]
fn every_finding_has_a_kernel_and_a_corrected_one() {
    let options = Options { step_limit: Some(100_000), ..Options::default() };
    for case in CASES {
        let body = |part: &str| kernel(&format!("{}\n{part}\nret;", case.both));
        let found = run(&body(case.wrong), case, options).expect_err(case.wrong);
        assert_eq!(found.finding().map(|code| code.id), Some(case.code), "{}\n{found}", case.wrong);
        assert!(found.span.is_some() && found.thread.is_some() && found.block.is_some(), "{found:?}");
        for seed in 0..8 {
            if let Err(fault) = run(&body(case.right), case, Options { seed, ..options }) {
                panic!("{} {}\n{fault}", case.code, case.right);
            }
        }
    }
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
            params: &out.to_le_bytes(),
            options: Options { seed, ..Options::default() },
        };
        machine.launch(&program, &launch).unwrap();
        assert_eq!(words_at(&machine, out, 2), [1, 0]);
    }
}
