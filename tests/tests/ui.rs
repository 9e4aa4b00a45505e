//! Compiler output for each mistake: `tests/ui/**/*.rs`, one mistake each, with the expected output beside it.
//!
//! `cargo test -p ptx-tests --test ui -- --include-ignored ui trybuild=NAME` runs those whose path contains NAME; `TRYBUILD=overwrite` renews
//! the expected outputs, which are read before they are committed.

#[test]
#[ignore = "builds the crates again: cargo test -p ptx-tests --test ui -- --include-ignored"]
fn ui() {
    let cases = trybuild::TestCases::new();
    for folder in ["attribute", "syntax", "language", "ptx", "module", "launch", "proved"] {
        cases.compile_fail(format!("ui/{folder}/*.rs"));
    }
}
