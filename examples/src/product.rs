//! Checks and times matrix products: fresh operands, edges, a reference in `f64`. No kernel lives here.

use crate::parallel::{generate, split};
use crate::rows::Number;
use crate::{Report, random_float, relative_error, timer};
use half::bf16;
use ptx_launch::Result;
use ptx_launch::prelude::*;
use std::time::Duration;

/// M, N, K.
pub type Shape = [u32; 3];

/// Launches on A (M × K), B (N × K) and C (M × N).
pub type Launch = fn(&Stream, &Buffer<bf16>, &Buffer<bf16>, &mut Buffer<bf16>, Shape) -> Result<()>;

/// Checks every shape, and times the last one.
///
/// # Errors
/// Those of the launch and of the device.
pub fn check(device: &Device, name: &'static str, shapes: &[Shape], launch: Launch) -> Result<Report> {
    let (mut worst, mut last) = (0.0, ([0; 3], Duration::ZERO));
    for (seed, shape) in (1..).zip(shapes.iter().copied()) {
        let product = Product::<bf16>::new(shape.map(|extent| extent as usize), seed);
        let (error, time) = product.check(device, |stream, a, b, c| launch(stream, a, b, c, shape))?;
        (worst, last) = (f64::max(worst, error), (product.shape(), time));
    }
    let ([m, n, k], time) = last;
    Ok(Report {
        name,
        device: device.name().to_owned(),
        size: format!("{m} × {n} × {k} bf16"),
        error: worst,
        limit: 1.0,
        time,
        figure: flops([m, n, k], time),
    })
}

/// The operations of a product in a time, as TFLOP/s.
pub fn flops(shape: [usize; 3], time: Duration) -> String {
    let operations = shape.into_iter().fold(2e-12, |flops, extent| flops * extent as f64);
    format!("{:.3} TFLOP/s", operations / time.as_secs_f64().max(1e-12))
}

/// Number of blocks of `threads` threads, in clusters of `cluster` and with `shared` bytes each, that a device runs
/// at the same time; eight for the interpreter.
///
/// # Errors
/// Those of loading the kernel.
pub fn resident(device: &Device, kernel: &Kernel, threads: u32, cluster: u32, shared: u32) -> Result<u32> {
    if !device.is_cuda() {
        return Ok(8);
    }
    let config = Config::grid(cluster).block(threads).cluster(cluster).shared(shared);
    let occupancy = kernel.occupancy(device, &config)?;
    Ok(occupancy.clusters.map_or(occupancy.multiprocessors, |clusters| clusters * cluster))
}

/// Error bound of `f32` sums of a tensor core with exact elements.
const SUMS: f64 = 1e-5;

/// The most multiplications of a product whose elements are computed one by one.
const WHOLE: usize = 1 << 26;

/// The most that one row's sum with random signs may be off, in limits of the whole result. With an error of the limit in every
/// element, one row in 370 would be further off; rounding alone is half of the limit.
const ROW: f64 = 3.0;

/// C (M × N) = A (M × K) · Bᵀ (N × K) with its result in `f64`; rows of A may be in groups, with a B each.
#[derive(Debug)]
pub struct Product<T> {
    a: Vec<T>,
    b: Vec<T>,
    expected: Expected,
    shape: [usize; 3],
    around: usize,
}

/// The result in `f64`.
#[derive(Debug)]
enum Expected {
    /// Every element.
    Elements(Vec<f64>),
    /// Freivalds' check, for large products: a vector of random signs, and its product with each row, which is
    /// A · (Bᵀ · signs). It takes as many operations as the operands have elements, and every element of C takes part:
    /// the squares of the sums' errors are, in the mean, those of the elements' errors.
    Sums {
        /// One for each column.
        signs: Vec<f64>,
        /// One for each row.
        sums: Vec<f64>,
    },
}

impl Expected {
    fn new<T: Number>(a: &[T], b: &[T], shape @ [m, n, k]: [usize; 3], groups: &[usize]) -> Expected {
        if m * n * k <= WHOLE { Expected::elements(a, b, shape, groups) } else { Expected::sums(a, b, shape, groups) }
    }

    fn elements<T: Number>(a: &[T], b: &[T], [m, n, k]: [usize; 3], groups: &[usize]) -> Expected {
        let group_of = group_of(groups);
        let elements = split(m, n * k, |rows| {
            let columns: Vec<_> = (0..groups.len() * n).map(|column| row(b, k, column)).collect();
            let of = |at: usize| {
                let (left, columns) = (row(a, k, at), &columns[group_of[at] * n..][..n]);
                columns.iter().map(|column| dot(&left, column)).collect::<Vec<_>>()
            };
            rows.flat_map(of).collect::<Vec<_>>()
        });
        Expected::Elements(elements.concat())
    }

