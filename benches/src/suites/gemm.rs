//! C = A · B against cuBLASLt: squares, and the layers of a model of 70 billion parameters.

use crate::bench::{Bench, Case, Work};
use crate::data::{self, Half, Product};
use crate::rivals::cublaslt::{Lt, Plan, Problem, Type};
use ptx_launch::Result;
use ptx_launch::prelude::*;
use std::cell::RefCell;

/// M, N, K: squares; then, for 1024, 4096 and 8192 tokens, the projections to queries, keys and values and back, and the
/// two of the feed-forward network.
const SHAPES: &[[usize; 3]] = &[
    [2048, 2048, 2048],
    [4096, 4096, 4096],
    [6144, 6144, 6144],
    [8192, 8192, 8192],
    [16384, 16384, 16384],
    [1024, 10240, 8192],
    [1024, 8192, 8192],
    [1024, 28672, 8192],
    [1024, 8192, 28672],
    [4096, 10240, 8192],
    [4096, 8192, 8192],
    [4096, 28672, 8192],
    [4096, 8192, 28672],
    [8192, 10240, 8192],
    [8192, 8192, 8192],
    [8192, 28672, 8192],
    [8192, 8192, 28672],
];

/// What the result's rounding allows.
const LIMIT: f64 = 4e-3;

pub fn bf16(bench: &mut Bench) -> Result<()> {
    each::<bf16>(bench, "gemm bf16", Type::CUDA_R_16BF)
}

pub fn f16(bench: &mut Bench) -> Result<()> {
    each::<f16>(bench, "gemm f16", Type::CUDA_R_16F)
}

fn each<T: Half>(bench: &mut Bench, kernel: &str, ty: Type) -> Result<()> {
    for shape @ [m, n, k] in SHAPES.iter().copied() {
        let size = format!("{m}x{n}x{k}");
        if bench.wants(&size) {
            one::<T>(bench, kernel, size, shape, ty)?;
        }
    }
    Ok(())
}

fn one<T: Half>(bench: &mut Bench, kernel: &str, size: String, shape: [usize; 3], ty: Type) -> Result<()> {
    let [m, n, k] = shape;
    let (device, stream) = (bench.device.clone(), bench.stream.clone());
    let a = data::normal::<T>(&device, &stream, m * k, bench.seed())?;
    let b = data::normal::<T>(&device, &stream, n * k, bench.seed())?;
    let c = RefCell::new(device.zeros::<T>(m * n)?);
    let other = device.zeros::<T>(m * n)?;
    let problem = Problem { operand: ty, result: ty, ..Problem::bf16(m, n, k) };
    let lt = if bench.options.alone { None } else { Lt::open(&device)? };
    let mut reference: Option<Plan> = None;
    let mut rival: Option<Plan> = None;
    if let Some(lt) = &lt {
        reference = Some(lt.plan(&problem, &stream, (a.address(), b.address(), other.address()))?);
        rival = Some(lt.plan(&problem, &stream, (a.address(), b.address(), c.borrow().address()))?);
    }
    // Every element is compared with the rival's, and some rows of both with a product in f64.
    let whole = reference.as_mut().map(|plan| plan.launch(&stream)).transpose()?.is_some();
    let mut case = Case {
        kernel,
        size,
        work: Work::Flops(2.0 * m as f64 * n as f64 * k as f64),
        poison: Box::new(|stream| data::poison(stream, &mut c.borrow_mut())),
        check: Box::new(|stream| {
            let c = c.borrow();
            let rows = T::product_error(stream, &Product::k_major(shape), (&a, &b, &c))?;
            Ok(if whole { rows.max(data::error(stream, &c, &other)?) } else { rows })
        }),
        limit: LIMIT,
        contestants: Vec::new(),
    };
    if let Some(mut plan) = rival {
        case.rival("cuBLASLt", move |stream| plan.launch(stream));
    }
    bench.contest(case)
}
