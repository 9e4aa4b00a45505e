//! Checks and timing of row-wise kernels: fresh inputs in both types, every edge, a reference in `f64`. No kernel
//! lives here.

pub mod tasks;

use crate::parallel::{generate, split};
use crate::{Report, bandwidth, random_float, timer};
use half::{bf16, f16};
use ptx_launch::prelude::*;
use ptx_launch::{Element, Result};
use std::time::Duration;

/// The element types of the row kernels.
pub trait Number: Element + Default + Send + Sync {
    /// Content of an output before the kernel has written it.
    const POISON: Self;
    /// The most that ‖out − ref‖ / ‖ref‖ may be: rounding, and the approximate `ex2`, `rcp` and `rsqrt`.
    const LIMIT: f64;
    /// The nearest value.
    fn rounded(x: f32) -> Self;
    /// The same value.
    fn exact(self) -> f32;
}

impl Number for f32 {
    const POISON: f32 = f32::NAN;
    const LIMIT: f64 = 1e-6;
    fn rounded(x: f32) -> f32 {
        x
    }
    fn exact(self) -> f32 {
        self
    }
}

impl Number for bf16 {
    const POISON: bf16 = bf16::NAN;
    const LIMIT: f64 = 3e-3;
    fn rounded(x: f32) -> bf16 {
        bf16::from_f32(x)
    }
    fn exact(self) -> f32 {
        self.to_f32()
    }
}

impl Number for f16 {
    const POISON: f16 = f16::NAN;
    const LIMIT: f64 = 4e-4;
    fn rounded(x: f32) -> f16 {
        f16::from_f32(x)
    }
    fn exact(self) -> f32 {
        self.to_f32()
    }
}

/// Computation of a row-wise kernel: its inputs are full matrices or one row for all.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    /// The kernel's name.
    pub name: &'static str,
    /// One entry per input: `true` for a matrix, else a row.
    pub inputs: &'static [bool],
    /// One row of the output, from one row of each input.
    pub reference: fn(&[&[f64]]) -> Vec<f64>,
}

/// Launches a kernel on a stream: its inputs, its output, rows and columns.
type Launch<'a, T> = dyn Fn(&Stream, &[Buffer<T>], &mut Buffer<T>, u32, u32) -> Result<()> + 'a;

/// The checks of a task so far: the worst error as a share of its type's limit, and the first launch's time.
#[derive(Debug)]
pub struct Checks<'a> {
    task: Task,
    device: &'a Device,
    worst: f64,
    first: Option<(String, Duration, u64)>,
    seed: u32,
}

impl Task {
    /// Begins the checks on a device.
    pub fn on(self, device: &Device) -> Checks<'_> {
        Checks { task: self, device, worst: 0.0, first: None, seed: 0 }
    }
}

impl Checks<'_> {
    /// Launches on fresh inputs and compares every element.
    ///
    /// # Errors
    /// Those of the launch and of the device.
    pub fn shape<T: Number>(
        &mut self,
        extents: (u32, u32),
        launch: impl Fn(&Stream, &[Buffer<T>], &mut Buffer<T>, u32, u32) -> Result<()>,
    ) -> Result<()> {
        self.check_launch(extents, &launch)
    }

    /// The same, compiled once for all kernels.
    fn check_launch<T: Number>(&mut self, (rows, columns): (u32, u32), launch: &Launch<'_, T>) -> Result<()> {
        let inputs: Vec<Vec<T>> =
            self.task.inputs.iter().map(|whole| self.fresh(if *whole { rows } else { 1 } * columns)).collect();
        let buffers = inputs.iter().map(|data| self.device.upload(data)).collect::<Result<Vec<_>>>()?;
        let (mut out, stream) = (self.device.zeros(rows as usize * columns as usize)?, self.device.stream());
        stream.fill(&mut out, T::POISON)?;
        let timing = timer(self.device).measure(&stream, || launch(&stream, &buffers, &mut out, rows, columns))?;
        let error = self.error(&inputs, &out.download()?, columns as usize) / T::LIMIT;
        self.worst = self.worst.max(error);
        let matrices = 1 + self.task.inputs.iter().filter(|whole| **whole).count();
        let bytes = (matrices * out.len() * size_of::<T>()) as u64;
        let size = format!("{rows} × {columns} {}", std::any::type_name::<T>().rsplit(':').next().unwrap_or_default());
        self.first.get_or_insert((size, timing.median(), bytes));
        Ok(())
    }

    fn fresh<T: Number>(&mut self, count: u32) -> Vec<T> {
        self.seed += 1;
        let seed = self.seed;
        generate(count as usize, |at| T::rounded(4.0 * random_float(at as u32, seed)))
    }

    /// ‖out − ref‖ / ‖ref‖ over every element; infinite if one is not a number.
    fn error<T: Number>(&self, inputs: &[Vec<T>], out: &[T], columns: usize) -> f64 {
        let squares = split(out.len() / columns.max(1), columns, |rows| {
            let mut squares = (0.0, 0.0);
            for row in rows {
                let found = out[row * columns..][..columns].iter();
                for (x, expected) in found.zip(self.expected(inputs, row, columns)) {
                    squares.0 += (f64::from(x.exact()) - expected).powi(2);
                    squares.1 += expected * expected;
                }
            }
            squares
        });
        let (difference, norm) = squares.iter().fold((0.0, 0.0), |(d, n), part| (d + part.0, n + part.1));
        let error = (difference / f64::max(norm, f64::MIN_POSITIVE)).sqrt();
        if error.is_finite() { error } else { f64::INFINITY }
    }

    fn expected<T: Number>(&self, inputs: &[Vec<T>], row: usize, columns: usize) -> Vec<f64> {
        let row_of = |(data, whole): (&Vec<T>, &bool)| {
            let start = if *whole { row * columns } else { 0 };
            data.iter().skip(start).take(columns).map(|x| f64::from(x.exact())).collect::<Vec<_>>()
        };
        let rows: Vec<Vec<f64>> = inputs.iter().zip(self.task.inputs).map(row_of).collect();
        let rows: Vec<&[f64]> = rows.iter().map(Vec::as_slice).collect();
        (self.task.reference)(&rows)
    }

    /// The line of the example: an error of 1 is the limit of the element's type.
    pub fn report(self) -> Report {
        let (size, time, bytes) = self.first.unwrap_or_default();
        Report {
            name: self.task.name,
            device: self.device.name().to_owned(),
            size,
            error: self.worst,
            limit: 1.0,
            time,
            figure: bandwidth(bytes, time),
        }
    }
}

/// Rows and columns to check on a device, the one to time first: a full row, rows that end within a vector, within a
/// block's step, and behind one element.
pub fn shapes(device: &Device) -> Vec<(u32, u32)> {
    let first = if device.is_cuda() { (8192, 8192) } else { (2, 8192) };
    [first].into_iter().chain([(3, 1000), (2, 2050), (5, 33), (1, 1)]).collect()
}