    fn sums<T: Number>(a: &[T], b: &[T], [m, n, k]: [usize; 3], groups: &[usize]) -> Expected {
        let signs: Vec<f64> = (0..n).map(|at| if random_float(at as u32, 99) < 0.0 { -1.0 } else { 1.0 }).collect();
        let project = |group: usize| {
            let parts = split(n, k, |columns| {
                columns.fold(vec![0.0; k], |sum, at| add(sum, &row(b, k, group * n + at), signs[at]))
            });
            parts.iter().fold(vec![0.0; k], |sum, part| add(sum, part, 1.0))
        };
        let (group_of, projected) = (group_of(groups), (0..groups.len()).map(project).collect::<Vec<_>>());
        let sum = |at: usize| dot(&row(a, k, at), &projected[group_of[at]]);
        let sums = split(m, k, |rows| rows.map(sum).collect::<Vec<_>>()).concat();
        Expected::Sums { signs, sums }
    }

    fn rows(&self, n: usize) -> usize {
        match self {
            Expected::Elements(all) => all.len() / n.max(1),
            Expected::Sums { sums, .. } => sums.len(),
        }
    }

    /// The error of a result as a share of the limit: of the whole of it, or of its worst row.
    fn error<O: Number>(&self, found: &[O]) -> f64 {
        let limit = O::LIMIT.max(SUMS);
        let (signs, sums) = match self {
            Expected::Elements(expected) => {
                let found: Vec<f32> = found.iter().map(|x| x.exact()).collect();
                return relative_error(&found, expected.iter().copied()) / limit;
            }
            Expected::Sums { signs, sums } => (signs, sums),
        };
        let n = signs.len();
        let squares = split(sums.len(), n, |rows| {
            let of = |at: usize| {
                let row: Vec<f64> = found[at * n..][..n].iter().map(|x| f64::from(x.exact())).collect();
                ((dot(&row, signs) - sums[at]).powi(2), dot(&row, &row))
            };
            rows.map(of).collect::<Vec<_>>()
        });
        let squares = squares.concat();
        let (off, norm) = squares.iter().fold((0.0, 0.0), |(off, norm), (o, n)| (off + o, norm + n));
        let worst = squares.iter().map(|(off, norm)| off / norm.max(f64::MIN_POSITIVE)).fold(0.0, f64::max);
        let error = f64::max((off / norm).sqrt(), worst.sqrt() / ROW) / limit;
        // What was not written is no number, and `max` passes over those.
        if off.is_finite() && norm > 0.0 { error } else { f64::INFINITY }
    }
}

/// The group of each row.
fn group_of(groups: &[usize]) -> Vec<usize> {
    groups.iter().enumerate().flat_map(|(group, rows)| std::iter::repeat_n(group, *rows)).collect()
}

/// A row of `k` elements.
fn row<T: Number>(matrix: &[T], k: usize, at: usize) -> Vec<f64> {
    matrix[at * k..][..k].iter().map(|x| f64::from(x.exact())).collect()
}

/// The sum of the products, in eight chains.
fn dot(x: &[f64], y: &[f64]) -> f64 {
    let (left, right) = (x.chunks_exact(8), y.chunks_exact(8));
    let rest: f64 = left.remainder().iter().zip(right.remainder()).map(|(x, y)| x * y).sum();
    let mut sums = [0.0; 8];
    for (x, y) in left.zip(right) {
        sums.iter_mut().zip(x.iter().zip(y)).for_each(|(sum, (x, y))| *sum += x * y);
    }
    sums.iter().sum::<f64>() + rest
}

/// sum + factor · x
fn add(mut sum: Vec<f64>, x: &[f64], factor: f64) -> Vec<f64> {
    sum.iter_mut().zip(x).for_each(|(sum, x)| *sum += factor * x);
    sum
}

impl<T: Number> Product<T> {
    /// Fresh matrices.
    pub fn new([m, n, k]: [usize; 3], seed: u32) -> Product<T> {
        Product::grouped([m, n, k], &[m], seed)
    }

    /// The same with groups of rows of A, each with a B of its own (one below the other).
    pub fn grouped([m, n, k]: [usize; 3], groups: &[usize], seed: u32) -> Product<T> {
        let fresh = |count, seed| generate(count, |at| T::rounded(random_float(at as u32, seed)));
        let (a, b): (Vec<T>, Vec<T>) = (fresh(m * k, 2 * seed + 1), fresh(groups.len() * n * k, 2 * seed + 2));
        Product { expected: Expected::new(&a, &b, [m, n, k], groups), a, b, shape: [m, n, k], around: 0 }
    }

