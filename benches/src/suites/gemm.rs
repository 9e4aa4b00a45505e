//! C = A · B against cuBLASLt: squares, and the layers of a model of 70 billion parameters.

use super::kind::{self, Kind};
use crate::bench::{Bench, Case, Work};
use crate::data::{self, Factor, Product};
use crate::rivals::Number;
use crate::rivals::cublas::Blas;
use crate::rivals::cublaslt::{Lt, Plan, Problem};
use ptx_kernels::gemm::{Gemm, algorithms};
use ptx_launch::prelude::*;
use ptx_launch::{Result, TensorRef};
use std::cell::RefCell;

/// Squares: N of M = N = K.
const SQUARES: [usize; 5] = [2048, 4096, 6144, 8192, 16384];

/// Tokens at a time.
const TOKENS: [usize; 3] = [1024, 4096, 8192];

/// N and K of the products with the weights of a model of 70 billion parameters (width 8192, feed-forward 28672, 64 heads of
/// 128 of which 8 have keys and values, a vocabulary of 128256): forward, then those of the gradients that are no transposed
/// copy of one above.
const LAYERS: [[usize; 2]; 10] = [
    [8192, 8192],   // queries; the way back from the heads
    [1024, 8192],   // keys; values
    [10240, 8192],  // queries, keys and values at once
    [28672, 8192],  // gate; up
    [57344, 8192],  // gate and up at once
    [8192, 28672],  // down
    [128256, 8192], // the vocabulary
    [8192, 10240],  // gradient of the third
    [8192, 57344],  // gradient of the fifth
    [8192, 128256], // gradient of the seventh
];

/// M, N, K of each product once: at 8192 tokens the first of the layers is a square.
const SHAPES: &[[usize; 3]] = &shapes();

const fn shapes() -> [[usize; 3]; SQUARES.len() + TOKENS.len() * LAYERS.len() - 1] {
    let mut shapes = [[8192; 3]; SQUARES.len() + TOKENS.len() * LAYERS.len() - 1];
    let (mut at, mut square) = (0, 0);
    while square < SQUARES.len() {
        shapes[at] = [SQUARES[square]; 3];
        (at, square) = (at + 1, square + 1);
    }
    let mut pair = 0;
    while pair < TOKENS.len() * LAYERS.len() {
        let (m, [n, k]) = (TOKENS[pair / LAYERS.len()], LAYERS[pair % LAYERS.len()]);
        if m != n || n != k {
            shapes[at] = [m, n, k];
            at += 1;
        }
        pair += 1;
    }
    shapes
}

/// For a rehearsal.
const SMALL: &[[usize; 3]] = &[[136, 264, 80]];

/// Sizes with parts of tiles at every edge, smaller than a tile, and with more tiles than workers.
const EDGES: &[[usize; 3]] =
    &[[1000, 1048, 1032], [129, 264, 72], [8, 8, 8], [1, 16, 64], [300, 520, 40], [2500, 2056, 200], [128, 256, 4096]];

/// Squares of 8-bit operands.
const EIGHT: &[[usize; 3]] = &[[4096, 4096, 4096], [8192, 8192, 8192]];

/// The orders of tiles that a sweep tries: the height of a band, the width of its blocks.
const ORDERS: [(u32, u32); 8] = [(4, 1), (9, 1), (11, 1), (16, 1), (4, 4), (4, 8), (8, 8), (16, 4)];

/// Error bound: the rounding of the result.
const LIMIT: f64 = 4e-3;

/// The layouts of the operands.
#[derive(Clone, Copy, PartialEq)]
struct Layout {
    a_k_major: bool,
    b_k_major: bool,
}

impl Layout {
    const K_MAJOR: Layout = Layout { a_k_major: true, b_k_major: true };
}

/// The families of kernels without options, whose tiles may have any order.
const PLAIN: [&str; 2] = ["claimed", "streamk"];

