//! The README's table: a mean and the least ratio of each kernel, on two chips, each from a file of results.

use super::table::{self, Table};
use super::{Outcome, file, runs};
use crate::results::geometric_mean;
use serde::Deserialize;
use std::path::Path;

#[derive(Deserialize)]
struct Summary {
    rows: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    kernel: String,
    against: String,
    h200: Option<Source>,
    h100: Option<Source>,
}

/// The place of a mean and the least.
#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Source {
    /// Computed from a run, against the best of these rivals.
    Run { run: String, kernel: String, rivals: Vec<String> },
    /// Computed from columns of a table.
    Columns { table: String, columns: Vec<String> },
    /// Cells of the row that begins so; the table has only the mean where `least` is left out.
    Cells { table: String, row: Vec<String>, mean: String, least: Option<String> },
}

/// The table in Markdown.
pub fn markdown(root: &Path) -> Outcome<String> {
    let summary: Summary = file(root, "summary")?;
    let mut out = table::row(&["kernel", "against", "H200", "H100"]) + &table::row(&["---"; 4]);
    for Row { kernel, against, h200, h100 } in &summary.rows {
        let shown = |source: &Option<Source>| match source {
            None => Ok(String::new()),
            Some(source) => source.shown(root)?.ok_or_else(|| format!("summary: no figures of {kernel}")),
        };
        out += &table::row(&[kernel, against, &shown(h200)?, &shown(h100)?]);
    }
    Ok(out)
}

impl Source {
    fn shown(&self, root: &Path) -> Outcome<Option<String>> {
        let computed = |(mean, least): (f64, f64)| format!("{mean:.3}, least {least:.3}");
        Ok(match self {
            Source::Run { run, kernel, rivals } => of_run(root, run, kernel, rivals)?.map(computed),
            Source::Columns { table, columns } => file::<Table>(root, table)?.mean_and_least(columns).map(computed),
            Source::Cells { table, row, mean, least } => {
                let table: Table = file(root, table)?;
                let least = least.as_ref().and_then(|least| table.cell(row, least));
                let least = least.map(|least| format!(", least {}", least.split(' ').next().unwrap_or(least)));
                table.cell(row, mean).map(|mean| format!("{mean}{}", least.unwrap_or_default()))
            }
        })
    }
}

/// The mean and the least of our rates over those of the best of some rivals.
fn of_run(root: &Path, run: &str, kernel: &str, rivals: &[String]) -> Outcome<Option<(f64, f64)>> {
    let results = runs(root, run)?;
    let pairs = results.pairs();
    let ratio = |pair: &crate::results::Pair<'_>| {
        let of = pair.measured().filter(|rival| rivals.contains(&rival.contestant));
        let best = of.map(|rival| rival.rate).fold(0.0, f64::max);
        pair.ours.filter(|_| best > 0.0).map(|ours| ours.rate / best)
    };
    let ratios: Vec<f64> = pairs.iter().filter(|pair| pair.kernel == kernel).filter_map(ratio).collect();
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    Ok(geometric_mean(&ratios).map(|mean| (mean, least)))
}
