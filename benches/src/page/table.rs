//! A table of figures as a file: where, when and of which commit they are, and the rows.

use crate::results::geometric_mean;
use serde::Deserialize;

/// Figures of one question.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    chip: String,
    driver: String,
    date: String,
    commit: String,
    /// The command, and what differs from its defaults.
    how: String,
    /// The unit of the figures without one; empty where there are several.
    unit: String,
    #[serde(default)]
    note: String,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// The table, its ratios' mean and least, and its origin.
    pub fn markdown(&self) -> String {
        let Table { chip, driver, date, commit, how, unit, note, columns, rows } = self;
        let unit = if unit.is_empty() { String::new() } else { format!("{unit}; ") };
        let mut out = format!("{unit}{chip}, driver {driver}, {date}, commit {commit}; {how}.\n\n");
        out += &row(columns);
        out +=
            &row(&columns.iter().enumerate().map(|(at, _)| if at == 0 { "---" } else { "---:" }).collect::<Vec<_>>());
        out.extend(rows.iter().map(|cells| row(cells)));
        let ratios = columns.iter().filter(|column| column.starts_with("ratio"));
        let means: Vec<String> = ratios
            .filter_map(|column| {
                let (mean, least) = self.mean_and_least(std::slice::from_ref(column))?;
                Some(format!("{column}: geometric mean {mean:.3}, least {least:.3}"))
            })
            .collect();
        let foot = [means.join("; "), note.clone()];
        out.extend(foot.iter().filter(|text| !text.is_empty()).map(|text| format!("\n{text}\n")));
        out
    }

    /// The geometric mean and the least of some columns; a cell may have the figures of several runs, between semicolons.
    pub fn mean_and_least(&self, columns: &[String]) -> Option<(f64, f64)> {
        let places = (0..self.columns.len()).filter(|at| columns.contains(&self.columns[*at]));
        let cells = places.flat_map(|at| self.rows.iter().filter_map(move |cells| cells.get(at)));
        let ratios: Vec<f64> =
            cells.flat_map(|cell| cell.split(';')).filter_map(|figure| figure.trim().parse().ok()).collect();
        Some((geometric_mean(&ratios)?, ratios.iter().copied().fold(f64::INFINITY, f64::min)))
    }

    /// A cell of the row whose first cells are these.
    pub fn cell(&self, first: &[String], column: &str) -> Option<&str> {
        let at = self.columns.iter().position(|name| name == column)?;
        let row = self.rows.iter().find(|cells| cells.starts_with(first))?;
        row.get(at).map(String::as_str)
    }
}

/// A row in Markdown.
pub fn row(cells: &[impl AsRef<str>]) -> String {
    let cells: String = cells.iter().map(|cell| format!(" {} |", cell.as_ref())).collect();
    format!("|{cells}\n")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_the_least_beside_the_mean() {
        let table: Table = serde_json::from_str(
            r#"{"chip": "C", "driver": "1", "date": "D", "commit": "unknown", "how": "`bench`", "unit": "GB/s",
                "columns": ["size", "ours", "ratio"], "rows": [["a", "3", "2.0; 0.5"], ["b", "4", ""]]}"#,
        )
        .unwrap();
        let expected = "GB/s; C, driver 1, D, commit unknown; `bench`.\n\n| size | ours | ratio |\n| --- | ---: | ---: |\n\
                        | a | 3 | 2.0; 0.5 |\n| b | 4 |  |\n\nratio: geometric mean 1.000, least 0.500\n";
        assert_eq!(table.markdown(), expected);
        assert_eq!(table.cell(&["b".to_owned()], "ours"), Some("4"));
    }
}
