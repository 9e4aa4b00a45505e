//! The registers that are read before they are written again, at the start of each basic block. What the others hold is of no use: no value of it is
//! kept where ways meet, and no loop looks for what it is in every turn.

use ptx_core::check::access;
use ptx_core::check::graph::Graph;
use ptx_core::ir::{Function, Operand, RegId};
use ptx_core::isa::Access;

/// Bits of registers.
type Bits = Vec<u64>;

/// By block: the registers that are read.
pub(crate) struct Live {
    blocks: Vec<Bits>,
}

impl Live {
    /// Those of a function, whose blocks are followed by others.
    pub(crate) fn new(function: &Function, graph: &Graph, next: &[Vec<usize>]) -> Live {
        let words = function.registers.len() / 64 + 1;
        let mut blocks = vec![vec![0; words]; next.len()];
        let read = annotated(function);
        let mut changed = true;
        while changed {
            changed = false;
            for block in (0..next.len()).rev() {
                let mut own = vec![0; words];
                for to in &next[block] {
                    own.iter_mut().zip(&blocks[*to]).for_each(|(own, other)| *own |= other);
                }
                graph.range(block).rev().for_each(|at| step(function, &read, at, &mut own));
                changed |= own != blocks[block];
                blocks[block] = own;
            }
        }
        Live { blocks }
    }

    /// Returns true if a register is read on some way from a block on.
    pub(crate) fn has(&self, block: usize, register: RegId) -> bool {
        let at = register.index();
        self.blocks.get(block).is_none_or(|own| own[at / 64] >> (at % 64) & 1 == 1)
    }
}

/// By instruction: the registers of the annotations in front of it.
fn annotated(function: &Function) -> Vec<Vec<RegId>> {
    let mut read = vec![Vec::new(); function.insts.len()];
    for one in &function.annotations {
        let at = (one.at as usize).min(function.insts.len().saturating_sub(1));
        let registers = one.numbers.iter().filter_map(|number| match number.operand {
            Operand::Reg(register) => Some(register),
            _ => None,
        });
        if let Some(own) = read.get_mut(at) {
            own.extend(registers);
        }
    }
    read
}

/// From behind an instruction to its front.
fn step(function: &Function, annotated: &[Vec<RegId>], at: usize, live: &mut [u64]) {
    let inst = &function.insts[at];
    // Where it may not be executed, or changes a part, the value before is left.
    let is_whole = |register: RegId| function.registers[register.index()].vector <= 1;
    if inst.guard.is_none() && inst.row.is_some() {
        access::registers(inst, &mut |register, access| {
            if access == Access::Write && is_whole(register) {
                live[register.index() / 64] &= !(1 << (register.index() % 64));
            }
        });
    }
    let mut read = |register: RegId| live[register.index() / 64] |= 1 << (register.index() % 64);
    access::registers(inst, &mut |register, access| {
        if access != Access::Write || inst.row.is_none() {
            read(register);
        }
    });
    annotated[at].iter().for_each(|register| read(*register));
}
