//! Results: stored as JSON, shown as a table, written into the documentation.

use crate::bench::Work;
use crate::chart;
use crate::machine::Machine;
use crate::targets;
use ptx_launch::Timing;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// Everything of one run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Results {
    /// Machine and date.
    pub machine: Machine,
    /// One for each contestant at each size.
    pub entries: Vec<Entry>,
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
    /// Which of the two.
    pub unit: String,
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
        };
    }

    /// Returns true if it computed, and computed something else.
    fn wrong(&self) -> bool {
        !self.right && self.why.is_none()
    }

    fn rate_and_spread(&self) -> String {
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
    fn ratio(&self) -> Option<f64> {
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
    fn kernels(&self) -> Vec<&str> {
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

/// The table, in Markdown, which reads well in a terminal too.
impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.machine)?;
        let pairs = self.pairs();
        for kernel in self.kernels() {
            let of: Vec<_> = pairs.iter().filter(|pair| pair.kernel == kernel).collect();
            table(f, kernel, &of)?;
        }
        for entry in self.entries.iter().filter(|entry| entry.wrong()) {
            writeln!(f, "WRONG: {entry}")?;
        }
        targets::verdicts(f, &pairs, &self.machine)
    }
}

fn table(f: &mut fmt::Formatter<'_>, kernel: &str, pairs: &[&Pair<'_>]) -> fmt::Result {
    let unit = pairs.iter().find_map(|pair| pair.ours).map_or("", |ours| ours.unit.as_str());
    writeln!(
        f,
        "### {kernel} ({unit})\n\n| size | ours | variant | rivals | ratio to the best |\n|---|---:|---|---|---:|"
    )?;
    for pair in pairs {
        let ours = pair.ours.map_or_else(|| "—".to_owned(), Entry::rate_and_spread);
        let variant = pair.ours.map_or("", |ours| ours.contestant.as_str());
        let rivals: Vec<_> =
            pair.measured().map(|rival| format!("{} {}", rival.contestant, rival.rate_and_spread())).collect();
        let ratio = pair.ratio().map_or_else(String::new, |ratio| format!("{ratio:.3}"));
        writeln!(f, "| {} | {ours} | {variant} | {} | {ratio} |", pair.size, rivals.join(", "))?;
    }
    for pair in pairs {
        for (rival, why) in pair.rivals.iter().filter_map(|rival| Some((rival, rival.why.as_ref()?))) {
            writeln!(f, "\n{}: {} was not measured: {why}", pair.size, rival.contestant)?;
        }
    }
    let ratios: Vec<f64> = pairs.iter().filter_map(|pair| pair.ratio()).collect();
    if let Some(mean) = geometric_mean(&ratios) {
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        writeln!(f, "\ngeometric mean {mean:.3}, least {least:.3}, of {} sizes", ratios.len())?;
    }
    writeln!(f)
}

/// In `benchmarks.md`, what stands above this line is written by hand, and what stands below by `write_docs`.
const BELOW: &str = "<!-- bench writes what follows -->\n";

/// Writes `benchmarks.md`, but for what stands there by hand, and a chart for each kernel.
pub fn write_docs(results: &Results, folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let before = std::fs::read_to_string(folder.join("benchmarks.md")).unwrap_or_default();
    let by_hand = before.split_once(BELOW).map_or("# Measured\n\n", |(by_hand, _)| by_hand);
    let mut page = format!("{by_hand}{BELOW}\n{results}");
    for kernel in results.kernels() {
        let name = format!("{}.svg", kernel.replace([' ', '/'], "-"));
        let bars: Vec<_> = results.pairs().iter().filter(|pair| pair.kernel == kernel).map(bars).collect();
        std::fs::write(folder.join(&name), chart::bars(kernel, &results.machine.to_string(), &bars))?;
        page.push_str(&format!("![{kernel}]({name})\n"));
    }
    std::fs::write(folder.join("benchmarks.md"), page)
}

fn bars(pair: &Pair<'_>) -> chart::Group {
    let ours = pair.ours.map(|ours| ("ours".to_owned(), ours.rate));
    let rivals = pair.measured().map(|rival| (rival.contestant.clone(), rival.rate));
    let unit = pair.ours.map(|ours| ours.unit.clone()).unwrap_or_default();
    chart::Group { name: pair.size.to_owned(), unit, bars: ours.into_iter().chain(rivals).collect() }
}
