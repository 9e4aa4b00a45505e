//! Barriers, deadlocks and endless loops.

use super::{Case, case};
use ptx_interp::{FaultKind, Options};

/// An mbarrier for one arrival, and where bytes can go.
const BYTES: &str = ".shared .align 128 .b8 tile[128]; .shared .align 8 .b64 bar; mov.u32 %r1, tile; mov.u32 %r2, bar; mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster;";

/// `%p1` is true in warp 1, and the same in all lanes of a warp.
const ONE_WARP: &str = "shr.u32 %r1, %t, 5; setp.eq.u32 %p1, %r1, 1; vote.sync.any.pred %p1, %p1, -1;";

#[rustfmt::skip]
pub(super) const CASES: &[Case] = &[
    case("W0301", (32, 1), "and.b32 %r1, %t, 1; setp.eq.u32 %p1, %r1, 0;", "@%p1 bra EVEN; bar.sync 0; bra DONE; EVEN: bar.sync 0; DONE:",
        "@%p1 bra EVEN; bar.warp.sync 0xaaaaaaaa; EVEN: bar.sync 0;"),
    case("W0302", (96, 1), "setp.lt.u32 %p1, %t, 32;", "@%p1 bra A; bar.sync 1, 96; bra B; A: bar.arrive 1, 64; B:",
        "@%p1 bra A; bar.sync 1, 96; bra B; A: bar.arrive 1, 96; B:"),
    case("W0303", (64, 1), "setp.lt.u32 %p1, %t, 32;", "@%p1 bar.sync 1, 64;", "bar.sync 1, 64;"),
    case("W0601", (1, 1), "mov.u32 %r1, 0;", "LOOP: add.u32 %r1, %r1, 0; setp.lt.u32 %p1, %r1, 10; @%p1 bra LOOP;",
        "LOOP: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 10; @%p1 bra LOOP;"),
    case("W0302", (64, 1), "", "bar.sync %t, 64;", "mov.u32 %r1, 3; bar.sync %r1, 64;"),
    case("W0304", (32, 1), "", "mov.u32 %r1, 16; bar.sync %r1, 32;", "mov.u32 %r1, 15; bar.sync %r1, 32;"),
    case("W0304", (64, 1), "", "mov.u32 %r1, 48; bar.sync 1, %r1;", "mov.u32 %r1, 64; bar.sync 1, %r1;"),
    case("W0305", (32, 1), "", "barrier.cluster.wait.aligned;", "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"),
    case("W0305", (32, 1), "", "barrier.cluster.arrive.aligned; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"),
    case("W0306", (32, 1), "mov.b32 %r1, 0; setp.eq.u32 %p1, %t, 31;", "@%p1 exit; movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1;",
        "movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1; @%p1 exit;"),
    // One warp of a warpgroup goes its own way: before the others' instruction, instead of it, without it, behind all of them.
    case("W0306", (128, 1), ONE_WARP, "@!%p1 bra A; wgmma.wait_group.sync.aligned 0; A: wgmma.wait_group.sync.aligned 0;",
        "@!%p1 bra A; bar.warp.sync -1; A: wgmma.wait_group.sync.aligned 0;").on("sm_90a"),
    case("W0306", (128, 1), ONE_WARP, "@!%p1 bra A; wgmma.fence.sync.aligned; bra B; A: wgmma.fence.sync.aligned; B:",
        "@!%p1 bra A; bar.warp.sync -1; A: wgmma.fence.sync.aligned;").on("sm_90a"),
    case("W0306", (128, 1), ONE_WARP, "wgmma.fence.sync.aligned; @%p1 bra A; wgmma.commit_group.sync.aligned; A: wgmma.wait_group.sync.aligned 0;",
        "wgmma.fence.sync.aligned; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;").on("sm_90a"),
    case("W0306", (256, 1), ONE_WARP, "wgmma.fence.sync.aligned; @!%p1 bra A; wgmma.commit_group.sync.aligned; A:",
        "wgmma.fence.sync.aligned; setp.lt.u32 %p1, %t, 128; @!%p1 bra A; wgmma.commit_group.sync.aligned; A:").on("sm_90a"),
    case("W0306", (128, 1), ONE_WARP, "@!%p1 bra A; setmaxnreg.dec.sync.aligned.u32 24; bra B; A: setmaxnreg.dec.sync.aligned.u32 32; B:",
        "setmaxnreg.dec.sync.aligned.u32 24;").on("sm_90a"),
    case("W0307", (32, 1), "", "bar.warp.sync 0xffff;", "bar.warp.sync 0xffffffff;"),
    case("W0307", (32, 1), "", "shfl.sync.idx.b32 %r1, %t, 0, 31, 0xfffe;", "shfl.sync.idx.b32 %r1, %t, 0, 31, -1;"),
    // Lanes that have left, that the block does not have, that the mask does not name.
    case("W0308", (32, 1), "setp.ge.u32 %p1, %t, 20;", "@%p1 exit; shfl.sync.bfly.b32 %r1, %t, 16, 31, -1;",
        "shfl.sync.bfly.b32 %r1, %t, 16, 31, -1; @%p1 exit;"),
    case("W0308", (64, 1), "setp.ge.u32 %p1, %t, 40; setp.lt.u32 %p2, %t, 40;", "@%p1 bra END; shfl.sync.down.b32 %r1, %t, 4, 31, -1; END:",
        "vote.sync.ballot.b32 %r2, %p2, -1; @%p1 bra END; popc.b32 %r3, %r2; sub.u32 %r3, %r3, 1; shfl.sync.down.b32 %r1, %t, 4, %r3, %r2; END:"),
    case("W0308", (16, 1), "", "shfl.sync.bfly.b32 %r1, %t, 16, 31, -1;", "shfl.sync.bfly.b32 %r1, %t, 8, 31, 0xffff;"),
    case("W0308", (32, 1), "setp.lt.u32 %p1, %t, 16;", "@!%p1 bra END; shfl.sync.bfly.b32 %r1, %t, 16, 31, 0xffff; END:",
        "@!%p1 bra END; shfl.sync.bfly.b32 %r1, %t, 8, 31, 0xffff; END:"),
    // Threads that have left do not come to a barrier that counts them.
    case("W0303", (64, 1), "setp.ge.u32 %p1, %t, 32;", "@%p1 exit; bar.sync 1, 64;", "@%p1 exit; bar.sync 1, 32;"),
    case("W0303", (96, 1), "setp.lt.u32 %p1, %t, 32;", "@%p1 bra A; bar.sync 1, 96; bra B; A: bar.sync 2, 96; B:",
        "@%p1 bra A; bar.sync 1, 64; bra B; A: bar.sync 2, 32; B:"),
    // A flag that nobody sets, a lock that nobody gives back.
    case("W0303", (32, 1), "setp.eq.u32 %p1, %t, 0;", "SPIN: ld.acquire.gpu.global.u32 %r1, [%out]; setp.eq.u32 %p2, %r1, 0; @%p2 bra SPIN;",
        "@%p1 st.release.gpu.global.u32 [%out], 1; SPIN: ld.acquire.gpu.global.u32 %r1, [%out]; setp.eq.u32 %p2, %r1, 0; @%p2 bra SPIN;"),
    case("W0303", (1, 2), "LOCK: atom.acquire.gpu.global.cas.b32 %r1, [%out], 0, 1; setp.ne.u32 %p2, %r1, 0; @%p2 bra LOCK;",
        "", "st.release.gpu.global.u32 [%out], 0;"),
    case("W0303", (64, 1), ".shared .align 4 .u32 flag; setp.eq.u32 %p1, %t, 0; @%p1 st.shared.u32 [flag], 0; bar.sync 0; setp.lt.u32 %p2, %t, 32; @%p2 bra WAIT;",
        "bar.sync 1, 64; st.relaxed.cta.shared.u32 [flag], 1; ret;
         WAIT: ld.relaxed.cta.shared.u32 %r1, [flag]; setp.eq.u32 %p3, %r1, 0; @%p3 bra WAIT; bar.sync 1, 64;",
        "st.relaxed.cta.shared.u32 [flag], 1; bar.sync 1, 64; ret;
         WAIT: ld.relaxed.cta.shared.u32 %r1, [flag]; setp.eq.u32 %p3, %r1, 0; @%p3 bra WAIT; bar.sync 1, 64;"),
    // A wait for an mbarrier that polls.
    case("W0303", (32, 1), ".shared .align 8 .b64 bar; setp.eq.u32 %p1, %t, 0; @%p1 mbarrier.init.shared.b64 [bar], 2; bar.sync 0; @%p1 mbarrier.arrive.shared.b64 _, [bar];",
        "WAIT: mbarrier.test_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra WAIT;",
        "@%p1 mbarrier.arrive.shared.b64 _, [bar]; WAIT: mbarrier.test_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra WAIT;"),
    // A parity that never comes.
    case("W0303", (32, 1), ".shared .align 8 .b64 bar; setp.eq.u32 %p1, %t, 0; @%p1 mbarrier.init.shared.b64 [bar], 1; bar.sync 0; @%p1 mbarrier.arrive.shared.b64 _, [bar]; mov.u32 %r1, 1; mov.u32 %r2, 0;",
        "A: mbarrier.try_wait.parity.shared.b64 %p2, [bar], %r2; @!%p2 bra A; WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [bar], %r1; @!%p2 bra WAIT;",
        "A: mbarrier.try_wait.parity.shared.b64 %p2, [bar], %r2; @!%p2 bra A;"),
    // Bytes that never come, and more than were announced.
    case("W0303", (1, 1), BYTES, "mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%out], 32, [%r2];
        WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra WAIT;",
        "mbarrier.arrive.expect_tx.shared.b64 _, [bar], 32; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%out], 32, [%r2];
        WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra WAIT;"),
    case("W0303", (1, 1), BYTES, "mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%out], 32, [%r2];
        WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra WAIT;",
        "mbarrier.arrive.expect_tx.shared.b64 _, [bar], 32; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%out], 32, [%r2];
        WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra WAIT;"),
    // A block of the cluster that does not come to its barrier.
    case("W0303", (32, 2), "mov.u32 %r1, %cluster_ctarank; setp.eq.u32 %p1, %r1, 0; .shared .align 8 .b64 bar; setp.eq.u32 %p3, %t, 0; @%p3 mbarrier.init.shared.b64 [bar], 1; bar.sync 0;",
        "@%p1 bra DONE; WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra WAIT; DONE: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;").clusters(2),
];

#[test]
fn each_has_a_kernel_and_a_corrected_one() {
    super::all(CASES);
}

/// Votes, matches, reductions and barriers of a warp are about the lanes that have not ended: a mask may name others.
#[test]
fn masks_may_name_lanes_that_have_ended() {
    const ENDED: &str = "setp.ge.u32 %p1, %t, 20; @%p1 exit;";
    const CHECK: &str = "setp.eq.u32 %p2, %r1, %r2; @!%p2 trap;";
    for (threads, both, body) in [
        (32, ENDED, "redux.sync.add.u32 %r1, %t, -1; mov.u32 %r2, 190;"),
        (20, "", "redux.sync.add.u32 %r1, %t, -1; mov.u32 %r2, 190;"),
        (32, ENDED, "setp.lt.u32 %p2, %t, 32; vote.sync.ballot.b32 %r1, %p2, -1; mov.u32 %r2, 0xfffff;"),
        (
            32,
            ENDED,
            "setp.lt.u32 %p2, %t, 20; vote.sync.all.pred %p3, %p2, -1; selp.u32 %r1, 1, 0, %p3; mov.u32 %r2, 1;",
        ),
        (32, ENDED, "mov.u32 %r1, 7; match.all.sync.b32 %r1, %r1, -1; mov.u32 %r2, 0xfffff;"),
        (40, "", "match.any.sync.b32 %r1, %t, -1; and.b32 %r2, %t, 31; shl.b32 %r2, 1, %r2;"),
        (32, ENDED, "bar.warp.sync -1; mov.u32 %r1, 0; mov.u32 %r2, 0;"),
    ] {
        let case = case("", (threads, 1), both, "", "");
        for seed in 0..4 {
            let text = super::written_out(&case, &format!("{body} {CHECK}"));
            super::run(&text, &case, Options { seed, ..Options::default() }).unwrap_or_else(|e| panic!("{body}: {e}"));
        }
    }
}

/// Each block arrives at a counter and waits until all four have arrived.
const GRID: &str = "setp.eq.u32 %p1, %t, 0; @!%p1 bra A; atom.acq_rel.gpu.global.add.u32 %r3, [%out], 1;
  S: ld.acquire.gpu.global.u32 %r4, [%out]; setp.lt.u32 %p2, %r4, 4; @%p2 bra S; A: bar.sync 0;";

#[test]
fn a_barrier_of_the_grid_needs_a_cooperative_launch() {
    let case = case("W0309", (64, 4), "", "", "");
    let text = super::written_out(&case, GRID);
    for seed in 0..4 {
        let fault = super::run(&text, &case, Options { seed, ..Options::default() }).unwrap_err();
        assert_eq!(fault.finding().map(|code| code.id), Some("W0309"), "{fault}");
        assert!(fault.advice()[0].contains("`Config::cooperative(true)`") && fault.parties().len() == 1, "{fault:?}");
        super::run(&text, &case.cooperative(), Options { seed, ..Options::default() }).unwrap();
    }
}

/// Each block takes tasks from a queue until there are no more, and a task changes a word.
fn queue(task: &str) -> String {
    format!(
        "setp.ne.u32 %p1, %t, 0; @%p1 bra E; N: atom.global.add.u32 %r3, [%out], 1; setp.ge.u32 %p2, %r3, 16; @%p2 bra E; {task} bra N; E:"
    )
}

#[test]
fn blocks_contend_for_tasks_without_a_seed() {
    let case = case("W0202", (64, 4), "", "", "");
    let run = |task: &str| super::run(&super::written_out(&case, &queue(task)), &case, Options::default());
    let fault = run("ld.global.u32 %r4, [%out+4]; add.u32 %r4, %r4, 1; st.global.u32 [%out+4], %r4;").unwrap_err();
    assert_eq!(fault.finding().map(|code| code.id), Some("W0202"), "{fault}");
    run("red.global.add.u32 [%out+4], 1;").unwrap();
}

#[test]
fn a_cooperative_grid_must_be_resident() {
    let case = Case { blocks: 148 * 32 + 1, ..case("", (64, 1), "", "", "").cooperative() };
    let fault = super::run(&super::written_out(&case, "ret;"), &case, Options::default()).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Launch);
    assert!(fault.message.contains("4737 blocks of 64 threads") && fault.message.contains("holds 4736"), "{fault}");
    let fits = Case { blocks: 148 * 32, ..case };
    super::run(&super::written_out(&fits, "ret;"), &fits, Options { watch: false, ..Options::default() }).unwrap();
    // With 48 KiB of shared memory four blocks fit on each multiprocessor.
    let large = Case { both: ".shared .align 4 .b8 much[49152];", blocks: 4 * 148 + 1, ..case };
    assert_eq!(
        super::run(&super::written_out(&large, "ret;"), &large, Options::default()).unwrap_err().kind,
        FaultKind::Launch
    );
}
