//! Results for people: a table, and the page and charts of the documentation.

use crate::chart;
use crate::results::{Entry, Pair, Results, geometric_mean};
use crate::targets;
use std::fmt;
use std::path::Path;

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
