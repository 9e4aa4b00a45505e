//! The watcher's notes on each instruction, made once, when a program is decoded.

use super::blank::{Blank, Blanks};
use super::findings::annotation::Annotations;
use super::follow::Follow;
use super::within::{Bases, Within};
use crate::decode::starts;
use crate::ops::role::find_role;
use crate::program::Program;
use crate::role::{Act, Actor};
use crate::site::Site;
use crate::space::Where;
use ptx_core::ir::{Function, Inst, Module, Operand, RegId};
use ptx_core::isa::{Access, Row};

/// The notes of a program, by instruction.
#[derive(Debug)]
pub(crate) struct Notes(Vec<Note>);

/// The notes of an instruction.
#[derive(Debug, Default)]
pub(super) struct Note {
    /// The registers (of the frame) that it names; and those that it writes, in functions where some can be in flight. Of a
    /// `wgmma` they are its accumulators and fragments.
    pub touched: Box<[u32]>,
    pub written: Box<[u32]>,
    /// The registers in it that a thread may not have written, if there are any.
    pub blank: Option<Box<Blank>>,
    /// The variables to which its addresses belong.
    pub within: Option<Box<Within>>,
    /// True for stores that may go to shared memory.
    pub fills: bool,
    /// Its effect on registers without a value, in functions that have vector loads or `ldmatrix`.
    pub follow: Option<Box<Follow>>,
    /// The annotations around it.
    pub annotations: Option<Box<Annotations>>,
}

impl Notes {
    /// The notes of a module's program. Marks the instructions of which the watcher is to be told.
    pub(crate) fn new(module: &Module, program: &mut Program) -> Notes {
        let starts = starts(module);
        let mut notes = Vec::with_capacity(program.instructions.len());
        for (index, function) in module.functions.iter().enumerate().filter(|(_, f)| f.defined) {
            let about = About::new(function);
            for (at, inst) in function.insts.iter().enumerate() {
                let site = inst.row.map(|row| Site::new(module, &program.listing.layout, index, inst, row, &starts));
                let annotations = site.as_ref().and_then(|site| Annotations::of(site, function, at));
                let note = site.map_or_else(Note::default, |site| Note { annotations, ..about.note(&site) });
                let code = program.listing.code.get(notes.len());
                if let Some(instruction) = program.instructions.get_mut(notes.len()) {
                    let does_more = code.is_some_and(|code| code.role.is_more_than_access());
                    instruction.reported =
                        about.flies || note.blank.is_some() || note.annotations.is_some() || does_more;
                }
                notes.push(note);
            }
            // The return at its end.
            notes.push(Note::default());
        }
        Notes(notes)
    }

    /// The notes of an instruction.
    #[inline]
    pub(super) fn at(&self, pc: u32) -> Option<&Note> {
        self.0.get(pc as usize)
    }
}

/// What the notes of a function's instructions have in common.
struct About {
    blanks: Blanks,
    bases: Bases,
    flies: bool,
    leaves_gaps: bool,
}

impl About {
    fn new(function: &Function) -> About {
        About {
            blanks: Blanks::new(function),
            bases: Bases::new(function),
            flies: function.insts.iter().any(in_flight),
            leaves_gaps: function.insts.iter().any(leaves_gaps),
        }
    }

    fn note(&self, site: &Site) -> Note {
        let (inst, role) = (site.inst, find_role(site));
        let blank = self.blanks.blank_of(inst, &site.layout.functions[site.function].slots);
        Note {
            touched: named(site, &inst.operands),
            written: match role.act {
                _ if !self.flies => Box::default(),
                Act::Async { writes: Actor::Matrix, .. } => named(site, inst.operands.iter().filter(|o| is_vector(o))),
                _ => named(site, written(site.row, inst)),
            },
            blank,
            within: self.bases.within_of(inst, site.module, site.layout),
            fills: fills(inst),
            follow: self.leaves_gaps.then(|| Box::new(Follow::new(site, inst))),
            annotations: None,
        }
    }
}

/// Returns true if an instruction goes on writing registers after it was issued.
fn in_flight(inst: &Inst) -> bool {
    const FLIES: &[&str] = &["wgmma.mma_async", "tcgen05.ld", "tcgen05.ld.red"];
    inst.row.is_some_and(|row| FLIES.contains(&row.name))
}

/// Returns true if an instruction may give registers no value: it loads more than one.
fn leaves_gaps(inst: &Inst) -> bool {
    const LOADS: &[&str] = &["ld", "ldmatrix"];
    inst.row.is_some_and(|row| LOADS.contains(&row.opcode())) && inst.operands.first().is_some_and(is_vector)
}

fn is_vector(operand: &Operand) -> bool {
    matches!(operand, Operand::Vector(_))
}

/// The operands that an instruction writes.
fn written<'a>(row: &'a Row, inst: &'a Inst) -> impl Iterator<Item = &'a Operand> {
    let writes = row.operands.iter().map(|operand| operand.access != Access::Read);
    inst.operands.iter().zip(writes).filter(|(_, writes)| *writes).map(|(operand, _)| operand)
}

/// The registers that operands name.
fn named<'a>(site: &Site, operands: impl IntoIterator<Item = &'a Operand>) -> Box<[u32]> {
    let mut found = Vec::new();
    for operand in operands {
        registers(operand, &mut |register| found.extend(site.slot(register)));
    }
    found.into()
}

/// Returns true for instructions that write memory that may be shared.
fn fills(inst: &Inst) -> bool {
    /// Opcodes, and true for those that write without a space, too.
    const STORES: &[(&str, bool)] = &[("st", true), ("stmatrix", true), ("atom", true), ("red", true), ("cp", false)];
    let space = |m: &str| Where::from_modifier(Some(m)) != Where::Generic;
    let named = inst.slots.iter().flatten().map(|m| m.text).find(|m| space(m));
    let store = inst.row.and_then(|row| STORES.iter().find(|(opcode, _)| *opcode == row.opcode()));
    store.is_some_and(|(_, generic)| named.map_or(*generic, |m| Where::from_modifier(Some(m)).is_shared()))
}

fn registers(operand: &Operand, found: &mut impl FnMut(RegId)) {
    match operand {
        Operand::Reg(register) | Operand::Part(register, _) | Operand::Sum(register, _) => found(*register),
        Operand::Element(base, _) => base.register().into_iter().for_each(found),
        Operand::Memory { base, rest, .. } => {
            base.register().into_iter().for_each(&mut *found);
            rest.iter().for_each(|o| registers(o, found));
        }
        Operand::Vector(list) | Operand::List(list) => list.iter().for_each(|o| registers(o, found)),
        Operand::Pair(a, b) => [a, b].into_iter().for_each(|o| registers(o, found)),
        Operand::Not(a) | Operand::Neg(a) | Operand::Unified(a) => registers(a, found),
        _ => {}
    }
}
