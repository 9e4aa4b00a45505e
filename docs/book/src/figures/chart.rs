//! Bars in rows over time, as SVG.

use std::fmt::Write;

/// Light colors, so that black text is readable on them.
pub(super) const BLUE: &str = "#cfe3ff";
pub(super) const ORANGE: &str = "#ffe2c2";
pub(super) const GREEN: &str = "#d5f0cf";
pub(super) const PINK: &str = "#f7d0e2";
pub(super) const VIOLET: &str = "#e4daf7";
pub(super) const YELLOW: &str = "#fdf3b8";
pub(super) const GRAY: &str = "#e3e3e3";

/// The height of a row, with the distance to the next one.
const ROW: usize = 26;

/// A bar of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bar {
    /// The number of its row.
    pub(super) row: usize,
    /// Its start and its length, in units of time.
    pub(super) start: usize,
    pub(super) length: usize,
    pub(super) color: &'static str,
    pub(super) words: String,
}

impl Bar {
    pub(super) fn end(&self) -> usize {
        self.start + self.length
    }
}

/// A picture.
#[derive(Debug)]
pub(super) struct Chart {
    pub(super) title: String,
    /// The names of the rows. A name that ends with a colon is a heading of the rows below it.
    pub(super) rows: Vec<String>,
    pub(super) bars: Vec<Bar>,
    /// The line below the rows.
    pub(super) foot: String,
    /// The width of a unit of time, and of the names.
    pub(super) unit: usize,
    pub(super) left: usize,
}

impl Chart {
    /// The end of the last bar.
    pub(super) fn end(&self) -> usize {
        self.bars.iter().map(Bar::end).max().unwrap_or(0)
    }

    /// The time in which a row has bars, in percent of the time up to the last bar of all rows.
    pub(super) fn busy(&self, row: usize) -> usize {
        let busy: usize = self.bars.iter().filter(|bar| bar.row == row).map(|bar| bar.length).sum();
        100 * busy / self.end().max(1)
    }

    pub(super) fn svg(&self) -> String {
        let (width, height) = (self.left + self.end() * self.unit + 1, self.rows.len() * ROW + 24);
        let mut out = open(&self.title, [width, height]);
        for bar in &self.bars {
            let (x, y) = (self.left + bar.start * self.unit, bar.row * ROW + 2);
            rect(&mut out, [x, y, bar.length * self.unit, ROW - 4], bar.color, &bar.words);
        }
        for (row, name) in self.rows.iter().enumerate() {
            let heading = name.strip_suffix(':');
            let (x, anchor) = heading.map_or((self.left - 8, "end"), |_| (4, "start"));
            let y = row * ROW + 17;
            let words = heading.unwrap_or(name);
            let _ = writeln!(out, "<text x=\"{x}\" y=\"{y}\" fill=\"gray\" text-anchor=\"{anchor}\">{words}</text>");
        }
        text(&mut out, [self.left + self.end() * self.unit / 2, height - 8], "gray", &self.foot);
        out + "</svg>\n"
    }
}

/// The beginning of a picture.
pub(super) fn open(title: &str, [width, height]: [usize; 2]) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"11\" text-anchor=\"middle\" role=\"img\">\n<title>{title}</title>\n"
    )
}

/// A rectangle at x and y, with words in it.
pub(super) fn rect(out: &mut String, [x, y, width, height]: [usize; 4], color: &str, words: &str) {
    let _ = write!(
        out,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{color}\" stroke=\"#666\" stroke-width=\"0.6\"/>"
    );
    text(out, [x + width / 2, y + height / 2 + 4], "black", words);
}

/// Centered words.
pub(super) fn text(out: &mut String, [x, y]: [usize; 2], color: &str, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(out, "<text x=\"{x}\" y=\"{y}\" fill=\"{color}\">{words}</text>");
}
