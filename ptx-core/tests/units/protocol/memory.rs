//! Objects in shared memory, proxies, alignment.

use super::{is_right, says};
use expect_test::expect;

#[test]
fn mbarriers_that_are_initialized_are_right() {
    is_right("mbarrier.init.shared.b64 [full], 1; bar.sync 0; mbarrier.arrive.shared.b64 _, [full];");
    is_right(
        "mov.u32 r0, full; @p mbarrier.init.shared.b64 [r0], 1;\nA: mbarrier.try_wait.parity.shared.b64 q, [full], 0; @!q bra A;",
    );
    is_right(
        "mov.u32 r0, dynamic; add.u32 r1, r0, r2; mbarrier.init.shared.b64 [r1], 1; mbarrier.arrive.shared.b64 _, [r0+8];",
    );
    is_right(
        "@p bra CONSUMER; mbarrier.init.shared.b64 [full], 1; bra END; CONSUMER: mbarrier.arrive.shared.b64 _, [full]; END:",
    );
    is_right("ld.param.u32 r0, [n]; mbarrier.arrive.shared.b64 _, [r0];");
}

#[test]
fn mbarriers_that_nothing_initializes() {
    says(
        "mbarrier.arrive.shared.b64 _, [full];",
        expect![[r#"
        P0711: no `mbarrier.init` of this object comes before its use
          mbarrier.arrive.shared.b64 _, [full];
                                        ^^^^^^
    "#]],
    );
    says(
        "mbarrier.init.shared.b64 [empty], 1;\nmov.u32 r0, full;\nmbarrier.arrive.shared.b64 _, [r0];",
        expect![[r#"
        P0711: no `mbarrier.init` of this object comes before its use
          mbarrier.arrive.shared.b64 _, [r0];
                                        ^^^^
    "#]],
    );
    says(
        "mbarrier.arrive.shared.b64 _, [full];\nmbarrier.init.shared.b64 [full], 1;",
        expect![[r#"
        P0711: no `mbarrier.init` of this object comes before its use
          mbarrier.arrive.shared.b64 _, [full];
                                        ^^^^^^
    "#]],
    );
    says(
        "mbarrier.init.shared.b64 [dynamic], 1;\nmbarrier.arrive.shared.b64 _, [dynamic+8];",
        expect![[r#"
        P0711: no `mbarrier.init` of this object comes before its use
          mbarrier.arrive.shared.b64 _, [dynamic+8];
                                        ^^^^^^^^^^^
    "#]],
    );
    says(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [x0], 4096, [full];",
        expect![[r#"
            P0711: no `mbarrier.init` of this object comes before its use
              cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [x0], 4096, [full];
                                                                                                    ^^^^^^
        "#]],
    );
}

const STORE: &str = "cp.async.bulk.global.shared::cta.bulk_group [x0], [tile], 4096;\n";

#[test]
fn fenced_copies_are_right() {
    is_right(&format!("st.shared.f32 [tile], f0; fence.proxy.async.shared::cta; bar.sync 0;\n{STORE}"));
    is_right(&format!("st.shared.b64 [full], x1;\n{STORE}"));
    is_right(&format!("{STORE}st.shared.f32 [tile], f0;"));
}

#[test]
fn a_copy_of_fresh_writes() {
    says(
        &format!("st.shared.f32 [tile], f0;\nbar.sync 0;\n{STORE}"),
        expect![[r#"
        P0712: `cp.async.bulk` reads shared memory that threads wrote, with no `fence.proxy.async` in between
          cp.async.bulk.global.shared::cta.bulk_group [x0], [tile], 4096;
          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    "#]],
    );
    says(
        &format!("mov.u32 r0, tile; add.u32 r0, r0, r1;\nst.shared.v4.f32 [r0], {{f0, f1, f2, f3}};\n{STORE}"),
        expect![[r#"
            P0712: `cp.async.bulk` reads shared memory that threads wrote, with no `fence.proxy.async` in between
              cp.async.bulk.global.shared::cta.bulk_group [x0], [tile], 4096;
              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        "#]],
    );
}

#[test]
fn matrices_of_fresh_writes() {
    let mma = "wgmma.fence.sync.aligned;\n\
        wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {f0, f1, f2, f3}, x0, x1, p, 1, 1, 0, 0;\n\
        wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;";
    is_right(&format!("st.shared.b64 [tile], x2; fence.proxy.async; bar.sync 0;\n{mma}"));
    says(
        &format!("st.shared.b64 [tile], x2; bar.sync 0;\n{mma}"),
        expect![[r#"
        P0712: `wgmma.mma_async` reads shared memory that threads wrote, with no `fence.proxy.async` in between
          wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {f0, f1, f2, f3}, x0, x1, p, 1, 1, 0, 0;
          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    "#]],
    );
}

#[test]
fn accesses_that_may_be_aligned_are_right() {
    is_right("ld.shared.v4.f32 {f0, f1, f2, f3}, [tile+16];");
    is_right("mov.u32 r0, tile; add.u32 r0, r0, r1; ld.shared.v4.f32 {f0, f1, f2, f3}, [r0+4];");
    is_right("mov.u64 x0, tile; cvta.shared.u64 x0, x0; ld.v2.f32 {f0, f1}, [x0+8];");
}

#[test]
fn accesses_that_are_not_aligned() {
    says(
        "ld.shared.v4.f32 {f0, f1, f2, f3}, [tile+8];",
        expect![[r#"
        P0751: this access of 16 bytes is not aligned: its address is 8 bytes behind `tile`, aligned to 128 bytes
          ld.shared.v4.f32 {f0, f1, f2, f3}, [tile+8];
                                             ^^^^^^^^
    "#]],
    );
    says(
        "mov.u32 r0, tile;\nadd.u32 r1, r0, 4;\nst.shared.b64 [r1], x0;",
        expect![[r#"
        P0751: this access of 8 bytes is not aligned: its address is 4 bytes behind `tile`, aligned to 128 bytes
          st.shared.b64 [r1], x0;
                        ^^^^
    "#]],
    );
}
