//! Tensor memory belongs to one block or to a pair of blocks: a kernel has the same `.cta_group` everywhere, also in the functions
//! that it may call. The interpreter checks that allocations are of the same kind.

use super::access;
use crate::diag::{Diagnostic, codes};
use crate::ir::{Inst, Module, Symbol};
use crate::span::Span;
use crate::syntax::Tree;

/// The slot of instructions whose group is that of the kernel. Copies into a pair's memory have another.
const SLOT: &str = "cta_group";

pub(super) fn check_pairs(_: &Tree, module: &Module, out: &mut Vec<Diagnostic>) {
    let alone = holders(module, 1);
    let paired = holders(module, 2);
    if [&alone, &paired].iter().any(|found| found.iter().all(Option::is_none)) {
        return;
    }
    let callers = callers(module);
    let (alone, paired) = (spread(alone, &callers), spread(paired, &callers));
    for (function, found) in module.functions.iter().zip(alone.into_iter().zip(paired)) {
        let (Some(one), Some(two)) = found else { continue };
        if function.entry {
            let text = format!("`{}` has both `.cta_group::1` and `.cta_group::2`", function.name);
            out.push(
                Diagnostic::error(&codes::P0206, two, text)
                    .label(one, "`.cta_group::1` stands here")
                    .help("write the same `.cta_group` for all `tcgen05` instructions of a kernel and of what it calls")
                    .section("9.7.16.4"),
            );
        }
    }
}

/// The group of an instruction: 1 or 2.
fn group(inst: &Inst) -> Option<u32> {
    let at = inst.row?.slots.iter().position(|slot| slot.name == SLOT)?;
    inst.slots.get(at).copied().flatten().map(|member| member.number)
}

/// The first instruction of each function with this group.
fn holders(module: &Module, wanted: u32) -> Vec<Option<Span>> {
    let first = |insts: &[Inst]| insts.iter().find(|inst| group(inst) == Some(wanted)).map(|inst| inst.name_span);
    module.functions.iter().map(|function| first(&function.insts)).collect()
}

/// The functions that name each function.
fn callers(module: &Module) -> Vec<Vec<usize>> {
    let mut callers = vec![Vec::new(); module.functions.len()];
    for (at, function) in module.functions.iter().enumerate() {
        for operand in function.insts.iter().flat_map(|inst| &inst.operands) {
            access::symbols(operand, &mut |symbol| {
                if let Symbol::Func(func) = symbol
                    && let Some(list) = callers.get_mut(func.index())
                {
                    list.push(at);
                }
            });
        }
    }
    callers
}

/// Passes what a function holds on to those that may call it.
fn spread(mut found: Vec<Option<Span>>, callers: &[Vec<usize>]) -> Vec<Option<Span>> {
    let mut pending: Vec<usize> = (0..found.len()).filter(|at| found[*at].is_some()).collect();
    while let Some(at) = pending.pop() {
        for caller in &callers[at] {
            if found[*caller].is_none() {
                found[*caller] = found[at];
                pending.push(*caller);
            }
        }
    }
    found
}
