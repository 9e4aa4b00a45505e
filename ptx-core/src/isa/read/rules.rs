//! The rules of a row. They are read when the row is first chosen: most rows of an opcode are looked at, and another one fits.

use super::sets::Sets;
use crate::isa::Row;
use crate::isa::rule::{Names, Rule};
use std::fmt;
use std::sync::OnceLock;

/// The last column of a row.
pub(crate) struct Rules {
    sets: &'static Sets,
    text: Option<&'static str>,
    all: OnceLock<Vec<Rule>>,
}

impl Rules {
    pub(super) fn new(sets: &'static Sets, text: Option<&'static str>) -> Rules {
        Rules { sets, text, all: OnceLock::new() }
    }

    /// The rules of this row, which they belong to.
    pub(crate) fn of(&self, row: &Row) -> &[Rule] {
        self.all.get_or_init(|| {
            let names = Names { slots: row.slots, operands: &row.operands, sets: &|name| self.sets.set(name) };
            let rules = self.text.into_iter().flat_map(|text| text.split(';'));
            let rules = rules.map(|rule| Rule::read(rule.trim_ascii(), &names)).collect::<Result<_, _>>();
            rules.unwrap_or_else(|why| {
                let Row { file, line, text, .. } = row;
                self.sets.table.index.mistake(format!("{file}:{line}: {why}: {text}"));
                Vec::new()
            })
        })
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text)
    }
}
