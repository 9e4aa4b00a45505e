//! Copies to memory by tensor maps: the boxes of two copies have no element in common, whatever their order is.

use super::{Pair, Question, Turns, Which, accesses, factors, is_own, is_stride, same};
use crate::contract::{Contract, Mapped};
use crate::form::{Cond, Form};
use crate::grids::Digit;
use crate::machine::Machine;
use crate::offsets;
use crate::query::{BUDGET, Clause, differ};
use crate::tickets::Tickets;
use crate::trace::MapUse;

/// The work for two copies, at first and once it is known which numbers they share: they are few, and their questions have products.
const FIRST: u32 = 4 * BUDGET;
const STORES: u32 = 16 * BUDGET;

/// The memory of a map, if nothing else accesses it.
pub(crate) fn mapped<'c>(contract: &'c Contract, copy: &MapUse) -> Option<&'c Mapped> {
    contract.mapped.iter().find(|own| Some(&own.map) == copy.map.as_ref())
}

/// Returns true if a copy to memory that nothing else accesses shares no element with any copy of the launch by its map, itself at another time included.
pub(crate) fn are_apart(machine: &Machine<'_>, contract: &Contract, copy: &MapUse) -> bool {
    let Some(own) = mapped(contract, copy) else { return false };
    let others = [Tickets::new(machine).differ, offsets::clauses(machine, contract)].concat();
    let left = machine.world.work.get();
    let are_apart = machine.trace.maps.iter().filter(|other| other.map == copy.map).all(|other| {
        let Some(meet) = meet(own, [copy, other]) else { return false };
        let (Some(first), Some(second)) = (copy.access, other.access) else { return false };
        let mut threads = [Which::Blocks, Which::Block, Which::Thread].into_iter();
        threads.all(|which| is_apart((machine, &others), (first, second, which), &meet))
    });
    machine.world.work.set(left);
    are_apart
}

/// The boxes of two copies have an element in common, by dimension.
fn meet(mapped: &Mapped, both: [&MapUse; 2]) -> Option<Vec<Digit>> {
    let [first, second] = [both[0].coords.as_ref()?, both[1].coords.as_ref()?];
    let is_whole = [first, second].iter().all(|coords| coords.len() == mapped.extents.len());
    let dimensions = mapped.extents.iter().zip(first).zip(second);
    let of = |((extent, first), second): ((&u64, &Form), &Form)| Digit {
        forms: [first.clone(), second.clone()],
        sizes: [i128::from(*extent); 2],
    };
    is_whole.then(|| dimensions.map(of).collect())
}

/// Returns true if two copies are apart, of two threads or of one at two times.
fn is_apart(
    (machine, others): (&Machine<'_>, &[Clause]),
    (first, second, which): (usize, usize, Which),
    digits: &[Digit],
) -> bool {
    let turns: Turns = (0..machine.trace.loops.len()).map(|own| (own, None)).collect();
    let pair = Pair { turns, ..Pair { which, ..Pair::of_blocks(first, second) } };
    let (a, _) = accesses(machine, &pair);
    let is_same = which == Which::Thread && first == second;
    // A thread that comes there again is in another turn of a loop.
    let turns = a.turns.iter().map(|own| Form::symbol(machine.trace.loops[*own].turn));
    let again: Clause = turns.flat_map(|turn| differ(&turn, &turn)).collect();
    if is_same && again.is_empty() {
        return true;
    }
    let question = Question::new((machine, others), &pair, None);
    let facts = machine.launch.facts.iter().map(|fact| (0, fact.clone()));
    let all: Vec<(usize, Cond)> = question.conds.iter().cloned().chain(facts).collect();
    let conds = factors::about(machine, &all, digits);
    let mut meet: Vec<Clause> = digits.iter().flat_map(Digit::meets).collect();
    meet.extend(factors::multiples(&conds, digits, &|symbol| is_stride(machine, &pair, symbol)));
    let again: Vec<Clause> = is_same.then_some(again).into_iter().collect();
    let are_apart = |meet: &[Clause], work: u32| {
        machine.world.work.set(work);
        question.views(conds.clone(), &[meet, &again].concat(), true).decide(work).is_impossible()
    };
    if are_apart(&meet, FIRST) {
        return true;
    }
    let own = factors::own(&conds, digits, &|symbol| is_own(machine, &pair, symbol, machine.world.symbol(symbol)));
    let shared = factors::shared(&question, &conds, &meet, own);
    meet.extend(shared.iter().flat_map(same));
    !shared.is_empty() && are_apart(&meet, STORES)
}
