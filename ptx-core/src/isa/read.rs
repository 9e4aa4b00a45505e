//! The reader of the `.isa` files: lines to sections, sections to rows. `read/` holds the parsers of single lines.
//!
//! Reading is lazy: the first pass only finds the lines; a row is parsed when its opcode is first asked for, and a set when a row names it.

mod form;
mod lines;
mod rules;
mod sets;

pub(crate) use rules::Rules;

use super::{Row, Table};
use crate::hash::Map;
use lines::Logical;
use sets::Sets;
use std::sync::{Mutex, OnceLock};

macro_rules! files {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../isa/", $name)))),*]
    };
}

/// The files, in the order of `docs/language/isa.md`.
const FILES: &[(&str, &str)] = files! {
    "sets.isa" "types.isa" "targets.isa" "registers.isa" "directives.isa"
    "integer.isa" "float.isa" "half.isa" "compare.isa" "logic.isa" "convert.isa" "video.isa"
    "memory.isa" "policy.isa" "async.isa" "tensor.isa" "texture.isa" "surface.isa" "fabric.isa"
    "atomic.isa" "control.isa" "barrier.isa" "warp.isa"
    "wmma.isa" "mma.isa" "wgmma.isa" "tcgen05.isa" "misc.isa"
};

/// Positions of all rows.
#[derive(Debug)]
pub(crate) struct Index {
    sections: Vec<Section>,
    opcodes: Map<&'static str, Opcode>,
    mistakes: Mutex<Vec<String>>,
}

/// A `==` heading and what stands under it.
#[derive(Debug, Default)]
struct Section {
    file: &'static str,
    number: &'static str,
    set_lines: Vec<&'static str>,
    sets: OnceLock<Sets>,
}

/// The lines of one opcode, and their rows once somebody asked.
#[derive(Debug, Default)]
struct Opcode {
    lines: Vec<RowLine>,
    rows: OnceLock<Vec<Row>>,
}

#[derive(Debug)]
struct RowLine {
    section: usize,
    line: u32,
    text: &'static str,
}

/// Reads all files.
pub(crate) fn table() -> Table {
    let mut table = Table {
        index: Index { sections: Vec::new(), opcodes: Map::default(), mistakes: Mutex::default() },
        types: Vec::new(),
        type_names: Map::default(),
        specials: Map::default(),
        directives: Map::default(),
        features: Map::default(),
        targets: Vec::new(),
        idle: Vec::new(),
    };
    for (name, text) in FILES {
        read_file(&mut table, name, text);
    }
    lines::holders(&mut table);
    table
}

fn read_file(table: &mut Table, file: &'static str, text: &'static str) {
    table.index.sections.push(Section { file, ..Section::default() });
    // The rows of an opcode stand together: it is looked up once for all of them.
    let mut together: (&'static str, Vec<RowLine>) = Default::default();
    for (line, text) in Logical::new(text) {
        if let Some(heading) = text.strip_prefix("==") {
            let number = heading.split_ascii_whitespace().next().unwrap_or("");
            table.index.sections.push(Section { file, number, ..Section::default() });
        } else if text.starts_with('.') {
            if let Some(section) = table.index.sections.last_mut() {
                section.set_lines.push(text);
            }
        } else {
            let word = first_word(text);
            if !lines::keyword(table, word, text) {
                let row = RowLine { section: table.index.sections.len() - 1, line, text };
                if together.0 != word {
                    table.index.add_rows(std::mem::replace(&mut together, (word, Vec::new())));
                }
                together.1.push(row);
            }
        }
    }
    table.index.add_rows(together);
}

/// The keyword or the opcode of a line.
fn first_word(text: &'static str) -> &'static str {
    let end = text.bytes().position(|byte| matches!(byte, b'.' | b' ')).unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

impl Index {
    pub(crate) fn opcodes(&self) -> Vec<&'static str> {
        let mut all: Vec<_> = self.opcodes.keys().copied().collect();
        all.sort_unstable();
        all
    }

    pub(crate) fn forms(&'static self, table: &'static Table, opcode: &str) -> &'static [Row] {
        let Some(entry) = self.opcodes.get(opcode) else { return &[] };
        entry.rows.get_or_init(|| entry.lines.iter().filter_map(|l| self.row(table, l)).collect())
    }

    fn add_rows(&mut self, (opcode, mut rows): (&'static str, Vec<RowLine>)) {
        if !rows.is_empty() {
            self.opcodes.entry(opcode).or_default().lines.append(&mut rows);
        }
    }

    /// Everything that cannot be read, in lines that nothing has asked for too.
    pub(crate) fn mistakes(&'static self, table: &'static Table) -> Vec<String> {
        for section in &self.sections {
            self.sets(table, section).read_all();
        }
        for opcode in self.opcodes.keys() {
            for row in self.forms(table, opcode) {
                row.rules();
            }
        }
        self.mistakes.lock().map(|m| m.clone()).unwrap_or_default()
    }

    /// The section that stands now, for the lines that are read at once.
    pub(super) fn section(&self) -> &'static str {
        self.sections.last().map_or("", |s| s.number)
    }

    pub(super) fn mistake(&self, text: String) {
        if let Ok(mut all) = self.mistakes.lock() {
            all.push(text);
        }
    }

    fn row(&'static self, table: &'static Table, line: &RowLine) -> Option<Row> {
        let section = &self.sections[line.section];
        let text = lines::joined(line.text);
        match form::row(self.sets(table, section), text) {
            Ok(row) => Some(Row { section: section.number, file: section.file, line: line.line, ..row }),
            Err(why) => {
                self.mistake(format!("{}:{}: {why}: {text}", section.file, line.line));
                None
            }
        }
    }

    fn sets(&'static self, table: &'static Table, section: &'static Section) -> &'static Sets {
        section.sets.get_or_init(|| {
            let global = (!std::ptr::eq(section, &self.sections[0])).then(|| self.sets(table, &self.sections[0]));
            Sets::new(table, section.file, &section.set_lines, global)
        })
    }
}
