//! cuBLASLt: all algorithms that its heuristic names are tried, and the quickest one plays.
#![allow(unsafe_code, reason = "calls of the library")]

use super::Number;
use cudarc::cublaslt::{result as lt, sys};
use ptx_launch::prelude::*;
use ptx_launch::{Error, Result};
use std::ffi::c_void;
use std::rc::Rc;

/// Number of algorithms requested from the heuristic.
const CANDIDATES: usize = 64;
/// Bytes of workspace.
const WORKSPACE: usize = 64 << 20;

use sys::cudaDataType_t as Type;

/// The GEMM: C = A · B, all row-major in memory.
#[derive(Clone, Copy, Debug)]
pub struct Problem {
    /// M, N, K.
    pub shape: [usize; 3],
    /// The operands' type; the result's too, but bf16 for 8-bit floats and i32 for integers.
    pub operand: Number,
    /// True if A is M × K; else it is K × M.
    pub a_k_major: bool,
    /// True if B is N × K; else it is K × N.
    pub b_k_major: bool,
}

impl Problem {
    /// Both operands K-major.
    pub fn new(operand: Number, shape: [usize; 3]) -> Problem {
        Problem { shape, operand, a_k_major: true, b_k_major: true }
    }

    /// The types of the operands and of the result.
    fn types(&self) -> (Type, Type) {
        match self.operand {
            Number::Bf16 => (Type::CUDA_R_16BF, Type::CUDA_R_16BF),
            Number::F16 => (Type::CUDA_R_16F, Type::CUDA_R_16F),
            Number::E4m3 => (Type::CUDA_R_8F_E4M3, Type::CUDA_R_16BF),
            Number::Tf32 => (Type::CUDA_R_32F, Type::CUDA_R_32F),
            Number::I8 => (Type::CUDA_R_8I, Type::CUDA_R_32I),
        }
    }

    /// The precision of products and sums, and the type of alpha and beta.
    fn computes(&self) -> (sys::cublasComputeType_t, Type) {
        match self.operand {
            Number::Tf32 => (sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32, Type::CUDA_R_32F),
            Number::I8 => (sys::cublasComputeType_t::CUBLAS_COMPUTE_32I, Type::CUDA_R_32I),
            _ => (sys::cublasComputeType_t::CUBLAS_COMPUTE_32F, Type::CUDA_R_32F),
        }
    }
}

fn failed(what: &str, error: lt::CublasError) -> Error {
    Error::other(format!("cuBLASLt: {what}: {:?}", error.0))
}

/// The library.
pub struct Lt {
    handle: Rc<Handle>,
    workspace: Rc<Buffer<u8>>,
}

struct Handle(sys::cublasLtHandle_t);

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: made by `open`, dropped once, by the last plan. A failure leaves nothing to do.
        let _ = unsafe { lt::destroy_handle(self.0) };
    }
}

/// A product with its algorithm chosen.
#[derive(Clone)]
pub struct Plan {
    handle: Rc<Handle>,
    description: Rc<Description>,
    /// Addresses of A, B and C.
    addresses: (u64, u64, u64),
    algorithm: sys::cublasLtMatmulAlgo_t,
    workspace: Rc<Buffer<u8>>,
    /// Alpha and beta are integers.
    integer: bool,
}

/// The library's description of a GEMM. The library's B is our A, and the other way round, because it counts columns
/// first.
struct Description {
    operation: sys::cublasLtMatmulDesc_t,
    a: sys::cublasLtMatrixLayout_t,
    b: sys::cublasLtMatrixLayout_t,
    c: sys::cublasLtMatrixLayout_t,
}

impl Description {
    fn new(problem: &Problem) -> Result<Description, lt::CublasError> {
        let [m, n, k] = problem.shape.map(|extent| extent as u64);
        let (computes, scale) = problem.computes();
        let operation = lt::create_matmul_desc(computes, scale)?;
        let transposed = |yes: bool| i32::from(yes);
        use sys::cublasLtMatmulDescAttributes_t as D;
        let choices = [
            (D::CUBLASLT_MATMUL_DESC_TRANSA, transposed(problem.b_k_major)),
            (D::CUBLASLT_MATMUL_DESC_TRANSB, transposed(!problem.a_k_major)),
        ];
        let fast = (D::CUBLASLT_MATMUL_DESC_FAST_ACCUM, 1);
        let eight = problem.operand == Number::E4m3;
        for (attribute, value) in choices.into_iter().chain(eight.then_some(fast)) {
            let bytes = if attribute == D::CUBLASLT_MATMUL_DESC_FAST_ACCUM { 1 } else { 4 };
            // SAFETY: the description is alive; the value is 4 bytes, of which the one-byte attribute takes the lowest.
            unsafe { lt::set_matmul_desc_attribute(operation, attribute, (&raw const value).cast(), bytes)? };
        }
        let layout = |ty, rows: u64, columns: u64| lt::create_matrix_layout(ty, rows, columns, rows as i64);
        let (a, b) = (problem.a_k_major, problem.b_k_major);
        let (operand, result) = problem.types();
        Ok(Description {
            operation,
            a: if b { layout(operand, k, n)? } else { layout(operand, n, k)? },
            b: if a { layout(operand, k, m)? } else { layout(operand, m, k)? },
            c: layout(result, n, m)?,
        })
    }
}