/// An algorithm, and the height of a band and the width of a run of its tiles.
type Way = (&'static str, (u32, u32));

/// Shapes of the other types, and of all layouts.
const OTHERS: &[[usize; 3]] =
    &[[2048, 2048, 2048], [4096, 4096, 4096], [8192, 8192, 8192], [1024, 8192, 8192], [4096, 1024, 8192]];

/// Shapes that no copy of 16 bytes can read as they are, and below each the same in multiples of 64.
const UNALIGNED: &[[usize; 3]] = &[
    [4095, 4095, 4095],
    [4096, 4096, 4096],
    [2047, 8191, 4093],
    [2048, 8192, 4096],
    [1023, 1025, 8189],
    [1024, 1024, 8192],
];

/// All layouts of A and B.
const LAYOUTS: [Layout; 4] = [
    Layout::K_MAJOR,
    Layout { a_k_major: true, b_k_major: false },
    Layout { a_k_major: false, b_k_major: true },
    Layout { a_k_major: false, b_k_major: false },
];

pub fn bf16(bench: &mut Bench) -> Result<()> {
    swept::<kind::Bf16>(bench, "gemm bf16", SHAPES)
}

pub fn f16(bench: &mut Bench) -> Result<()> {
    swept::<kind::F16>(bench, "gemm f16", SHAPES)
}

pub fn e4m3(bench: &mut Bench) -> Result<()> {
    swept::<kind::E4m3>(bench, "gemm e4m3", EIGHT)
}

pub fn tf32(bench: &mut Bench) -> Result<()> {
    each::<kind::Tf32>(bench, "gemm tf32", OTHERS, Layout::K_MAJOR)
}

pub fn i8(bench: &mut Bench) -> Result<()> {
    each::<kind::I8>(bench, "gemm i8", OTHERS, Layout::K_MAJOR)
}

pub fn majors(bench: &mut Bench) -> Result<()> {
    for layout in LAYOUTS {
        each::<kind::Bf16>(bench, &format!("gemm majors bf16 {}", letters(layout)), OTHERS, layout)?;
        each::<kind::Tf32>(bench, &format!("gemm majors tf32 {}", letters(layout)), OTHERS, layout)?;
    }
    Ok(())
}

pub fn unaligned(bench: &mut Bench) -> Result<()> {
    each::<kind::Bf16>(bench, "gemm unaligned bf16", UNALIGNED, Layout::K_MAJOR)?;
    each::<kind::E4m3>(bench, "gemm unaligned e4m3", UNALIGNED, Layout::K_MAJOR)
}

/// `kk`, `kn`, `mk`, `mn`: the dimension of A and of B that is dense.
fn letters(layout: Layout) -> &'static str {
    match (layout.a_k_major, layout.b_k_major) {
        (true, true) => "kk",
        (true, false) => "kn",
        (false, true) => "mk",
        (false, false) => "mn",
    }
}

/// Every algorithm without options at awkward sizes.
pub fn edges(bench: &mut Bench) -> Result<()> {
    at_edges::<kind::Bf16>(bench, "gemm edges bf16")?;
    at_edges::<kind::F16>(bench, "gemm edges f16")?;
    at_edges::<kind::E4m3>(bench, "gemm edges e4m3")
}

fn at_edges<K: Kind>(bench: &mut Bench, kernel: &str) -> Result<()> {
    for shape in bench.sizes(EDGES, SMALL) {
        if !bench.wants(kernel, &name(*shape)) {
            continue;
        }
        for layout in LAYOUTS {
            let reads = |name: &&'static str| name.contains(&format!("_{}_", letters(layout)));
            let ways: Vec<Way> = plain(K::NAME).filter(reads).map(|name| (name, (3, 2))).collect();
            // TMA requires rows of whole 16 bytes.
            let rows = [shape[2], if layout.a_k_major { 0 } else { shape[0] }];
            if ways.is_empty() || rows.iter().any(|row| !(row * size_of::<K::Stored>()).is_multiple_of(16)) {
                continue;
            }
            let operands = Operands::<K::Stored>::new(bench, *shape, layout)?;
            let mut case = operands.case(kernel);
            operands.add_ways::<K>(&mut case, &ways);
            bench.check(case)?;
        }
    }
    Ok(())
}

