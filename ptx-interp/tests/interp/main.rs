//! The CPU device's engine, on whole kernels in PTX text and on single instructions.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "tests")]

mod approximations;
mod async_forms;
mod atomic_forms;
mod chips;
mod cores;
mod counters;
mod families;
mod forms;
mod harness;
mod hostile;
mod inputs;
mod kernels;
mod matrices;
mod mbarriers;
mod memory_forms;
mod polling;
mod profile;
mod recorded;
mod recordings;
mod speed;
mod tcgen05;
mod tensor_forms;
mod tensor_recorded;
mod tensors;
mod texture_forms;
mod textures;
mod tma_forms;
mod tma_maps;
mod warp_forms;
mod watch;