impl Drop for Description {
    fn drop(&mut self) {
        // SAFETY: each was made by `new` and is dropped once.
        unsafe {
            let _ = lt::destroy_matmul_desc(self.operation);
            let _ = [self.a, self.b, self.c].map(|layout| lt::destroy_matrix_layout(layout));
        }
    }
}

impl Lt {
    /// Opens the library.
    ///
    /// # Errors
    /// Why it is not here.
    pub fn open(device: &Device) -> Result<Lt> {
        // SAFETY: it only looks for the file.
        if !device.is_cuda() || !unsafe { sys::is_culib_present() } {
            return Err(Error::other("there is no CUDA device, or no cuBLASLt"));
        }
        let handle = Rc::new(Handle(lt::create_handle().map_err(|e| failed("it does not start", e))?));
        Ok(Lt { handle, workspace: Rc::new(device.zeros(WORKSPACE)?) })
    }

    /// Tries what the heuristic names on this memory, and keeps the quickest.
    pub fn plan(&self, problem: &Problem, stream: &Stream, addresses: (u64, u64, u64)) -> Result<Plan> {
        let (mut plan, candidates) = self.first(problem, addresses)?;
        let algorithms = candidates.iter().map(|candidate| candidate.algo).collect();
        let best = super::quickest(algorithms, stream, |algorithm| plan.submit(stream, algorithm));
        plan.algorithm = best.first().copied().unwrap_or(plan.algorithm);
        Ok(plan)
    }

    /// The plan with the heuristic's first choice.
    pub fn first_choice(&self, problem: &Problem, addresses: (u64, u64, u64)) -> Result<Plan> {
        self.first(problem, addresses).map(|(plan, _)| plan)
    }

    /// The first choice, and all candidates.
    fn first(
        &self,
        problem: &Problem,
        addresses: (u64, u64, u64),
    ) -> Result<(Plan, Vec<sys::cublasLtMatmulHeuristicResult_t>)> {
        let description = Description::new(problem).map_err(|e| failed("a product cannot be described", e))?;
        let candidates = self.candidates(&description).map_err(|e| failed("no algorithm", e))?;
        let Some(first) = candidates.first() else { return Err(Error::other("cuBLASLt has no algorithm")) };
        let (handle, workspace, description) = (self.handle.clone(), self.workspace.clone(), Rc::new(description));
        let integer = problem.operand == Number::I8;
        Ok((Plan { handle, description, addresses, algorithm: first.algo, workspace, integer }, candidates))
    }

    fn candidates(
        &self,
        description: &Description,
    ) -> Result<Vec<sys::cublasLtMatmulHeuristicResult_t>, lt::CublasError> {
        let preference = lt::create_matmul_pref()?;
        let (mut count, workspace) = (0, WORKSPACE);
        let mut found = Vec::with_capacity(CANDIDATES);
        // SAFETY: all handles are alive; the library writes at most `CANDIDATES` results and returns their number.
        unsafe {
            lt::set_matmul_pref_attribute(
                preference,
                sys::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                (&raw const workspace).cast(),
                size_of::<usize>(),
            )?;
            let Description { operation, a, b, c } = *description;
            let (asked, to) = (CANDIDATES as i32, found.as_mut_ptr());
            let status = sys::cublasLtMatmulAlgoGetHeuristic(
                self.handle.0,
                operation,
                a,
                b,
                c,
                c,
                preference,
                asked,
                to,
                &raw mut count,
            );
            lt::destroy_matmul_pref(preference)?;
            status.result()?;
            found.set_len(count as usize);
        }
        Ok(found)
    }
}

impl Plan {
    /// The same product with its result elsewhere.
    pub fn into(&self, c: u64) -> Plan {
        let (a, b, _) = self.addresses;
        Plan { addresses: (a, b, c), ..self.clone() }
    }

    /// Submits the product.
    pub fn launch(&self, stream: &Stream) -> Result<()> {
        self.submit(stream, &self.algorithm)
    }

    fn submit(&self, stream: &Stream, algorithm: &sys::cublasLtMatmulAlgo_t) -> Result<()> {
        let Some(cuda) = stream.as_cuda() else { return Err(Error::other("cuBLASLt needs a CUDA device")) };
        // As `f32` or as `i32`, by their bits.
        let (alpha, beta) = (if self.integer { 1 } else { 1.0f32.to_bits() }, 0u32);
        let (a, b, c) = self.addresses;
        let Description { operation, a: layout_a, b: layout_b, c: layout_c } = *self.description;
        let pointer = |address: u64| address as *mut c_void;
        // SAFETY: the addresses are those of buffers of the described shapes, which the caller keeps.
        unsafe {
            lt::matmul(
                self.handle.0,
                operation,
                (&raw const alpha).cast(),
                (&raw const beta).cast(),
                pointer(b),
                layout_a,
                pointer(a),
                layout_b,
                pointer(c),
                layout_c,
                pointer(c),
                layout_c,
                &raw const *algorithm,
                pointer(self.workspace.address()),
                WORKSPACE,
                cuda.cu_stream().cast(),
            )
        }
        .map_err(|e| failed("a product fails", e))
    }
}
