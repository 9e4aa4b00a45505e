//! Counters of the profiler beside those of Nsight Compute on a GPU, for kernels with generated access patterns.
//!
//! `counters/h200.txt` has what a chip counted. `PTX_RECORD=dir cargo test … counters` writes `dir/*.ptx`, `dir/tables.bin` and `dir/cases.json`: the launches,
//! of which `counters/record.py` makes such a table on a GPU.

mod loops;
mod patterns;

use crate::harness::{one_in, program};
use patterns::{BUFFER, Case, THREADS};
use ptx_interp::chip::{Chip, Needs};
use ptx_interp::profile::{self, Counts};
use ptx_interp::{Launch, Machine, Options, Program};
use std::collections::{BTreeMap, HashMap};
use std::fmt;

fn cases() -> Vec<Case> {
    // Loops take most of the time.
    let step = if std::env::var_os("PTX_RECORD").is_some() { 1 } else { one_in(4) };
    let loops = loops::loops().into_iter().step_by(step);
    patterns::accesses().into_iter().chain(loops).chain(loops::sizes()).collect()
}

/// A machine with the buffers of every case.
struct Bench {
    machine: Machine,
    table: u64,
    data: u64,
    out: u64,
    programs: HashMap<String, Program>,
}

impl Bench {
    fn new() -> Bench {
        let mut machine = Machine::new();
        let mut buffer = |bytes: usize| {
            let address = machine.alloc(bytes as u64).unwrap();
            machine.write(address, &vec![0; bytes]).unwrap();
            address
        };
        let (table, data, out) = (buffer(4 * THREADS), buffer(BUFFER), buffer(BUFFER));
        Bench { machine, table, data, out, programs: HashMap::new() }
    }

    fn profile(&mut self, case: &Case) -> Counts {
        let table: Vec<u8> = case.table.iter().flat_map(|offset| offset.to_le_bytes()).collect();
        self.machine.write(self.table, &table).unwrap();
        let program = self.programs.entry(case.text.clone()).or_insert_with(|| program(&case.text));
        let mut params: Vec<u8> =
            [self.table, self.data, self.out].iter().flat_map(|address| address.to_le_bytes()).collect();
        params.extend(case.mask.to_le_bytes());
        let launch = Launch {
            entry: "k",
            grid: [case.grid, 1, 1],
            block: [case.block, 1, 1],
            cluster: [1; 3],
            dynamic_shared: case.dynamic,
            cooperative: false,
            params: &params,
            options: Options { watch: false, ..Options::default() },
        };
        let profile = self.machine.profile(program, &launch, &profile::Options::default());
        profile.unwrap_or_else(|fault| panic!("{}: {fault}\n{}", case.name, case.text)).1.totals
    }
}

/// The recorded counters: the names of the columns, and a line for each launch.
const RECORDED: &str = include_str!("counters/h200.txt");
/// The chip that has run them.
const CHIP: &str = "H200";

/// Launches whose machine code differs from the PTX, by the start of their names, with the counters that differ and the reason.
const OTHERWISE: &[(&str, &[&str], &str)] = &[
    ("atom.shared.add.u64", &["shared_load", "shared_atomic"], "a load and a loop of comparisons"),
    ("atom.shared.add.f32", &["shared_load", "shared_atomic"], "a load and a loop of comparisons"),
    (
        "atom.global.add.u64/3.mixed",
        &["global_atomic_sectors"],
        "79 for 78: the turns of 64-bit updates are not understood",
    ),
    ("red.global.add.u64/1.shuffle", &["global_reduction_sectors"], "21 for 20, likewise"),
    ("loop/counter", &["global_atomic_sectors", "l2_"], "every lane has one address: ptxas lets one lane add the sum"),
    ("loop/scatter", &["dram_read_bytes"], "sectors that are written in part are read before they leave L2"),
    (
        "cp.async.cg",
        &["async_copy_wavefronts", "global_load_sectors"],
        "copies past L1 write what arrives, and a chip counts the sectors that they write",
    ),
];
/// Counters of the caches, which agree within a tenth from so much on: code and constants also come through them.
const CACHES: [(&str, u64); 3] =
    [("l2_read_sectors", 8192), ("l2_write_sectors", 8192), ("dram_read_bytes", 256 << 10)];

/// The profiler's value for a recorded counter.
fn value(counts: &Counts, counter: &str) -> u64 {
    let entries = counts.entries();
    let of = |name: &str| entries.iter().find(|(found, _)| *found == name).unwrap().1;
    match counter {
        // A chip counts `cp.async` as loads, and updates that return something not as writes.
        "global_load_requests" => of(counter) + of("async_copy_requests"),
        "global_load_sectors" => of(counter) + of("async_copy_sectors"),
        _ => of(counter),
    }
}

