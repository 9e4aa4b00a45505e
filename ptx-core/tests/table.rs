//! The table holds together: every line is read, every spelling has its place.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use ptx_core::isa::table;

#[test]
fn every_line_is_read() {
    let mistakes = table().mistakes();
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}
