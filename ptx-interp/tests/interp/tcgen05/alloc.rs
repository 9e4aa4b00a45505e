//! Allocation of tensor memory: sizes, who waits, pairs of blocks, and commits.

use crate::harness::{kernel, program, words_at};
use ptx_interp::{Fault, FaultKind, Launch, Machine, Options};

/// Runs one cluster; the body stores words at `[%out]`.
fn cluster(body: &str, blocks: u32, threads: u32, words: usize, seed: u64) -> Result<Vec<u32>, Fault> {
    let mut machine = Machine::new();
    let out = machine.alloc(words as u64 * 4).unwrap();
    let launch = Launch {
        entry: "k",
        grid: [blocks, 1, 1],
        block: [threads, 1, 1],
        cluster: [blocks, 1, 1],
        dynamic_shared: 0,
        cooperative: false,
        params: &out.to_le_bytes(),
        options: Options { seed, ..Options::default() },
    };
    machine.launch(&program(&kernel(&format!(".shared .align 4 .b32 slot[8]; {body}"))), &launch)?;
    Ok(words_at(&machine, out, words))
}

const ALLOC: &str = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32";
const FREE: &str = "tcgen05.dealloc.cta_group::1.sync.aligned.b32";

#[test]
fn addresses_are_columns() {
    let body = format!(
        "{ALLOC} [slot], 256; {ALLOC} [slot+4], 64; mov.u32 %r1, 32; {ALLOC} [slot+8], %r1;
         ld.shared.u32 %r2, [slot]; ld.shared.u32 %r3, [slot+4]; ld.shared.u32 %r4, [slot+8];
         {FREE} %r3, 64; {ALLOC} [slot+12], 32; ld.shared.u32 %r5, [slot+12];
         st.global.v4.u32 [%out], {{%r2, %r3, %r4, %r5}};
         tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
         {FREE} %r2, 256; {FREE} %r4, 32; {FREE} %r5, 32; ret;"
    );
    assert_eq!(cluster(&body, 1, 32, 4, 0).unwrap(), [0, 256, 320, 256]);
    let exclusive =
        "tcgen05.alloc.exclusive.cta_group::1.sync.aligned.shared::cta.b32 [slot], 96; ld.shared.u32 %r1, [slot];
        st.global.u32 [%out], %r1; tcgen05.dealloc.exclusive.cta_group::1.sync.aligned.b32 %r1, 96; ret;";
    let text = kernel(&format!(".shared .align 4 .b32 slot; {exclusive}")).replace(".version 8.8", ".version 9.4");
    let mut machine = Machine::new();
    let out = machine.alloc(4).unwrap();
    crate::harness::launch(&mut machine, &program(&text), 1, 32, &out.to_le_bytes(), Options::default()).unwrap();
}

/// Four warps want 512, 256, 256 and 512 columns: each waits until there are enough.
#[test]
fn a_warp_waits_until_columns_are_free() {
    let body = format!(
        "shr.u32 %r1, %t, 5; add.u32 %r2, %r1, 1; and.b32 %r2, %r2, 2; setp.eq.u32 %p1, %r2, 0;
         selp.u32 %r3, 512, 256, %p1; mov.u32 %r4, slot; mad.lo.u32 %r4, %r1, 4, %r4;
         {ALLOC} [%r4], %r3; ld.shared.u32 %r5, [%r4];
         mad.lo.u32 %r6, %r1, 0x200000, %r5; mov.u32 %r7, 0; mov.u32 %r9, 0;
         WORK: add.u32 %r10, %r9, %t; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r6], {{%r10}}; tcgen05.wait::st.sync.aligned; nanosleep.u32 10;
         tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r8}}, [%r6]; tcgen05.wait::ld.sync.aligned;
         add.u32 %r7, %r7, %r8; add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, 2000; @%p2 bra WORK;
         {FREE} %r5, %r3; mad.wide.u32 %d1, %t, 4, %out; st.global.u32 [%d1], %r7; ret;"
    );
    let expected: Vec<u32> = (0..128).map(|t| (0..2000).map(|i| i + t).sum()).collect();
    for seed in 0..4 {
        assert_eq!(cluster(&body, 1, 128, 128, seed).unwrap(), expected);
    }
}

#[test]
fn a_pair_allocates_together() {
    let body = "mov.u32 %r1, %cluster_ctarank; setp.eq.u32 %p1, %r1, 0; mov.u32 %r2, 0; @%p1 bra GO;
        LATER: add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 20000; @%p2 bra LATER;
        GO: tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], 128;
        tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot+4], 64;
        ld.shared.u32 %r3, [slot]; ld.shared.u32 %r4, [slot+4]; barrier.cluster.arrive; barrier.cluster.wait;
        tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r3, 128; tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r4, 64;
        tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;
        mad.wide.u32 %d1, %r1, 8, %out; st.global.v2.u32 [%d1], {%r3, %r4}; ret;";
    for seed in 0..3 {
        assert_eq!(cluster(body, 4, 32, 8, seed).unwrap(), [0, 128].repeat(4));
    }
}

#[test]
fn who_waits_for_ever_is_told_so() {
    let fault = cluster(&format!("{ALLOC} [slot], 512; {ALLOC} [slot], 32; ret;"), 1, 32, 1, 0).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Deadlock);
    assert!(fault.message.contains("of warp 0 waiting for columns of tensor memory; 0 of 512 are free"), "{fault}");
    let alone = "mov.u32 %r1, %cluster_ctarank; setp.eq.u32 %p1, %r1, 0; @%p1 ret;
        tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], 128; ret;";
    let fault = cluster(alone, 2, 32, 1, 0).unwrap_err();
    assert!(fault.message.contains("for 128 columns of tensor memory in both blocks"), "{fault}");
}

#[test]
fn commits_arrive_in_every_block_of_the_mask() {
    let body = ".shared .align 8 .b64 bar; mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster;
        barrier.cluster.arrive; barrier.cluster.wait; mov.u32 %r1, %cluster_ctarank; setp.ne.u32 %p1, %r1, 1; @%p1 bra SEE;
        mov.b16 %h1, 13;
        tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [bar], %h1;
        SEE: barrier.cluster.arrive; barrier.cluster.wait;
        mbarrier.test_wait.parity.shared.b64 %p2, [bar], 0; selp.u32 %r2, 1, 0, %p2;
        mad.wide.u32 %d1, %r1, 4, %out; st.global.u32 [%d1], %r2; ret;";
    assert_eq!(cluster(body, 4, 1, 4, 0).unwrap(), [1, 0, 1, 1]);
}
