//! Instructions that all threads execute together, and branches.

use super::{is_right, says};
use expect_test::expect;

/// `compare` sets `p`; behind the branch stand `inside` and, where both sides meet again, a store.
fn branch(compare: &str, inside: &str) -> String {
    format!("mov.u32 r0, %tid.x;\n{compare}\n@!p bra END;\n{inside}\nEND: st.shared.u32 [tile], r0;")
}

#[test]
fn branches_that_are_the_same_for_a_warp_are_right() {
    for compare in [
        "setp.lt.u32 p, r0, 64;",
        "setp.gt.u32 p, r0, 31;",
        "mov.u32 r1, %ctaid.x; setp.eq.u32 p, r1, 0;",
        "shr.u32 r1, r0, 5; setp.eq.u32 p, r1, 0;",
        "shr.u32 r1, r0, 2; setp.lt.u32 p, r1, 8;",
        "and.b32 r1, r0, 96; setp.ne.u32 p, r1, 0;",
        "div.u32 r1, r0, 32; setp.eq.u32 p, r1, 3;",
        "shfl.sync.idx.b32 r1, r0, 0, 31, -1; setp.eq.u32 p, r1, 0;",
        "setp.eq.u32 q, r0, 0; vote.sync.any.pred p, q, -1;",
        "ld.param.u32 r1, [n]; setp.eq.u32 p, r1, 0;",
        "ld.shared.u32 r1, [tile]; setp.eq.u32 p, r1, 0;",
        "add.u32 r1, r0, -64; setp.lt.u32 p, r1, 32;",
    ] {
        is_right(&branch(compare, "bar.sync 0;"));
    }
}

