//! One product for each expert of a mixture: with C in `f32` against pyptx (in the companion), in bf16 against cuBLAS. The
//! sizes are those of pyptx's own table; every expert's B is K × N, as it has them.

use crate::bench::{Bench, Case, Work};
use crate::data::{self, Product, Sum};
use crate::rivals::cublas::{Blas, Matrices};
use ptx_kernels::grouped_gemm::{GroupedGemm, Output, variants};
use ptx_launch::Result;
use ptx_launch::prelude::*;
use std::cell::RefCell;

/// Groups; M, N, K of each.
const SIZES: &[(usize, [usize; 3])] =
    &[(8, [512, 64, 512]), (16, [512, 64, 512]), (8, [1024, 64, 1024]), (4, [2048, 64, 2048]), (8, [2048, 64, 2048])];
/// For a rehearsal.
const SMALL: &[(usize, [usize; 3])] = &[(3, [72, 64, 40])];
/// Error bound: the rounding of the result to bf16; the sums themselves are closer.
const LIMIT: f64 = 4e-3;

pub fn f32(bench: &mut Bench) -> Result<()> {
    each::<f32>(bench, "grouped gemm f32")
}

pub fn bf16(bench: &mut Bench) -> Result<()> {
    each::<bf16>(bench, "grouped gemm bf16")
}

fn each<O: Sum + Output>(bench: &mut Bench, kernel: &'static str) -> Result<()> {
    for (count, shape @ [m, n, k]) in bench.sizes(SIZES, SMALL).iter().copied() {
        let size = format!("g{count} m{m} n{n} k{k}");
        if bench.wants(kernel, &size) {
            let task = Task::<O>::new(bench, count, shape)?;
            one(bench, (kernel, size), &task)?;
        }
    }
    Ok(())
}

/// The operands of all groups, and the result.
struct Task<O: Sum> {
    count: usize,
    shape: [usize; 3],
    a: Buffer<bf16>,
    b: Buffer<bf16>,
    c: RefCell<Buffer<O>>,
    offsets: Buffer<u32>,
}

impl<O: Sum> Task<O> {
    fn new(bench: &mut Bench, count: usize, shape @ [m, n, k]: [usize; 3]) -> Result<Task<O>> {
        let (device, stream) = (bench.device.clone(), bench.stream.clone());
        let a = data::normal(&device, &stream, count * m * k, bench.seed())?;
        let b = data::normal(&device, &stream, count * k * n, bench.seed())?;
        let c = RefCell::new(device.zeros(count * m * n)?);
        let offsets: Vec<u32> = (0..=count).map(|group| (group * m) as u32).collect();
        Ok(Task { count, shape, a, b, c, offsets: device.upload(&offsets)? })
    }

    /// The worst of all groups; not a number if any element is none.
    fn error(&self, stream: &Stream) -> Result<f64> {
        let c = self.c.borrow();
        let [m, n, k] = self.shape;
        let mut worst = data::error(stream, &c, &c)?;
        for group in 0..self.count {
            let part = |len: usize| group * len..(group + 1) * len;
            let (a, b, c) = (self.a.slice(part(m * k))?, self.b.slice(part(k * n))?, c.slice(part(m * n))?);
            worst = data::worse(worst, O::part_error(stream, &Product::new(self.shape, true, false), (a, b, c))?);
        }
        Ok(worst)
    }
}

fn one<O: Sum + Output>(bench: &mut Bench, (kernel, size): (&str, String), task: &Task<O>) -> Result<()> {
    let device = bench.device.clone();
    let flops = 2.0 * task.count as f64 * task.shape.iter().map(|extent| *extent as f64).product::<f64>();
    let mut case = Case {
        kernel,
        size,
        work: Work::Flops(flops),
        poison: Box::new(|stream| data::poison(stream, &mut task.c.borrow_mut())),
        check: Box::new(|stream| task.error(stream)),
        limit: LIMIT,
        contestants: Vec::new(),
        absent: Vec::new(),
    };
    let (grouped, [m, n, k]) = (GroupedGemm::new(&device)?, task.shape);
    for variant in variants::<O>().filter(|variant| !variant.b_k_major()) {
        case.ours(variant.to_string(), move |stream| {
            let (a, b) = (task.a.tile([task.count * m, k])?, task.b.tile([task.count, k, n])?);
            let mut c = task.c.borrow_mut();
            let c = c.tile_mut([task.count * m, n])?.into();
            grouped.run_variant(stream, variant, (a.into(), b.into(), c), &task.offsets)
        });
    }
    if size_of::<O>() == 2 && !bench.options.alone {
        for (name, each) in [("cuBLAS grouped", false), ("cuBLAS grouped each", true)] {
            case.rival_if(name, by_cublas(bench, task, each));
        }
    }
    bench.contest(case)
}

/// The library on the same memory, whose result is bf16.
fn by_cublas<O: Sum>(bench: &Bench, task: &Task<O>, each: bool) -> Result<impl FnMut(&Stream) -> Result<()> + use<O>> {
    let blas = Blas::open(&bench.stream)?;
    let (shape, addresses) = (task.shape, (task.a.address(), task.b.address(), task.c.borrow().address()));
    let matrices = Matrices::new(&bench.device, shape, task.count, addresses)?;
    Ok(move |_: &Stream| blas.grouped(shape, &matrices, each))
}
