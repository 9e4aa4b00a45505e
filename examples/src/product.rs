//! How the matrix products are checked and timed: fresh operands, edges, a reference in `f64`. No kernel lives here.

use crate::{Report, random, relative_error, timer};
use half::bf16;
use ptx_launch::Result;
use ptx_launch::prelude::*;

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
        time: std::time::Duration::ZERO,
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
