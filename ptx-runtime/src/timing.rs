//! Duration of work on a stream, measured by the device's clock.
#![allow(unsafe_code, reason = "the driver is asked for the time between two events")]

use crate::context::Event;
use crate::driver::{Driver, cudarc_error};
use crate::error::Result;
use crate::stream::{AsStream, StreamKind, StreamRef};
use cudarc::driver::CudaStream;
use ptx_target::sort::SortSmall;
use std::fmt;
use std::time::{Duration, Instant};

/// Options of a measurement: warm-up runs, which do not count, then counted runs.
///
/// ```
/// # use ptx_launch::{Device, Timer};
/// # fn main() -> ptx_launch::Result<()> {
/// let device = Device::cpu();
/// let timing = Timer::new().runs(5).measure(&device.stream(), || Ok(()))?;
/// println!("{timing}");
/// # assert_eq!(timing.runs(), 5);
/// # Ok(())
/// # }
/// ```
///
/// On a CUDA device a run is timed by two events around what `work` submits to the stream, so that the host's time is
/// seen only where the device waits for it. On the CPU device it is the time of the call.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Timer {
    warm_up: u32,
    runs: u32,
    batch: u32,
}

/// The measurement of a [`Timer`]: at least one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Ascending.
    samples: Vec<Duration>,
}

impl Default for Timer {
    fn default() -> Timer {
        Timer { warm_up: 3, runs: 20, batch: 1 }
    }
}

impl Timer {
    /// 3 warm-up runs, 20 runs, one call in each.
    pub fn new() -> Timer {
        Timer::default()
    }

    /// Runs that do not count.
    pub fn warm_up(self, warm_up: u32) -> Timer {
        Timer { warm_up, ..self }
    }

    /// Runs that count; at least one.
    pub fn runs(self, runs: u32) -> Timer {
        Timer { runs: runs.max(1), ..self }
    }

    /// Calls of `work` in each run; a sample is the run's time divided by this. For work of a few microseconds, so that
    /// the events do not count.
    pub fn batch(self, batch: u32) -> Timer {
        Timer { batch: batch.max(1), ..self }
    }

    /// Measures `work`, which submits something to `stream`.
    ///
    /// # Errors
    /// Those of `work`, and of the driver.
    pub fn measure(&self, stream: impl AsStream, mut work: impl FnMut() -> Result<()>) -> Result<Timing> {
        self.measure_submitted(stream.as_stream(), &mut work)
    }

    /// The same, compiled once for all work.
    fn measure_submitted(&self, stream: StreamRef<'_>, work: &mut dyn FnMut() -> Result<()>) -> Result<Timing> {
        let mut run = || (0..self.batch).try_for_each(|_| work());
        (0..self.warm_up).try_for_each(|_| run())?;
        let samples: Result<Vec<Duration>> = match stream.kind {
            StreamKind::Cuda(stream) => (0..self.runs).map(|_| on_device(stream, &mut run)).collect(),
            StreamKind::Cpu(_) => (0..self.runs).map(|_| on_host(&mut run)).collect(),
        };
        let mut samples = samples?;
        samples.iter_mut().for_each(|sample| *sample /= self.batch);
        Ok(Timing::from_samples(samples))
    }
}

fn on_host(run: &mut dyn FnMut() -> Result<()>) -> Result<Duration> {
    let start = Instant::now();
    run()?;
    Ok(start.elapsed())
}

fn on_device(stream: &CudaStream, run: &mut dyn FnMut() -> Result<()>) -> Result<Duration> {
    let mark =
        || -> Result<Event> { Event::timed(stream).map_err(|e| cudarc_error("an event could not be recorded", e)) };
    let start = mark()?;
    run()?;
    let end = mark()?;
    end.synchronize().map_err(|e| cudarc_error("the timed work failed", e))?;
    let (driver, mut milliseconds) = (Driver::get()?, 0.0);
    // SAFETY: both events are recorded in the current context, and the later one has happened. Writes one float.
    let code = unsafe { (driver.cuEventElapsedTime)(&raw mut milliseconds, start.handle().0, end.handle().0) };
    driver.check(code, "the time between two events cannot be read")?;
    Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3))
}

impl Timing {
    /// Runs that were timed one by one.
    pub fn from_samples(mut samples: Vec<Duration>) -> Timing {
        samples.sort_small();
        Timing { samples }
    }

    /// Number of counted runs.
    pub fn runs(&self) -> usize {
        self.samples.len()
    }

    /// Every run, the quickest first.
    pub fn samples(&self) -> &[Duration] {
        &self.samples
    }

    /// The run in the middle.
    pub fn median(&self) -> Duration {
        self.quantile(1, 2)
    }

    /// The quickest run.
    pub fn min(&self) -> Duration {
        self.quantile(0, 1)
    }

    /// The middle half: the first and the third quartile.
    pub fn quartiles(&self) -> (Duration, Duration) {
        (self.quantile(1, 4), self.quantile(3, 4))
    }

    /// Units of something per second, at the median: bytes for GB/s, operations for FLOP/s.
    pub fn rate(&self, units: f64) -> f64 {
        units / self.median().as_secs_f64().max(f64::MIN_POSITIVE)
    }

    fn quantile(&self, part: usize, of: usize) -> Duration {
        let last = self.samples.len().saturating_sub(1);
        self.samples.get(last * part / of).copied().unwrap_or_default()
    }
}

/// `12.4 µs (12.3 µs … 12.9 µs in the middle half of 20 runs)`
impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = self.quartiles();
        write!(f, "{:.1?} ({low:.1?} … {high:.1?} in the middle half of {} runs)", self.median(), self.runs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_sample() {
        let timing = Timing { samples: [1, 2, 3, 4, 100].map(Duration::from_micros).to_vec() };
        assert_eq!(timing.median(), Duration::from_micros(3));
        assert_eq!(timing.quartiles(), (Duration::from_micros(2), Duration::from_micros(4)));
        assert!((timing.rate(3e-6) - 1.0).abs() < 1e-9);
        assert_eq!(timing.to_string(), "3.0µs (2.0µs … 4.0µs in the middle half of 5 runs)");
    }
}
