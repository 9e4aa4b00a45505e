//! The report for the terminal: read in seconds, the worst lines first.

use super::advice::{cycles_lost, more_warps, number, worst};
use super::report::{Line, Report};
use std::io::{self, Write};

pub(super) fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let [grid, block] = [report.grid, report.block].map(extent);
    writeln!(out, "{}: `{}`, grid {grid}, block {block}, {}", report.file, report.entry, report.target)?;
    if let Some(sample) = &report.sample {
        let error = report.error().map_or_else(String::new, |error| format!(", standard error {:.1} %", 100.0 * error));
        let (ran, blocks) = (number(sample.ran), number(sample.blocks));
        writeln!(out, "estimated from {ran} of {blocks} blocks{error}; buffers are not written")?;
    }
    write_worst(report, out)?;
    write_origins(report, out)?;
    write_totals(report, out)?;
    write_occupancy(report, out)?;
    write_roofline(report, out)
}

/// `4` or `4 x 2 x 1`
pub(super) fn extent(extent: [u32; 3]) -> String {
    match extent {
        [x, 1, 1] => x.to_string(),
        [x, y, 1] => format!("{x} x {y}"),
        [x, y, z] => format!("{x} x {y} x {z}"),
    }
}

fn write_worst(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let findings = worst(&report.lines, 3);
    if findings.is_empty() {
        return writeln!(out, "\nno line loses wavefronts, sectors or threads");
    }
    writeln!(out, "\nworst lines")?;
    for (rank, finding) in findings.iter().enumerate() {
        let (line, sentence) = (finding.line, &finding.sentence);
        writeln!(out, "  {}. line {}: {}", rank + 1, line.number, line.text.trim())?;
        for at in line.from.iter().take(1) {
            writeln!(out, "     from {}", at.describe())?;
        }
        writeln!(out, "     {sentence}; {} cycles lost", number(finding.cycles))?;
        writeln!(out, "     help: {}", finding.help)?;
    }
    Ok(())
}

/// Lines of the files from which the PTX was compiled that are shown.
const MOST_ORIGINS: usize = 5;

/// The lines of these files, those that lose most first, and then those that run most.
fn write_origins(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let mut lines: Vec<(&str, &Line)> = Vec::new();
    for sheet in &report.origins {
        lines.extend(sheet.lines.iter().map(|line| (sheet.name.as_str(), line)));
    }
    if lines.is_empty() {
        return Ok(());
    }
    lines.sort_by_key(|(_, line)| std::cmp::Reverse((cycles_lost(&line.counts), line.counts.instructions)));
    writeln!(out, "\nlines of the source")?;
    for (name, line) in lines.iter().take(MOST_ORIGINS) {
        let (lost, ran) = (cycles_lost(&line.counts), number(line.counts.instructions));
        let lost = if lost == 0 { String::new() } else { format!(", {} cycles lost", number(lost)) };
        writeln!(out, "  {name}:{}: {}", line.number, line.text.trim())?;
        let inlined: Vec<String> = line.from.iter().take(3).map(|at| format!("{}:{}", at.name, at.line)).collect();
        let inlined = if inlined.is_empty() { String::new() } else { format!("; inlined at {}", inlined.join(", ")) };
        writeln!(out, "     {ran} warp instructions{lost}{inlined}")?;
    }
    Ok(())
}

fn row(out: &mut dyn Write, title: &str, text: &str) -> io::Result<()> {
    writeln!(out, "  {title:<15} {text}")
}

