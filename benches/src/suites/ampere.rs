//! The product for Ampere, `mma.sync` on whatever chip this is. Its rival of the same class is CUTLASS (`benches/cutlass.cu`, a companion).

use crate::bench::{Bench, Case, Work};
use crate::data::{self, Factor, Product};
use ptx_launch::Result;
use ptx_launch::prelude::*;
use std::cell::RefCell;

macro_rules! kernels {
    ($($name:ident $path:literal)*) => {
        $(#[path = $path] #[allow(dead_code, reason = "an example runs alone, too")] mod $name;)*
    };
}
kernels! {
    gemm "../../../examples/ampere/gemm.rs"
    gemm_pipelined "../../../examples/ampere/gemm_pipelined.rs"
}

/// M, N, K.
const SHAPES: &[[usize; 3]] = &[[2048; 3], [4096; 3], [8192; 3], [4100, 4104, 4104]];
/// For a rehearsal.
const SMALL: &[[usize; 3]] = &[[64, 128, 64]];
/// The kernel's name.
const KERNEL: &str = "gemm bf16 sm_80";
/// Error bound: the rounding of the result.
const LIMIT: f64 = 4e-3;

pub fn bf16(bench: &mut Bench) -> Result<()> {
    for shape @ [m, n, k] in bench.sizes(SHAPES, SMALL).iter().copied() {
        let size = format!("{m}x{n}x{k}");
        if bench.wants(KERNEL, &size) {
            one(bench, size, shape)?;
        }
    }
    Ok(())
}

fn one(bench: &mut Bench, size: String, shape: [usize; 3]) -> Result<()> {
    let [m, n, k] = shape;
    let (device, stream) = (bench.device.clone(), bench.stream.clone());
    let a = data::normal::<bf16>(&device, &stream, m * k, bench.seed())?;
    let b = data::normal::<bf16>(&device, &stream, n * k, bench.seed())?;
    let c = RefCell::new(device.zeros::<bf16>(m * n)?);
    let shape32 = shape.map(|extent| extent as u32);
    let mut case = Case {
        kernel: KERNEL,
        size,
        work: Work::Flops(2.0 * m as f64 * n as f64 * k as f64),
        poison: Box::new(|stream| data::poison(stream, &mut c.borrow_mut())),
        check: Box::new(|stream| {
            let c = c.borrow();
            let rows = bf16::product_error(stream, &Product::new(shape, true, true), (&a, &b, &c))?;
            Ok(if data::error(stream, &c, &c)?.is_nan() { f64::NAN } else { rows })
        }),
        limit: LIMIT,
        contestants: Vec::new(),
        absent: Vec::new(),
    };
    for (name, launch) in gemm::VARIANTS {
        case.ours(*name, |stream| launch(stream, &a, &b, &mut c.borrow_mut(), shape32));
    }
    if shape.iter().all(|extent| extent % 64 == 0) {
        case.ours("two stages", |stream| gemm_pipelined::launch(stream, &a, &b, &mut c.borrow_mut(), shape32));
    }
    bench.contest(case)
}
