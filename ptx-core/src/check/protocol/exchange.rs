//! Exchanges between all lanes of a warp where some of them have left, or do not come: the ragged end of the data.

use super::address::Origin;
use super::diverge::Parted;
use super::{Body, Pattern};
use crate::diag::{Diagnostic, codes};
use crate::hash::{Map, Set};
use crate::ir::Inst;

/// Instructions that read the value of one other lane. Votes and reductions pass over lanes that have ended.
const EXCHANGES: &[Pattern] = &[("shfl", "sync")];
/// The member mask of a whole warp.
const ALL: u32 = u32::MAX;

pub(super) fn check_exchange(body: &Body, out: &mut Vec<Diagnostic>) {
    let whole: Vec<(usize, &Inst)> = body.all(EXCHANGES).filter(|(_, inst)| names_all(body, inst)).collect();
    if whole.is_empty() {
        return;
    }
    let parted = Parted::of_warps(body);
    let leaving = parted.leaving();
    let (mut told, mut depends) = (Set::default(), Map::default());
    for (at, inst) in whole {
        let left = || leaving.iter().copied().find(|branch| body.before(*branch, at));
        let Some(branch) = parted.by(at, inst).or_else(left) else { continue };
        // Other branches may let nobody come here unless all lanes are left, as in the whole tiles of a reduction.
        let excused = !parted.is_certain(branch)
            && depends
                .entry(branch)
                .or_insert_with(|| parted.depend_on_others(&[&leaving[..], &[branch]].concat()))
                .get(body.graph().block_of(at))
                == Some(&true);
        if !told.contains(&branch) && !excused {
            told.insert(branch);
            out.push(report(body, inst, branch));
        }
    }
}

/// Returns true if the member mask is known to name the whole warp.
fn names_all(body: &Body, inst: &Inst) -> bool {
    let mask = inst.row.and_then(|row| row.operand("membermask")).and_then(|at| inst.operands.get(at));
    matches!(mask.map(|mask| body.origin(mask)), Some(Origin::Number(mask)) if mask as u32 == ALL)
}

fn report(body: &Body, inst: &Inst, branch: usize) -> Diagnostic {
    let name = inst.row.map_or("", |row| row.opcode());
    let text = format!("`{name}.sync` exchanges values with all lanes of the warp, but some may not be here");
    let span = body.function.insts.get(branch).map_or(inst.span, |inst| inst.span);
    let warning = Diagnostic::warning(&codes::P0724, inst.name_span, text)
        .label(span, "some lanes of a warp can leave the others here")
        .help("let all 32 lanes come here: give those beyond the end of the data a value that changes nothing, such as 0 for a sum")
        .help("or name only the lanes that go on in the member mask: `vote.sync.ballot` before the branch");
    match inst.row {
        Some(row) => warning.section(row.section),
        None => warning,
    }
}
