//! Unit tests of modules without kernels. This target includes the files of these modules, because a test build of the whole library would
//! expand every kernel a second time.
#![allow(dead_code, missing_docs, unreachable_pub, reason = "the tests use a part of each module")]

#[path = "../src/float8.rs"]
mod float8;
#[path = "../src/rows.rs"]
mod rows;
#[path = "../src/gemm/hopper/gpcs/table.rs"]
mod table;
#[path = "../src/workspace.rs"]
mod workspace;
