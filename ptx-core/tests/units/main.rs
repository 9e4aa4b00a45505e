//! Unit tests of the crate. Tests of public functions are here. Private modules keep their tests in their own files, which this target
//! includes: a test build of the whole crate would take as long as the crate.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![allow(dead_code, missing_docs, unreachable_pub, reason = "the tests use a part of each private module")]

mod diag;
mod edit;
mod edits;
mod fmt;
mod hints;
mod lex;
mod parse;
mod protocol;
mod retype;
mod rust;

#[path = "../../src/hash.rs"]
mod hash;
