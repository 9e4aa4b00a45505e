//! The report as a page: the source with heat for each line, and charts. One file, no network.

use super::advice::{cycles_lost, number, worst};
use super::report::{Line, Report};
use super::text::{extent, time};
use std::collections::HashMap;
use std::fmt::Write;

/// The page's style and its script.
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// A column of the source, which can color the lines.
struct Column {
    title: &'static str,
    tip: &'static str,
    value: fn(&Line) -> u64,
}

/// The columns. The first colors the lines at first.
const COLUMNS: &[Column] = &[
    Column {
        title: "lost",
        tip: "cycles of a multiprocessor lost against the ideal",
        value: |l| cycles_lost(&l.counts),
    },
    Column { title: "warps", tip: "instructions that warps executed", value: |l| l.counts.instructions },
    Column { title: "threads", tip: "the same, times the active threads", value: |l| l.counts.thread_instructions },
    Column {
        title: "wavefronts",
        tip: "wavefronts of shared memory",
        value: |l| l.counts.shared_load_wavefronts + l.counts.shared_store_wavefronts + l.counts.async_copy_wavefronts,
    },
    Column {
        title: "ideal",
        tip: "the fewest wavefronts",
        value: |l| {
            let c = &l.counts;
            c.shared_load_wavefronts_ideal + c.shared_store_wavefronts_ideal + c.async_copy_wavefronts_ideal
        },
    },
    Column {
        title: "sectors",
        tip: "sectors of global memory",
        value: |l| l.counts.global_load_sectors + l.counts.global_store_sectors + l.counts.async_copy_sectors,
    },
    Column {
        title: "ideal",
        tip: "the fewest sectors",
        value: |l| {
            let c = &l.counts;
            c.global_load_sectors_ideal + c.global_store_sectors_ideal + c.async_copy_sectors_ideal
        },
    },
];

/// The whole page.
pub(super) fn page(report: &Report) -> String {
    let title = format!("{} of {}", report.entry, report.file);
    let [grid, block] = [report.grid, report.block].map(extent);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{0}</title>\n<style>{STYLE}</style>\n\
         <h1>{1}</h1>\n<p class=\"sub\">{2}, grid {grid}, block {block}, {3}, on {4}</p>\n",
        escape(&title),
        escape(report.entry),
        escape(report.file),
        report.target,
        report.chip.name,
    );
    if let Some(sample) = &report.sample {
        let error = report.error().map_or_else(String::new, |error| format!(", standard error {:.1} %", 100.0 * error));
        page += &format!("<p class=\"sub\">estimated from {} of {} blocks{error}</p>\n", sample.ran, sample.blocks);
    }
    page += &findings(report);
    page += "<div class=\"cards\">\n";
    for card in [traffic(report), mix(report), occupancy(report), roofline(report)] {
        page += &card;
    }
    page += "</div>\n";
    page += "<p class=\"sub\">Click a column to color the lines by it.</p>\n";
    for sheet in report.origins.iter().filter(|sheet| !sheet.source.is_empty()) {
        page += &source(&sheet.path, "S", &sheet.lines, &sheet.source);
    }
    page += &source(report.file, "L", &report.lines, &report.source);
    page += &format!("<script>{SCRIPT}</script>\n</html>\n");
    page
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn findings(report: &Report) -> String {
    let found = worst(&report.lines, 3);
    if found.is_empty() {
        return "<p class=\"fine\">No line loses wavefronts, sectors or threads.</p>\n".to_owned();
    }
    let item = |finding: &super::advice::Finding| {
        let line = finding.line;
        format!(
            "<li><a href=\"#L{0}\">line {0}</a> <code>{1}</code><br><b>{2}</b>; {3} cycles lost<br>\
             <span class=\"help\">{4}</span></li>\n",
            line.number,
            escape(line.text.trim()),
            escape(&finding.sentence),
            number(finding.cycles),
            escape(finding.help),
        )
    };
    format!("<ol class=\"worst\">\n{}</ol>\n", found.iter().map(item).collect::<String>())
}

fn card(title: &str, body: &str) -> String {
    format!("<section class=\"card\"><h2>{title}</h2>\n{body}</section>\n")
}

/// A bar with a mark at the ideal; the text stands behind it.
fn bar(title: &str, value: u64, ideal: Option<u64>, most: u64, text: &str) -> String {
    let width = |value: u64| share(value, most);
    let mark = ideal.map_or_else(String::new, |ideal| format!("<i style=\"left:{:.1}%\"></i>", width(ideal)));
    let excess = if ideal.is_some_and(|ideal| value > ideal) { " over" } else { "" };
    format!(
        "<div class=\"row\"><span>{}</span><div class=\"bar{excess}\"><b style=\"width:{:.1}%\"></b>{mark}</div><em>{}</em></div>\n",
        escape(title),
        width(value),
        escape(text)
    )
}

