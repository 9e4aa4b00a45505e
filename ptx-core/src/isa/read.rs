//! The reader of the `.isa` files: lines to sections, sections to rows. `read/` holds the parsers of single lines.
//!
//! Reading is lazy: the lines are found while this crate is compiled; a row is parsed when its opcode is first asked for,
//! its operands when it is chosen, and a set when a row names it.

mod file;
mod form;
mod lines;
mod operand;
mod operands;
mod rules;
mod sets;

pub use operands::{Facts, Operands};
pub(crate) use rules::Rules;

use super::{Row, Table};
use crate::hash::Map;
use file::{File, Found, Line};
use ptx_target::sort::SortSmall;
use sets::Sets;
use std::sync::{Mutex, OnceLock};

macro_rules! files {
    ($($name:literal)*) => {
        &[$({
            const TEXT: &str = include_str!(concat!("../../isa/", $name));
            const FOUND: Found = file::find(TEXT);
            File { name: $name, text: TEXT, lines: &FOUND.lines::<{ FOUND.count }>() }
        }),*]
    };
}

/// The files, in the order of `docs/language/isa.md`.
static FILES: &[File] = files! {
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

/// The lines under a `==` heading.
#[derive(Debug)]
struct Section {
    file: &'static File,
    number: &'static str,
    lines: &'static [Line],
    sets: OnceLock<Sets>,
}

/// The lines of one opcode with their sections, and the rows, which are read at first use.
#[derive(Debug, Default)]
struct Opcode {
    lines: Vec<(usize, &'static [Line])>,
    rows: OnceLock<Vec<Row>>,
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
    for file in FILES {
        for section in file.lines.chunk_by(|_, next| !file.is_heading(next)) {
            read_section(&mut table, file, section);
        }
    }
    lines::holders(&mut table);
    table
}

/// The first word of a heading.
const HEADING: &str = "==";

fn read_section(table: &mut Table, file: &'static File, lines: &'static [Line]) {
    let heading = lines.first().and_then(|line| file.text(line).strip_prefix(HEADING));
    let number = heading.and_then(|heading| heading.split_ascii_whitespace().next()).unwrap_or("");
    let index = table.index.sections.len();
    table.index.sections.push(Section { file, number, lines, sets: OnceLock::new() });
    // The rows of an opcode stand together: it is looked up once for all of them.
    for together in lines.chunk_by(|_, next| !next.is_first) {
        match together.first().map_or("", |line| file.word(line)) {
            "" | HEADING => {}
            word => match lines::reader(word) {
                Some(read) => together.iter().for_each(|line| lines::read(table, read, word, file.text(line))),
                None => table.index.opcodes.entry(word).or_default().lines.push((index, together)),
            },
        }
    }
}

impl Index {
    pub(crate) fn opcodes(&self) -> Vec<&'static str> {
        let mut all: Vec<_> = self.opcodes.keys().copied().collect();
        all.sort_small();
        all
    }

    pub(crate) fn forms(&'static self, table: &'static Table, opcode: &str) -> &'static [Row] {
        let Some(entry) = self.opcodes.get(opcode) else { return &[] };
        let lines = || {
            entry.lines.iter().flat_map(|(section, lines)| lines.iter().map(|line| (&self.sections[*section], line)))
        };
        entry.rows.get_or_init(|| lines().filter_map(|(section, line)| self.row(table, section, line)).collect())
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

    fn row(&'static self, table: &'static Table, section: &'static Section, line: &Line) -> Option<Row> {
        let text = lines::joined(section.file.text(line));
        let (file, number) = (section.file.name, line.number);
        match form::row(self.sets(table, section), text) {
            Ok(row) => Some(Row { section: section.number, file, line: number.into(), ..row }),
            Err(why) => {
                self.mistake(format!("{file}:{number}: {why}: {text}"));
                None
            }
        }
    }

    fn sets(&'static self, table: &'static Table, section: &'static Section) -> &'static Sets {
        section.sets.get_or_init(|| {
            let global = (!std::ptr::eq(section, &self.sections[0])).then(|| self.sets(table, &self.sections[0]));
            let sets = section.lines.iter().map(|line| section.file.text(line)).filter(|text| text.starts_with('.'));
            Sets::new(table, section.file.name, sets, global)
        })
    }
}
