//! cuBLAS itself, with the algorithm that it chooses: one product, or a group of them.
#![allow(unsafe_code, reason = "calls of the library")]

use super::Number;
use cudarc::cublas::{result as blas, sys};
use ptx_launch::prelude::*;
use ptx_launch::{Error, Result};
use std::ffi::c_void;
use std::rc::Rc;

use sys::cudaDataType_t as Type;

const SUM: sys::cublasComputeType_t = sys::cublasComputeType_t::CUBLAS_COMPUTE_32F;
const AS_IT_LIES: sys::cublasOperation_t = sys::cublasOperation_t::CUBLAS_OP_N;
const TRANSPOSED: sys::cublasOperation_t = sys::cublasOperation_t::CUBLAS_OP_T;

fn failed(what: &str, error: blas::CublasError) -> Error {
    Error::other(format!("cuBLAS: {what}: {:?}", error.0))
}

/// The library, on a stream.
#[derive(Clone)]
pub struct Blas(Rc<Handle>);

struct Handle(sys::cublasHandle_t);

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: made by `open`, dropped once. A failure leaves nothing to do.
        let _ = unsafe { blas::destroy_handle(self.0) };
    }
}

impl Blas {
    /// Opens the library for launches on a stream.
    ///
    /// # Errors
    /// Why it is not here.
    pub fn open(stream: &Stream) -> Result<Blas> {
        let cuda = stream.as_cuda().ok_or_else(|| Error::other("cuBLAS needs a CUDA device"))?;
        // SAFETY: it only looks for the file.
        if !unsafe { sys::is_culib_present() } {
            return Err(Error::other("there is no cuBLAS"));
        }
        let handle = Handle(blas::create_handle().map_err(|e| failed("it does not start", e))?);
        // SAFETY: both are alive; the device keeps its stream.
        unsafe { blas::set_stream(handle.0, cuda.cu_stream().cast()) }.map_err(|e| failed("it takes no stream", e))?;
        Ok(Blas(Rc::new(handle)))
    }

    /// C (M × N) = A (M × K) · Bᵀ (N × K), of one type, at these addresses. The library counts columns first, so that its A is
    /// our B.
    ///
    /// # Errors
    /// An error of the library, which has no 8-bit operands.
    pub fn product(&self, number: Number, shape: [usize; 3], (a, b, c): (u64, u64, u64)) -> Result<()> {
        let ty = match number {
            Number::Bf16 => Type::CUDA_R_16BF,
            Number::F16 => Type::CUDA_R_16F,
            Number::E4m3 | Number::Tf32 | Number::I8 => {
                return Err(Error::other("cuBLAS plays with operands of 16 bits; cuBLASLt has the others"));
            }
        };
        let [m, n, k] = shape.map(|extent| extent as i32);
        let (one, zero) = (1.0f32, 0.0f32);
        let pointer = |address: u64| address as *mut c_void;
        // SAFETY: the addresses are those of buffers of this shape and type, which the caller keeps.
        unsafe {
            blas::gemm_ex(
                self.0.0,
                TRANSPOSED,
                AS_IT_LIES,
                n,
                m,
                k,
                (&raw const one).cast(),
                pointer(b),
                ty,
                k,
                pointer(a),
                ty,
                k,
                (&raw const zero).cast(),
                pointer(c),
                ty,
                n,
                SUM,
                sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
        }
        .map_err(|e| failed("a product fails", e))
    }

    /// As many products of one shape as there are matrices, in one call: `each` of them a group of its own, or all one
    /// group. Every B is K × N here.
    ///
    /// # Errors
    /// An error of the library.
    pub fn grouped(&self, shape: [usize; 3], matrices: &Matrices, each: bool) -> Result<()> {
        let [m, n, k] = shape.map(|extent| extent as i32);
        let count = matrices.a.len();
        let (groups, size) = if each { (count, 1) } else { (1, count as i32) };
        let all = |value: i32| vec![value; groups];
        let (wide, high, deep, sizes) = (all(n), all(m), all(k), all(size));
        let (one, zero) = (vec![1.0f32; groups], vec![0.0f32; groups]);
        let lies = vec![AS_IT_LIES; groups];
        // SAFETY: every list has an entry for each group; the lists of addresses lie on the device, and the addresses are
        // those of buffers of this shape, which the caller keeps.
        unsafe {
            sys::cublasGemmGroupedBatchedEx(
                self.0.0,
                lies.as_ptr(),
                lies.as_ptr(),
                wide.as_ptr(),
                high.as_ptr(),
                deep.as_ptr(),
                one.as_ptr().cast(),
                matrices.b.address() as *const *const c_void,
                Type::CUDA_R_16BF,
                wide.as_ptr(),
                matrices.a.address() as *const *const c_void,
                Type::CUDA_R_16BF,
                deep.as_ptr(),
                zero.as_ptr().cast(),
                matrices.c.address() as *const *mut c_void,
                Type::CUDA_R_16BF,
                wide.as_ptr(),
                groups as i32,
                sizes.as_ptr(),
                SUM,
            )
            .result()
        }
        .map_err(|e| failed("a group of products fails", e))
    }
}

/// The addresses of the matrices of a group, on the device.
pub struct Matrices {
    a: Buffer<u64>,
    b: Buffer<u64>,
    c: Buffer<u64>,
}

impl Matrices {
    /// `count` matrices behind each other, in bf16, from each of these addresses on.
    ///
    /// # Errors
    /// Those of the device.
    pub fn new(device: &Device, [m, n, k]: [usize; 3], count: usize, (a, b, c): (u64, u64, u64)) -> Result<Matrices> {
        let list = |first: u64, elements: usize| {
            let addresses: Vec<u64> = (0..count).map(|at| first + (2 * at * elements) as u64).collect();
            device.upload(&addresses)
        };
        Ok(Matrices { a: list(a, m * k)?, b: list(b, k * n)?, c: list(c, m * n)? })
    }
}