fn write_totals(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let c = &report.totals;
    writeln!(out, "\ntotals")?;
    let threads = c.thread_instructions as f64 / c.instructions.max(1) as f64;
    let divergent = number(c.divergent_branches);
    row(
        out,
        "instructions",
        &format!("{}, {threads:.1} of 32 threads, {divergent} divergent branches", number(c.instructions)),
    )?;
    let all: u64 = report.mix.iter().map(|(_, count)| count).sum();
    let share = |(name, count): &(&str, u64)| format!("{name} {:.0} %", *count as f64 * 100.0 / all.max(1) as f64);
    row(out, "mix", &report.mix.iter().take(6).map(share).collect::<Vec<_>>().join(", "))?;
    let traffic = [
        ("global loads", c.global_load_requests, c.global_load_sectors, c.global_load_sectors_ideal, "sectors"),
        ("global stores", c.global_store_requests, c.global_store_sectors, c.global_store_sectors_ideal, "sectors"),
        (
            "shared loads",
            c.shared_load_requests,
            c.shared_load_wavefronts,
            c.shared_load_wavefronts_ideal,
            "wavefronts",
        ),
        (
            "shared stores",
            c.shared_store_requests,
            c.shared_store_wavefronts,
            c.shared_store_wavefronts_ideal,
            "wavefronts",
        ),
        ("cp.async", c.async_copy_requests, c.async_copy_sectors, c.async_copy_sectors_ideal, "sectors"),
    ];
    for (title, requests, found, ideal, unit) in traffic.into_iter().filter(|(_, requests, ..)| *requests > 0) {
        let each = found as f64 / requests as f64;
        let [requests, found, ideal] = [requests, found, ideal].map(number);
        row(out, title, &format!("{requests} requests, {found} {unit} ({each:.1} each), {ideal} ideal"))?;
    }
    if c.l1_hit_sectors + c.l1_miss_sectors > 0 {
        let percent = |part: u64, all: u64| part * 100 / all.max(1);
        let l1 = percent(c.l1_hit_sectors, c.l1_hit_sectors + c.l1_miss_sectors);
        let l2 = percent(c.l2_hit_sectors, c.l2_read_sectors);
        row(out, "caches", &format!("{l1} % of loaded sectors hit L1, {l2} % of the others L2 (model)"))?;
    }
    let bytes = [
        ("bulk loads", c.bulk_load_bytes),
        ("bulk stores", c.bulk_store_bytes),
        ("cluster", c.cluster_load_bytes + c.cluster_store_bytes),
        ("local memory", 32 * (c.local_load_sectors + c.local_store_sectors)),
    ];
    for (title, bytes) in bytes.into_iter().filter(|(_, bytes)| *bytes > 0) {
        row(out, title, &format!("{} bytes", number(bytes)))?;
    }
    if c.atomic_updates > 0 {
        let conflicts = number(c.atomic_conflicts);
        row(out, "atomics", &format!("{} updates, {conflicts} wait for another lane", number(c.atomic_updates)))?;
    }
    for (form, count, flops) in &report.tensor {
        row(out, "tensor cores", &format!("{} {form}, {} operations", number(*count), number(*flops)))?;
    }
    Ok(())
}

fn write_occupancy(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let (occupancy, chip) = (&report.occupancy, report.chip);
    writeln!(out, "\noccupancy on {}", chip.name)?;
    let percent = occupancy.warps * 100 / occupancy.most_warps.max(1);
    let (warps, most) = (occupancy.warps, occupancy.most_warps);
    row(out, "resident", &format!("{} blocks, {warps} of {most} warps ({percent} %)", occupancy.blocks))?;
    let (blocks, chips) = (number(report.blocks()), chip.multiprocessors);
    row(out, "grid", &format!("{blocks} blocks on {chips} multiprocessors: {:.2} waves", report.waves()))?;
    let limits = report.limits().map(|(name, blocks)| format!("{name} {blocks}"));
    row(out, "blocks by", &limits.collect::<Vec<_>>().join(", "))?;
    match &report.resources {
        Ok(found) if found.spill_loads + found.spill_stores > 0 => {
            let (stores, loads) = (found.spill_stores, found.spill_loads);
            let spills = format!("{} registers, spills of {stores} bytes stored and {loads} loaded", found.registers);
            row(out, "each thread", &spills)?;
        }
        Ok(found) => row(out, "each thread", &format!("{} registers, no spills", found.registers))?,
        Err(why) => row(out, "each thread", &format!("registers unknown ({why}), not counted as a limit"))?,
    }
    row(
        out,
        "each block",
        &format!("{} threads, {} bytes of shared memory", report.needs.threads, number(report.needs.shared)),
    )?;
    more_warps(occupancy).map_or(Ok(()), |help| row(out, "help", help))
}

fn write_roofline(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let (roofline, chip) = (&report.roofline, report.chip);
    writeln!(out, "\nroofline of {}", chip.name)?;
    let intensity = roofline.intensity().map_or_else(String::new, |i| format!(", {i:.2} operations a byte"));
    let [flops, bytes, l2] = [roofline.flops, roofline.bytes, roofline.l2_bytes].map(number);
    let work = format!("{flops} operations, {bytes} bytes of memory{intensity}, {l2} bytes of L2");
    row(out, "work", &work)?;
    let times = roofline.times.iter().filter(|(_, seconds)| *seconds > 0.0);
    let times: Vec<String> = times.map(|(name, seconds)| format!("{name} {}", time(*seconds))).collect();
    if times.is_empty() { Ok(()) } else { row(out, "least time", &times.join(", ")) }
}

/// Seconds in the unit that fits.
pub(super) fn time(seconds: f64) -> String {
    const UNITS: [(f64, &str); 3] = [(1e-9, "ns"), (1e-6, "us"), (1e-3, "ms")];
    let (unit, name) = UNITS.iter().rev().find(|(unit, _)| seconds >= *unit).unwrap_or(&UNITS[0]);
    format!("{:.2} {name}", seconds / unit)
}
