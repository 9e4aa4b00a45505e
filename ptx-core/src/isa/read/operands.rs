//! The operands of a row. They are read when they are first asked for: of most rows of an opcode only the modifiers are looked at.

use super::operand;
use super::sets::Sets;
use crate::isa::{Access, OperandKind, OperandSpec, Slot};
use std::fmt;
use std::ops::Deref;
use std::sync::OnceLock;

/// The operands of a row, in their order: a list that is read at first use.
pub struct Operands {
    sets: &'static Sets,
    slots: &'static [Slot],
    text: &'static str,
    read: OnceLock<(Vec<OperandSpec>, Facts)>,
}

/// Facts about the operands of an instruction that many phases read.
#[derive(Debug)]
pub struct Facts {
    /// Its accesses to registers, sources first; an access that no operand makes is absent.
    pub uses: Vec<Access>,
    /// True if an operand names a function or a list of targets.
    pub leads: bool,
    /// True if an operand may name a special register.
    pub special: bool,
}

impl Operands {
    pub(super) fn new(sets: &'static Sets, slots: &'static [Slot], text: &'static str) -> Operands {
        Operands { sets, slots, text, read: OnceLock::new() }
    }

    /// Facts about them.
    pub fn facts(&self) -> &Facts {
        &self.read().1
    }

    fn read(&self) -> &(Vec<OperandSpec>, Facts) {
        self.read.get_or_init(|| {
            let list = operand::operands(self.sets, self.slots, self.text).unwrap_or_else(|why| {
                self.sets.mistake(&format!("{why}: {}", self.text));
                Vec::new()
            });
            let facts = Facts::of(&list);
            (list, facts)
        })
    }
}

impl Deref for Operands {
    type Target = [OperandSpec];

    fn deref(&self) -> &[OperandSpec] {
        &self.read().0
    }
}

impl<'a> IntoIterator for &'a Operands {
    type Item = &'a OperandSpec;
    type IntoIter = std::slice::Iter<'a, OperandSpec>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for Operands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

impl Facts {
    fn of(operands: &[OperandSpec]) -> Facts {
        use OperandKind::{Branches, Callee, Callees, Func, Memory, Symbol, Value};
        let (mut leads, mut special) = (false, false);
        let mut uses = Vec::new();
        for operand in operands {
            operand.each(&mut |o| {
                uses.push(if matches!(o.kind, Memory { .. }) { Access::Read } else { o.access });
                leads |= matches!(o.kind, Func | Callee | Branches | Callees);
                special |= match &o.kind {
                    Value(value) => value.special,
                    Memory { element, .. } => *element,
                    Symbol(_) => true,
                    _ => false,
                };
            });
        }
        let sources_first = [Access::Read, Access::ReadWrite, Access::Write];
        Facts { uses: sources_first.into_iter().filter(|a| uses.contains(a)).collect(), leads, special }
    }
}
