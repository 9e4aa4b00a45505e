//! Tuning: which of several ways to do the same work is the fastest on this device. [`Tuner`] measures, [`Records`] keep what it
//! found in a readable file.
//!
//! Nothing tunes on its own: a program loads records, or runs a search, when it decides to. A search never runs inside of a launch,
//! and is an error inside of a capture.

mod records;

pub use records::{Record, Records};

use crate::buffer::Buffer;
use crate::error::{Error, ErrorKind, Result};
use crate::stream::Stream;
use crate::timing::{Timer, Timing};
use cudarc::driver::sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE;

/// A search for the fastest candidate: instances of a kernel, or anything else that a closure launches.
///
/// Each candidate is launched once and checked against the caller's reference. Those that pass are timed in turns, so that clocks
/// and other users of the GPU disturb all alike, each time with a cold second-level cache.
///
/// ```
/// use ptx_launch::prelude::*;
/// use ptx_launch::{Records, Tuner};
///
/// /// `y = 2 x`, with so many threads in a block.
/// #[ptx_kernel(
///     arch = "sm_80", block = THREADS, grid = n.div_ceil(THREADS), instances = [narrow = (64), wide = (256)],
///     unsafe(requires(x.len() >= n, y.len() >= n))
/// )]
/// pub fn twice<const THREADS: u32>(x: &[f32], y: &mut [f32], n: u32) {
///     let i: u32 = ctaid.x * ntid.x + tid.x;
///     if i < n {
///         let v: f32;
///         let (from, to): (Global<f32>, GlobalMut<f32>) = (x.at(i), y.at(i));
///         ptx! { ld.global.f32 v, [from]; }
///         v = v + v;
///         ptx! { st.global.f32 [to], v; }
///     }
/// }
///
/// # fn main() -> ptx_launch::Result<()> {
/// let device = Device::best()?;
/// let (x, y) = (device.upload(&[1.5f32; 1000])?, std::cell::RefCell::new(device.zeros::<f32>(1000)?));
/// let candidates = twice::INSTANCES.iter().map(|(instance, _)| (format!("{instance:?}"), *instance));
/// let found = Tuner::new(&device.stream()).turns(3).search(
///     candidates,
///     |stream, instance| twice::launch(*instance, stream, &x, &mut *y.borrow_mut(), 1000),
///     |_| Ok(y.borrow().download()? == [3.0; 1000]),
/// )?;
/// let (name, _, timing) = found.best().expect("one of them is right");
/// println!("{name}: {timing}");
///
/// let mut records = Records::new();
/// let kernels = <twice::Types as twice::Exists>::kernels().iter().map(|(_, kernel)| Records::hash(kernel));
/// let kernels: Vec<u64> = kernels.collect();
/// records.insert(&device, &kernels, "n 1000", name, timing.median());
/// assert_eq!(records.find(&device, &kernels, "n 1000").map(|record| record.name.as_str()), Some(name));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Tuner {
    stream: Stream,
    turns: u32,
    batch: u32,
    cold: bool,
}

/// The result of a search: every candidate in the order of the search.
#[derive(Clone, Debug)]
pub struct Tuning<C> {
    /// Each candidate with its outcome.
    pub trials: Vec<Trial<C>>,
}

/// A candidate and its outcome.
#[derive(Clone, Debug)]
pub struct Trial<C> {
    /// Its name in records and messages.
    pub name: String,
    /// The candidate.
    pub candidate: C,
    /// The outcome.
    pub outcome: Outcome,
}

/// Outcome of a candidate.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It was right, and took so long.
    Timed(Timing),
    /// It cannot be launched for this problem on this device: a condition, a limit, no variant, no memory.
    DoesNotFit(Error),
    /// Its result differs from the reference.
    Wrong,
}

impl Tuner {
    /// A search on a stream: seven turns of one launch each, with a cold second-level cache.
    pub fn new(stream: &Stream) -> Tuner {
        Tuner { stream: stream.clone(), turns: 7, batch: 1, cold: true }
    }

    /// Timed launches of each candidate; at least one.
    pub fn turns(self, turns: u32) -> Tuner {
        Tuner { turns: turns.max(1), ..self }
    }

    /// Launches in each turn, for work of a few microseconds. Only the first finds the cache cold.
    pub fn batch(self, batch: u32) -> Tuner {
        Tuner { batch: batch.max(1), ..self }
    }

    /// Overwrites the second-level cache before each turn, as without this call, or leaves it as the launch before found it.
    pub fn cold_l2(self, cold: bool) -> Tuner {
        Tuner { cold, ..self }
    }

    /// Launches each candidate, checks it, and times those that are right.
    ///
    /// `check` is called after a candidate's first launch, and returns true if its result equals the reference.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] in a capture; errors of `check`; and errors of a launch after which nothing can be launched
    /// ([`ErrorKind::Fault`], [`ErrorKind::Driver`], [`ErrorKind::WrongDevice`]). Other errors of a launch are an
    /// [`Outcome::DoesNotFit`].
    pub fn search<N: Into<String>, C>(
        &self,
        candidates: impl IntoIterator<Item = (N, C)>,
        mut launch: impl FnMut(&Stream, &C) -> Result<()>,
        mut check: impl FnMut(&C) -> Result<bool>,
    ) -> Result<Tuning<C>> {
        let stream = self.stream.as_stream_ref();
        if stream.is_captured() || stream.is_captured_elsewhere() {
            return Err(captured());
        }
        let mut trials = Vec::new();
        for (name, candidate) in candidates {
            let outcome = self.gate(&candidate, &mut launch, &mut check)?;
            trials.push(Trial { name: name.into(), candidate, outcome });
        }
        self.time(&mut trials, &mut launch)?;
        Ok(Tuning { trials })
    }

