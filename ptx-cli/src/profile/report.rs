//! The report: the counters of a launch by line of the source, and what follows from their sums.

use crate::launch::{Bound, Extent};
use crate::output::Failure;
use crate::ptxas::{self, Resources};
use crate::source::Source;
use ptx_interp::Program;
use ptx_interp::chip::{Chip, Needs, Occupancy};
use ptx_interp::profile::{Counts, Profile, Sample};
use std::collections::BTreeMap;

/// Everything that a format shows.
pub(super) struct Report<'a> {
    pub(super) file: &'a str,
    pub(super) entry: &'a str,
    pub(super) target: String,
    pub(super) grid: Extent,
    pub(super) block: Extent,
    pub(super) cluster: Extent,
    pub(super) chip: &'static Chip,
    pub(super) totals: Counts,
    /// The lines that ran, in order.
    pub(super) lines: Vec<Line>,
    /// The text of every line.
    pub(super) source: Vec<String>,
    /// Instructions of warps by family, the most frequent first.
    pub(super) mix: Vec<(&'static str, u64)>,
    /// Instructions of tensor cores by form: executions by warps, operations.
    pub(super) tensor: Vec<(String, u64, u64)>,
    pub(super) needs: Needs,
    /// The machine code's resources, or the reason why they are unknown.
    pub(super) resources: Result<Resources, String>,
    pub(super) occupancy: Occupancy,
    pub(super) roofline: Roofline,
    pub(super) sample: Option<Sample>,
}

/// One line of the source.
pub(super) struct Line {
    pub(super) number: usize,
    pub(super) text: String,
    pub(super) function: String,
    /// The names of its instructions.
    pub(super) forms: Vec<&'static str>,
    /// The instructions, where the source is Rust.
    pub(super) ptx: Vec<String>,
    pub(super) counts: Counts,
}

/// A launch beside the peaks of a chip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Roofline {
    /// All floating-point and tensor-core operations.
    pub(super) flops: u64,
    /// Bytes that pass between L2 and the chip's memory.
    pub(super) bytes: u64,
    /// Bytes that pass between the multiprocessors and L2.
    pub(super) l2_bytes: u64,
    /// The least time that each peak allows, in seconds: memory, double, single and half precision, tensor cores.
    pub(super) times: [(&'static str, f64); 5],
}

impl Roofline {
    fn new(counts: &Counts, chip: &Chip) -> Roofline {
        let bytes = counts.dram_read_bytes + counts.dram_write_bytes;
        let time = |work: u64, peak: f64| if work == 0 { 0.0 } else { work as f64 / peak };
        let mut times = [
            ("memory", time(bytes, chip.bandwidth)),
            ("fp64", time(counts.flops_fp64, chip.fp64)),
            ("fp32", time(counts.flops_fp32, chip.fp32)),
            // Packed halves run at twice the rate of single precision.
            ("fp16", time(counts.flops_fp16, 2.0 * chip.fp32)),
            ("tensor", time(counts.flops_tensor, chip.tensor)),
        ];
        times.sort_by(|a, b| b.1.total_cmp(&a.1));
        let flops = counts.flops_fp64 + counts.flops_fp32 + counts.flops_fp16 + counts.flops_tensor;
        Roofline { flops, bytes, l2_bytes: SECTOR * (counts.l2_read_sectors + counts.l2_write_sectors), times }
    }

    /// Operations for each byte.
    pub(super) fn intensity(&self) -> Option<f64> {
        (self.bytes > 0).then(|| self.flops as f64 / self.bytes as f64)
    }
}

/// Bytes of a sector.
const SECTOR: u64 = 32;

impl<'a> Report<'a> {
    /// Blocks of the grid.
    pub(super) fn blocks(&self) -> u64 {
        self.grid.iter().map(|d| u64::from(*d)).fold(1, u64::saturating_mul)
    }

    /// The blocks of the grid for each place of a block on the chip.
    pub(super) fn waves(&self) -> f64 {
        self.blocks() as f64 / (self.occupancy.blocks * self.chip.multiprocessors).max(1) as f64
    }

    /// The largest standard error of the counters that the report ranks lines by.
    pub(super) fn error(&self) -> Option<f64> {
        const RANKED: [&str; 5] = [
            "instructions",
            "shared_load_wavefronts",
            "shared_store_wavefronts",
            "global_load_sectors",
            "global_store_sectors",
        ];
        let errors = self.sample.as_ref()?.errors.iter().filter(|(name, _)| RANKED.contains(name));
        errors.map(|(_, error)| *error).reduce(f64::max)
    }

    pub(super) fn new(
        source: &'a Source,
        program: &Program,
        bound: &'a Bound,
        profile: &Profile,
        chip: &'static Chip,
    ) -> Result<Report<'a>, Failure> {
        let text = texts(source)?;
        let resources = ptxas::resources(&source.bytes, program.arch(), bound.entry);
        let needs = Needs {
            threads: bound.block.iter().map(|d| u64::from(*d)).product(),
            registers: resources.as_ref().ok().map(|resources| resources.registers),
            shared: program.shared_bytes(bound.entry).unwrap_or(0) + u64::from(bound.dynamic_shared()),
        };
        Ok(Report {
            file: &source.name,
            entry: bound.entry,
            target: program.arch().to_string(),
            grid: bound.grid(),
            block: bound.block,
            cluster: bound.cluster,
            chip,
            totals: profile.totals,
            lines: lines(source, &text, profile),
            source: text,
            mix: mix(profile),
            tensor: tensor(profile),
            needs,
            resources,
            occupancy: chip.occupancy(needs),
            roofline: Roofline::new(&profile.totals, chip),
            sample: profile.sample.clone(),
        })
    }
}

