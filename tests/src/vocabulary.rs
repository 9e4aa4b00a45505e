//! The words that instructions are made of: the opcodes, and the modifiers of each. From the instruction table, or from files.

use crate::random::Random;
use ptx_core::isa::table;
use std::collections::{BTreeMap, BTreeSet};

/// Opcodes and modifiers, without dots.
#[derive(Clone, Debug, Default)]
pub struct Vocabulary {
    opcodes: Vec<String>,
    /// The modifiers that stand behind an opcode, those that stand often more than once.
    modifiers: BTreeMap<String, Vec<String>>,
    /// Each modifier once.
    all: Vec<String>,
}

impl Vocabulary {
    /// That of the instruction table.
    pub fn of_table() -> Vocabulary {
        let members = |row: &'static ptx_core::isa::Row| row.slots.iter().flat_map(|s| s.members).map(|m| m.text);
        let words = |row: &'static ptx_core::isa::Row| row.name.split('.').chain(members(row)).map(str::to_owned);
        Vocabulary::new(table().rows().map(|row| words(row).collect()), [])
    }

    /// That of these chains (opcode and modifiers), and modifiers of no opcode.
    pub fn new(chains: impl IntoIterator<Item = Vec<String>>, more: impl IntoIterator<Item = String>) -> Vocabulary {
        let (mut modifiers, mut all) = (BTreeMap::<_, Vec<String>>::new(), BTreeSet::from_iter(more));
        for chain in chains {
            let mut words = chain.into_iter();
            let Some(opcode) = words.next() else { continue };
            let known = modifiers.entry(opcode).or_default();
            for word in words {
                all.insert(word.clone());
                known.push(word);
            }
        }
        Vocabulary { opcodes: modifiers.keys().cloned().collect(), modifiers, all: all.into_iter().collect() }
    }

    /// An opcode.
    pub fn opcode(&self, random: &mut Random) -> Option<String> {
        random.pick(&self.opcodes).cloned()
    }

    /// A modifier of this opcode.
    pub fn modifier_of(&self, opcode: &str, random: &mut Random) -> Option<String> {
        random.pick(self.modifiers.get(opcode)?).cloned()
    }

    /// A modifier of any opcode.
    pub fn modifier(&self, random: &mut Random) -> Option<String> {
        random.pick(&self.all).cloned()
    }
}
