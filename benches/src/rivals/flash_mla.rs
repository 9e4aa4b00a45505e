//! FlashMLA: a shared library that the environment variable `FLASH_MLA_LIB` names. `docs/benchmarks/flash_mla.md` describes its C interface.
#![allow(unsafe_code, reason = "calls of the library")]

use super::shared_library::{self, Launch, SharedLibrary};
use ptx_launch::Result;
use ptx_launch::prelude::*;

/// `flash_mla_problem`: one call. Tensors have no gaps; addresses are those of device memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Problem {
    /// 0: bf16, 1: f16.
    pub element: i32,
    /// Elements of a row of Q and the cache, and of V.
    pub dims: [i32; 2],
    /// Sequences, queries of each, heads of Q, heads of the cache.
    pub counts: [i32; 4],
    /// Pages of the cache, tokens of a page, pages of a sequence in the table.
    pub pages: [i32; 3],
    /// 1 if a query sees no key behind its own.
    pub causal: i32,
    /// The factor of the scores.
    pub scale: f32,
    /// Q, the cache and the output.
    pub tensors: [u64; 3],
    /// Logarithms of the sums: (sequences, heads, queries).
    pub lse: u64,
    /// The table and the lengths.
    pub table: u64,
    pub lengths: u64,
}

type Bytes = unsafe extern "C" fn(*const Problem) -> usize;

/// A problem on some memory.
pub type Plan = shared_library::Plan<Problem>;

/// The library, on a stream.
pub struct FlashMla(SharedLibrary);

impl FlashMla {
    /// Opens the library for launches on a stream.
    ///
    /// # Errors
    /// Why it is not here.
    pub fn open(device: &Device, stream: &Stream) -> Result<FlashMla> {
        SharedLibrary::open("FlashMLA", "FLASH_MLA_LIB", device, stream).map(FlashMla)
    }

    /// Decode, launched once.
    ///
    /// # Errors
    /// That the library has no kernel for it.
    pub fn decode(&self, problem: Problem) -> Result<Plan> {
        // SAFETY: the interface gives the functions these types.
        let (bytes, launch): (Bytes, Launch<Problem>) =
            unsafe { (self.0.function(b"flash_mla_workspace\0")?, self.0.function(b"flash_mla_decode\0")?) };
        // SAFETY: it reads the problem.
        let bytes = unsafe { bytes(&raw const problem) };
        self.0.plan(launch, problem, bytes)
    }
}
