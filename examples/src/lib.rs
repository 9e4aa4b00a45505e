//! Shared parts of the examples: data, errors against a reference, time, and the line that each prints. No kernel
//! lives here.

pub mod attention;
pub mod blackwell;
mod list;
pub mod parallel;
pub mod product;
pub mod rows;
pub mod turns;

use ptx_launch::prelude::*;
use ptx_launch::{Error, Result};
use std::fmt;
use std::process::ExitCode;
use std::time::Duration;

/// Result of an example. It passes if `error` is at most `limit`.
#[derive(Debug)]
pub struct Report {
    /// The example's name.
    pub name: &'static str,
    /// The device's name.
    pub device: String,
    /// The problem's size, as a person writes it.
    pub size: String,
    /// ‖out − ref‖ / ‖ref‖ against a reference in `f64`; a count of wrong values where they are integers.
    pub error: f64,
    /// The most that `error` may be; 1 where `error` is a share of several limits.
    pub limit: f64,
    /// The median time of a launch.
    pub time: Duration,
    /// The figure that matters: GB/s, values/s.
    pub figure: String,
}

impl Report {
    /// Returns true if the result is right.
    pub fn passed(&self) -> bool {
        self.error <= self.limit
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { name, size, error, limit, figure, .. } = self;
        // A rate of the CPU device has no meaning for a chip.
        let figure = if self.device == Device::cpu().name() { blackwell::NO_FIGURE } else { figure.as_str() };
        let verdict = if self.passed() { "ok" } else { "WRONG" };
        let time = format!("{:.1} µs", self.time.as_secs_f64() * 1e6);
        let error = match *limit {
            1.0 => format!("{error:.2} of its limit"),
            _ => format!("{error:.2e} (limit {limit:.0e})"),
        };
        write!(f, "{name:<21} {size:<27} error {error:<21} {time:>14}  {figure:>18}  {verdict}")
    }
}

/// Runs an example on the best device and prints its line: the `main` of each.
pub fn run(example: fn(&Device) -> Result<Report>) -> ExitCode {
    match Device::best().and_then(|device| example(&device)) {
        Ok(report) => {
            println!("{}\n{report}", report.device);
            ExitCode::from(u8::from(!report.passed()))
        }
        Err(why) => fail(&why),
    }
}

/// The device, unless it is a GPU of another compute capability: then the CPU device, which runs every target. For kernels
/// whose target ends in `a`, and runs on that chip alone. An example on the CPU device needs no turn on the GPU.
pub fn chip_or_cpu(device: &Device, capability: (i32, i32)) -> Device {
    let fits = device.as_cuda().is_none_or(|context| context.compute_capability().is_ok_and(|c| c == capability));
    if fits {
        return device.clone();
    }
    turns::end();
    Device::cpu()
}

/// Prints an error and gives the exit code for it.
pub fn fail(why: &Error) -> ExitCode {
    eprintln!("error: {why}");
    ExitCode::FAILURE
}

/// Number of elements: many for a GPU, and as many as an interpreter processes in a moment for the CPU.
pub fn elements(device: &Device, cuda: u32, cpu: u32) -> u32 {
    if device.is_cuda() { cuda } else { cpu }
}

/// A timer that suits the device: the CPU device runs every launch to its end, so that few are enough.
pub fn timer(device: &Device) -> Timer {
    if device.is_cuda() { Timer::new() } else { Timer::new().warm_up(0).runs(1) }
}

/// Reproducible values in -1 … 1, none of them special.
pub fn random(count: u32, seed: u32) -> Vec<f32> {
    parallel::generate(count as usize, |at| random_float(at as u32, seed))
}

/// One of the values of [`random`].
pub fn random_float(at: u32, seed: u32) -> f32 {
    (random_integer(at, seed) >> 8) as f32 / (1 << 23) as f32 - 1.0
}

/// Reproducible integers.
pub fn integers(count: u32, seed: u32) -> Vec<u32> {
    parallel::generate(count as usize, |at| random_integer(at as u32, seed))
}

/// A hash of the place: every core can begin anywhere.
fn random_integer(at: u32, seed: u32) -> u32 {
    let mut x = at.wrapping_add(seed.wrapping_mul(0x9E37_79B9));
    x = (x ^ (x >> 16)).wrapping_mul(0x7FEB_352D);
    x = (x ^ (x >> 15)).wrapping_mul(0x846C_A68B);
    x ^ (x >> 16)
}

/// ‖out − ref‖ / ‖ref‖; infinite if a value is missing or not a number.
pub fn relative_error(out: &[f32], reference: impl IntoIterator<Item = f64>) -> f64 {
    let (mut difference, mut norm, mut count) = (0.0, 0.0, 0);
    turns::aside(|| {
        for (x, r) in out.iter().zip(reference) {
            difference += (f64::from(*x) - r).powi(2);
            norm += r * r;
            count += 1;
        }
    });
    let error = (difference / f64::max(norm, f64::MIN_POSITIVE)).sqrt();
    if error.is_finite() && count == out.len() { error } else { f64::INFINITY }
}

/// Bytes moved in a time, as GB/s.
pub fn bandwidth(bytes: u64, time: Duration) -> String {
    format!("{:.3} GB/s", bytes as f64 / time.as_secs_f64().max(1e-12) / 1e9)
}
