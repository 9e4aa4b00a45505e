//! The reader of the `.isa` files: lines to sections, sections to rows. `read/` holds the parsers of single lines.
//!
//! Reading is lazy: the first pass only finds the lines; a row is parsed when its opcode is first asked for.

mod form;
mod lines;
mod sets;

use super::{Row, Table};
use crate::hash::Map;
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
    sets: OnceLock<sets::Sets>,
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
    for (line, text) in lines::logical(text) {
        if let Some(heading) = text.strip_prefix("==") {
            let number = heading.split_whitespace().next().unwrap_or("");
            table.index.sections.push(Section { file, number, ..Section::default() });
        } else if text.starts_with('.') {
            if let Some(section) = table.index.sections.last_mut() {
                section.set_lines.push(text);
            }
        } else if !lines::keyword(table, text) {
            add_row(table, line, text);
        }
    }
}

fn add_row(table: &mut Table, line: u32, text: &'static str) {
    let end = text.bytes().position(|byte| matches!(byte, b'.' | b' ')).unwrap_or(text.len());
    let opcode = text.get(..end).unwrap_or_default();
    let section = table.index.sections.len() - 1;
    table.index.opcodes.entry(opcode).or_default().lines.push(RowLine { section, line, text });
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

    pub(crate) fn mistakes(&self) -> Vec<String> {
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
        let sets = Lookup { table, local: self.sets(table, section), global: self.sets(table, &self.sections[0]) };
        match form::row(&sets, line.text) {
            Ok(row) => Some(Row { section: section.number, file: section.file, line: line.line, ..row }),
            Err(why) => {
                self.mistake(format!("{}:{}: {why}: {}", section.file, line.line, line.text));
                None
            }
        }
    }

    fn sets(&'static self, table: &'static Table, section: &'static Section) -> &'static sets::Sets {
        section.sets.get_or_init(|| {
            let global = (!std::ptr::eq(section, &self.sections[0])).then(|| self.sets(table, &self.sections[0]));
            sets::read(table, &section.set_lines, global, &mut |why| self.mistake(format!("{}: {why}", section.file)))
        })
    }
}

/// Lookup of sets and types for a row: the section's own sets first.
pub(super) struct Lookup {
    pub(super) table: &'static Table,
    local: &'static sets::Sets,
    global: &'static sets::Sets,
}

impl Lookup {
    /// The members of a set, by name without its dot.
    pub(super) fn set(&self, name: &str) -> Option<&'static [super::Member]> {
        self.local.get(name).or_else(|| self.global.get(name)).map(Vec::as_slice)
    }
}
