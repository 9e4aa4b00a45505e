//! Constant memory: an image is convolved with 3 × 3 weights, which the host chooses between launches. A counter that kernels write
//! is read back.

use kernels::{PIXELS, WEIGHTS, convolve};
use ptx_examples::parallel::split;
use ptx_examples::{Report, elements, random, timer};
use ptx_launch::prelude::*;

/// The kernel and its variables.
#[ptx_module(arch = "sm_80")]
pub mod kernels {
    /// The weights, row by row. Kernels read them, the host writes them.
    pub static WEIGHTS: [[f32; 3]; 3] = [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]];
    /// Pixels that were computed, over all launches.
    pub static mut PIXELS: u32 = 0;

    /// out\[r, c\] = Σ WEIGHTS\[i, j\] · image\[r + i - 1, c + j - 1\], with zeros around the image
    #[ptx_kernel(
        block = (32, 8),
        grid = (columns.div_ceil(32), rows.div_ceil(8)),
        unsafe(requires(
            rows * columns <= 1 << 32,
            image.len() >= rows * columns,
            out.len() >= rows * columns
        ))
    )]
    pub fn convolve(image: &[f32], out: &mut [f32], rows: u32, columns: u32) {
        let column: u32 = ctaid.x * 32 + tid.x;
        let row: u32 = ctaid.y * 8 + tid.y;
        if (column >= columns) | (row >= rows) {
            return;
        }
        let mut sum: f32 = 0.0;
        for i in 0..3 {
            // Above the first row lies a large number.
            let r: u32 = row + i - 1;
            for j in 0..3 {
                let c: u32 = column + j - 1;
                if (r < rows) & (c < columns) {
                    let from = image.at(r * columns + c);
                    let (value, weight): f32;
                    ptx! {
                        ld.global.f32  value, [from];
                        ld.const.f32   weight, [WEIGHTS + 12 * i + 4 * j];
                        fma.rn.f32     sum, value, weight, sum;
                    }
                }
            }
        }
        let to = out.at(row * columns + column);
        ptx! {
            st.global.f32       [to], sum;
            red.global.add.u32  [PIXELS], 1;
        }
    }
}

pub(crate) fn run(device: &Device) -> ptx_launch::Result<Report> {
    let (rows, columns) = (elements(device, 4096, 100) + 3, elements(device, 4096, 70) + 5);
    let image = random(rows * columns, 11);
    let weights = [[1.0f32, 2.0, 1.0], [0.5, -4.0, 0.25], [1.0, 2.0, 3.0]];
    let x = device.upload(&image)?;
    let mut y = device.zeros::<f32>(image.len())?;
    let stream = device.stream();
    WEIGHTS.write(&stream, weights)?;
    PIXELS.write(&stream, 0)?;
    convolve(&stream, &x, &mut y, rows, columns)?;
    let (found, pixels) = (y.download()?, PIXELS.read(&stream)?);
    let time = timer(device).measure(&stream, || convolve(&stream, &x, &mut y, rows, columns))?.median();
    let (rows, columns) = (rows as usize, columns as usize);
    let at = |r: usize, c: usize| match (r.checked_sub(1), c.checked_sub(1)) {
        (Some(r), Some(c)) if r < rows && c < columns => f64::from(image[r * columns + c]),
        _ => 0.0,
    };
    let sum = |r: usize, c: usize| -> f64 {
        (0..9).map(|k| f64::from(weights[k / 3][k % 3]) * at(r + k / 3, c + k % 3)).sum()
    };
    let differs = |place: usize| (sum(place / columns, place % columns) - f64::from(found[place])).abs();
    let worst = split(found.len(), 9, |some| some.map(differs).fold(0.0, f64::max));
    let missing = (pixels as usize).abs_diff(rows * columns) as f64;
    Ok(Report {
        name: "convolution",
        device: device.name().to_owned(),
        size: format!("{rows} × {columns}"),
        error: worst.into_iter().fold(missing, f64::max),
        limit: 1e-4,
        time,
        figure: format!("{:.0} GB/s", 8.0 * (rows * columns) as f64 / time.as_secs_f64().max(1e-12) / 1e9),
    })
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}