#[test]
fn branches_that_part_a_warp() {
    for compare in [
        "setp.lt.u32 p, r0, 16;",
        "setp.eq.u32 p, r0, 0;",
        "and.b32 r1, r0, 1; setp.eq.u32 p, r1, 0;",
        "mov.u32 r1, %laneid; setp.eq.u32 p, r1, 0;",
        "elect.sync _|p, -1;",
        "mad.lo.u32 r1, %ctaid.x, %ntid.x, r0; ld.param.u32 r2, [n]; setp.lt.u32 p, r1, r2;",
        "mul.wide.u32 x1, r0, 4; add.u64 x1, x0, x1; ld.global.u32 r1, [x1]; setp.gt.s32 p, r1, 0;",
    ] {
        let compare = compare.replace("%ctaid.x, %ntid.x", "r4, r5");
        let compare = format!("mov.u32 r4, %ctaid.x; mov.u32 r5, %ntid.x; ld.param.u64 x0, [out]; {compare}");
        assert_ne!(super::shown(&super::kernel(&branch(&compare, "bar.sync 0;"))), "", "{compare}");
    }
    says(
        &branch("setp.lt.u32 p, r0, 16;", "bar.sync 0;"),
        expect![[r#"
        P0722: `bar.sync` must be executed by all threads of a warp together
          bar.sync 0;
          ^^^^^^^^
    "#]],
    );
    says(
        &branch("setp.eq.u32 p, r0, 0;", "fence.proxy.async;\nbarrier.cluster.arrive.aligned;"),
        expect![[r#"
        P0721: `barrier.cluster.arrive` must be executed by all threads of a warp together
          barrier.cluster.arrive.aligned;
          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    "#]],
    );
}

#[test]
fn a_guard_parts_a_warp() {
    says(
        "mov.u32 r0, %tid.x;\nsetp.eq.u32 p, r0, 0;\n@p bar.sync 0;",
        expect![[r#"
        P0722: `bar.sync` must be executed by all threads of a warp together
          @p bar.sync 0;
             ^^^^^^^^
    "#]],
    );
}

#[test]
fn a_loop_parts_a_warp() {
    says(
        "mov.u32 r0, %tid.x;\nAGAIN: bar.sync 0;\nadd.u32 r0, r0, 1;\nsetp.lt.u32 p, r0, 100;\n@p bra AGAIN;\nst.shared.u32 [tile], r0;",
        expect![[r#"
            P0722: `bar.sync` must be executed by all threads of a warp together
              AGAIN: bar.sync 0;
                     ^^^^^^^^
        "#]],
    );
    is_right("mov.u32 r0, %tid.x; AGAIN: bar.sync 0; add.u32 r0, r0, 128; setp.lt.u32 p, r0, 1024; @p bra AGAIN;");
}

#[test]
fn threads_may_leave_early() {
    is_right(
        "mov.u32 r0, %tid.x; ld.param.u32 r1, [n]; setp.ge.u32 p, r0, r1;\n@p bra END;\nbar.sync 0;\nst.shared.u32 [tile], r0;\nEND:",
    );
    is_right("elect.sync _|p, -1; @!p bra END; st.shared.u32 [tile], 0; END: bar.sync 0;");
}

#[test]
fn setmaxnreg_is_for_a_warpgroup() {
    let parts = |compare| branch(compare, "setmaxnreg.inc.sync.aligned.u32 232;");
    is_right(&parts("setp.lt.u32 p, r0, 128;"));
    is_right(&parts("shr.u32 r1, r0, 7; setp.eq.u32 p, r1, 0;"));
    is_right(&parts("shr.u32 r1, r0, 5; shfl.sync.idx.b32 r2, r1, 0, 31, -1; setp.lt.u32 p, r2, 4;"));
    says(
        &parts("shr.u32 r1, r0, 5; setp.eq.u32 p, r1, 0;"),
        expect![[r#"
        P0723: `setmaxnreg.inc` must be executed by all threads of a warpgroup together
          setmaxnreg.inc.sync.aligned.u32 232;
          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    "#]],
    );
    says(
        &parts("setp.lt.u32 p, r0, 32;"),
        expect![[r#"
        P0723: `setmaxnreg.inc` must be executed by all threads of a warpgroup together
          setmaxnreg.inc.sync.aligned.u32 232;
          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    "#]],
    );
}

#[test]
fn setmaxnreg_needs_the_registers_of_the_start() {
    let found = |limits: &str| {
        let text = format!(
            ".version 8.5\n.target sm_90a\n.address_size 64\n.visible .entry k() {limits} {{ setmaxnreg.inc.sync.aligned.u32 232; ret; }}"
        );
        super::shown(&text).contains("P0725")
    };
    for ignored in ["", ".maxntid 384", ".reqntid 384", ".minnctapersm 1", ".reqntid 384 .reqnctapercluster 2"] {
        assert!(found(ignored), "{ignored}");
    }
    for taken in
        [".maxnreg 168", ".maxntid 384 .maxnreg 168", ".maxntid 384 .minnctapersm 1", ".reqntid 384 .minnctapersm 1"]
    {
        assert!(!found(taken), "{taken}");
    }
}

#[test]
fn accesses_before_the_wait_for_the_grid_before() {
    says(
        "ld.param.u64 x1, [out]; ld.global.u32 r1, [x1]; griddepcontrol.wait; st.global.u32 [x1], r1;",
        expect![[r#"
            P0761: this access comes before the wait for the grid before, which may still write or read there
              ld.param.u64 x1, [out]; ld.global.u32 r1, [x1]; griddepcontrol.wait; st.global.u32 [x1], r1;
                                      ^^^^^^^^^^^^^
        "#]],
    );
    let behind = "ld.param.u64 x1, [out]; mov.u32 r0, %tid.x; setp.eq.u32 p, r0, 0;";
    assert!(
        super::shown(&super::kernel(&format!(
            "{behind} @p bra over; griddepcontrol.wait; over: st.global.u32 [x1], r0;"
        )))
        .contains("P0761")
    );
    is_right(&format!("{behind} griddepcontrol.wait; st.global.u32 [x1], r0;"));
    is_right(&format!("{behind} @p griddepcontrol.wait; bar.sync 0; st.global.u32 [x1], r0;"));
    is_right(&format!("{behind} atom.relaxed.gpu.global.add.u32 r1, [x1], 1; griddepcontrol.wait;"));
    is_right(&format!("{behind} ld.acquire.gpu.global.u32 r1, [x1]; griddepcontrol.wait;"));
    is_right(&format!("{behind} st.shared.u32 [tile], r0; griddepcontrol.wait; ld.global.u32 r1, [x1];"));
    is_right(&format!("{behind} ld.global.u32 r1, [x1];"));
}

/// Values of a warp's own, which other warps of its warpgroup need not have.
const OF_A_WARP: &[&str] = &[
    "setp.lt.u32 p, r0, 32;",
    "shr.u32 r1, r0, 5; setp.eq.u32 p, r1, 1;",
    "shr.u32 r1, r0, 5; shfl.sync.idx.b32 r2, r1, 0, 31, -1; setp.eq.u32 p, r2, 1;",
    "shfl.sync.idx.b32 r1, r0, 0, 31, -1; setp.eq.u32 p, r1, 32;",
    "shr.u32 r1, r0, 5; setp.eq.u32 q, r1, 1; vote.sync.any.pred p, q, -1;",
    "ld.shared.u32 r1, [tile]; setp.eq.u32 q, r1, r0; vote.sync.all.pred p, q, -1;",
    "ld.shared.u32 r1, [tile]; setp.eq.u32 q, r1, r0; vote.sync.uni.pred p, q, -1;",
    "ld.shared.u32 r1, [tile]; setp.eq.u32 q, r1, r0; vote.sync.ballot.b32 r2, q, -1; setp.ne.u32 p, r2, 0;",
    "ld.shared.u32 r1, [tile]; redux.sync.max.u32 r2, r1, -1; setp.gt.u32 p, r2, 7;",
    "elect.sync _|p, -1;",
    "mov.u32 r1, %laneid; setp.eq.u32 p, r1, 0;",
];

#[test]
fn a_value_of_a_warp_is_not_one_of_its_warpgroup() {
    let aligned = ["wgmma.fence.sync.aligned;", "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"];
    for (compare, inside) in OF_A_WARP.iter().flat_map(|c| aligned.iter().map(move |i| (c, i))) {
        assert!(super::shown(&super::kernel(&branch(compare, inside))).contains("P0721"), "{compare} {inside}");
    }
    for compare in [
        "setp.lt.u32 p, r0, 128;",
        "shr.u32 r1, r0, 7; setp.eq.u32 p, r1, 1;",
        "shr.u32 r1, r0, 7; shfl.sync.idx.b32 r1, r1, 0, 31, -1; setp.eq.u32 p, r1, 1;",
        "mov.u32 r1, %ctaid.x; setp.eq.u32 q, r1, 1; vote.sync.any.pred p, q, -1;",
        "setp.lt.u32 q, r0, 7; bar.red.or.pred p, 0, q;",
        "ld.shared.u32 r1, [tile]; setp.eq.u32 p, r1, 0;",
        "ld.shared.u32 r1, [tile]; shfl.sync.idx.b32 r1, r1, 0, 31, -1; setp.eq.u32 p, r1, 0;",
    ] {
        is_right(&branch(compare, "wgmma.fence.sync.aligned;"));
    }
}

/// The end of the data is in the middle of a warp.
const INDEX: &str =
    "mov.u32 r4, %ctaid.x; mov.u32 r5, %ntid.x; mov.u32 r0, %tid.x; mad.lo.u32 r1, r4, r5, r0; ld.param.u32 r2, [n];";

#[test]
fn lanes_that_leave_take_no_part_in_an_exchange() {
    says(
        &format!(
            "{INDEX}\nsetp.ge.u32 p, r1, r2;\n@p ret;\nshfl.sync.bfly.b32 r3, r1, 16, 31, -1;\nshfl.sync.bfly.b32 r3, r1, 8, 31, -1;"
        ),
        expect![[r#"
        P0724: `shfl.sync` exchanges values with all lanes of the warp, but some may not be here
          shfl.sync.bfly.b32 r3, r1, 16, 31, -1;
          ^^^^^^^^^^^^^^^^^^
    "#]],
    );
    for wrong in [
        // Around the exchange, to the end, and by a guard.
        "setp.lt.u32 p, r1, r2; @!p bra END; shfl.sync.down.b32 r3, r1, 1, 31, 0xffffffff; END: st.shared.u32 [tile], r0;",
        "setp.lt.u32 p, r1, r2; @!p bra END; shfl.sync.down.b32 r3, r1, 1, 31, -1; st.shared.u32 [tile], r3; END:",
        "setp.lt.u32 p, r1, r2; @p shfl.sync.down.b32 r3, r1, 1, 31, -1;",
        "and.b32 r3, r0, 31; setp.ne.u32 p, r3, 0; @p exit; mov.b32 r6, 0xffffffff; shfl.sync.idx.b32 r7, r1, 1, 31, r6;",
    ] {
        assert!(super::shown(&super::kernel(&format!("{INDEX} {wrong}"))).contains("P0724"), "{wrong}");
    }
    for right in [
        // Whole warps leave; the mask is smaller, or not known; lanes leave behind the exchange; all have a value.
        "setp.ge.u32 p, r0, 64; @p ret; shfl.sync.bfly.b32 r3, r1, 16, 31, -1;",
        "shr.u32 r6, r1, 5; setp.ge.u32 p, r6, r2; @p ret; shfl.sync.bfly.b32 r3, r1, 16, 31, -1;",
        "setp.ge.u32 p, r0, 16; @p ret; shfl.sync.bfly.b32 r3, r1, 8, 31, 0xffff;",
        "setp.lt.u32 p, r1, r2; vote.sync.ballot.b32 r6, p, -1; @!p ret; shfl.sync.bfly.b32 r3, r1, 8, 31, r6;",
        "setp.ge.u32 p, r1, r2; shfl.sync.bfly.b32 r3, r1, 8, 31, -1; @p ret; st.shared.u32 [tile], r3;",
        "setp.lt.u32 p, r1, r2; mov.u32 r3, 0; @p ld.shared.u32 r3, [tile]; shfl.sync.bfly.b32 r3, r3, 8, 31, -1;",
        "setp.ge.u32 p, r1, r2; @p ret; bar.warp.sync -1;",
        "setp.ge.u32 p, r1, r2; @p ret; redux.sync.add.s32 r3, r1, -1; st.shared.u32 [tile], r3;",
        // Another branch requests a whole tile.
        "setp.ge.u32 p, r1, r2; @p ret; setp.lt.u32 q, r2, 256; @q bra END; shfl.sync.bfly.b32 r3, r1, 8, 31, -1; END: st.shared.u32 [tile], r0;",
    ] {
        is_right(&format!("{INDEX} {right}"));
    }
}
