//! Buffers of offsets, such as the cumulative lengths of packed sequences: an offset is at least each one before it, and equal places have equal
//! offsets. Questions about two blocks compare those that both read. The elements are what somebody vouches for, so that bounds depend on none of this.

use crate::contract::{Contract, Passed};
use crate::form::Form;
use crate::machine::Machine;
use crate::query::{Clause, difference};
use crate::trace::What;
use ptx_target::sort::SortSmall;

/// The order of the offsets that two blocks read.
pub(crate) fn clauses(machine: &Machine<'_>, contract: &Contract) -> Vec<Clause> {
    let mut loads: Vec<(usize, &Form, &Form)> = machine
        .loads
        .iter()
        .filter(|((base, place, ty), _)| size_of_offsets(machine, contract, (*base, place)) == Some(ty.bytes()))
        .map(|((base, place, _), value)| (*base, place, value))
        .collect();
    loads.sort_small_by_key(|(.., value)| value.symbols().next());
    let pairs = loads.iter().flat_map(|first| loads.iter().map(move |second| (first, second)));
    pairs.filter(|((a, ..), (b, ..))| a == b).map(|((_, i, x), (_, j, y))| ordered((*i, *x), (*j, *y))).collect()
}

/// Bytes of an element of a buffer of offsets, if a place is that of one.
fn size_of_offsets(machine: &Machine<'_>, contract: &Contract, (base, place): (usize, &Form)) -> Option<u64> {
    let What::Param(param) = machine.bases[base].what else { return None };
    let Some(Passed::Argument(argument)) = contract.params.get(param) else { return None };
    let size = *contract.elements.get(*argument).filter(|_| contract.offsets.contains(argument))?;
    (size > 0 && place.is_multiple_of(size.into())).then_some(size)
}

/// Of the first block's place and offset, and of the second one's: the further one has no smaller offset, or both are the same.
fn ordered((i, x): (&Form, &Form), (j, y): (&Form, &Form)) -> Clause {
    vec![
        vec![difference((1, j), (0, i), -1), difference((1, y), (0, x), 0)],
        vec![difference((0, i), (1, j), -1), difference((0, x), (1, y), 0)],
        vec![
            difference((0, i), (1, j), 0),
            difference((1, j), (0, i), 0),
            difference((0, x), (1, y), 0),
            difference((1, y), (0, x), 0),
        ],
    ]
}
