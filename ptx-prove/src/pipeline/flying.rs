//! Registers that a product still writes: from `wgmma.mma_async` to the wait for its group, only products use its accumulators, and nothing writes its
//! fragment of A.

use super::code::Role;
use super::forward::forward;
use crate::flow::Flow;
use ptx_core::check::access;
use ptx_core::ir::{Function, Operand};
use ptx_core::isa::Access;
use std::collections::BTreeMap;

/// By register: the groups that were committed since its product, at least, and true for an accumulator.
type Flying = BTreeMap<u32, (u32, bool)>;

/// A group so many groups back is as good as any before it.
const OLDEST: u32 = 16;

/// The first instruction that uses a register which a product may still write, or writes one that it may still read.
pub(crate) fn first_use(function: &Function, flow: &Flow, roles: &[Role]) -> Option<usize> {
    if !roles.contains(&Role::Multiply) {
        return None;
    }
    let step = |at, flying: &mut Flying| step(function, (at, roles[at]), flying);
    forward((function, flow), Flying::new(), step, |own, other| {
        for (register, (age, is_sum)) in other {
            let own = own.entry(*register).or_insert((*age, *is_sum));
            *own = (own.0.min(*age), own.1 || *is_sum);
        }
    })
}

/// Executes an instruction; true if it uses what it may not.
fn step(function: &Function, (at, role): (usize, Role), flying: &mut Flying) -> bool {
    let inst = &function.insts[at];
    let mut is_wrong = false;
    match role {
        Role::CommitGroup => flying.values_mut().for_each(|(age, _)| *age = (*age + 1).min(OLDEST)),
        Role::WaitGroup => {
            let left = inst.operands.iter().find_map(|operand| match operand {
                Operand::Int(left) => u32::try_from(*left).ok(),
                _ => None,
            });
            // The last groups are open, and what is not committed.
            flying.retain(|_, (age, _)| *age <= left.unwrap_or(OLDEST));
        }
        Role::Multiply => {
            let mut sums = Vec::new();
            access::writes(inst, &mut |register| sums.push(register));
            access::registers(inst, &mut |register, _| {
                is_wrong |= !sums.contains(&register) && flying.get(&register.0).is_some_and(|(_, is_sum)| *is_sum);
            });
            // The fragment of A is a vector, as the sums are; descriptors are read at once.
            let vectors = inst.operands.iter().filter_map(|operand| match operand {
                Operand::Vector(all) => Some(all),
                _ => None,
            });
            for element in vectors.flatten() {
                if let Operand::Reg(register) = element {
                    flying.insert(register.0, (0, sums.contains(register)));
                }
            }
        }
        _ => access::registers(inst, &mut |register, access| {
            let own = flying.get(&register.0);
            is_wrong |= own.is_some_and(|(_, is_sum)| *is_sum || access != Access::Read);
        }),
    }
    is_wrong
}
