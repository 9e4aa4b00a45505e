//! Thread counts of barriers.

use super::{is_right, says};
use expect_test::expect;

#[test]
fn counts_that_match_are_right() {
    is_right("bar.sync 0; bar.sync 1, 128; bar.arrive 2, 256; bar.sync 2, 256;");
    is_right("bar.sync 1, 128; bar.sync 1, 256;");
    is_right("bar.arrive 1, 64; bar.sync 1, r0;");
}

#[test]
fn counts_that_do_not_match() {
    says(
        "bar.arrive 1, 64;\nbar.sync 1, 128;",
        expect![[r#"
        P0742: 64 threads arrive at barrier 1, but those who wait there wait for 128
          bar.arrive 1, 64;
                        ^^
    "#]],
    );
    says(
        "mov.u32 r0, 100;\nbar.sync 1, r0;",
        expect![[r#"
        P0741: 100 threads are no whole warps
          bar.sync 1, r0;
                      ^^
    "#]],
    );
}
