//! Every helper of the library on the CPU device: what it computes, against the host, and under several interleavings.
//! The text that helpers make is `lowering.rs`' matter; those of `tcgen05` and whole products are tested by the examples,
//! tensor copies of every shape by `ptx-launch`.
#![allow(missing_docs, unreachable_pub, unsafe_code, clippy::unwrap_used, clippy::panic, reason = "tests")]

#[path = "prelude/copies.rs"]
mod copies;
#[path = "prelude/every.rs"]
mod every;
#[path = "prelude/grids.rs"]
mod grids;
#[path = "prelude/lanes.rs"]
mod lanes;
#[path = "prelude/math.rs"]
mod math;
#[path = "prelude/matrices.rs"]
mod matrices;
#[path = "prelude/narrow.rs"]
mod narrow;
#[path = "prelude/schedules.rs"]
mod schedules;
#[path = "prelude/vectors.rs"]
mod vectors;
