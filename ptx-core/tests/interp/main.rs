//! The CPU device's engine, on whole kernels in PTX text and on single instructions.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "tests")]

mod async_forms;
mod cores;
mod families;
mod forms;
mod harness;
mod hostile;
mod kernels;
mod matrices;
mod mbarriers;
mod recorded;
mod speed;
mod tcgen05;
mod tensor_forms;
mod tensor_recorded;
mod tensors;
mod textures;
mod watch;
