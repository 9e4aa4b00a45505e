//! The CPU device's engine: it runs a checked module exactly as the PTX manual defines it, thread by thread.
//!
//! ```text
//! Checked ──Program::new──► Program (one boxed step an instruction) ──Machine::launch──► Stats, or a Fault with its span
//! ```
//!
//! - `machine` owns global memory; `decode` makes a `program`, with a `listing` of its instructions and names; `layout` gives
//!   variables their addresses.
//! - `grid`, `cluster`, `block`, `warp`, `global` are state; `exec` is the state that a step can reach, `ctx` adds the observer,
//!   `access` reads and writes memory by address.
//! - `engine` runs: lanes of a warp go in lock-step while they agree on the program counter; `poll` lets those go first for whom
//!   others wait, `engine::spin` finds loops that wait for ever, `engine::ahead` uses several cores.
//! - `ops/` holds the semantics, one file a family, each a list of `(row name, types, decoder)`.
//! - `tensor_map` and `texture` say where tiles and texels stand in memory.
//! - `chip` lists chips with their sizes and peaks: the limit of cooperative launches, occupancy, the roofline.
//! - `observe` is the trait of those who watch a launch, with what the engine reports to them, and `kept` the state that they
//!   have beside the engine's; `role` is what an instruction means to them, `map` names what lies at an address.
//! - `watch/` is the observer that finds races, reads of memory that nothing wrote, and misuse of protocols. Only `machine`
//!   uses it: the engine and `ops/` run without it.
//! - `profile/` is the observer that counts what a kernel requires of the hardware.
//! - `reals/` runs a program over the real numbers: with an element of a finite field in the place of each float.
//! - `soft` is binary floating point on integers, for every format and rounding mode.
//!
//! A dev build runs some 20 times slower than an optimized one. Two lines in your `Cargo.toml` optimize this crate alone:
//!
//! ```toml
//! [profile.dev.package.ptx-interp]
//! opt-level = 2
//! ```
//!
//! Nothing here parses, checks or prints; nothing here depends on the host that launches.

#![forbid(unsafe_code)]
mod access;
mod block;
mod bounds;
mod bytes;
pub mod chip;
mod cluster;
mod contend;
mod ctx;
pub mod debug;
mod decode;
mod dot;
mod engine;
mod exec;
mod fault;
pub mod field;
mod flight;
mod global;
mod grid;
mod kept;
mod launch;
mod layout;
mod listing;
mod looks;
mod machine;
mod map;
mod mbarrier;
mod mix;
mod names;
mod observe;
mod ops;
mod poll;
mod probe;
pub mod profile;
mod program;
mod progress;
mod reals;
mod role;
mod site;
mod soft;
mod space;
mod special;
pub mod tensor_map;
mod tensor_walk;
pub mod texture;
mod tmem;
mod trace;
mod warp;
mod watch;
mod written;

pub use bytes::OutsideMemory;
pub use fault::{Fault, FaultKind, Party};
pub use launch::{Launch, Options, Stats};
pub use machine::{MOST_RANKS, Machine, Turn};
pub use ops::layouts;
pub use program::Program;
pub use progress::{Progress, Reporter};
pub use ptx_target::tensor::Swizzle;
pub use soft::{decode_float, encode_float};
pub use trace::{Traced, Tracer};
