//! Bar charts as SVG. By hand: `plotters` has no groups of bars, so that the same chart would take as many lines and five crates.

use std::fmt::Write;

/// Bars side by side, for one size.
pub struct Group {
    /// Label below the bar.
    pub name: String,
    /// Unit of the heights.
    pub unit: String,
    /// Who, and how high.
    pub bars: Vec<(String, f64)>,
}

const BAR: f64 = 18.0;
const GAP: f64 = 22.0;
const HEIGHT: f64 = 260.0;
const TOP: f64 = 70.0;
const LEFT: f64 = 60.0;
const COLORS: [&str; 6] = ["#d9480f", "#1864ab", "#2b8a3e", "#5f3dc4", "#868e96", "#e8590c"];

/// A chart of groups of bars, the highest as high as the chart.
pub fn bars(title: &str, note: &str, groups: &[Group]) -> String {
    let names = legend(groups);
    let most = groups.iter().flat_map(|group| &group.bars).map(|bar| bar.1).fold(1.0, f64::max);
    let width = LEFT + groups.iter().map(|group| group.bars.len() as f64 * BAR + GAP).sum::<f64>() + GAP;
    let (width, bottom) = (width.max(640.0), TOP + HEIGHT);
    let unit = groups.first().map_or("", |group| group.unit.as_str());
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"20\" font-size=\"15\">{} ({unit})</text>\n\
         <text x=\"{LEFT}\" y=\"36\" fill=\"#868e96\">{}</text>\n",
        bottom + 90.0,
        escape(title),
        escape(note),
    );
    for step in 0..=4 {
        let (value, y) = (most * f64::from(step) / 4.0, bottom - HEIGHT * f64::from(step) / 4.0);
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{width}\" y1=\"{y}\" y2=\"{y}\" stroke=\"#e9ecef\"/>\
             <text x=\"{}\" y=\"{}\" text-anchor=\"end\">{value:.0}</text>",
            LEFT - 6.0,
            y + 4.0
        );
    }
    let mut x = LEFT + GAP / 2.0;
    for group in groups {
        x = one_group(&mut svg, group, &names, (x, bottom, most));
    }
    for (at, name) in names.iter().enumerate() {
        let x = LEFT + 130.0 * at as f64;
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"46\" width=\"10\" height=\"10\" fill=\"{}\"/><text x=\"{}\" y=\"55\">{}</text>",
            color(at),
            x + 14.0,
            escape(name)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// Draws one group at `x`, and gives the place of the next.
fn one_group(svg: &mut String, group: &Group, names: &[String], (mut x, bottom, most): (f64, f64, f64)) -> f64 {
    let middle = x + group.bars.len() as f64 * BAR / 2.0;
    for (name, value) in &group.bars {
        let height = HEIGHT * value / most;
        let at = names.iter().position(|known| known == name).unwrap_or_default();
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{}\" width=\"{}\" height=\"{height}\" fill=\"{}\"><title>{} {value:.1}</title></rect>",
            bottom - height,
            BAR - 2.0,
            color(at),
            escape(name)
        );
        x += BAR;
    }
    let _ = writeln!(
        svg,
        "<text x=\"{middle}\" y=\"{}\" text-anchor=\"end\" transform=\"rotate(-35 {middle} {})\">{}</text>",
        bottom + 16.0,
        bottom + 16.0,
        escape(&group.name)
    );
    x + GAP
}

fn legend(groups: &[Group]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (name, _) in groups.iter().flat_map(|group| &group.bars) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

fn color(at: usize) -> &'static str {
    COLORS[at % COLORS.len()]
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
