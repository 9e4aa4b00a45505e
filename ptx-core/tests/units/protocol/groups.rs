//! `wgmma` and `cp.async`: fence, commit, wait.

use super::{is_right, says};
use expect_test::expect;

/// The steps of the tests by their names; a name that is not here stands for itself.
const STEPS: &[(&str, &str)] = &[
    ("fence", "wgmma.fence.sync.aligned;"),
    ("mma", "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {f0, f1, f2, f3}, x0, x1, p, 1, 1, 0, 0;"),
    ("other", "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {f4, f5, f6, f7}, x0, x1, p, 1, 1, 0, 0;"),
    ("commit", "wgmma.commit_group.sync.aligned;"),
    ("wait", "wgmma.wait_group.sync.aligned 0;"),
    ("wait1", "wgmma.wait_group.sync.aligned 1;"),
    ("zero", "mov.f32 f0, 0f00000000;"),
    ("use", "add.f32 f1, f1, f2;"),
    ("copy", "mov.f32 f7, f1;"),
    ("again", "@q bra AGAIN;"),
];

fn steps(names: &str) -> String {
    let text =
        |name: &str| STEPS.iter().find(|(n, _)| *n == name).map_or(name.to_owned(), |(_, text)| (*text).to_owned());
    names.split(' ').map(|name| text(name) + "\n").collect()
}

#[test]
fn wgmma_that_follows_the_order_is_right() {
    is_right(&steps("zero fence mma mma commit wait use"));
    is_right(&steps("fence mma commit fence other commit wait1 use wait"));
    is_right(&steps("fence mma commit other commit wait1 use wait"));
    is_right(&steps("fence mma copy commit wait use"));
    is_right(&steps("fence AGAIN: mma commit wait1 again wait use"));
}

#[test]
fn a_fence_is_missing() {
    says(
        &steps("mma commit wait use"),
        expect![[r#"
        P0701: no `wgmma.fence` comes before this `wgmma.mma_async`
          wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {f0, f1, f2, f3}, x0, x1, p, 1, 1, 0, 0;
          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    "#]],
    );
    says(
        &steps("fence zero mma commit wait"),
        expect![[r#"
        P0701: `f0` was written after the last `wgmma.fence`
          wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {f0, f1, f2, f3}, x0, x1, p, 1, 1, 0, 0;
          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    "#]],
    );
}

#[test]
fn a_commit_or_wait_is_missing() {
    says(
        &steps("fence mma wait"),
        expect![[r#"
        P0702: nothing commits this `wgmma.mma_async`
          wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {f0, f1, f2, f3}, x0, x1, p, 1, 1, 0, 0;
          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    "#]],
    );
    says(
        &steps("fence mma commit"),
        expect![[r#"
        P0703: nothing waits for this `wgmma.mma_async`
          wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {f0, f1, f2, f3}, x0, x1, p, 1, 1, 0, 0;
          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    "#]],
    );
}

#[test]
fn an_accumulator_is_touched() {
    says(
        &steps("fence mma use commit wait"),
        expect![[r#"
        P0704: `f1` is an accumulator of a `wgmma.mma_async` that may still be under way
          add.f32 f1, f1, f2;
          ^^^^^^^^^^^^^^^^^^^
    "#]],
    );
    says(
        &steps("fence mma commit use wait"),
        expect![[r#"
        P0704: `f1` is an accumulator of a `wgmma.mma_async` that may still be under way
          add.f32 f1, f1, f2;
          ^^^^^^^^^^^^^^^^^^^
    "#]],
    );
    says(
        &steps("fence other commit mma commit wait1 use wait"),
        expect![[r#"
        P0704: `f1` is an accumulator of a `wgmma.mma_async` that may still be under way
          add.f32 f1, f1, f2;
          ^^^^^^^^^^^^^^^^^^^
    "#]],
    );
}

const COPY: &str = "cp.async.ca.shared.global [tile], [x0], 16;\n";

#[test]
fn copies_that_are_waited_for_are_right() {
    is_right(&format!("{COPY}cp.async.wait_all;"));
    is_right(&format!("{COPY}cp.async.commit_group; cp.async.wait_group 0;"));
    is_right(&format!("mbarrier.init.shared.b64 [full], 1;\n{COPY}cp.async.mbarrier.arrive.noinc.shared.b64 [full];"));
}

#[test]
fn copies_that_nothing_waits_for() {
    says(
        COPY,
        expect![[r#"
        P0731: nothing waits for this copy
          cp.async.ca.shared.global [tile], [x0], 16;
          ^^^^^^^^^^^^^^^^^^^^^^^^^
    "#]],
    );
    says(
        &format!("cp.async.wait_all;\n{COPY}cp.async.commit_group;"),
        expect![[r#"
        P0731: nothing waits for this copy
          cp.async.ca.shared.global [tile], [x0], 16;
          ^^^^^^^^^^^^^^^^^^^^^^^^^
    "#]],
    );
    says(
        &format!("{COPY}cp.async.wait_group 0;"),
        expect![[r#"
        P0732: this copy is in no group, so that `cp.async.wait_group` does not wait for it
          cp.async.ca.shared.global [tile], [x0], 16;
          ^^^^^^^^^^^^^^^^^^^^^^^^^
    "#]],
    );
}
