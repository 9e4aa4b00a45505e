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
        let ratio = pair.ratio().map_or_else(String::new, |ratio| format!("{ratio:.3}"));
        writeln!(f, "| {} | {ours} | {variant} | {} | {ratio} |", pair.size, rivals(pair))?;
    }
    for pair in pairs {
        for (rival, why) in pair.rivals.iter().filter_map(|rival| Some((rival, rival.why.as_ref()?))) {
            writeln!(f, "\n{}: {} was not measured: {why}", pair.size, rival.contestant)?;
        }
    }
    let ratios: Vec<f64> = pairs.iter().filter_map(|pair| pair.ratio()).collect();
    if let Some(mean) = geometric_mean(&ratios) {
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        writeln!(f, "\ngeometric mean {mean:.3}, least {least:.3}, of {} sizes{}", ratios.len(), turns(pairs))?;
    }
    writeln!(f)
}

/// So many rivals fit a cell.
const SHOWN: usize = 5;

/// The rivals of a pair: of many, the fastest.
fn rivals(pair: &Pair<'_>) -> String {
    let mut rivals: Vec<_> = pair.measured().collect();
    let slower = rivals.len().saturating_sub(SHOWN);
    if slower > 0 {
        rivals.sort_by(|one, other| other.rate.total_cmp(&one.rate));
        rivals.truncate(SHOWN);
    }
    let mut shown: Vec<_> =
        rivals.iter().map(|rival| format!("{} {}", rival.contestant, rival.rate_and_spread())).collect();
    shown.extend((slower > 0).then(|| format!("{slower} slower ones")));
    shown.join(", ")
}

/// The lengths of the turns, which decide at which clock the chip runs.
fn turns(pairs: &[&Pair<'_>]) -> String {
    let turns = || pairs.iter().filter_map(|pair| pair.ours).map(|ours| ours.turn).filter(|turn| *turn > 0.0);
    let (least, most) = (turns().fold(f64::INFINITY, f64::min), turns().fold(0.0, f64::max));
    if most > 0.0 { format!(", turns of {least:.0} to {most:.0} ms") } else { String::new() }
}

/// The table of one kernel.
pub fn kernel_table(results: &Results, kernel: &str) -> String {
    struct Table<'r>(&'r Results, &'r str);
    impl fmt::Display for Table<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let pairs = self.0.pairs();
            table(f, self.1, &pairs.iter().filter(|pair| pair.kernel == self.1).collect::<Vec<_>>())
        }
    }
    Table(results, kernel).to_string()
}

/// The chart of each kernel, with the name of its file.
pub fn charts(results: &Results) -> Vec<(String, String)> {
    let chart = |kernel: &str| {
        let bars: Vec<_> = results.pairs().iter().filter(|pair| pair.kernel == kernel).map(bars).collect();
        (chart_file(kernel), chart::bars(kernel, &results.machine.to_string(), &bars))
    };
    results.kernels().into_iter().map(chart).collect()
}

/// The file of a kernel's chart.
pub fn chart_file(kernel: &str) -> String {
    format!("{}.svg", kernel.replace([' ', '/'], "-"))
}

/// Writes the tables and the charts of a run into a folder.
pub fn write_docs(results: &Results, folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut page = format!("# Measured\n\n{results}");
    for (name, svg) in charts(results) {
        page.push_str(&format!("![{name}]({name})\n"));
        std::fs::write(folder.join(&name), svg)?;
    }
    std::fs::write(folder.join("report.md"), page)
}

fn bars(pair: &Pair<'_>) -> chart::Group {
    let ours = pair.ours.map(|ours| ("ours".to_owned(), ours.rate));
    let rivals = pair.measured().map(|rival| (rival.contestant.clone(), rival.rate));
    let unit = pair.ours.map(|ours| ours.unit.clone()).unwrap_or_default();
    chart::Group { name: pair.size.to_owned(), unit, bars: ours.into_iter().chain(rivals).collect() }
}
