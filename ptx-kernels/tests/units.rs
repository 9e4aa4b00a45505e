//! Unit tests of modules without kernels, and of device functions that kernels share. This target includes the files of these modules, because a test build of the whole library would
//! expand every kernel a second time.
#![allow(dead_code, missing_docs, unreachable_pub, reason = "the tests use a part of each module")]

#[path = "../src/attention/device/attention.rs"]
mod attention;
#[path = "../src/float8.rs"]
mod float8;
#[path = "../src/attention/device/kv_cache.rs"]
mod kv_cache;
#[path = "units/partials.rs"]
mod partials;
#[path = "../src/rows.rs"]
mod rows;
#[path = "../src/gemm/sm90/gpcs/table.rs"]
mod table;
#[path = "../src/workspace.rs"]
mod workspace;
