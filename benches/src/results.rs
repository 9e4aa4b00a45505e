//! The results of a run as data: each contestant at each size, and the pairs of our kernel and its rivals.

use crate::machine::Machine;
use ptx_launch::Timing;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Work of one launch, for rates.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// Floating-point operations.
    Flops(f64),
    /// Bytes to and from device memory, each once.
    Bytes(f64),
    /// None: nothing is timed, and the rate is the inverse of the error.
    Accuracy,
}

/// Everything of one run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Results {
    /// Machine and date.
    pub machine: Machine,
    /// One for each contestant at each size.
    pub entries: Vec<Entry>,
    /// Lines of suites that hold no contests, each begins with its kernel.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// One contestant at one size.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Entry {
    /// `gemm bf16`
    pub kernel: String,
    /// `4096x4096x4096`
    pub size: String,
    /// `ours`, `cuBLASLt`
    pub contestant: String,
    /// True if it is a kernel of this language.
    pub ours: bool,
    /// ‖out − ref‖ / ‖ref‖; nothing where it is not a number, or where a companion checked.
    pub error: Option<f64>,
    /// True if that is small enough.
    pub right: bool,
    /// Microseconds of a launch: the median.
    pub median: f64,
    /// The middle half.
    pub quartiles: (f64, f64),
    /// TFLOP/s or GB/s at the median.
    pub rate: f64,
    /// The unit of `rate`: TFLOP/s or GB/s.
    pub unit: String,
    /// Milliseconds of a turn; 0 in files that do not state it.
    pub turn: f64,
    /// Why it was not measured: it is not here, it failed, the time was over.
    pub why: Option<String>,
}

impl Entry {
    /// Takes what was measured.
    pub fn timed(&mut self, work: Work, timing: Timing) {
        let micros = |time: std::time::Duration| time.as_secs_f64() * 1e6;
        let (low, high) = timing.quartiles();
        (self.median, self.quartiles) = (micros(timing.median()), (micros(low), micros(high)));
        (self.rate, self.unit) = match work {
            Work::Flops(flops) => (timing.rate(flops) / 1e12, "TFLOP/s".to_owned()),
            Work::Bytes(bytes) => (timing.rate(bytes) / 1e9, "GB/s".to_owned()),
            Work::Accuracy => (self.rate, std::mem::take(&mut self.unit)),
        };
    }

    /// Returns true if it computed, and computed something else.
    pub fn wrong(&self) -> bool {
        !self.right && self.why.is_none()
    }

    /// The rate, and the spread beside it.
    pub fn rate_and_spread(&self) -> String {
        format!("{:.1} ± {:.1} %", self.rate, 100.0 * self.spread())
    }

    /// Half the width of the middle half, as a part of the median.
    fn spread(&self) -> f64 {
        (self.quartiles.1 - self.quartiles.0) / 2.0 / self.median.max(f64::MIN_POSITIVE)
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Entry { kernel, size, contestant, median, rate, unit, .. } = self;
        if let Some(why) = &self.why {
            return write!(f, "{kernel:<22} {size:<20} {contestant:<26} not measured: {why}");
        }
        let error = self.error.map_or_else(|| "     nan".to_owned(), |error| format!("{error:8.1e}"));
        let verdict = if self.right { "" } else { "  WRONG" };
        let spread = 100.0 * self.spread();
        write!(
            f,
            "{kernel:<22} {size:<20} {contestant:<26} {error} {median:>10.1} µs ±{spread:>4.1} %  {rate:>8.1} {unit}{verdict}"
        )
    }
}

/// A kernel at one size: our best, and the rivals.
pub struct Pair<'r> {
    /// `gemm bf16`
    pub kernel: &'r str,
    /// `4096x4096x4096`
    pub size: &'r str,
    /// The quickest of our kernels.
    pub ours: Option<&'r Entry>,
    /// All who were measured, or should have been.
    pub rivals: Vec<&'r Entry>,
}

impl Pair<'_> {
    /// The rivals that have a figure.
    pub fn measured(&self) -> impl Iterator<Item = &Entry> {
        self.rivals.iter().copied().filter(|rival| rival.rate > 0.0)
    }

    /// Our rate over that of the best rival.
    pub fn ratio(&self) -> Option<f64> {
        let rival = self.measured().map(|rival| rival.rate).fold(0.0, f64::max);
        self.ours.filter(|_| rival > 0.0).map(|ours| ours.rate / rival)
    }
}

impl Results {
    /// Returns true if every contestant of ours ran, and was right.
    pub fn all_right(&self) -> bool {
        self.entries.iter().all(|entry| entry.right || !entry.ours)
    }

    /// Takes the entries of another run; its machine too, where this one has measured none.
    pub fn merge(&mut self, other: Results) {
        if self.machine == Machine::default() {
            self.machine = other.machine;
        }
        self.entries.extend(other.entries);
        self.notes.extend(other.notes);
    }

    /// Kernels and sizes in the order of their first entries.
    pub fn pairs(&self) -> Vec<Pair<'_>> {
        let mut pairs: Vec<Pair<'_>> = Vec::new();
        for entry in self.entries.iter().filter(|entry| !entry.wrong()) {
            let at = pairs.iter().position(|pair| pair.kernel == entry.kernel && pair.size == entry.size);
            let at = at.unwrap_or_else(|| {
                pairs.push(Pair { kernel: &entry.kernel, size: &entry.size, ours: None, rivals: Vec::new() });
                pairs.len() - 1
            });
            let pair = &mut pairs[at];
            if !entry.ours {
                pair.rivals.push(entry);
            } else if entry.rate > pair.ours.map_or(0.0, |best| best.rate) {
                pair.ours = Some(entry);
            }
        }
        pairs
    }

    /// Kernels in the order of their first entry.
    pub fn kernels(&self) -> Vec<&str> {
        let mut kernels: Vec<&str> = Vec::new();
        for entry in &self.entries {
            if !kernels.contains(&entry.kernel.as_str()) {
                kernels.push(&entry.kernel);
            }
        }
        kernels
    }
}

/// The geometric mean; nothing of nothing.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().map(|value| value.ln()).sum();
    (!values.is_empty()).then(|| (sum / values.len() as f64).exp())
}
