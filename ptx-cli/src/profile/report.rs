//! The report: the counters of a launch by line of the source, and what follows from their sums.

use crate::launch::{Bound, Extent};
use crate::origin::{Origins, Place};
use crate::output::Failure;
use crate::ptxas::{self, Resources};
use crate::source::Source;
use ptx_core::isa::{Arch, Suffix};
use ptx_interp::Program;
use ptx_interp::chip::{Chip, Needs, Occupancy};
use ptx_interp::profile::{self, Counts, Profile, Sample};
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
    /// The files from which the PTX was compiled, by its `.loc`, with the same counters by their lines.
    pub(super) origins: Vec<Sheet>,
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

/// A file from which PTX was compiled.
pub(super) struct Sheet {
    /// The path as `.file` has it.
    pub(super) path: String,
    pub(super) name: String,
    /// The lines that ran, in order.
    pub(super) lines: Vec<Line>,
    /// The text of every line; none if the file cannot be read.
    pub(super) source: Vec<String>,
}

/// A line of a file that a line comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct At {
    pub(super) path: String,
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) text: String,
}

impl At {
    fn new(origins: &Origins, place: Place) -> At {
        let file = origins.file(place);
        let text = file.text(place.line).trim().to_owned();
        At { path: file.path.clone(), name: file.name().to_owned(), line: place.line, text }
    }

    /// `saxpy.cu:5: y[i] = a * x[i] + y[i];`
    pub(super) fn describe(&self) -> String {
        let text = if self.text.is_empty() { String::new() } else { format!(": {}", self.text) };
        format!("{}:{}{text}", self.name, self.line)
    }
}

/// One line of the source.
#[derive(Default)]
pub(super) struct Line {
    pub(super) number: usize,
    pub(super) text: String,
    pub(super) function: String,
    /// The names of its instructions.
    pub(super) forms: Vec<&'static str>,
    /// The instructions, where the source is Rust or what `.loc` names.
    pub(super) ptx: Vec<String>,
    /// The lines that it comes from: those that `.loc` names for a line of PTX, those into which it was inlined for a line of theirs.
    pub(super) from: Vec<At>,
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

    /// The limit of each resource on the blocks of a multiprocessor, the smallest first. Unknown registers are no limit.
    pub(super) fn limits(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let is_known = self.resources.is_ok();
        self.occupancy.limits.into_iter().filter(move |(name, _)| is_known || *name != "registers")
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
        let resources = ptxas::resources(&source.bytes, chip_target(program.arch(), chip), bound.entry)
            .map(|found| Resources { registers: found.registers.max(least_registers(chip)), ..found });
        let origins = match source.rust.is_empty() {
            true => Origins::read(source.name.as_ref(), &source.bytes),
            false => Origins::default(),
        };
        let needs = Needs {
            threads: bound.size.block.iter().map(|d| u64::from(*d)).product(),
            registers: resources.as_ref().ok().map(|resources| resources.registers),
            shared: program.shared_bytes(bound.entry).unwrap_or(0) + u64::from(bound.size.shared),
        };
        Ok(Report {
            file: &source.name,
            entry: bound.entry,
            target: program.arch().to_string(),
            grid: bound.size.grid,
            block: bound.size.block,
            cluster: bound.size.cluster,
            chip,
            totals: profile.totals,
            lines: lines(source, &text, profile, &origins),
            source: text,
            origins: sheets(source, profile, &origins),
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

/// The target whose machine code the chip runs: its own, or that of a module for it alone.
fn chip_target(arch: Arch, chip: &Chip) -> Arch {
    match arch.suffix {
        Suffix::None if chip.target >= arch.number => Arch { number: chip.target, ..arch },
        _ => arch,
    }
}

/// The registers that a thread has at least, however few its machine code uses.
fn least_registers(chip: &Chip) -> u64 {
    const SINCE: u16 = 90;
    if chip.target >= SINCE { 16 } else { 0 }
}

impl Line {
    fn add(&mut self, instruction: &profile::Line) {
        if self.function.is_empty() {
            self.function.clone_from(&instruction.function);
        }
        self.counts.add(&instruction.counts);
        if !self.forms.contains(&instruction.name) {
            self.forms.push(instruction.name);
        }
    }

    fn come_from(&mut self, at: At) {
        if !self.from.contains(&at) {
            self.from.push(at);
        }
    }
}

/// The counters by line.
fn lines(source: &Source, text: &[String], profile: &Profile, origins: &Origins) -> Vec<Line> {
    let mut lines: BTreeMap<usize, Line> = BTreeMap::new();
    for instruction in &profile.instructions {
        let number = source.written_line(source.line(instruction.span.lo));
        let line = lines.entry(number).or_insert_with(|| {
            let text = text.get(number.wrapping_sub(1)).cloned().unwrap_or_default();
            Line { number, text, ..Line::default() }
        });
        line.add(instruction);
        if !source.rust.is_empty() {
            line.ptx.push(source.span_text(instruction.span));
        }
        if let Some(place) = origins.place(instruction.span.lo) {
            line.come_from(At::new(origins, place));
        }
    }
    lines.into_values().collect()
}

/// The same by line of the files from which the PTX was compiled.
fn sheets(source: &Source, profile: &Profile, origins: &Origins) -> Vec<Sheet> {
    let mut files: BTreeMap<u64, BTreeMap<usize, Line>> = BTreeMap::new();
    let mut known: BTreeMap<u64, Place> = BTreeMap::new();
    for instruction in &profile.instructions {
        let Some(place) = origins.place(instruction.span.lo) else { continue };
        known.insert(place.file, place);
        let text = || origins.file(place).text(place.line).to_owned();
        let lines = files.entry(place.file).or_default();
        let line =
            lines.entry(place.line).or_insert_with(|| Line { number: place.line, text: text(), ..Line::default() });
        line.add(instruction);
        line.ptx.push(source.span_text(instruction.span));
        for outer in origins.outer(place) {
            line.come_from(At::new(origins, outer));
        }
    }
    let sheet = |(number, lines): (u64, BTreeMap<usize, Line>)| {
        let file = origins.file(*known.get(&number)?);
        let lines = lines.into_values().collect();
        Some(Sheet { path: file.path.clone(), name: file.name().to_owned(), lines, source: file.lines.clone() })
    };
    files.into_iter().filter_map(sheet).collect()
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
