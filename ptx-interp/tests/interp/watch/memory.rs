//! Accesses that are out of bounds, misaligned, null, or to somebody else's memory.

use super::{BAR, Case, TILE, case};
use ptx_interp::Options;

/// Two arrays beside each other; each thread has a word of the first at `%r1`.
const NEIGHBORS: &str = ".shared .align 4 .b8 a[128]; .shared .align 4 .b8 b[128]; mov.u32 %r1, a; shl.b32 %r2, %t, 2; add.u32 %r1, %r1, %r2;";
/// The other block's `x` at `%r2` and `bar` at `%r4`; thread 0 has `%p1`.
const PEER: &str = ".shared .align 4 .u32 x; .shared .align 8 .b64 bar; setp.eq.u32 %p1, %t, 0; mov.u32 %r1, %cluster_ctarank; xor.b32 %r1, %r1, 1;
  mov.u32 %r2, x; mapa.shared::cluster.u32 %r2, %r2, %r1; mov.u32 %r4, bar; mapa.shared::cluster.u32 %r4, %r4, %r1;";

#[rustfmt::skip]
pub(super) const CASES: &[Case] = &[
    case("W0101", (32, 1), "setp.eq.u32 %p1, %t, 0;", "st.global.u32 [%out+4096], 1;", "@%p1 st.global.u32 [%out+4092], 1;"),
    case("W0101", (32, 1), TILE, "st.shared.u32 [%r1+1020], 1;", "st.shared.u32 [%r1+896], 1;"),
    case("W0102", (1, 1), TILE, "ld.global.v2.u32 {%r3, %r4}, [%out+4];", "ld.global.v2.u32 {%r3, %r4}, [%out+8];"),
    case("W0104", (32, 1), TILE, "ld.shared.u32 %r3, [%r1];", "st.shared.u32 [%r1], 1; ld.shared.u32 %r3, [%r1];"),
    case("W0104", (32, 1), TILE, "st.shared.u16 [%r1], 1; ld.shared.u32 %r3, [%r1];",
        "st.shared.u16 [%r1], 1; st.shared.u16 [%r1+2], 1; ld.shared.u32 %r3, [%r1];"),
    case("W0104", (1, 1), ".local .u32 x;", "ld.local.u32 %r3, [x];", "st.local.u32 [x], 1; ld.local.u32 %r3, [x];"),
    case("W0105", (1, 1), ".const .u32 x = 1; cvta.const.u64 %d1, x;", "st.u32 [%d1], 2;", "ld.u32 %r1, [%d1];"),
    case("W0101", (1, 1), "", "ld.global.u32 %r1, [%out+-4];", "ld.global.u32 %r1, [%out];"),
    case("W0101", (1, 1), ".local .align 4 .b8 x[8]; mov.u32 %r1, x;", "st.local.u32 [%r1+64], 1;", "st.local.u32 [%r1+4], 1;"),
    case("W0101", (1, 1), ".const .align 4 .b8 x[8] = {1, 2, 3, 4, 5, 6, 7, 8}; cvta.const.u64 %d1, x; st.global.u64 [%out], %d1; ld.global.u64 %d1, [%out];",
        "ld.u32 %r1, [%d1+8];", "ld.u32 %r1, [%d1+4];"),
    case("W0101", (1, 1), "mov.u64 %d1, 0;", "ld.param.u32 %r1, [%d1+8];", "ld.param.u32 %r1, [%d1+4];"),
    case("W0102", (1, 1), TILE, "st.shared.v4.u32 [%r1+8], {%t, %t, %t, %t};", "st.shared.v4.u32 [%r1+16], {%t, %t, %t, %t};"),
    case("W0102", (1, 1), ".local .align 8 .b8 x[16]; mov.u32 %r1, x;", "st.local.u64 [%r1+4], %out;", "st.local.u64 [%r1+8], %out;"),
    case("W0102", (1, 1), BAR, "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1+8], [%out], 16, [%r2];",
        "mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1+16], [%out], 16, [%r2];
         WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra WAIT;"),
    case("W0104", (1, 1), ".local .align 4 .b8 x[8]; mov.u32 %r1, x; st.local.u32 [%r1], 1;",
        "ld.local.u32 %r2, [%r1+4];", "ld.local.u32 %r2, [%r1];"),
    // An access that begins at a variable and ends up in its neighbor.
    case("W0106", (32, 1), NEIGHBORS, "st.shared.u32 [%r1+4], 1;", "st.shared.u32 [%r1], 1;"),
    case("W0106", (1, 1), NEIGHBORS, "st.shared.u32 [b], 1; ld.shared.u32 %r3, [a+128];", "st.shared.u32 [b], 1; ld.shared.u32 %r3, [b];"),
    case("W0106", (1, 1), NEIGHBORS, "cvta.shared.u64 %d1, b; st.u32 [%d1+-4], 1;", "cvta.shared.u64 %d1, b; st.u32 [%d1+4], 1;"),
    case("W0106", (1, 1), ".local .align 4 .b8 x[8]; .local .align 4 .b8 y[8]; mov.u32 %r1, x;",
        "st.local.u32 [%r1+8], 1;", "st.local.u32 [%r1+4], 1;"),
    case("W0106", (1, 1), ".const .align 4 .u32 x = 1; .const .align 4 .u32 y = 2; mov.u32 %r1, x;",
        "ld.const.u32 %r2, [%r1+4];", "ld.const.u32 %r2, [%r1];"),
    // Registers that some threads, or nobody, have written.
    case("W0107", (32, 1), "setp.lt.u32 %p1, %t, 16;", "@%p1 mov.u32 %r1, 1; add.u32 %r2, %r1, 1; st.global.u32 [%out+64], 0;",
        "mov.u32 %r1, 0; @%p1 mov.u32 %r1, 1; add.u32 %r2, %r1, 1;"),
    case("W0107", (1, 1), "", "mov.f32 %f1, %f0; fma.rn.f32 %f1, %f1, %f1, %f1;", "mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; fma.rn.f32 %f1, %f1, %f1, %f1;"),
    case("W0107", (1, 1), "", "@%p5 bra DONE; DONE:", "setp.eq.u32 %p5, %t, 1; @%p5 bra DONE; DONE:"),
    case("W0107", (32, 1), "setp.lt.u32 %p1, %t, 16;", "@%p1 bra LOW; mov.u64 %d1, %out; LOW: ld.global.u32 %r1, [%d1];",
        "mov.u64 %d1, %out; @%p1 bra LOW; LOW: ld.global.u32 %r1, [%d1];"),
    case("W0107", (32, 1), "setp.lt.u32 %p1, %t, 16;", "@%p1 mov.u32 %r1, 1; @%p1 add.u32 %r1, %r1, 1; add.u32 %r1, %r1, 1;",
        "@%p1 mov.u32 %r1, 1; @%p1 add.u32 %r1, %r1, 1; selp.u32 %r2, %r1, 7, %p1; add.u32 %r2, %r2, 1;"),
    // The other block of the cluster must have begun, and be there until the last access.
    case("W0108", (32, 2), PEER, "st.shared.u32 [x], 1; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ld.shared::cluster.u32 %r3, [%r2];",
        "st.shared.u32 [x], 1; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ld.shared::cluster.u32 %r3, [%r2];
         barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;").clusters(2),
    case("W0108", (32, 2), PEER, "@%p1 st.shared::cluster.u32 [%r2], 1; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; @%p1 st.shared::cluster.u32 [%r2], 1;
         barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;").clusters(2),
    // A remote arrival is an access too.
    case("W0108", (32, 2), PEER, "@%p1 mbarrier.init.shared.b64 [bar], 1; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
         @%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];",
        "@%p1 mbarrier.init.shared.b64 [bar], 1; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
         @%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];
         WAIT: mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p2, [bar], 0; @!%p2 bra WAIT;").clusters(2),
    // An arrival for the threads of its own block brings no data to another one.
    case("W0203", (32, 2), PEER, "{MEET} @%p1 st.shared::cluster.u32 [%r2], 7; @%p1 mbarrier.arrive.release.cta.shared::cluster.b64 _, [%r4]; {LEARN} ld.shared.u32 %r3, [x]; {PART}",
        "{MEET} @%p1 st.shared::cluster.u32 [%r2], 7; @%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4]; {LEARN} ld.shared.u32 %r3, [x]; {PART}").clusters(2),
    case("W0203", (32, 2), PEER, "{MEET} mov.u32 %r5, %cluster_ctarank; setp.eq.and.u32 %p3, %r5, 0, %p1; @%p3 st.global.u32 [%out], %r1; @%p1 mbarrier.arrive.release.cta.shared::cluster.b64 _, [%r4]; {LEARN} setp.ne.u32 %p4, %r5, 0; @%p4 ld.global.u32 %r3, [%out]; {PART}",
        "{MEET} mov.u32 %r5, %cluster_ctarank; setp.eq.and.u32 %p3, %r5, 0, %p1; @%p3 st.global.u32 [%out], %r1; @%p1 mbarrier.arrive.shared::cluster.b64 _, [%r4]; {LEARN} setp.ne.u32 %p4, %r5, 0; @%p4 ld.global.u32 %r3, [%out]; {PART}").clusters(2),
    // It frees what it has read, with and without a scope.
    case("W0201", (32, 2), PEER, "@%p1 st.shared.u32 [x], 1; {MEET} ld.shared.u32 %r3, [x]; @%p1 st.shared::cluster.u32 [%r2], 7; {PART}",
        "@%p1 st.shared.u32 [x], 1; {MEET} ld.shared.u32 %r3, [x]; bar.warp.sync -1; @%p1 mbarrier.arrive.release.cta.shared::cluster.b64 _, [%r4]; {LEARN} @%p1 st.shared::cluster.u32 [%r2], 7; {PART}").clusters(2),
    case("W0201", (32, 2), PEER, "@%p1 st.shared.u32 [x], 1; {MEET} ld.shared.u32 %r3, [x]; @%p1 red.shared::cluster.add.u32 [%r2], 7; {PART}",
        "@%p1 st.shared.u32 [x], 1; {MEET} ld.shared.u32 %r3, [x]; bar.warp.sync -1; @%p1 mbarrier.arrive.shared::cluster.b64 _, [%r4]; {LEARN} @%p1 st.shared::cluster.u32 [%r2], 7; {PART}").clusters(2),
];

#[test]
fn each_has_a_kernel_and_a_corrected_one() {
    super::all(CASES);
}

/// Two blocks of a cluster, each with an mbarrier for one arrival; `%r2` and `%r4` are a tile and the mbarrier in the block of rank `%r1`.
const WINDOWS: &str = ".shared .align 128 .b8 tile[1024]; .shared .align 8 .b64 bar; setp.eq.u32 %p1, %t, 0; mov.u32 %r3, 0; shl.b32 %r5, %t, 5;
 st.shared.v4.u32 [%r5], {%r3, %r3, %r3, %r3}; st.shared.v4.u32 [%r5+16], {%r3, %r3, %r3, %r3}; @%p1 mbarrier.init.shared.b64 [bar], 1;
 @%p1 fence.mbarrier_init.release.cluster; fence.proxy.async; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; mov.u32 %r1, %cluster_ctarank;";

/// An instruction of each family for the block's own shared memory.
const OWN: &[&str] = &[
    "@%p1 ld.shared.u32 %r3, [%r2];",
    "@%p1 ld.shared::cta.v4.u32 {%r3, %r5, %r6, %r7}, [%r2];",
    "@%p1 st.shared.u32 [%r2], %r3;",
    "@%p1 st.shared::cta.b8 [%r2+3], 1;",
    "@%p1 atom.shared::cta.add.u32 %r3, [%r2], 1;",
    "@%p1 red.shared.add.u32 [%r2], 1;",
    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r3}, [%r2];",
    "stmatrix.sync.aligned.m8n8.x1.shared::cta.b16 [%r2], {%r3};",
    "@%p1 cp.async.ca.shared::cta.global [%r2], [%out], 4; cp.async.wait_all;",
    "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%out], [%r2], 16; @%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;",
    "@%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%out], [%r2], 16; @%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;",
    "@%p1 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%out], 16, [bar];",
    "@%p1 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%out], 16, [%r4];",
    "@%p1 cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r4];",
    "@%p1 mbarrier.arrive.shared.b64 _, [%r4];",
    "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], 16;",
    "@%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r4], 16;",
    "@%p1 mbarrier.test_wait.parity.shared.b64 %p2, [%r4], 1;",
    "@%p1 mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r4], 1;",
    "@%p1 mbarrier.init.shared.b64 [%r4], 1;",
    "@%p1 mbarrier.inval.shared::cta.b64 [%r4];",
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], 32;",
];

#[test]
fn addresses_of_another_block_are_not_the_blocks_own() {
    let code = |rank: &'static str, inst: &str| {
        let mapped = format!(
            "{rank} mov.u32 %r2, tile; mapa.shared::cluster.u32 %r2, %r2, %r1; mov.u32 %r4, bar; mapa.shared::cluster.u32 %r4, %r4, %r1;"
        );
        let part = format!("{mapped} {inst} barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;");
        let case = case("", (32, 2), WINDOWS, "", "").clusters(2);
        let found = super::run(&super::written_out(&case, &part), &case, Options::default());
        found.err().and_then(|fault| fault.finding()).map(|code| code.id)
    };
    for inst in OWN {
        assert_eq!(code("xor.b32 %r1, %r1, 1;", inst), Some("W0101"), "{inst}");
        assert_ne!(code("", inst), Some("W0101"), "{inst}");
    }
    for inst in OWN.iter().filter(|inst| inst.contains("ld.shared") || inst.contains("atom")) {
        let of_the_cluster = inst.replace("shared::cta", "shared").replace("shared", "shared::cluster");
        assert_ne!(code("xor.b32 %r1, %r1, 1;", &of_the_cluster), Some("W0101"), "{of_the_cluster}");
    }
}