/// The algorithms for a type whose tiles may have any order.
fn plain(kind: &str) -> impl Iterator<Item = &'static str> {
    algorithms(kind).filter(|name| PLAIN.iter().any(|family| name.ends_with(family)))
}

/// The library's function at each shape, and beside it the algorithms that a sweep names.
fn swept<K: Kind>(bench: &mut Bench, kernel: &str, shapes: &'static [[usize; 3]]) -> Result<()> {
    let ways = ways::<K>(bench);
    let named = |name: &&str| bench.options.sweep.iter().any(|part| name.contains(part.as_str()));
    let algorithms: Vec<&str> = algorithms(K::NAME).filter(named).collect();
    for shape in bench.sizes(shapes, SMALL) {
        if bench.wants(kernel, &name(*shape)) {
            one::<K>(bench, kernel, (*shape, Layout::K_MAJOR), |operands, case| {
                operands.add_algorithms::<K>(case, &algorithms);
                operands.add_ways::<K>(case, &ways);
            })?;
        }
    }
    Ok(())
}

fn each<K: Kind>(bench: &mut Bench, kernel: &str, shapes: &'static [[usize; 3]], layout: Layout) -> Result<()> {
    for shape in bench.sizes(shapes, SMALL) {
        if bench.wants(kernel, &name(*shape)) {
            one::<K>(bench, kernel, (*shape, layout), |_, _| ())?;
        }
    }
    Ok(())
}

fn name([m, n, k]: [usize; 3]) -> String {
    format!("{m}x{n}x{k}")
}

/// `m128n256k64_2x1_kk_claimed G4x8`
fn label((name, (band, run)): &Way) -> String {
    format!("{name} G{band}x{run}")
}

/// The algorithms that are asked for, in every order of tiles.
fn ways<K: Kind>(bench: &Bench) -> Vec<Way> {
    let wanted = &bench.options.sweep;
    let all = plain(K::NAME).filter(|name| name.contains("_kk_")).flat_map(|name| ORDERS.map(|order| (name, order)));
    all.filter(|way| wanted.iter().any(|part| label(way).contains(part.as_str()))).collect()
}

/// The library's function at a shape, in turns with rivals and with those that `add` adds.
fn one<K: Kind>(
    bench: &mut Bench,
    kernel: &str,
    (shape, layout): ([usize; 3], Layout),
    add: impl for<'a> FnOnce(&'a Operands<K::Stored>, &mut Case<'a>),
) -> Result<()> {
    let mut operands = Operands::<K::Stored>::new(bench, shape, layout)?;
    let addresses = operands.addresses();
    if bench.options.alone {
        let mut case = operands.case_of_library::<K>(kernel);
        add(&operands, &mut case);
        return bench.contest(case);
    }
    let Layout { a_k_major, b_k_major } = layout;
    let problem = Problem { shape, operand: K::NUMBER, a_k_major, b_k_major };
    let plan = Lt::open(&bench.device)
        .and_then(|lt| lt.plan(&problem, &bench.stream, addresses))
        .and_then(|plan| operands.whole_reference(bench, &plan).map(|()| plan));
    let blas = Blas::open(&bench.stream);
    let mut case = operands.case_of_library::<K>(kernel);
    add(&operands, &mut case);
    case.rival_if("cuBLASLt", plan.map(|plan| move |stream: &Stream| plan.launch(stream)));
    if matches!(K::NUMBER, Number::Bf16 | Number::F16) && layout == Layout::K_MAJOR {
        case.rival_if("cuBLAS", blas.map(|blas| move |_: &Stream| blas.product(K::NUMBER, shape, addresses)));
    }
    bench.contest(case)
}

/// A, B and C, and what C should be.
struct Operands<T: Factor> {
    product: Product,
    layout: Layout,
    a: Buffer<T>,
    b: Buffer<T>,
    c: RefCell<Buffer<T::Result>>,
    /// A rival's C, to compare every element with; some rows are compared with a product in `f64`.
    whole: Option<Buffer<T::Result>>,
}

