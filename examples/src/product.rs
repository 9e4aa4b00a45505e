//! How the matrix products are checked and timed: fresh operands, edges, a reference in `f64`. No kernel lives here.

use crate::rows::Number;
use crate::{Report, random, relative_error, timer};
use half::bf16;
use ptx_launch::Result;
use ptx_launch::prelude::*;
use std::time::Duration;

/// M, N, K.
pub type Shape = [u32; 3];

/// Launches on A (M × K), B (N × K) and C (M × N).
pub type Launch = fn(&Stream, &Buffer<bf16>, &Buffer<bf16>, &mut Buffer<bf16>, Shape) -> Result<()>;

/// What the rounding of C allows.
const LIMIT: f64 = 3e-3;

/// Checks every shape, and times the last one.
///
/// # Errors
/// Those of the launch and of the device.
pub fn check(device: &Device, name: &'static str, shapes: &[Shape], launch: Launch) -> Result<Report> {
    let mut report = Report {
        name,
        device: device.name().to_owned(),
        size: String::new(),
        error: 0.0,
        limit: LIMIT,
        time: Duration::ZERO,
        figure: String::new(),
    };
    for (seed, shape @ [m, n, k]) in (1..).zip(shapes.iter().copied()) {
        let operand = |len, seed| random(len, seed).into_iter().map(bf16::from_f32).collect::<Vec<_>>();
        let (a, b) = (operand(m * k, 2 * seed), operand(n * k, 2 * seed + 1));
        let (da, db) = (device.upload(&a)?, device.upload(&b)?);
        let mut c = device.upload(&vec![bf16::NAN; (m * n) as usize])?;
        let stream = device.stream();
        report.time = timer(device).measure(&stream, || launch(&stream, &da, &db, &mut c, shape))?.median();
        let result: Vec<f32> = c.download()?.into_iter().map(bf16::to_f32).collect();
        report.error = report.error.max(error(&a, &b, &result, shape));
        report.size = format!("{m} × {n} × {k} bf16");
        let flops = 2.0 * f64::from(m) * f64::from(n) * f64::from(k);
        report.figure = format!("{:.3} TFLOP/s", flops / report.time.as_secs_f64().max(1e-12) / 1e12);
    }
    Ok(report)
}

/// The worst of at most 64 rows, and infinite if any element was not written.
fn error(a: &[bf16], b: &[bf16], c: &[f32], [m, n, k]: Shape) -> f64 {
    let (n, k, step) = (n as usize, k as usize, (m as usize).div_ceil(64));
    let wide = |row: &[bf16]| row.iter().map(|x| x.to_f64()).collect::<Vec<_>>();
    let columns: Vec<Vec<f64>> = b.chunks(k).map(wide).collect();
    let rows = a.chunks(k).zip(c.chunks(n)).step_by(step).map(|(row, result)| {
        let row = wide(row);
        let dot = |column: &Vec<f64>| row.iter().zip(column).map(|(x, y)| x * y).sum::<f64>();
        relative_error(result, columns.iter().map(dot))
    });
    let worst = rows.fold(0.0, f64::max);
    if c.iter().all(|x| x.is_finite()) { worst } else { f64::INFINITY }
}

/// How many blocks of `threads` threads, in clusters of `cluster` and with `shared` bytes each, a device runs at the same
/// time; the interpreter is given eight.
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

/// What `f32` sums of a tensor core may be off, though their elements are exact.
const SUMS: f64 = 1e-5;

/// C (M × N) = A (M × K) · Bᵀ (N × K) with its result in `f64`; rows of A may be in groups, with a B each.
#[derive(Debug)]
pub struct Product<T> {
    a: Vec<T>,
    b: Vec<T>,
    expected: Vec<f64>,
    shape: [usize; 3],
    around: usize,
}

impl<T: Number> Product<T> {
    /// Fresh matrices.
    pub fn new([m, n, k]: [usize; 3], seed: u32) -> Product<T> {
        Product::grouped([m, n, k], &[m], seed)
    }

    /// The same with groups of rows of A, each with a B of its own (one below the other).
    pub fn grouped([m, n, k]: [usize; 3], groups: &[usize], seed: u32) -> Product<T> {
        let fresh = |count: usize, seed| random(count as u32, seed).into_iter().map(T::rounded).collect::<Vec<T>>();
        let (a, b) = (fresh(m * k, 2 * seed + 1), fresh(groups.len() * n * k, 2 * seed + 2));
        let group_of = groups.iter().enumerate().flat_map(|(group, rows)| std::iter::repeat_n(group, *rows));
        let dot = |row: &[T], column: &[T]| -> f64 {
            row.iter().zip(column).map(|(x, y)| f64::from(x.exact()) * f64::from(y.exact())).sum()
        };
        let expected = a.chunks(k.max(1)).zip(group_of).flat_map(|(row, group)| {
            let columns = b[group * n * k..].chunks(k.max(1)).take(n);
            columns.map(|column| dot(row, column)).collect::<Vec<_>>()
        });
        Product { expected: expected.collect(), a, b, shape: [m, n, k], around: 0 }
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
        let around = self.around * self.shape[1];
        let mut c = device.upload(&vec![O::POISON; self.expected.len() + 2 * around])?;
        let stream = device.stream();
        let time = timer(device).measure(&stream, || launch(&stream, &a, &b, &mut c))?.median();
        let found: Vec<f32> = c.download()?.into_iter().map(O::exact).collect();
        let (ours, behind) = found[around..].split_at(self.expected.len());
        let untouched = found[..around].iter().chain(behind).all(|x| x.is_nan());
        let error = relative_error(ours, self.expected.iter().copied()) / O::LIMIT.max(SUMS);
        Ok((if untouched { error } else { f64::INFINITY }, time))
    }
}

/// The transpose of a matrix of so many rows and columns.
fn turned<T: Copy>(matrix: &[T], [rows, columns]: [usize; 2]) -> Vec<T> {
    (0..rows * columns).map(|at| matrix[at % rows * columns + at / rows]).collect()
}

/// Where groups of these heights begin, the first at row `first`, and where the last one ends.
pub fn offsets(heights: &[usize], first: usize) -> Vec<u32> {
    let ends = heights.iter().scan(first, |end, rows| {
        *end += rows;
        Some(*end as u32)
    });
    std::iter::once(first as u32).chain(ends).collect()
}
