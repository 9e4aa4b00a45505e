//! Which instructions write a register, and which a value can come through.

use crate::check::access;
use crate::ir::{Function, Inst, Param, RegId};
use crate::isa::Access;

/// The end of a list.
const END: u32 = u32::MAX;

/// For each register the instructions that write it, in lists that share one vector.
pub(super) struct Defs {
    /// The place of the last write in `writes`.
    last: Vec<u32>,
    /// An instruction and the place of the write before it.
    writes: Vec<(u32, u32)>,
    /// Registers that also hold a value from outside.
    params: Vec<RegId>,
}

impl Defs {
    pub(super) fn new(function: &Function) -> Defs {
        let params = function.params.iter().filter_map(|p| if let Param::Reg(reg) = p { Some(*reg) } else { None });
        let mut defs = Defs { last: vec![END; function.registers.len()], writes: Vec::new(), params: params.collect() };
        for (at, inst) in (0..).zip(&function.insts) {
            access::writes(inst, &mut |reg| {
                if let Some(last) = defs.last.get_mut(reg.index()) {
                    let place = u32::try_from(defs.writes.len()).unwrap_or(END);
                    defs.writes.push((at, std::mem::replace(last, place)));
                }
            });
        }
        defs
    }

    /// Returns true if a register may hold a value that no instruction here wrote.
    pub(super) fn outside(&self, reg: RegId) -> bool {
        self.last.get(reg.index()).is_none_or(|last| *last == END) || self.params.contains(&reg)
    }

    fn of(&self, reg: RegId) -> impl Iterator<Item = usize> {
        let mut place = self.last.get(reg.index()).copied().unwrap_or(END);
        std::iter::from_fn(move || {
            let (inst, before) = *self.writes.get(place as usize)?;
            place = before;
            Some(inst as usize)
        })
    }

    /// The instructions that make the values of these registers, in order; what those behind which `through` fails read
    /// does not matter.
    pub(super) fn slice(
        &self,
        function: &Function,
        mut roots: Vec<RegId>,
        through: impl Fn(&Inst) -> bool,
    ) -> Vec<usize> {
        let mut seen = vec![false; function.registers.len()];
        let mut found = vec![false; function.insts.len()];
        while let Some(reg) = roots.pop() {
            if seen.get(reg.index()) != Some(&false) {
                continue;
            }
            seen[reg.index()] = true;
            for at in self.of(reg) {
                if !std::mem::replace(&mut found[at], true) && through(&function.insts[at]) {
                    access::registers(&function.insts[at], &mut |r, access| {
                        if access != Access::Write {
                            roots.push(r);
                        }
                    });
                }
            }
        }
        (0..found.len()).filter(|at| found[*at]).collect()
    }
}
