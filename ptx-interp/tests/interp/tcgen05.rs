//! `tcgen05` on whole kernels: what is expected comes from plain loops over matrices, and from placements written here a
//! second time, element by element, after the manual.

mod alloc;
mod faults;
mod formats;
mod mma;
mod run;
mod transfer;