    /// The outcome of a candidate before it is timed.
    fn gate<C>(
        &self,
        candidate: &C,
        launch: &mut impl FnMut(&Stream, &C) -> Result<()>,
        check: &mut impl FnMut(&C) -> Result<bool>,
    ) -> Result<Outcome> {
        let launched = launch(&self.stream, candidate).and_then(|()| self.stream.synchronize());
        match launched {
            Ok(()) if check(candidate)? => Ok(Outcome::Timed(Timing::from_samples(Vec::new()))),
            Ok(()) => Ok(Outcome::Wrong),
            Err(error) if is_fatal(error.kind()) => Err(error),
            Err(error) => Ok(Outcome::DoesNotFit(error)),
        }
    }

    /// Times the candidates that are right, in turns.
    fn time<C>(&self, trials: &mut [Trial<C>], launch: &mut impl FnMut(&Stream, &C) -> Result<()>) -> Result<()> {
        let timer = Timer::new().warm_up(0).runs(1).batch(self.batch);
        let mut flush = if self.cold { self.flush_buffer()? } else { None };
        let mut samples: Vec<Vec<_>> = trials.iter().map(|_| Vec::new()).collect();
        for turn in 0..self.turns {
            for (trial, samples) in trials.iter().zip(&mut samples) {
                if !matches!(trial.outcome, Outcome::Timed(_)) {
                    continue;
                }
                if let Some(buffer) = &mut flush {
                    self.stream.fill(buffer, turn)?;
                }
                let timing = timer.measure(&self.stream, || launch(&self.stream, &trial.candidate))?;
                samples.push(timing.median());
            }
        }
        for (trial, samples) in trials.iter_mut().zip(samples) {
            if let Outcome::Timed(timing) = &mut trial.outcome {
                *timing = Timing::from_samples(samples);
            }
        }
        Ok(())
    }

    /// Memory of twice the size of the second-level cache; nothing on the CPU device.
    fn flush_buffer(&self) -> Result<Option<Buffer<u32>>> {
        let device = self.stream.device();
        let Some(context) = device.as_cuda() else { return Ok(None) };
        let bytes = context.attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE).unwrap_or(0);
        let words = usize::try_from(bytes).unwrap_or(0) / size_of::<u32>() * 2;
        if words == 0 { Ok(None) } else { device.zeros(words).map(Some) }
    }
}

impl<C> Tuning<C> {
    /// The fastest candidate by its median, if one was right: its name, itself, and its time.
    pub fn best(&self) -> Option<(&str, &C, &Timing)> {
        let timed = self.trials.iter().filter_map(|trial| match &trial.outcome {
            Outcome::Timed(timing) => Some((trial.name.as_str(), &trial.candidate, timing)),
            Outcome::DoesNotFit(_) | Outcome::Wrong => None,
        });
        timed.min_by_key(|(.., timing)| timing.median())
    }
}

/// Returns true if the device or its context cannot go on.
fn is_fatal(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Fault | ErrorKind::Driver | ErrorKind::WrongDevice | ErrorKind::NoDriver)
}

#[cold]
fn captured() -> Error {
    Error::new(ErrorKind::Unsupported, "a search is started on a stream that is being captured")
        .possible("a search outside of captures, whose result the capture uses")
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::cell::Cell;
    use std::time::Instant;

    #[test]
    fn candidates_that_do_not_fit_or_are_wrong_are_data() {
        let stream = crate::Device::cpu().stream();
        // A launch of `slow` takes longer than all that happened since the last one, also on a busy machine.
        let last = Cell::new(Instant::now());
        let launch = |_: &Stream, candidate: &&str| match *candidate {
            "none" => Err(Error::new(ErrorKind::Limits, "too large")),
            "slow" => {
                std::thread::sleep(last.get().elapsed());
                last.set(Instant::now());
                Ok(())
            }
            _ => Ok(()),
        };
        let candidates = ["none", "quick", "slow", "wrong"].map(|name| (name, name));
        let found = Tuner::new(&stream).turns(2).search(candidates, launch, |candidate| Ok(*candidate != "wrong"));
        let found = found.unwrap();
        let (name, candidate, timing) = found.best().unwrap();
        assert_eq!((name, *candidate, timing.runs()), ("quick", "quick", 2));
        let outcomes: Vec<_> = found.trials.iter().map(|trial| &trial.outcome).collect();
        assert!(matches!(outcomes[..], [Outcome::DoesNotFit(_), Outcome::Timed(_), Outcome::Timed(_), Outcome::Wrong]));
        let fault = |_: &Stream, (): &()| Err(Error::new(ErrorKind::Fault, "lost"));
        let error = Tuner::new(&stream).search([("one", ())], fault, |()| Ok(true)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Fault);
    }
}
