//! Registers that nothing has written.

use crate::exec::ExecState;
use crate::fault::{Fault, FaultKind};
use crate::watch::blank::Blank;
use crate::watch::threads::Threads;
use ptx_core::diag::codes;

/// Objects if the running instruction depends on a register that a lane has not written; else those that it writes hold
/// something from now on.
pub(in crate::watch) fn check_blank(exec: &mut ExecState, active: u32, blank: &Blank) -> Result<(), Fault> {
    let (origin, at) = (exec.warp.origin as usize, exec.warp.at);
    let Some(threads) = Threads::of_mut(&mut exec.warp.kept) else { return Ok(()) };
    let held = &mut threads.held;
    let holds = |slot: u32, held: &[u32]| held.get(origin + slot as usize).copied().unwrap_or(0);
    if !blank.passes
        && let Some((slot, empty)) = first(blank.reads.iter().map(|slot| (*slot, active & !holds(*slot, held))))
    {
        return Err(found(exec, at, slot, empty));
    }
    // What is passed on holds something where one of its sources does.
    let some = match blank.passes && !blank.more && !blank.reads.is_empty() {
        true => blank.reads.iter().fold(0, |some, slot| some | holds(*slot, held)),
        false => u32::MAX,
    };
    for slot in &blank.writes {
        let slot = origin + *slot as usize;
        if held.len() <= slot {
            held.resize(slot + 1, 0);
        }
        held[slot] = held[slot] & !active | some & active;
    }
    Ok(())
}

/// The same for a predicate that guards an instruction.
pub(in crate::watch) fn check_guard(exec: &ExecState, group: u32, slot: u32) -> Result<(), Fault> {
    let Some(threads) = Threads::of(&exec.warp.kept) else { return Ok(()) };
    let holds = threads.borrow().held.get((exec.warp.origin + slot) as usize).copied().unwrap_or(0);
    match group & !holds {
        0 => Ok(()),
        empty => Err(found(exec, exec.warp.at, slot, empty)),
    }
}

fn first(mut each: impl Iterator<Item = (u32, u32)>) -> Option<(u32, u32)> {
    each.find(|(_, empty)| *empty != 0)
}

fn found(exec: &ExecState, pc: u32, slot: u32, empty: u32) -> Fault {
    let function = exec.listing.code.get(pc as usize).map_or(0, |code| code.function);
    let name = exec.listing.register_name(function, slot);
    let threads = match empty.count_ones() {
        1 => "this thread has".to_string(),
        some => format!("{some} threads of the warp have"),
    };
    Fault::new(FaultKind::Unwritten, format!("a use of the register `{name}`, which {threads} not written"))
        .code(&codes::W0107)
        .lane(empty.trailing_zeros() as usize % 32)
        .help(format!("write `{name}` first, on every path that leads here and whatever guards hold"))
}
