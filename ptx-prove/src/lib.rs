//! Decides properties of checked PTX before it runs: for every launch that a contract admits, accesses stay in their memory, threads do not
//! race, and barriers are reached by all.
//!
//! ```text
//! Checked + Contract ──machine──► Trace ──bounds, races, barriers──► questions ──query──► solver ──► Report
//! ```
//!
//! - `contract` has the launches: block, grid and conditions, as symbols with facts.
//! - `form` has values: sums of products of symbols with a coefficient for each thread of the block. `world` makes new symbols with definitions.
//! - `machine` executes an entry symbolically: `step` one instruction, with the meanings of `ops/`, the effects of `event` and the accesses of
//!   `memory`; `blocks` walks the basic blocks of `flow`, `turns` the loops, with `rings` for
//!   registers that return to their first values, `counted` for those that some turns change and `common` for those that threads have together; `limits` has
//!   what bounds the numbers of other threads; `path` holds conditions. `trace` records what happens.
//! - `signals` has the accesses of instructions whose order `pipeline` explores: `mbarrier`s, bulk copies, and matrices that descriptors name.
//!   `united` joins both verdicts, and `transfers` has the global memory of copies.
//! - `tables` has memory whose addresses a buffer holds.
//! - `distinct` has buffers by whose elements threads find where they write, and `offsets` those of cumulative lengths.
//! - `tickets` has the numbers that counters give out, and words of shared memory that are written once.
//! - `tensor` walks the events of tensor memory, warp by warp.
//! - `initial` finds what was written before it is read, and `filled` the ranges that all threads write. `samples` finds launches for a run, where something is open.
//! - `bounds` compares an offset with a length by `strides`. `nearby` decides by the conditions around its parts. `cases` splits the launches of a contract.
//! - `query` decides by `solver` if conditions can hold together, for groups of threads at once; `query/same` finds what is equal in two threads.
//!
//! An instruction without a description leaves a gap: every property that depends on it is unknown. A proof never rests on what is left out.

#![forbid(unsafe_code)]

mod annotations;
mod barriers;
mod blocks;
mod bounds;
mod cases;
mod common;
mod contract;
mod copies;
mod counted;
mod distinct;
mod drafts;
mod event;
mod filled;
mod finding;
mod flow;
mod form;
mod generic;
mod grids;
mod initial;
mod kept;
mod limits;
mod live;
mod local;
mod machine;
mod memory;
mod near;
mod nearby;
mod offsets;
mod ops;
mod overlap;
mod path;
pub mod pipeline;
mod prove;
mod query;
mod races;
mod rendezvous;
mod report;
mod rings;
mod rows;
mod samples;
mod settled;
mod signals;
mod signs;
mod site;
pub mod solver;
mod step;
mod strides;
mod tables;
mod tensor;
mod tickets;
mod trace;
mod transfers;
mod turns;
mod united;
mod world;

pub use contract::{Contract, Distinct, Mapped, Passed, Region, Table};
pub use prove::{Refusal, prove};
pub use report::{Counterexample, Finding, Place, Property, Report, Verdict};
pub use signs::signed_params;