fn traffic(report: &Report) -> String {
    let c = &report.totals;
    let rows = [
        ("shared loads", c.shared_load_wavefronts, c.shared_load_wavefronts_ideal, "wavefronts"),
        ("shared stores", c.shared_store_wavefronts, c.shared_store_wavefronts_ideal, "wavefronts"),
        ("global loads", c.global_load_sectors, c.global_load_sectors_ideal, "sectors"),
        ("global stores", c.global_store_sectors, c.global_store_sectors_ideal, "sectors"),
        ("cp.async", c.async_copy_sectors, c.async_copy_sectors_ideal, "sectors"),
    ];
    let most = rows.iter().map(|(_, value, ..)| *value).max().unwrap_or(0);
    let mut body = String::new();
    for (title, value, ideal, unit) in rows.into_iter().filter(|(_, value, ..)| *value > 0) {
        let text = format!("{} {unit}, {} ideal", number(value), number(ideal));
        body += &bar(title, value, Some(ideal), most, &text);
    }
    let threads = c.thread_instructions as f64 / c.instructions.max(1) as f64;
    let _ = writeln!(
        body,
        "<p>{} warp instructions with {threads:.1} of 32 threads; {} divergent branches</p>",
        number(c.instructions),
        number(c.divergent_branches)
    );
    if c.l1_hit_sectors + c.l1_miss_sectors > 0 {
        let loaded = c.l1_hit_sectors + c.l1_miss_sectors;
        body += &bar("L1 hits", c.l1_hit_sectors, None, loaded, &format!("{:.0} %", share(c.l1_hit_sectors, loaded)));
        let (hits, reads) = (c.l2_hit_sectors, c.l2_read_sectors);
        body += &bar("L2 hits", hits, None, reads, &format!("{:.0} %", share(hits, reads)));
    }
    if c.atomic_updates > 0 {
        let (all, wait) = (number(c.atomic_updates), number(c.atomic_conflicts));
        let _ = writeln!(body, "<p>{all} atomic updates, {wait} of them wait for another lane</p>");
    }
    card("Memory", &body)
}

fn share(part: u64, all: u64) -> f64 {
    100.0 * part as f64 / all.max(1) as f64
}

fn mix(report: &Report) -> String {
    let all: u64 = report.mix.iter().map(|(_, count)| count).sum();
    let mut body = String::new();
    for (family, count) in report.mix.iter().take(8) {
        let text = format!("{:.1} %, {}", share(*count, all), number(*count));
        body += &bar(family, *count, None, all, &text);
    }
    for (form, count, flops) in &report.tensor {
        let _ =
            writeln!(body, "<p>{} <code>{}</code>, {} operations</p>", number(*count), escape(form), number(*flops));
    }
    card("Instructions", &body)
}

fn occupancy(report: &Report) -> String {
    let occupancy = &report.occupancy;
    let (warps, most) = (occupancy.warps, occupancy.most_warps);
    let mut body = bar("resident warps", warps, None, most, &format!("{warps} of {most}"));
    let scale = report.chip.blocks;
    for (name, blocks) in report.limits() {
        body += &bar(&format!("by {name}"), blocks.min(scale), None, scale, &format!("{blocks} blocks"));
    }
    let registers = match &report.resources {
        Ok(found) => format!(
            "{} registers, spills of {} bytes stored and {} loaded",
            found.registers, found.spill_stores, found.spill_loads
        ),
        Err(why) => format!("registers unknown: {why}"),
    };
    let shared = number(report.needs.shared);
    let _ = writeln!(
        body,
        "<p>{}; {} threads and {shared} bytes of shared memory in a block</p>",
        escape(&registers),
        report.needs.threads
    );
    card("Occupancy", &body)
}

