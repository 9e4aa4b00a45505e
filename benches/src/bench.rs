//! One contest: check everybody, then let them take turns. Knows no kernel.

use crate::machine;
use crate::report::{Entry, Results};
use ptx_launch::prelude::*;
use ptx_launch::{Result, Timing};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Only sizes that contain one of these; all without any.
    pub sizes: Vec<String>,
    /// The variants of our kernels that play: those whose name contains one of these; without any, the dispatch's choice.
    pub sweep: Vec<String>,
    /// Turns of each contestant.
    pub turns: u32,
    /// How long a turn is.
    pub turn: Duration,
    /// Time nothing.
    pub check_only: bool,
    /// No rivals.
    pub alone: bool,
    /// What random inputs grow from.
    pub seed: u32,
}

/// The device, how to measure on it, and what came out so far.
pub struct Bench {
    /// Where everything runs.
    pub device: Device,
    /// The stream of every launch.
    pub stream: Stream,
    /// How to measure.
    pub options: Options,
    /// What came out so far.
    pub results: Results,
}

/// What a launch does, for rates.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// Floating-point operations.
    Flops(f64),
    /// Bytes to and from device memory, each once.
    Bytes(f64),
}

/// Does something on a stream.
type OnStream<'a, T> = Box<dyn Fn(&Stream) -> Result<T> + 'a>;

/// Launches something once.
type Launch<'a> = Box<dyn FnMut(&Stream) -> Result<()> + 'a>;

/// Who takes part in a contest.
pub struct Contestant<'a> {
    /// `ours`, `128x256 G8`, `cuBLASLt`.
    pub name: String,
    /// Whether it is a kernel of this language.
    pub ours: bool,
    /// Launches it once.
    pub launch: Launch<'a>,
}

/// A kernel at one size: what is computed, and by whom.
pub struct Case<'a> {
    /// The kernel: `gemm bf16`.
    pub kernel: &'a str,
    /// The size, as a person says it: `4096x4096x4096`.
    pub size: String,
    /// What one launch does.
    pub work: Work,
    /// Writes values to the output that no right result has.
    pub poison: OnStream<'a, ()>,
    /// How far the output is from the reference: ‖out − ref‖ / ‖ref‖. Not a number where something was not written.
    pub check: OnStream<'a, f64>,
    /// The most that may be.
    pub limit: f64,
    /// Those who take turns.
    pub contestants: Vec<Contestant<'a>>,
}

impl<'a> Case<'a> {
    /// Adds a kernel of this language.
    pub fn ours(&mut self, name: impl Into<String>, launch: impl FnMut(&Stream) -> Result<()> + 'a) {
        self.contestants.push(Contestant { name: name.into(), ours: true, launch: Box::new(launch) });
    }

    /// Adds a library.
    pub fn rival(&mut self, name: impl Into<String>, launch: impl FnMut(&Stream) -> Result<()> + 'a) {
        self.contestants.push(Contestant { name: name.into(), ours: false, launch: Box::new(launch) });
    }

    /// Runs a contestant once on poisoned output, and compares.
    fn judge(&self, stream: &Stream, contestant: &mut Contestant<'_>) -> Result<Entry> {
        (self.poison)(stream)?;
        (contestant.launch)(stream)?;
        let error = (self.check)(stream)?;
        Ok(Entry {
            kernel: self.kernel.to_owned(),
            size: self.size.clone(),
            contestant: contestant.name.clone(),
            ours: contestant.ours,
            error: error.is_finite().then_some(error),
            right: error <= self.limit,
            ..Entry::default()
        })
    }
}

impl Bench {
    /// Opens a contest place on a device: its bandwidth and rate are measured first.
    pub fn new(device: Device, options: Options) -> Result<Bench> {
        let stream = device.stream();
        let machine = machine::measure(&device, &stream, &options)?;
        eprintln!("{machine}");
        Ok(Bench { device, stream, options, results: Results { machine, entries: Vec::new() } })
    }

    /// Whether a size is asked for.
    pub fn wants(&self, size: &str) -> bool {
        let sizes = &self.options.sizes;
        sizes.is_empty() || sizes.iter().any(|part| size.contains(part.as_str()))
    }

    /// A seed that no other input has.
    pub fn seed(&mut self) -> u32 {
        self.options.seed = self.options.seed.wrapping_mul(0x9E37_79B9).wrapping_add(0x7F4A_7C15);
        self.options.seed
    }

    /// Checks every contestant, lets those who are right take turns, and keeps what came out.
    pub fn contest(&mut self, case: Case<'_>) -> Result<()> {
        let timed = !self.options.check_only && self.device.is_cuda();
        self.hold(case, timed)
    }

    /// Checks every contestant, and times nothing: for sizes that nobody measures.
    pub fn check(&mut self, case: Case<'_>) -> Result<()> {
        self.hold(case, false)
    }

    fn hold(&mut self, mut case: Case<'_>, timed: bool) -> Result<()> {
        let contestants = std::mem::take(&mut case.contestants);
        let (mut entries, mut right) = (Vec::new(), Vec::new());
        for mut contestant in contestants {
            let entry = case.judge(&self.stream, &mut contestant)?;
            right.extend(entry.right.then_some((entries.len(), contestant)));
            entries.push(entry);
        }
        if timed {
            self.turns(case.work, &mut entries, &mut right)?;
        }
        entries.iter().for_each(|entry| eprintln!("{entry}"));
        self.results.entries.extend(entries);
        Ok(())
    }

    /// Turn by turn, in another order each time. Half a turn goes by before the clock starts: until then the chip runs as
    /// fast as the one before left it (who takes less power leaves more), and from then on each has its own speed.
    fn turns(&self, work: Work, entries: &mut [Entry], right: &mut [(usize, Contestant<'_>)]) -> Result<()> {
        let mut batches = Vec::new();
        for (_, contestant) in right.iter_mut() {
            let once = self.time(1, contestant)?.min(self.time(2, contestant)?);
            let batch = self.options.turn.as_secs_f64() / 2.0 / once.as_secs_f64().max(1e-7);
            batches.push((batch as u32).clamp(1, 20_000));
        }
        let mut samples = vec![Vec::new(); right.len()];
        let mut order: Vec<usize> = (0..right.len()).collect();
        for turn in 0..self.options.turns {
            shuffle(&mut order, self.options.seed ^ turn);
            for at in order.iter().copied() {
                let (contestant, batch) = (&mut right[at].1, batches[at]);
                self.time(batch, contestant)?;
                samples[at].push(self.time(batch, contestant)?);
            }
        }
        for ((at, _), samples) in right.iter().zip(samples) {
            entries[*at].timed(work, Timing::from_samples(samples));
        }
        Ok(())
    }

    /// The time of one of `batch` launches.
    fn time(&self, batch: u32, contestant: &mut Contestant<'_>) -> Result<Duration> {
        let timer = Timer::new().warm_up(0).runs(1).batch(batch);
        Ok(timer.measure(&self.stream, || (contestant.launch)(&self.stream))?.median())
    }
}

/// Another order (Fisher and Yates, with xorshift).
fn shuffle(order: &mut [usize], seed: u32) {
    let mut state = seed.wrapping_mul(0x9E37_79B9) | 1;
    for last in (1..order.len()).rev() {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        order.swap(last, state as usize % (last + 1));
    }
}

/// A seed from the clock.
pub fn time_of_day() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.subsec_nanos() ^ since.as_secs() as u32)
}
