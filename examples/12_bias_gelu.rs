//! Half precision: a bias and GELU in one pass. A helper with a type parameter reads, computes and serves two kernels; eight values of
//! 16 bits travel in one access, and the arithmetic is in `f32`.

use ptx_examples::{Report, bandwidth, elements, random, relative_error, timer};
use ptx_launch::Element;
use ptx_launch::prelude::*;

/// The kernel.
#[ptx_module(arch = "sm_80")]
pub mod kernels {
    /// The values of a thread: 16 bytes.
    const EACH: u32 = 8;

    /// gelu(x + bias) of `EACH` neighbors, where gelu(v) = v · Φ(v).
    fn gelu_of_sum<T>(x: Global<T>, bias: Global<T>) -> [f32; EACH] {
        let mut values: [f32; EACH] = vector::read::<T, EACH>(x);
        let bias: [f32; EACH] = vector::read::<T, EACH>(bias);
        for i in 0..EACH {
            let v: f32 = values[i] + bias[i];
            values[i] = v * math::normal_cdf(v);
        }
        values
    }

    /// y\[r, c\] = gelu(x\[r, c\] + bias\[c\])
    #[ptx_kernel(
        block = 256,
        grid = (C.div_ceil(256 * EACH), R),
        instances = [f16, bf16],
        unsafe(requires(C % EACH == 0))
    )]
    pub fn bias_gelu<T>(
        #[align(16)] x: Tile<T, (R, C)>,
        #[align(16)] bias: Tile<T, (C,)>,
        #[align(16)] y: TileMut<T, (R, C)>,
    ) {
        let (row, column): (u32, u32) = (ctaid.y, (ctaid.x * ntid.x + tid.x) * EACH);
        if column < C {
            let values: [f32; EACH] = gelu_of_sum(x.at(row, column), bias.at(column));
            vector::write::<T, EACH>(y.at(row, column), values);
        }
    }
}

/// x · Φ(x), with Φ by its series, which converges for every x that occurs here.
fn gelu(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= -x * x / 2.0 / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    x * (0.5 + sum / (2.0 * std::f64::consts::PI).sqrt())
}

/// From `f32` and back.
type Conversions<T> = (fn(f32) -> T, fn(T) -> f32);

/// The relative error of one type, and the time of a launch.
fn check<T: Element + Copy>(
    device: &Device,
    [rows, columns]: [usize; 2],
    (to, from): Conversions<T>,
    launch: impl Fn(&Stream, &Buffer<T>, &Buffer<T>, &mut Buffer<T>) -> ptx_launch::Result<()>,
) -> ptx_launch::Result<(f64, std::time::Duration)> {
    let values =
        |count: usize, seed| -> Vec<T> { random(count as u32, seed).into_iter().map(|x| to(3.0 * x)).collect() };
    let (x, bias) = (values(rows * columns, 21), values(columns, 22));
    let (device_x, device_bias) = (device.upload(&x)?, device.upload(&bias)?);
    let mut y = device.upload(&x)?;
    let stream = device.stream();
    let time = timer(device).measure(&stream, || launch(&stream, &device_x, &device_bias, &mut y))?.median();
    // The first elements of a large matrix stand for all.
    let found: Vec<f32> = y.download()?.into_iter().take(1 << 16).map(from).collect();
    let exact = x.iter().enumerate().map(|(at, x)| gelu(f64::from(from(*x)) + f64::from(from(bias[at % columns]))));
    Ok((relative_error(&found, exact.take(found.len())), time))
}

pub(crate) fn run(device: &Device) -> ptx_launch::Result<Report> {
    use kernels::bias_gelu;
    let shape @ [rows, columns] = [elements(device, 16384, 6) as usize, elements(device, 4096, 2056) as usize];
    let (halves, _) = check::<f16>(device, [3, 40], (f16::from_f32, f16::to_f32), |stream, x, bias, y| {
        bias_gelu(stream, x.tile([3, 40])?, bias.tile([40])?, y.tile_mut([3, 40])?)
    })?;
    let (error, time) = check::<bf16>(device, shape, (bf16::from_f32, bf16::to_f32), |stream, x, bias, y| {
        bias_gelu(stream, x.tile(shape)?, bias.tile([columns])?, y.tile_mut(shape)?)
    })?;
    Ok(Report {
        name: "bias_gelu",
        device: device.name().to_owned(),
        size: format!("{rows} × {columns} bf16"),
        error: error.max(8.0 * halves),
        limit: 3e-3,
        time,
        figure: bandwidth(4 * (rows * columns) as u64, time),
    })
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}