#[test]
fn counters_agree_with_nsight_compute() {
    let mut bench = Bench::new();
    let cases = cases();
    let counts: Vec<Counts> = cases.iter().map(|case| bench.profile(case)).collect();
    if let Some(folder) = std::env::var_os("PTX_RECORD") {
        return record(folder.as_ref(), &cases, &counts);
    }
    let mut lines = RECORDED.lines().filter(|line| !line.starts_with('#'));
    let names: Vec<&str> = lines.next().unwrap().split(' ').skip(1).collect();
    let recorded: HashMap<&str, Vec<u64>> = lines
        .map(|line| {
            let (name, values) = line.split_once(' ').unwrap();
            (name, values.split(' ').map(|value| value.parse().unwrap_or(0)).collect())
        })
        .collect();
    let (mut summary, mut differences) = (Summary::default(), Vec::new());
    for (case, counts) in cases.iter().zip(&counts) {
        let values = recorded.get(case.name.as_str()).unwrap_or_else(|| panic!("{} is not recorded", case.name));
        let column = |name: &str| values[names.iter().position(|found| *found == name).unwrap()];
        compare_occupancy(&mut bench, case, column("registers"), column("warps"));
        let mut differs = false;
        for (name, theirs) in names.iter().zip(values).filter(|(name, _)| !["registers", "warps"].contains(*name)) {
            let explained = OTHERWISE.iter().any(|(start, counters, _)| {
                case.name.starts_with(start) && counters.iter().any(|counter| name.starts_with(counter))
            });
            let ours = value(counts, name);
            let agrees = match CACHES.iter().find(|(counter, _)| counter == name) {
                Some(_) if updates(counts) => true,
                Some((_, least)) if ours.max(*theirs) < *least => true,
                Some(_) => summary.cache(name, ours.abs_diff(*theirs) <= theirs / 10),
                None => summary.count(name, ours, *theirs),
            };
            differs |= !agrees;
            if !agrees && !explained {
                differences.push(format!("{} {name}: {ours}, recorded {theirs}", case.name));
            }
        }
        summary.launches.add(!differs);
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
    println!("{summary}");
    let exact: u32 = summary.exact.values().map(|share| share.agree).sum();
    assert!(cases.len() >= 450 && exact > 1500, "{} launches, {exact} counters", cases.len());
}

/// So many of so many.
#[derive(Default)]
struct Share {
    agree: u32,
    all: u32,
}

impl Share {
    fn add(&mut self, agrees: bool) -> bool {
        self.agree += u32::from(agrees);
        self.all += 1;
        agrees
    }
}

/// The figures that `docs/profile.md` states; `--nocapture` shows them.
#[derive(Default)]
struct Summary {
    /// Launches without a difference.
    launches: Share,
    /// Launches that have a counter, and those in which it is the chip's.
    exact: BTreeMap<String, Share>,
    /// Likewise for counters of the caches, within a tenth.
    caches: BTreeMap<String, Share>,
}

impl Summary {
    fn count(&mut self, name: &str, ours: u64, theirs: u64) -> bool {
        if ours.max(theirs) == 0 {
            return true;
        }
        self.exact.entry(name.to_owned()).or_default().add(ours == theirs)
    }

    fn cache(&mut self, name: &str, near: bool) -> bool {
        self.caches.entry(name.to_owned()).or_default().add(near)
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Share { agree, all } = self.launches;
        writeln!(f, "{agree} of {all} launches without a difference")?;
        for (kind, shares) in [("exact", &self.exact), ("within 10 %", &self.caches)] {
            for (name, Share { agree, all }) in shares {
                writeln!(f, "  {name}: {agree} of {all} {kind}")?;
            }
        }
        Ok(())
    }
}

/// Updates have metrics of their own in L2.
fn updates(counts: &Counts) -> bool {
    counts.global_atomic_requests + counts.global_reduction_requests > 0
}

/// With the registers of the machine code, as many warps are resident as on the chip.
fn compare_occupancy(bench: &mut Bench, case: &Case, registers: u64, warps: u64) {
    let fixed = bench.programs[&case.text].shared_bytes("k").unwrap();
    let shared = fixed + u64::from(case.dynamic);
    let needs = Needs { threads: case.block.into(), registers: Some(registers), shared };
    let occupancy = Chip::find(CHIP).unwrap().occupancy(needs);
    assert_eq!(occupancy.warps, warps, "{} with {registers} registers: {occupancy:?}", case.name);
}

/// Writes the launches, and our counters.
fn record(folder: &std::path::Path, cases: &[Case], counts: &[Counts]) {
    let (mut texts, mut tables, mut lines) = (HashMap::new(), Vec::new(), Vec::new());
    for (case, counts) in cases.iter().zip(counts) {
        let fresh = texts.len();
        let text = *texts.entry(&case.text).or_insert(fresh);
        if text == fresh {
            std::fs::write(folder.join(format!("p{text}.ptx")), &case.text).unwrap();
        }
        let offsets = (0..THREADS).map(|thread| case.table.get(thread).copied().unwrap_or(0));
        let table = tables.len();
        tables.extend(offsets.flat_map(u32::to_le_bytes));
        let counters: Vec<String> =
            counts.entries().iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
        lines.push(format!(
            "{{\"name\": \"{}\", \"text\": \"p{text}\", \"grid\": {}, \"block\": {}, \"dynamic\": {}, \"mask\": {}, \"table\": {table}, \"counts\": {{{}}}}}",
            case.name, case.grid, case.block, case.dynamic, case.mask, counters.join(", ")
        ));
    }
    std::fs::write(folder.join("tables.bin"), tables).unwrap();
    std::fs::write(folder.join("cases.json"), format!("[\n{}\n]\n", lines.join(",\n"))).unwrap();
}
