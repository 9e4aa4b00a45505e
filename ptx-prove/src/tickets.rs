//! Numbers that an atomic counter gives out, as blocks that take their parts of the work by one do.
//!
//! One thread of each block adds one to a counter that nothing else of the launch writes. The numbers that blocks get are then consecutive, modulo the
//! counter's width: those of two blocks differ, by less than the number of blocks. The thread hands its number to the others in a word of shared memory
//! that is written once. That they read this number is a fact about order: if no thread races, and none reads what is not written. So it is taken in
//! questions about races alone.

use crate::form::{Cond, Form, Sym};
use crate::machine::Machine;
use crate::query::{Clause, difference};
use crate::trace::{Access, Kind, What};
use ptx_core::ir::Space;
use ptx_target::sort::SortSmall;

/// The facts of an entry.
pub(crate) struct Tickets {
    /// The numbers of two blocks are others.
    pub(crate) differ: Vec<Clause>,
}

/// Bytes of a word of shared memory.
const WORD: u64 = 4;

impl Tickets {
    pub(crate) fn new(machine: &Machine<'_>) -> Tickets {
        let trace = &machine.trace;
        let counted: Vec<(usize, Sym)> =
            trace.tickets.iter().copied().filter(|(at, _)| is_counter(machine, *at)).collect();
        let own = counted.iter().map(|(at, symbol)| (*symbol, trace.accesses[*at].size));
        let mut words: Vec<(Sym, u64)> = trace
            .slot_loads
            .iter()
            .filter(|(at, _)| counted.iter().any(|(_, ticket)| is_handed(machine, &trace.accesses[**at], *ticket)))
            .map(|(_, symbol)| (*symbol, WORD))
            .collect();
        words.sort_small();
        Tickets { differ: own.chain(words).filter_map(|number| others(machine, number)).collect() }
    }
}

/// Returns true if one thread of a block makes an access, once.
fn is_of_one(machine: &Machine<'_>, access: &Access) -> bool {
    access.turns.is_empty() && machine.is_of_one_thread(&Cond::all([access.path.cond(), access.guard.clone()]))
}

/// Returns true if an atomic addition is all that changes the bytes of its counter, in all blocks.
fn is_counter(machine: &Machine<'_>, at: usize) -> bool {
    let access = &machine.trace.accesses[at];
    let is_param = matches!(machine.bases[access.base].what, What::Param(_));
    // Other devices may have the memory of a table, and copies by a map have no place.
    is_param
        && access.kind == Kind::Atomic
        && !access.narrow
        && machine.entries.is_empty()
        && machine.trace.maps.iter().all(|map| !map.writes)
        && is_of_one(machine, access)
        && is_alone(machine, at)
}

/// Returns true if no other access writes bytes of an access.
fn is_alone(machine: &Machine<'_>, at: usize) -> bool {
    let own = &machine.trace.accesses[at];
    let Some(start) = own.offset.known() else { return false };
    let end = start + i128::from(own.size);
    let others = machine.trace.accesses.iter().enumerate().filter(|(other, _)| *other != at);
    let mut writers = others.map(|(_, access)| access).filter(|access| {
        let writes = !matches!(access.kind, Kind::Read | Kind::Fetch | Kind::Take);
        writes && machine.may_share(own.base, access.base)
    });
    writers.all(|access| {
        let range = machine.world.range(&access.offset).filter(|_| access.base == own.base);
        range.is_some_and(|(least, most)| least >= end || most + i128::from(access.size) <= start)
    })
}

/// Returns true if a load of a word of shared memory reads the lower bits of a ticket: those of the word's only store.
fn is_handed(machine: &Machine<'_>, load: &Access, ticket: Sym) -> bool {
    let base = &machine.bases[load.base];
    if machine.has_signals || load.strong || base.space != Space::Shared || !matches!(base.what, What::Var(_)) {
        return false;
    }
    let is_store = |access: &Access| {
        let is_same = (access.base, &access.offset, access.size) == (load.base, &load.offset, WORD);
        is_same && access.kind == Kind::Write && !access.is_copy && !access.of_warp
    };
    let accesses = &machine.trace.accesses;
    let Some(at) = accesses.iter().position(is_store) else { return false };
    let difference = accesses[at].value.as_ref().and_then(|value| value.sub(&Form::symbol(ticket)));
    let is_ticket = difference.is_some_and(|difference| difference.modulo(1 << (8 * WORD)) == Some(0));
    load.size == WORD && is_ticket && is_of_one(machine, &accesses[at]) && is_alone(machine, at)
}

/// Numbers of so many bytes of two blocks are others: they differ by less than the number of blocks, modulo their width.
fn others(machine: &Machine<'_>, (symbol, size): (Sym, u64)) -> Option<Clause> {
    let count = machine.launch.blocks.iter().try_fold(1i128, |product, blocks| {
        let (_, most) = machine.world.range(blocks)?;
        product.checked_mul(most)
    });
    let modulus = 1i128 << (8 * size);
    let most = count.filter(|count| *count < modulus)? - 1;
    let form = Form::symbol(symbol);
    // From 1 to `most` further.
    let further = |(a, b): (usize, usize), around: i128| {
        vec![difference((b, &form), (a, &form), around - 1), difference((a, &form), (b, &form), most - around)]
    };
    let ways = [(0, 1), (1, 0)].into_iter().flat_map(|order| [0, modulus].map(|around| further(order, around)));
    Some(ways.collect())
}