    /// The same product with every B the other way, K × N.
    #[must_use]
    pub fn by_columns(self) -> Product<T> {
        let [_, n, k] = self.shape;
        Product { b: self.b.chunks((n * k).max(1)).flat_map(|b| turned(b, [n, k])).collect(), ..self }
    }

    /// The same product with A the other way, K × M.
    #[must_use]
    pub fn a_by_columns(self) -> Product<T> {
        let [m, _, k] = self.shape;
        Product { a: turned(&self.a, [m, k]), ..self }
    }

    /// The same product with `rows` rows before and behind that belong to no group, and that nobody may write.
    #[must_use]
    pub fn around(self, rows: usize) -> Product<T> {
        let [m, n, k] = self.shape;
        let others = vec![T::rounded(1.0); rows * k];
        Product { a: [others.clone(), self.a, others].concat(), shape: [m + 2 * rows, n, k], around: rows, ..self }
    }

    /// M, N and K.
    pub fn shape(&self) -> [usize; 3] {
        self.shape
    }

    /// Launches, and gives the error as a share of the result's limit, and the time.
    ///
    /// # Errors
    /// Those of the launch and of the device.
    pub fn check<O: Number>(
        &self,
        device: &Device,
        launch: impl Fn(&Stream, &Buffer<T>, &Buffer<T>, &mut Buffer<O>) -> Result<()>,
    ) -> Result<(f64, Duration)> {
        let (a, b) = (device.upload(&self.a)?, device.upload(&self.b)?);
        let n = self.shape[1];
        let (rows, around) = (self.expected.rows(n), self.around * n);
        let (mut c, stream) = (device.zeros(rows * n + 2 * around)?, device.stream());
        stream.fill(&mut c, O::POISON)?;
        let time = timer(device).measure(&stream, || launch(&stream, &a, &b, &mut c))?.median();
        let found = c.download()?;
        let (ours, behind) = found[around..].split_at(rows * n);
        let untouched = found[..around].iter().chain(behind).all(|x| x.exact().is_nan());
        Ok((if untouched { self.expected.error(ours) } else { f64::INFINITY }, time))
    }
}

/// The transpose of a matrix of so many rows and columns.
fn turned<T: Copy>(matrix: &[T], [rows, columns]: [usize; 2]) -> Vec<T> {
    (0..rows * columns).map(|at| matrix[at % rows * columns + at / rows]).collect()
}

/// Start of groups of these heights, the first at row `first`, and the end of the last one.
pub fn offsets(heights: &[usize], first: usize) -> Vec<u32> {
    let ends = heights.iter().scan(first, |end, rows| {
        *end += rows;
        Some(*end as u32)
    });
    std::iter::once(first as u32).chain(ends).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "tests")]
    use super::*;

    /// Expected sums of the rows, and a result as a kernel would round it.
    fn rounded() -> (Expected, Vec<bf16>) {
        let (shape, groups) = ([60, 1024, 64], [20, 0, 40]);
        let product = Product::<bf16>::grouped(shape, &groups, 5);
        let Expected::Elements(elements) = &product.expected else { panic!("every element of a small product") };
        let c = elements.iter().map(|x| bf16::from_f64(*x)).collect();
        (Expected::sums(&product.a, &product.b, shape, &groups), c)
    }

    #[test]
    fn a_large_product_is_right_if_every_element_is() {
        let (expected, c) = rounded();
        let wrong = |change: &dyn Fn(&mut [bf16])| {
            let mut c = c.clone();
            change(&mut c);
            expected.error(&c)
        };
        let rounding = wrong(&|_| ());
        assert!((0.3..0.8).contains(&rounding), "{rounding}");
        assert!(wrong(&|c| c.fill(bf16::ZERO)) > 1.0);
        assert!(wrong(&|c| c[59 * 1024 + 77] = bf16::NAN) > 1.0, "an element that nobody wrote");
        assert!(wrong(&|c| c[12 * 1024..][8..16].fill(bf16::ZERO)) > 1.0, "a chunk of 16 bytes");
        assert!(wrong(&|c| c.swap(5 * 1024 + 3, 50 * 1024 + 4)) > 1.0, "two elements");
        assert!(wrong(&|c| c.copy_within(0..1024, 1024)) > 1.0, "another row");
        assert!(wrong(&|c| c.iter_mut().for_each(|x| *x = bf16::from_f64(1.01 * x.to_f64()))) > 1.0, "1 %");
    }
}
