//! Registers that have one value for all threads that take the turns of a loop together: a warp that meets in each turn, or a block. A register is
//! taken for one if nothing that a turn computes it from differs; that its value behind a turn is one value again is then proved.

use crate::event::Event;
use crate::machine::{Machine, State, Value};
use crate::path::Path;
use crate::world::Scope;
use ptx_core::check::access;
use ptx_core::hash::Set;
use ptx_core::ir::{Inst, RegId};
use ptx_core::isa::Access;

/// The beginnings of the names of special registers that are one number for a block.
const OF_BLOCK: [&str; 4] = ["ctaid", "nctaid", "ntid", "cluster"];

/// A register and the threads for which it has one value at the start of a turn.
pub(crate) type Common = (RegId, Scope);

impl Machine<'_> {
    /// The registers of a loop that are taken for such ones, for threads that take its turns together.
    pub(crate) fn common(&self, header: usize, state: &State, written: &[RegId], scopes: &[Scope]) -> Vec<Common> {
        let mut found: Vec<Common> = Vec::new();
        for scope in scopes {
            let differs = self.differing(header, state, written, *scope);
            let is_one = |own: &RegId| !differs.contains(own) && self.scope_of(state, *own) <= *scope;
            let is_new = |own: &&RegId| is_one(own) && found.iter().all(|(other, _)| other != *own);
            let own: Vec<Common> = written.iter().filter(is_new).map(|own| (*own, *scope)).collect();
            found.extend(own);
        }
        found
    }

    /// The registers that threads of a scope may see differ at the start of a turn.
    fn differing(&self, header: usize, state: &State, written: &[RegId], scope: Scope) -> Set<RegId> {
        let blocks = self.flow.loops[header].iter().flat_map(|own| &own.blocks).enumerate().filter(|(_, own)| **own);
        let insts: Vec<&Inst> =
            blocks.flat_map(|(block, _)| &self.function.insts[self.flow.graph.range(block)]).collect();
        // One that nobody reads before gets its value in the loop.
        let differs_at_first = |own: &RegId| self.flow.live.has(header, *own) && self.scope_of(state, *own) > scope;
        let mut found: Set<RegId> = written.iter().copied().filter(differs_at_first).collect();
        let differs = |inst: &Inst, found: &Set<RegId>| {
            let mut is = !Event::is_one(inst, scope);
            if is {
                is = reads_thread(inst);
                access::registers(inst, &mut |register, access| {
                    is |= access != Access::Write
                        && (found.contains(&register)
                            || !written.contains(&register) && self.scope_of(state, register) > scope);
                });
            }
            is
        };
        loop {
            let before = found.len();
            for inst in insts.iter().filter(|inst| differs(inst, &found)).collect::<Vec<_>>() {
                access::writes(inst, &mut |register| found.extend([register]));
            }
            if found.len() == before {
                return found;
            }
        }
    }

    /// The threads for which a register has one value.
    fn scope_of(&self, state: &State, register: RegId) -> Scope {
        match state.get(register) {
            Value::Bits(form) => self.world.scope(&form),
            Value::Truth(cond) => self.world.cond_scope(&cond),
            Value::Unknown => Scope::Thread,
        }
    }

    /// Gives registers any value that threads have together.
    pub(crate) fn start_common(&mut self, start: &mut State, common: &[Common]) {
        for (register, scope) in common {
            let value = match self.bits_of(*register) {
                Some(bits) => Value::Bits(self.world.unknown((0, (1 << bits.min(64)) - 1), *scope)),
                None => continue,
            };
            start.set(*register, value);
        }
    }

    /// The registers whose values behind a turn are not one for their threads. Threads that go back on different ways have one value where it is the same.
    pub(crate) fn parted(&self, entered: &Path, back: &[State], common: &[Common]) -> Vec<RegId> {
        let ways = || back.iter().flat_map(|next| next.path.since(entered)).filter(|step| step.decides);
        let is_one_way = |scope| back.len() < 2 || ways().all(|step| self.world.cond_scope(&step.cond) <= scope);
        let is_common = |(register, scope): &Common| {
            let is_same = back.iter().all(|next| next.get(*register) == back[0].get(*register));
            back.iter().all(|next| self.scope_of(next, *register) <= *scope) && (is_same || is_one_way(*scope))
        };
        common.iter().filter(|own| !is_common(own)).map(|(register, _)| *register).collect()
    }
}

/// Takes registers for common ones of warps that they are not for a block, if warps meet, or for none.
pub(crate) fn narrow(common: &mut Vec<Common>, parted: &[RegId], warps: bool) {
    common.retain_mut(|(register, scope)| {
        let is_parted = parted.contains(register);
        let was = if is_parted { std::mem::replace(scope, Scope::Warp) } else { Scope::Grid };
        !is_parted || was < Scope::Warp && warps
    });
}

/// Returns true if a thread's own special register is in an instruction.
fn reads_thread(inst: &Inst) -> bool {
    let mut is = false;
    let of_block = |name: &str| OF_BLOCK.iter().any(|own| name.trim_start_matches('%').starts_with(own));
    inst.operands.iter().for_each(|operand| access::specials(operand, &mut |own| is |= !of_block(own.name)));
    is
}
