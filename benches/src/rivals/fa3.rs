//! FlashAttention-3, forward and backward: a shared library that the environment variable `FA3_LIB` names. Its C interface stands in
//! `docs/benchmarks/fa3.md`.
#![allow(unsafe_code, reason = "calls of the library")]

use libloading::Library;
use ptx_launch::prelude::*;
use ptx_launch::{Error, Result};
use std::ffi::c_void;
use std::rc::Rc;

/// The variable that names the library.
const VARIABLE: &str = "FA3_LIB";

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
type Launch = unsafe extern "C" fn(*const Problem, *mut c_void, *mut c_void) -> i32;

/// The library, on a stream.
pub struct Fa3 {
    library: Rc<Library>,
    device: Device,
    stream: *mut c_void,
}

/// A problem on some memory.
pub struct Plan {
    // The function is the library's.
    _library: Rc<Library>,
    launch: Launch,
    problem: Problem,
    workspace: Buffer<u8>,
    stream: *mut c_void,
}

impl Fa3 {
    /// Opens the library for launches on a stream.
    ///
    /// # Errors
    /// Why it is not here.
    pub fn open(device: &Device, stream: &Stream) -> Result<Fa3> {
        let cuda = stream.as_cuda().ok_or_else(|| Error::other("FlashAttention-3 needs a CUDA device"))?;
        let path = std::env::var_os(VARIABLE).ok_or_else(|| Error::other(format!("{VARIABLE} names no library")))?;
        // SAFETY: its user vouches for the library.
        let library = unsafe { Library::new(&path) }.map_err(|why| Error::other(format!("{VARIABLE}: {why}")))?;
        Ok(Fa3 { library: Rc::new(library), device: device.clone(), stream: cuda.cu_stream().cast() })
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
        let missing = |why: libloading::Error| Error::other(format!("{VARIABLE}: {why}"));
        // SAFETY: the interface gives the functions these types.
        let (bytes, launch) = unsafe {
            let bytes = *self.library.get::<Bytes>(b"fa3_workspace\0").map_err(missing)?;
            (bytes, *self.library.get::<Launch>(name).map_err(missing)?)
        };
        // SAFETY: it reads the problem.
        let bytes = unsafe { bytes(&raw const problem, backward) };
        let workspace = self.device.zeros(bytes.max(1))?;
        let plan = Plan { _library: self.library.clone(), launch, problem, workspace, stream: self.stream };
        plan.launch()?;
        Ok(plan)
    }
}

impl Plan {
    /// Submits it to the library's stream.
    ///
    /// # Errors
    /// A code other than 0 from the library.
    pub fn launch(&self) -> Result<()> {
        let workspace = self.workspace.address() as *mut c_void;
        // SAFETY: the caller's memory is that of the problem, and the workspace has the size that the library asked for.
        match unsafe { (self.launch)(&raw const self.problem, workspace, self.stream) } {
            0 => Ok(()),
            1 => Err(Error::other("this build of FlashAttention-3 has no kernel for it")),
            code => Err(Error::other(format!("FlashAttention-3: code {code}"))),
        }
    }
}
