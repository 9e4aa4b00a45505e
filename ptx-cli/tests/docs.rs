//! `docs/` is what the commands print: UPDATE_EXPECT=1 renews it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use expect_test::expect_file;
use std::process::Command;

fn markdown(command: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_ptx")).args([command, "--markdown"]).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn isa_is_up_to_date() {
    expect_file!["../../docs/language/isa.md"].assert_eq(&markdown("isa"));
}

#[test]
fn diagnostics_is_up_to_date() {
    expect_file!["../../docs/language/diagnostics.md"].assert_eq(&markdown("explain"));
}

#[test]
fn library_is_up_to_date() {
    expect_file!["../../docs/language/library.md"].assert_eq(&markdown("library"));
}
