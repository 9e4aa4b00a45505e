//! Machine code as a page: Rust, PTX and machine code side by side. One file, no network.

use super::Assembled;
use super::listing::Function;
use super::schedule::blocks;
use super::show::{describe, summary};
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");

pub(super) fn page(assembled: &Assembled) -> String {
    let name = escape(&assembled.source.name);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>machine code of {name}</title>\n\
         <style>{STYLE}</style>\n<h1>{name} for {}</h1>\n",
        assembled.target
    );
    for function in &assembled.functions {
        page += &table(assembled, function);
    }
    page + "</html>\n"
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn table(assembled: &Assembled, function: &Function) -> String {
    let most = function.instructions.iter().filter_map(|i| i.registers).max().unwrap_or(1).max(1);
    let mut page = format!("<h2>{}</h2>\n<p>{}</p>\n<table>\n", escape(&function.name), escape(&summary(function)));
    let title = if assembled.rust.is_some() { "Rust" } else { "source" };
    page += &"<tr><th>{}</th><th>PTX</th><th title=\"barriers to wait for, barrier set when operands are read, when the result is written, yield, stall\">schedule</th><th>live</th><th>machine code</th></tr>\n".replace("{}", title);
    let (mut line, mut written) = (None, None);
    for block in blocks(function) {
        let Some(code) = function.instructions.get(block.first..block.end) else { continue };
        let Some(first) = code.first() else { continue };
        let _ = writeln!(page, "<tr class=\"block\"><td colspan=\"5\">{}</td></tr>", escape(&describe(&block, first)));
        for instruction in code {
            let (mut ptx_cell, mut origin_cell) = (String::new(), String::new());
            if let Some(number) = instruction.line.filter(|_| instruction.line != line) {
                line = instruction.line;
                let (ptx, origin) = assembled.origin(number);
                ptx_cell = format!("<i>{number}</i> {}", escape(ptx.trim()));
                if origin.is_some() && origin != written {
                    written = origin;
                    origin_cell = written.as_ref().map_or_else(String::new, |from| {
                        let file = from.file.as_ref().map_or_else(String::new, |file| format!("{}:", escape(file)));
                        format!("<i>{file}{}</i> {}", from.number, escape(from.text.trim()))
                    });
                }
            }
            let live = instruction.registers.unwrap_or(0);
            let waits = if instruction.control.wait == 0 { "" } else { " class=\"waits\"" };
            let reuse = match instruction.control.reuse {
                0 => String::new(),
                bits => format!(" <i>reuse {bits:04b}</i>"),
            };
            let _ = writeln!(
                page,
                "<tr><td>{origin_cell}</td><td>{ptx_cell}</td><td{waits}>{}</td><td class=\"live\"><b style=\"width:{:.0}%\"></b>{live}</td><td>{}{reuse}</td></tr>",
                instruction.control.text(),
                100.0 * f64::from(live) / f64::from(most),
                escape(&instruction.text),
            );
        }
    }
    page + "</table>\n"
}
