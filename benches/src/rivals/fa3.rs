//! FlashAttention-3, forward and backward: a shared library that the environment variable `FA3_LIB` names. Its C interface stands in
//! `docs/benchmarks/fa3.md`.
#![allow(unsafe_code, reason = "calls of the library")]

use super::shared_library::{self, Launch, SharedLibrary};
use ptx_launch::Result;
use ptx_launch::prelude::*;

/// `fa3_problem`: one call. Strides count elements: batch, token, head. Addresses are those of device memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Problem {
    /// 0: bf16, 1: f16, 2: e4m3 with an output in bf16.
    pub element: i32,
    /// Elements of a row of Q and K, and of V.
    pub dims: [i32; 2],
    /// Sequences, heads of Q, heads of K and V.
    pub counts: [i32; 3],
    /// Tokens of the longest sequence of Q and of K.
    pub tokens: [i32; 2],
    /// 1 if a query sees no key behind its own; the last query is aligned with the last key.
    pub causal: i32,
    /// Keys that a query sees to the left and right of its own; -1 for all.
    pub window: [i32; 2],
    /// The factor of the scores.
    pub scale: f32,
    /// The soft cap, or 0.
    pub soft_cap: f32,
    /// Q, K, V and the output.
    pub tensors: [u64; 4],
    /// Logarithms of the sums: (batch, heads, tokens), or (heads, tokens) of packed sequences.
    pub lse: u64,
    /// Of Q, K, V and the output.
    pub strides: [[i64; 3]; 4],
    /// Cumulative lengths of Q and K, or 0.
    pub starts: [u64; 2],
    /// Tokens of all sequences of Q and K.
    pub totals: [i32; 2],
    /// Factors of Q, K and V of type e4m3, (batch, heads of K), or 0.
    pub descales: [u64; 3],
    /// Gradients of the output, Q, K and V, with the strides of their tensors.
    pub gradients: [u64; 4],
    /// 1 for the deterministic backward.
    pub deterministic: i32,
}

type Bytes = unsafe extern "C" fn(*const Problem, i32) -> usize;

/// A problem on some memory.
pub type Plan = shared_library::Plan<Problem>;

/// The library, on a stream.
pub struct Fa3(SharedLibrary);

impl Fa3 {
    /// Opens the library for launches on a stream.
    ///
    /// # Errors
    /// Why it is not here.
    pub fn open(device: &Device, stream: &Stream) -> Result<Fa3> {
        SharedLibrary::open("FlashAttention-3", "FA3_LIB", device, stream).map(Fa3)
    }

    /// The forward pass, launched once.
    ///
    /// # Errors
    /// That the library has no kernel for it.
    pub fn forward(&self, problem: Problem) -> Result<Plan> {
        self.plan(problem, b"fa3_forward\0", 0)
    }

    /// The backward pass, launched once.
    ///
    /// # Errors
    /// That the library has no kernel for it.
    pub fn backward(&self, problem: Problem) -> Result<Plan> {
        self.plan(problem, b"fa3_backward\0", 1)
    }

    fn plan(&self, problem: Problem, name: &[u8], backward: i32) -> Result<Plan> {
        // SAFETY: the interface gives the functions these types.
        let (bytes, launch): (Bytes, Launch<Problem>) =
            unsafe { (self.0.function(b"fa3_workspace\0")?, self.0.function(name)?) };
        // SAFETY: it reads the problem.
        let bytes = unsafe { bytes(&raw const problem, backward) };
        self.0.plan(launch, problem, bytes)
    }
}
