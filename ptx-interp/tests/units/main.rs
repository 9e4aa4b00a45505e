//! Unit tests of private modules, which keep their tests in their own files. This target includes these files: a test build of the whole crate
//! would take as long as the crate.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![allow(dead_code, missing_docs, unreachable_pub, reason = "the tests use a part of each private module")]

mod descriptor;
mod figures;

#[path = "../../src/profile/banks.rs"]
mod banks;
#[path = "../../src/fault.rs"]
mod fault;
#[path = "../../src/ops/tcgen05/idesc.rs"]
mod idesc;
#[path = "../../src/ops/layouts.rs"]
mod layouts;
#[path = "../../src/profile/sectors.rs"]
mod sectors;
#[path = "../../src/soft.rs"]
mod soft;
#[path = "../../src/tensor_map.rs"]
mod tensor_map;
#[path = "../../src/tmem.rs"]
mod tmem;
#[path = "../../src/written.rs"]
mod written;
#[path = "../../src/ops/tcgen05/zeros.rs"]
mod zeros;
