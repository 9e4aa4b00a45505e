//! Barriers that lie in shared memory, and the barrier of a cluster: phases, transactions, and who waits.

use crate::harness::{kernel, launch, program, run_words, words_at};
use ptx_interp::{Fault, FaultKind, Launch, Machine, Options};

/// Runs one thread with an mbarrier `bar`; it stores `words` words itself.
fn one(body: &str, words: usize) -> Result<Vec<u32>, Fault> {
    run_words(&format!(".shared .align 8 .b64 bar;\n{body}\nret;"), 1, 1, words)
}

/// Runs `body` on one cluster of `blocks` blocks of 32 threads.
fn cluster(body: &str, blocks: u32, words: usize) -> Result<Vec<u32>, Fault> {
    let mut machine = Machine::new();
    let out = machine.alloc(words as u64 * 4).unwrap();
    let launch = Launch {
        entry: "k",
        grid: [blocks, 1, 1],
        block: [32, 1, 1],
        cluster: [blocks, 1, 1],
        dynamic_shared: 0,
        cooperative: false,
        params: &out.to_le_bytes(),
        options: Options::default(),
    };
    machine.launch(&program(&kernel(body)), &launch)?;
    Ok(words_at(&machine, out, words))
}

const TEST: &str = "mbarrier.test_wait.parity.shared.b64 %p1, [bar], 0; selp.u32 %r1, 1, 0, %p1;";

#[test]
fn a_phase_ends_with_arrivals_and_bytes() {
    let steps = [
        ("mbarrier.init.shared.b64 [bar], 2;", 0),
        ("mbarrier.arrive.expect_tx.shared.b64 _, [bar], 48;", 0),
        ("mbarrier.arrive.shared.b64 %d2, [bar];", 0),
        ("mbarrier.complete_tx.relaxed.cta.shared.b64 [bar], 32;", 0),
        ("mbarrier.complete_tx.relaxed.cta.shared.b64 [bar], 16;", 1),
        ("mbarrier.arrive_drop.shared.b64 %d3, [bar];", 1),
        ("mbarrier.arrive.shared.b64 _, [bar];", 0),
        ("mbarrier.arrive.shared.b64 _, [bar];", 1),
    ];
    let store = |i: usize| format!("{TEST} st.global.u32 [%out+{}], %r1;\n", 4 * i);
    let body: String = steps.iter().enumerate().map(|(i, (step, _))| format!("{step} {}", store(i))).collect();
    let counts = "mbarrier.pending_count.b64 %r2, %d2; mbarrier.pending_count.b64 %r3, %d3;
      st.global.v2.u32 [%out+32], {%r2, %r3};";
    let expected: Vec<u32> = steps.iter().map(|(_, done)| *done).chain([1, 2]).collect();
    assert_eq!(one(&format!("{body}{counts}"), 10).unwrap(), expected);
}

#[test]
fn misuse_of_an_mbarrier_is_a_fault() {
    let kind = |body: &str| one(body, 1).unwrap_err().kind;
    assert_eq!(kind("mbarrier.arrive.shared.b64 _, [bar];"), FaultKind::Sync);
    assert_eq!(kind("mov.u32 %r1, 0; mbarrier.init.shared.b64 [bar], %r1;"), FaultKind::Sync);
    assert_eq!(
        kind("mbarrier.init.shared.b64 [bar], 1; mbarrier.inval.shared.b64 [bar]; mbarrier.inval.shared.b64 [bar];"),
        FaultKind::Sync
    );
    assert_eq!(kind("mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.shared.b64 _, [bar], 2;"), FaultKind::Sync);
    assert_eq!(
        kind("mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.noComplete.shared.b64 _, [bar], 1;"),
        FaultKind::Sync
    );
    assert_eq!(
        kind("mbarrier.init.shared.b64 [bar], 1; mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 2000000;"),
        FaultKind::Sync
    );
    assert_eq!(kind("mbarrier.init.shared.b64 [bar+4], 1;"), FaultKind::Misaligned);
    assert_eq!(kind("mbarrier.init.shared.b64 [bar+4096], 1;"), FaultKind::OutOfBounds);
    assert_eq!(kind("mbarrier.init.b64 [%out], 1;"), FaultKind::BadAccess);
    assert_eq!(kind("mov.u64 %d1, 7; mbarrier.pending_count.b64 %r1, %d1;"), FaultKind::Sync);
}

