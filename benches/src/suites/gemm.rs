//! C = A · B against cuBLASLt: squares, and the layers of a model of 70 billion parameters.

use crate::bench::{Bench, Case, Work};
use crate::data::{self, Half, Product};
use crate::rivals::cublaslt::{Lt, Plan, Problem, Type};
use ptx_examples::hopper::gemm::{Operand, Variant};
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

/// Sizes with parts of tiles at every edge, smaller than a tile, and with more tiles than workers.
const EDGES: &[[usize; 3]] =
    &[[1000, 1048, 1032], [129, 264, 72], [8, 8, 8], [1, 16, 64], [300, 520, 40], [2500, 2056, 200], [128, 256, 4096]];

/// Heights of a band that a sweep tries.
const GROUPS: [u32; 3] = [4, 8, 16];

/// What the result's rounding allows.
const LIMIT: f64 = 4e-3;

pub fn bf16(bench: &mut Bench) -> Result<()> {
    each::<bf16>(bench, "gemm bf16", Type::CUDA_R_16BF)
}

pub fn f16(bench: &mut Bench) -> Result<()> {
    each::<f16>(bench, "gemm f16", Type::CUDA_R_16F)
}

/// Every variant at awkward sizes.
pub fn edges(bench: &mut Bench) -> Result<()> {
    let ways: Vec<_> = bf16::VARIANTS.iter().map(|variant| (*variant, 3)).collect();
    for shape in EDGES {
        let product = Operands::<bf16>::new(bench, *shape)?;
        let case = product.case("gemm edges", &ways, bench)?;
        bench.check(case)?;
    }
    Ok(())
}

fn each<T: Half + Operand>(bench: &mut Bench, kernel: &str, ty: Type) -> Result<()> {
    for shape in SHAPES {
        if bench.wants(&name(*shape)) {
            one::<T>(bench, kernel, *shape, ty)?;
        }
    }
    Ok(())
}

fn name([m, n, k]: [usize; 3]) -> String {
    format!("{m}x{n}x{k}")
}

/// A variant and the height of a band.
type Way<T> = (Variant<T>, u32);

/// The variants that are asked for, with every height, or those that are taken for this shape.
fn ways<T: Operand>(wanted: &[String]) -> Vec<Way<T>> {
    let all = T::VARIANTS.iter().flat_map(|variant| GROUPS.map(|group| (*variant, group)));
    if wanted.is_empty() {
        return all.take(1).collect();
    }
    all.filter(|way| wanted.iter().any(|part| label(way).contains(part.as_str()))).collect()
}

/// `128x256 x2 G8`
fn label<T>((variant, group): &Way<T>) -> String {
    format!("{} G{group}", variant.name)
}

fn one<T: Half + Operand>(bench: &mut Bench, kernel: &str, shape: [usize; 3], ty: Type) -> Result<()> {
    let [m, n, k] = shape;
    let mut operands = Operands::<T>::new(bench, shape)?;
    let lt = if bench.options.alone { None } else { Lt::open(&bench.device)? };
    let plan = match &lt {
        Some(lt) => {
            let problem = Problem { operand: ty, result: ty, ..Problem::bf16(m, n, k) };
            Some(lt.plan(&problem, &bench.stream, operands.addresses())?)
        }
        None => None,
    };
    if let Some(plan) = &plan {
        operands.whole_reference(bench, plan)?;
    }
    let mut case = operands.case(kernel, &ways::<T>(&bench.options.sweep), bench)?;
    if let Some(mut plan) = plan {
        case.rival("cuBLASLt", move |stream| plan.launch(stream));
    }
    bench.contest(case)
}

/// A, B and C, and what C should be.
struct Operands<T> {
    shape: [usize; 3],
    a: Buffer<T>,
    b: Buffer<T>,
    c: RefCell<Buffer<T>>,
    /// A rival's C, to compare every element with; some rows are compared with a product in `f64`.
    whole: Option<Buffer<T>>,
}

impl<T: Half + Operand> Operands<T> {
    fn new(bench: &mut Bench, shape: [usize; 3]) -> Result<Operands<T>> {
        let ([m, n, k], seeds) = (shape, [bench.seed(), bench.seed()]);
        let (device, stream) = (&bench.device, &bench.stream);
        let a = data::normal::<T>(device, stream, m * k, seeds[0])?;
        let b = data::normal::<T>(device, stream, n * k, seeds[1])?;
        Ok(Operands { shape, a, b, c: RefCell::new(device.zeros(m * n)?), whole: None })
    }

    fn addresses(&self) -> (u64, u64, u64) {
        (self.a.address(), self.b.address(), self.c.borrow().address())
    }

    fn whole_reference(&mut self, bench: &Bench, plan: &Plan) -> Result<()> {
        let whole = bench.device.zeros(self.c.borrow().len())?;
        plan.into(whole.address()).launch(&bench.stream)?;
        self.whole = Some(whole);
        Ok(())
    }

    fn error(&self, stream: &Stream) -> Result<f64> {
        let c = self.c.borrow();
        let rows = T::product_error(stream, &Product::k_major(self.shape), (&self.a, &self.b, &c))?;
        let whole = self.whole.as_ref().map_or(Ok(0.0), |whole| data::error(stream, &c, whole))?;
        // `max` would forget what is not a number.
        Ok(if rows + whole < f64::INFINITY { rows.max(whole) } else { f64::INFINITY })
    }

    fn case<'a>(&'a self, kernel: &'a str, ways: &[Way<T>], bench: &Bench) -> Result<Case<'a>> {
        let [m, n, k] = self.shape.map(|extent| extent as f64);
        let mut case = Case {
            kernel,
            size: name(self.shape),
            work: Work::Flops(2.0 * m * n * k),
            poison: Box::new(|stream| data::poison(stream, &mut self.c.borrow_mut())),
            check: Box::new(|stream| self.error(stream)),
            limit: LIMIT,
            contestants: Vec::new(),
        };
        for way @ (variant, group) in ways.iter().copied() {
            let workers = variant.workers(&bench.device)?;
            case.ours(label(&way), move |stream| {
                let operands = (&self.a, &self.b, &mut *self.c.borrow_mut());
                variant.launch(stream, operands, self.shape, (workers, group))
            });
        }
        Ok(case)
    }
}
