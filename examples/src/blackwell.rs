//! What the examples for `sm_100a` share: the device that can run them, and products of matrices to check.

use crate::rows::Number;
use crate::{Report, random, relative_error, timer};
use ptx_launch::Result;
use ptx_launch::prelude::*;
use std::time::Duration;

/// What stands where a figure would be: no machine of this project has the chip.
pub const NO_FIGURE: &str = "no chip, no figure";

/// The device if it can run `sm_100a`, else the CPU device, which can.
pub fn device(device: &Device) -> Device {
    let fits = match device.as_cuda() {
        None => true,
        Some(context) => context.compute_capability().is_ok_and(|(major, minor)| (major, minor) == (10, 0)),
    };
    if fits { device.clone() } else { Device::cpu() }
}

/// C (M × N) = A (M × K) · Bᵀ (N × K), with its result in `f64`.
#[derive(Debug)]
pub struct Product<T> {
    a: Vec<T>,
    b: Vec<T>,
    expected: Vec<f64>,
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
        Product { expected: expected.collect(), a, b }
    }

    /// Launches, and gives the error as a share of the type's limit, and the time.
    ///
    /// # Errors
    /// Those of the launch and of the device.
    pub fn check(
        &self,
        device: &Device,
        launch: impl Fn(&Stream, &Buffer<T>, &Buffer<T>, &mut Buffer<T>) -> Result<()>,
    ) -> Result<(f64, Duration)> {
        let (a, b) = (device.upload(&self.a)?, device.upload(&self.b)?);
        let mut c = device.upload(&vec![T::POISON; self.expected.len()])?;
        let stream = device.stream();
        let time = timer(device).measure(&stream, || launch(&stream, &a, &b, &mut c))?.median();
        let found: Vec<f32> = c.download()?.into_iter().map(T::exact).collect();
        Ok((relative_error(&found, self.expected.iter().copied()) / T::LIMIT, time))
    }
}

/// The line of an example of several checks: the worst error, and the first one's time.
pub fn report(name: &'static str, device: &Device, size: &str, found: &[(f64, Duration)]) -> Report {
    Report {
        name,
        device: device.name().to_owned(),
        size: size.to_owned(),
        error: found.iter().map(|(error, _)| *error).fold(0.0, f64::max),
        limit: 1.0,
        time: found.first().map_or(Duration::ZERO, |(_, time)| *time),
        figure: NO_FIGURE.to_owned(),
    }
}