#[test]
fn a_ring_of_two_stages_moves_values_from_one_warp_to_another() {
    let body = "
  .shared .align 8 .b64 full[2]; .shared .align 8 .b64 empty[2]; .shared .align 4 .u32 slots[64];
  mov.u32 %r1, full; mov.u32 %r2, empty; mov.u32 %r3, slots; setp.ne.u32 %p1, %t, 0; @%p1 bra READY;
  mbarrier.init.shared.b64 [full], 32; mbarrier.init.shared.b64 [full+8], 32;
  mbarrier.init.shared.b64 [empty], 32; mbarrier.init.shared.b64 [empty+8], 32;
READY: bar.sync 0;
  mov.u32 %r4, 0; and.b32 %r9, %t, 31; setp.lt.u32 %p2, %t, 32; mov.u32 %r15, 0;
LOOP:
  and.b32 %r5, %r4, 1; shl.b32 %r6, %r5, 3; add.u32 %r7, %r1, %r6; add.u32 %r8, %r2, %r6;
  shl.b32 %r10, %r5, 7; add.u32 %r10, %r10, %r3; shl.b32 %r11, %r9, 2; add.u32 %r10, %r10, %r11;
  shr.u32 %r12, %r4, 1; and.b32 %r12, %r12, 1; xor.b32 %r13, %r12, 1;
  @!%p2 bra CONSUME;
FREE: mbarrier.try_wait.parity.shared.b64 %p3, [%r8], %r13; @!%p3 bra FREE;
  mad.lo.u32 %r14, %r4, 100, %r9; st.shared.u32 [%r10], %r14;
  mbarrier.arrive.shared.b64 _, [%r7]; bra NEXT;
CONSUME: mbarrier.WAIT.parity.shared.b64 %p3, [%r7], %r12; @!%p3 bra CONSUME;
  ld.shared.u32 %r14, [%r10]; add.u32 %r15, %r15, %r14;
  mbarrier.arrive.shared.b64 _, [%r8];
NEXT: add.u32 %r4, %r4, 1; setp.lt.u32 %p4, %r4, 10; @%p4 bra LOOP;
  @%p2 bra DONE; mad.wide.u32 %d1, %r9, 4, %out; st.global.u32 [%d1], %r15;
DONE: ret;";
    let expected: Vec<u32> = (0..32).map(|t| (0..10).map(|i| i * 100 + t).sum()).collect();
    for wait in ["try_wait", "test_wait"] {
        let program = program(&kernel(&body.replace("WAIT", wait)));
        for seed in 0..4 {
            let mut machine = Machine::new();
            let out = machine.alloc(128).unwrap();
            let options = Options { seed, ..Options::default() };
            launch(&mut machine, &program, 1, 64, &out.to_le_bytes(), options).unwrap();
            assert_eq!(words_at(&machine, out, 32), expected, "{wait}, seed {seed}");
        }
    }
}

#[test]
fn lanes_of_one_warp_may_wait_for_each_other() {
    let body = "
  .shared .align 8 .b64 bar;
  setp.eq.u32 %p1, %t, 31; @%p1 mbarrier.init.shared.b64 [bar], 1; bar.sync 0;
  @%p1 bra LAST;
SPIN: mbarrier.WAIT.parity.shared.b64 %p2, [bar], 0; @!%p2 bra SPIN; bra DONE;
LAST: mbarrier.arrive.shared.b64 _, [bar];
DONE: mad.wide.u32 %d1, %t, 4, %out; st.global.u32 [%d1], 7; ret;";
    for wait in ["try_wait", "test_wait"] {
        assert_eq!(run_words(&body.replace("WAIT", wait), 1, 32, 32).unwrap(), [7; 32]);
    }
}

#[test]
fn a_deadlock_names_who_waits() {
    let body = "
  .shared .align 8 .b64 bar;
  setp.eq.u32 %p1, %t, 0; @%p1 mbarrier.init.shared.b64 [bar], 2; bar.sync 0;
  @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;
SPIN: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra SPIN; ret;";
    let fault = run_words(body, 1, 32, 1).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Deadlock);
    assert!(
        fault.message.contains("32 threads of warp 0 waiting for the phase of parity 0 of the mbarrier at 0x0 (`bar`)"),
        "{fault}"
    );
    assert!(fault.message.contains("1 of 2 arrivals and 64 bytes are missing"), "{fault}");
}

#[test]
fn blocks_of_a_cluster_meet_and_arrive_at_each_other() {
    let body = "
  .shared .align 8 .b64 bar; .shared .align 4 .u32 word;
  mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, %cluster_nctarank; setp.eq.u32 %p1, %t, 0;
  @%p1 mbarrier.init.shared.b64 [bar], %r2; fence.mbarrier_init.release.cluster;
  barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
  @!%p1 bra MEET;
  add.u32 %r3, %r1, 1; rem.u32 %r3, %r3, %r2;
  mov.u32 %r4, word; mapa.shared::cluster.u32 %r5, %r4, %r3; mul.lo.u32 %r6, %r1, 11; st.shared::cluster.u32 [%r5], %r6;
  mov.u32 %r7, 0; mov.u32 %r8, bar;
EACH: mapa.shared::cluster.u32 %r9, %r8, %r7; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r9];
  add.u32 %r7, %r7, 1; setp.lt.u32 %p2, %r7, %r2; @%p2 bra EACH;
WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [bar], 0; @!%p3 bra WAIT;
  ld.shared.u32 %r10, [word]; mad.wide.u32 %d1, %r1, 4, %out; st.global.u32 [%d1], %r10;
MEET: barrier.cluster.arrive; barrier.cluster.wait; ret;";
    assert_eq!(cluster(body, 4, 4).unwrap(), [33, 0, 11, 22]);
}

#[test]
fn the_barrier_of_a_cluster_has_rules() {
    let kind = |body: &str| cluster(body, 2, 1).unwrap_err().kind;
    assert_eq!(kind("barrier.cluster.wait; ret;"), FaultKind::Sync);
    assert_eq!(kind("barrier.cluster.arrive; barrier.cluster.arrive; ret;"), FaultKind::Sync);
    let stuck = "mov.u32 %r1, %cluster_ctarank; setp.eq.u32 %p1, %r1, 0; .shared .align 8 .b64 bar;
      setp.eq.u32 %p3, %t, 0; @%p3 mbarrier.init.shared.b64 [bar], 1; bar.sync 0; @%p1 bra HERE; X: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra X;
      HERE: barrier.cluster.arrive; barrier.cluster.wait; ret;";
    let fault = cluster(stuck, 2, 1).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Deadlock);
    assert!(fault.message.contains("waiting at the barrier of the cluster, where 32 threads are missing"), "{fault}");
    let early = "mov.u32 %r1, %cluster_ctarank; setp.eq.u32 %p1, %r1, 0; @%p1 ret; barrier.cluster.arrive; barrier.cluster.wait; ret;";
    assert!(cluster(early, 2, 1).is_ok());
}