impl<T: Factor> Operands<T> {
    fn new(bench: &mut Bench, shape: [usize; 3], layout: Layout) -> Result<Operands<T>> {
        let ([m, n, k], seeds) = (shape, [bench.seed(), bench.seed()]);
        let (device, stream) = (&bench.device, &bench.stream);
        let (mut a, mut b) = (device.zeros(m * k)?, device.zeros(n * k)?);
        T::draw(stream, &mut a, seeds[0])?;
        T::draw(stream, &mut b, seeds[1])?;
        let product = Product::new(shape, layout.a_k_major, layout.b_k_major);
        Ok(Operands { product, layout, a, b, c: RefCell::new(device.zeros(m * n)?), whole: None })
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
        let rows = T::product_error(stream, &self.product, (&self.a, &self.b, &c))?;
        let whole = self.whole.as_ref().map_or(Ok(0.0), |whole| data::error(stream, &c, whole))?;
        // `max` would forget what is not a number.
        Ok(if rows + whole < f64::INFINITY { rows.max(whole) } else { f64::INFINITY })
    }

    /// A case without contestants.
    fn case<'a>(&'a self, kernel: &'a str) -> Case<'a> {
        let shape = self.product.shape;
        Case {
            kernel,
            size: name(shape),
            work: Work::Flops(2.0 * shape.iter().map(|extent| *extent as f64).product::<f64>()),
            poison: Box::new(|stream| data::poison(stream, &mut self.c.borrow_mut())),
            check: Box::new(|stream| self.error(stream)),
            limit: LIMIT,
            contestants: Vec::new(),
            absent: Vec::new(),
        }
    }

    /// The library's function.
    fn case_of_library<'a, K: Kind<Stored = T>>(&'a self, kernel: &'a str) -> Case<'a>
    where
        T: Factor<Result = K::Output>,
    {
        let ([m, n, _], mut case) = (self.product.shape, self.case(kernel));
        case.ours("ptx-kernels", move |stream| {
            let mut c = self.c.borrow_mut();
            K::multiply(stream, self.tensors()?, c.tile_mut([m, n])?.into(), None)
        });
        case
    }

    /// Adds algorithms of the library, with K in one part.
    fn add_algorithms<'a, K: Kind<Stored = T>>(&'a self, case: &mut Case<'a>, names: &[&'static str])
    where
        T: Factor<Result = K::Output>,
    {
        let [m, n, _] = self.product.shape;
        for name in names.iter().copied() {
            case.ours(name, move |stream| {
                let mut c = self.c.borrow_mut();
                K::multiply(stream, self.tensors()?, c.tile_mut([m, n])?.into(), Some((name, 1)))
            });
        }
    }

    /// Adds algorithms, each with an order of its tiles.
    fn add_ways<'a, K: Kind<Stored = T>>(&'a self, case: &mut Case<'a>, ways: &[Way])
    where
        T: Factor<Result = K::Output>,
    {
        let [m, n, _] = self.product.shape;
        for way @ (name, (band, run)) in ways.iter().copied() {
            case.ours(label(&way), move |stream| {
                let mut c = self.c.borrow_mut();
                let gemm = Gemm::new().algorithm(name, 1).raster(band, run);
                K::multiply_by(gemm, stream, self.tensors()?, c.tile_mut([m, n])?.into())
            });
        }
    }

    /// A (M × K) and B (K × N) as they lie in memory.
    fn tensors(&self) -> Result<(TensorRef<'_, T, 2>, TensorRef<'_, T, 2>)> {
        let [m, n, k] = self.product.shape;
        let a = TensorRef::strided(&self.a, [m, k], if self.layout.a_k_major { [k, 1] } else { [1, m] })?;
        let b = TensorRef::strided(&self.b, [k, n], if self.layout.b_k_major { [1, k] } else { [n, 1] })?;
        Ok((a, b))
    }
}