/// The lines that the user wrote: of Rust where there is some.
fn texts(source: &Source) -> Result<Vec<String>, Failure> {
    let split = |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect();
    match source.rust.is_empty() {
        true => Ok(split(&source.bytes)),
        false => Source::read(source.name.as_ref()).map(|rust| split(&rust.bytes)),
    }
}

/// The counters by line.
fn lines(source: &Source, text: &[String], profile: &Profile) -> Vec<Line> {
    let mut lines: BTreeMap<usize, Line> = BTreeMap::new();
    for instruction in &profile.instructions {
        let number = source.written_line(source.line(instruction.span.lo));
        let line = lines.entry(number).or_insert_with(|| Line {
            number,
            text: text.get(number.wrapping_sub(1)).cloned().unwrap_or_default(),
            function: instruction.function.clone(),
            forms: Vec::new(),
            ptx: Vec::new(),
            counts: Counts::default(),
        });
        line.counts.add(&instruction.counts);
        if !line.forms.contains(&instruction.name) {
            line.forms.push(instruction.name);
        }
        if !source.rust.is_empty() {
            line.ptx.push(source.span_text(instruction.span));
        }
    }
    lines.into_values().collect()
}

fn mix(profile: &Profile) -> Vec<(&'static str, u64)> {
    let mut mix: BTreeMap<&'static str, u64> = BTreeMap::new();
    for instruction in &profile.instructions {
        *mix.entry(instruction.family).or_default() += instruction.counts.instructions;
    }
    let mut mix: Vec<_> = mix.into_iter().collect();
    mix.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    mix
}

fn tensor(profile: &Profile) -> Vec<(String, u64, u64)> {
    let mut forms: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for instruction in profile.instructions.iter().filter(|instruction| !instruction.shape.is_empty()) {
        let form = forms.entry(format!("{} {}", instruction.name, instruction.shape)).or_default();
        form.0 += instruction.counts.instructions;
        form.1 += instruction.counts.flops_tensor;
    }
    let mut forms: Vec<_> = forms.into_iter().map(|(form, (count, flops))| (form, count, flops)).collect();
    forms.sort_by_key(|(.., flops)| std::cmp::Reverse(*flops));
    forms
}