/// The chip's roofs and the kernel, both axes logarithmic.
fn roofline(report: &Report) -> String {
    const WIDTH: f64 = 420.0;
    const HEIGHT: f64 = 220.0;
    const LEAST: f64 = -2.0;
    const MOST: f64 = 4.0;
    let (chip, roof) = (report.chip, &report.roofline);
    let top = chip.tensor.max(chip.fp32).log10().ceil();
    let floor = top - 6.0;
    let x = |intensity: f64| 40.0 + (intensity.log10().clamp(LEAST, MOST) - LEAST) / (MOST - LEAST) * (WIDTH - 60.0);
    let y = |rate: f64| HEIGHT - 30.0 - (rate.log10().clamp(floor, top) - floor) / (top - floor) * (HEIGHT - 50.0);
    let mut body = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"roofline\">\n");
    for (name, peak, below) in [("tensor", chip.tensor, -3.0), ("fp32", chip.fp32, -3.0), ("fp64", chip.fp64, 11.0)] {
        let (knee, y) = (peak / chip.bandwidth, y(peak));
        let _ = writeln!(
            body,
            "<line class=\"roof\" x1=\"{:.1}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{name} {:.0} TFLOP/s</text>",
            x(knee),
            WIDTH - 20.0,
            WIDTH - 22.0,
            y + below,
            peak / 1e12,
        );
    }
    let (left, knee) = (10f64.powf(LEAST), chip.tensor / chip.bandwidth);
    let _ = writeln!(
        body,
        "<line class=\"roof\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/><text x=\"44\" y=\"14\">{:.0} GB/s</text>",
        x(left),
        y(left * chip.bandwidth),
        x(knee),
        y(chip.tensor),
        chip.bandwidth / 1e9
    );
    let seconds = roof.times[0].1;
    if let Some(intensity) = roof.intensity().filter(|_| roof.flops > 0 && seconds > 0.0) {
        let rate = roof.flops as f64 / seconds;
        let (cx, cy) = (x(intensity), y(rate));
        let _ = writeln!(
            body,
            "<line class=\"drop\" x1=\"{cx:.1}\" y1=\"{cy:.1}\" x2=\"{cx:.1}\" y2=\"{:.1}\"/><circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"5\"/>",
            HEIGHT - 30.0
        );
    }
    for power in -2..=4 {
        let at = 10f64.powi(power);
        let _ = writeln!(body, "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{at}</text>", x(at), HEIGHT - 16.0);
    }
    let _ = writeln!(
        body,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">operations a byte</text></svg>",
        WIDTH / 2.0,
        HEIGHT - 3.0
    );
    let times = roof.times.iter().filter(|(_, seconds)| *seconds > 0.0);
    let times: Vec<String> = times.map(|(name, seconds)| format!("{name} {}", time(*seconds))).collect();
    let intensity = roof.intensity().map_or_else(String::new, |i| format!(", {i:.2} operations a byte"));
    let _ = writeln!(
        body,
        "<p>{} operations, {} bytes of memory{intensity}, {} bytes of L2</p><p>least time: {}</p>",
        number(roof.flops),
        number(roof.bytes),
        number(roof.l2_bytes),
        if times.is_empty() { "none".to_owned() } else { times.join(", ") }
    );
    card(&format!("Roofline of {}", chip.name), &body)
}

/// Lines around those that ran.
const AROUND: usize = 4;

/// A file with the counters of its lines, which are found by `anchor` and their numbers.
fn source(name: &str, anchor: &str, lines: &[Line], text: &[String]) -> String {
    let ran: HashMap<usize, &Line> = lines.iter().map(|line| (line.number, line)).collect();
    let first = lines.first().map_or(1, |line| line.number.saturating_sub(AROUND).max(1));
    let last = lines.last().map_or(0, |line| (line.number + AROUND).min(text.len()));
    let most: Vec<u64> = COLUMNS.iter().map(|column| lines.iter().map(column.value).max().unwrap_or(0)).collect();
    let mut page = format!("<h2>{}</h2>\n<div class=\"wide\"><table class=\"source\">\n<tr>", escape(name));
    for (at, column) in COLUMNS.iter().enumerate() {
        let _ = write!(page, "<th data-column=\"{at}\" title=\"{}\">{}</th>", column.tip, column.title);
    }
    page += "<th>line</th><th class=\"code\"></th></tr>\n";
    for number in first..=last {
        let text = text.get(number - 1).map_or("", String::as_str);
        match ran.get(&number) {
            Some(line) => page += &hot(line, anchor, text, &most),
            None => {
                let empty = "<td></td>".repeat(COLUMNS.len());
                let _ = writeln!(
                    page,
                    "<tr>{empty}<td class=\"at\">{number}</td><td class=\"code\">{}</td></tr>",
                    escape(text)
                );
            }
        }
    }
    page + "</table></div>\n"
}

/// A line that ran.
fn hot(line: &Line, anchor: &str, text: &str, most: &[u64]) -> String {
    let values: Vec<u64> = COLUMNS.iter().map(|column| (column.value)(line)).collect();
    let heat = |(value, most): (&u64, &u64)| format!("{:.3}", *value as f64 / (*most).max(1) as f64);
    let heats: Vec<String> = values.iter().zip(most).map(heat).collect();
    let cell = |value: &u64| format!("<td>{}</td>", if *value == 0 { String::new() } else { number(*value) });
    let cells: String = values.iter().map(cell).collect();
    let code = match line.ptx.is_empty() {
        true => escape(text),
        false => {
            let ptx: String = line.ptx.iter().map(|text| escape(text) + "\n").collect();
            format!("<details><summary>{}</summary><pre>{ptx}</pre></details>", escape(text))
        }
    };
    format!(
        "<tr id=\"{anchor}{0}\" class=\"ran\" data-heat=\"{1}\">{cells}<td class=\"at\">{0}</td><td class=\"code\">{code}</td></tr>\n",
        line.number,
        heats.join(" ")
    )
}
