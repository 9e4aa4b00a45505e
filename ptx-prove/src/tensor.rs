//! Tensor memory, as far as each warp uses it by itself: one warp allocates columns and gives them back, and warps load and store in their own lanes.
//!
//! An asynchronous load or store ends at a wait of the same warp. So a walk over the events of a warp describes it: no load meets a store that it has
//! not waited for, nothing is pending at a barrier, and all columns are deallocated. Warps meet where one gives columns back that another one
//! uses: that is a race like any other, for which the lanes are bytes.

use crate::form::{Coef, Cond, Form, Mono, Sym};
use crate::machine::{Machine, State, Value};
use crate::memory::{access_of_warp, count};
use crate::path::Path;
use crate::query::{BUDGET, decide};
use crate::signals::signal;
use crate::site::Site;
use crate::trace::{Access, Act, Base, Kind, Mark, Slot, Span, Use, What};
use crate::world::Scope;
use ptx_core::check::access;
use ptx_core::hash::{Map, Set};
use ptx_core::ir::{Function, Inst, Operand, RegId, Space};
use ptx_target::sort::SortSmall;

/// Lanes of a block's tensor memory, and those of a warp's quarter.
const LANES: i128 = 128;
const QUARTER: i128 = 32;
/// Columns of a block.
const COLUMNS: i128 = 512;
/// The most steps of a walk.
const STEPS: u32 = 50_000;

/// Lanes of a warp's quarter and columns of an allocation: the first and the number of each.
type Cells = [(i128, i128); 2];

/// The kinds of events.
#[derive(Clone, Copy)]
enum Name {
    Allocate,
    Free,
    Relinquish,
    Load,
    Store,
    WaitLoad,
    WaitStore,
}

const NAMES: [(&str, Name); 7] = [
    ("tcgen05.alloc", Name::Allocate),
    ("tcgen05.dealloc", Name::Free),
    ("tcgen05.relinquish_alloc_permit", Name::Relinquish),
    ("tcgen05.ld", Name::Load),
    ("tcgen05.st", Name::Store),
    ("tcgen05.wait::ld", Name::WaitLoad),
    ("tcgen05.wait::st", Name::WaitStore),
];

/// Lanes of a shape, and its columns for each register.
pub(crate) const SHAPES: [(&str, [i128; 2]); 4] =
    [("32x32b", [32, 1]), ("16x64b", [16, 2]), ("16x128b", [16, 2]), ("16x256b", [16, 2])];

/// Modifiers that this module does not describe.
const OTHERS: [&str; 5] = ["exclusive", "cta_group::2", "pack::16b", "unpack::16b", "red"];

/// An instruction of tensor memory; of one that is not described here the accesses alone.
pub(crate) fn execute(
    machine: &mut Machine<'_>,
    at: usize,
    site: &Site<'_>,
    state: &mut State,
    guard: &Cond,
) -> Vec<(RegId, Value)> {
    match record(machine, at, site, state, guard) {
        Some(()) => Vec::new(),
        None => signal(machine, at, site, state, guard),
    }
}

/// Records an instruction; nothing if it is not described here.
fn record(machine: &mut Machine<'_>, at: usize, site: &Site<'_>, state: &State, guard: &Cond) -> Option<()> {
    let name = NAMES.iter().find(|(name, _)| *name == site.row.name).map(|(_, name)| *name)?;
    let is_other = OTHERS.iter().any(|other| site.is(other)) || *guard != Cond::Const(true);
    if is_other || machine.cluster != [1; 3] || !machine.world.threads.is_multiple_of(32) {
        return None;
    }
    let known = |machine: &mut Machine<'_>, operand: &Operand| match machine.source(site, operand, None) {
        Value::Bits(form) => form.known(),
        _ => None,
    };
    let quarters = (0..machine.world.threads as i128).map(|thread| thread / 32 % 4 * QUARTER);
    let own = Form::table(quarters.collect());
    let (act, address, uses) = match name {
        Name::Allocate => {
            let columns = known(machine, site.operand(1))?;
            let slot = access_of_warp(machine, at, site, state, site.operand(0))?;
            (Act::Allocate(slot, columns), None, None)
        }
        Name::Free => {
            let columns = known(machine, site.operand(1))?;
            let Value::Bits(address) = machine.source(site, site.operand(0), None) else { return None };
            (Act::Free(columns), Some(address), Some((Form::number(0), LANES, Kind::Write)))
        }
        Name::Relinquish => (Act::Relinquish, None, None),
        Name::WaitLoad => (Act::WaitLoad, None, None),
        Name::WaitStore => (Act::WaitStore, None, None),
        Name::Load | Name::Store => {
            let is_load = matches!(name, Name::Load);
            let (memory, values) = if is_load { (1, 0) } else { (0, 1) };
            let [lanes, each] = site.one_of(&SHAPES)?;
            let cells = [lanes, each * i128::from(count(site, site.operand(values)))];
            let (address, _) = machine.address(at, site, site.operand(memory))?;
            let (act, kind) = if is_load { (Act::Load(cells), Kind::Read) } else { (Act::Store(cells), Kind::Write) };
            if is_load && !waits_at_once(machine, at) {
                return None;
            }
            (act, Some(address), Some((own, QUARTER, kind)))
        }
    };
    if let Some((lane, lanes, kind)) = uses {
        let base = base(machine);
        machine.use_of_warp((at, state), (base, lane), (lanes as u64, kind));
    }
    let node = state.from.first().copied().unwrap_or(usize::MAX);
    machine.trace.tensor(node, Use { inst: at, act, address, path: state.path.clone() });
    Some(())
}

/// Returns true if a function has such instructions.
pub(crate) fn is_used(function: &Function) -> bool {
    let names = function.insts.iter().filter_map(|inst| inst.row).map(|row| row.name);
    names.into_iter().any(|own| NAMES.iter().any(|(name, _)| *name == own))
}

/// Returns true if nothing uses the registers of a load before `tcgen05.wait::ld`, and the wait is in the same basic block.
fn waits_at_once(machine: &Machine<'_>, at: usize) -> bool {
    let insts = &machine.function.insts;
    let mut loaded = Vec::new();
    access::writes(&insts[at], &mut |register| loaded.push(register));
    let is = |inst: &Inst, name: &str| inst.row.is_some_and(|row| row.name == name);
    for next in machine.flow.rest_of_block(at + 1) {
        let inst = &insts[next];
        if is(inst, "tcgen05.wait::ld") {
            return inst.guard.is_none();
        }
        let mut uses = inst.guard.is_some_and(|guard| loaded.contains(&guard.register));
        access::registers(inst, &mut |register, _| uses |= loaded.contains(&register));
        if uses {
            return false;
        }
    }
    false
}

/// The block's tensor memory, whose bytes are lanes.
fn base(machine: &mut Machine<'_>) -> usize {
    if let Some(base) = machine.base_of.get(&What::Tensor) {
        return *base;
    }
    let (what, space, name) = (What::Tensor, Space::Shared, "tensor memory".to_owned());
    machine.add_base(Base { what, space, name, len: Form::number(LANES), align: LANES as u64 }, 1);
    machine.bases.len() - 1
}

/// The first instruction whose use of tensor memory is not found to be in order, and the reason.
pub(crate) fn disorder(machine: &Machine<'_>) -> Option<(usize, &'static str)> {
    let uses = &machine.trace.tensor;
    let first = uses.first()?;
    let Some(columns) = slots(machine) else {
        return Some((first.inst, "columns of tensor memory are allocated in a way that is not described"));
    };
    let owner = match owner(machine) {
        Ok(owner) => owner,
        Err(inst) => return Some((inst, "several warps allocate tensor memory, which is not described")),
    };
    if let Some(inst) = used_when_free(machine, owner) {
        return Some((inst, "this may use tensor memory that is given back before"));
    }
    (0..machine.world.threads / 32).find_map(|warp| {
        let mut walk = Walk {
            machine,
            warp,
            is_owner: owner == Some(warp),
            columns: &columns,
            seen: Set::default(),
            steps: STEPS,
            wrong: None,
        };
        walk.from(0, Held::default());
        walk.wrong
    })
}

/// The columns that are allocated for each slot, if they are always as many, and if nothing else writes to its variable.
fn slots(machine: &Machine<'_>) -> Option<Map<Slot, i128>> {
    let mut found: Map<Slot, i128> = Map::default();
    for one in &machine.trace.tensor {
        let Act::Allocate(slot, columns) = one.act else { continue };
        if *found.entry(slot).or_insert(columns) != columns {
            return None;
        }
    }
    let slots: Vec<Slot> = found.keys().copied().collect();
    let overlap = slots
        .iter()
        .any(|(base, at)| slots.iter().any(|(other, place)| base == other && at != place && (at - place).abs() < 4));
    let other = machine.trace.accesses.iter().any(|access| {
        let is_allocation = access.of_warp && access.kind == Kind::Write;
        access.kind != Kind::Read && !is_allocation && slots.iter().any(|slot| may_meet(machine, access, *slot))
    });
    (!overlap && !other).then_some(found)
}

/// Returns true unless an instruction leaves out the four bytes of a slot of its variable.
fn may_meet(machine: &Machine<'_>, access: &Access, (base, at): Slot) -> bool {
    if access.base != base {
        return matches!((machine.bases[access.base].what, machine.bases[base].what), (What::Peer(a, _), What::Var(b)) if a == b);
    }
    let never = |part: &Access, goal: Option<Cond>| {
        goal.is_some_and(|goal| is_never(machine, &[part.path.cond(), part.guard.clone()], &goal))
    };
    let is_before = |part: &Access| {
        let end = part.offset.plus(part.size.into());
        never(part, end.and_then(|end| Cond::lt(&Form::number(at), &end)))
    };
    let is_behind = |part: &Access| never(part, Cond::lt(&part.offset, &Form::number(at + 4)));
    // Of a copy, only the first and the last bytes are accesses: both are on one side.
    let parts = || machine.trace.accesses.iter().filter(|part| part.inst == access.inst && part.base == base);
    !parts().all(is_before) && !parts().all(is_behind)
}

/// Returns true if conditions exclude another one.
fn is_never(machine: &Machine<'_>, conds: &[Cond], goal: &Cond) -> bool {
    let goal = &machine.world.simplify(goal.clone());
    decide(&machine.world, conds, &machine.launch.facts, goal, BUDGET).is_impossible()
}

/// The warp that allocates and gives back; or an instruction that another one executes, too.
fn owner(machine: &Machine<'_>) -> Result<Option<usize>, usize> {
    let mut owner = None;
    for one in &machine.trace.tensor {
        if !matches!(one.act, Act::Allocate(..) | Act::Free(_) | Act::Relinquish) {
            continue;
        }
        for warp in (0..machine.world.threads / 32).filter(|warp| may_come(machine, &one.path, *warp)) {
            if owner.is_some_and(|owner| owner != warp) {
                return Err(one.inst);
            }
            owner = Some(warp);
        }
    }
    Ok(owner)
}

/// Returns true unless numbers keep a warp away.
fn may_come(machine: &Machine<'_>, path: &Path, warp: usize) -> bool {
    let threads = machine.world.threads;
    path.steps()
        .all(|step| step.cond.decided(threads).is_none_or(|table| table[32 * warp..32 * warp + 32].contains(&true)))
}

/// A load or store of another warp than the owner that may come behind an instruction that gives columns back.
fn used_when_free(machine: &Machine<'_>, owner: Option<usize>) -> Option<usize> {
    let trace = &machine.trace;
    let is_of_others = |one: &Use| {
        let is_use = matches!(one.act, Act::Load(_) | Act::Store(_));
        let mut warps = (0..machine.world.threads / 32).filter(|warp| Some(*warp) != owner);
        is_use && warps.any(|warp| may_come(machine, &one.path, warp))
    };
    let mut pending: Vec<(usize, usize)> = Vec::new();
    for (at, node) in trace.nodes.iter().enumerate() {
        for (place, mark) in node.marks.iter().enumerate() {
            if let Mark::Tensor(one) = mark
                && matches!(trace.tensor[*one].act, Act::Free(_))
            {
                pending.push((at, place + 1));
            }
        }
    }
    let mut seen: Set<(usize, usize)> = Set::default();
    while let Some((node, from)) = pending.pop() {
        if !seen.insert((node, from)) {
            continue;
        }
        for mark in trace.nodes[node].marks.iter().skip(from) {
            if let Mark::Tensor(one) = mark
                && is_of_others(&trace.tensor[*one])
            {
                return Some(trace.tensor[*one].inst);
            }
        }
        pending.extend(trace.nodes[node].next.iter().map(|(next, _)| (*next, 0)));
    }
    None
}

/// The operations of a warp that may be pending.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
struct Held {
    /// Loads that it has not waited for.
    loads: bool,
    /// Stores that it has not waited for.
    stores: Vec<(Slot, Cells)>,
    /// Values that are addresses of columns.
    addresses: Vec<(Sym, Slot)>,
    /// Slots whose columns it has allocated, and not given back.
    live: Vec<Slot>,
    relinquished: bool,
}

/// The walk of one warp over all events that it may come to.
struct Walk<'w, 'm> {
    machine: &'w Machine<'m>,
    warp: usize,
    /// True for the warp that allocates.
    is_owner: bool,
    columns: &'w Map<Slot, i128>,
    seen: Set<(usize, Held)>,
    steps: u32,
    wrong: Option<(usize, &'static str)>,
}

impl Walk<'_, '_> {
    fn from(&mut self, start: usize, held: Held) {
        let nodes = &self.machine.trace.nodes;
        let mut pending = vec![(start, held)];
        while let Some((at, mut held)) = pending.pop() {
            let Some(node) = nodes.get(at).filter(|node| may_come(self.machine, &node.path, self.warp)) else {
                continue;
            };
            if !self.seen.insert((at, held.clone())) {
                continue;
            }
            let mut last = 0;
            for mark in &node.marks {
                self.steps = self.steps.saturating_sub(1);
                let found = if self.steps == 0 {
                    Err((last, "this is too long"))
                } else {
                    self.mark(mark, &mut held, &mut last)
                };
                if let Err(wrong) = found {
                    self.wrong = Some(wrong);
                    return;
                }
            }
            let is_idle = !held.loads && held.stores.is_empty() && held.live.is_empty();
            if (node.may_end || node.next.is_empty()) && !is_idle {
                self.wrong =
                    Some((last, "a warp may end before it has waited for tensor memory, or has given it back"));
                return;
            }
            pending.extend(node.next.iter().map(|(next, _)| (*next, held.clone())));
        }
    }

    fn mark(&self, mark: &Mark, held: &mut Held, last: &mut usize) -> Result<(), (usize, &'static str)> {
        let trace = &self.machine.trace;
        match mark {
            Mark::Barrier(at) => {
                let barrier = &trace.barriers[*at];
                if barrier.span != Span::Warp && (held.loads || !held.stores.is_empty()) {
                    return Err((
                        barrier.inst,
                        "loads or stores of tensor memory go on while their warp passes this barrier",
                    ));
                }
            }
            Mark::Access(at) => {
                if let Some(symbol) = trace.slot_loads.get(at) {
                    let access = &trace.accesses[*at];
                    let slot = access.offset.known().map(|offset| (access.base, offset));
                    let is_live = |slot: &Slot| !self.is_owner || held.live.contains(slot);
                    let slot = slot.filter(|slot| self.columns.contains_key(slot) && is_live(slot));
                    held.addresses.extend(slot.map(|slot| (*symbol, slot)));
                }
            }
            Mark::Tensor(at) => {
                let one = &trace.tensor[*at];
                *last = one.inst;
                self.step(one, held).map_err(|missing| (one.inst, missing))?;
            }
            Mark::Copy(_) | Mark::Waits | Mark::Map(_) => {}
        }
        Ok(())
    }

    fn step(&self, one: &Use, held: &mut Held) -> Result<(), &'static str> {
        let is_pending = held.loads || !held.stores.is_empty();
        match one.act {
            Act::Allocate(slot, columns) => {
                let taken: i128 = held.live.iter().map(|slot| self.columns[slot]).sum();
                if is_pending || held.relinquished || held.live.contains(&slot) || taken + columns > COLUMNS {
                    return Err("this may wait for columns for ever, or comes while the warp uses tensor memory");
                }
                held.live.push(slot);
                held.live.sort_small();
                // What was read from there before is another address.
                held.addresses.retain(|(_, own)| *own != slot);
            }
            Act::Free(columns) => {
                let (slot, at, _) = self
                    .place(one, held)
                    .filter(|(.., further)| *further == Form::number(0))
                    .ok_or("this may be another address than that of an allocation")?;
                if is_pending || at != 0 || self.columns[&slot] != columns || !held.live.contains(&slot) {
                    return Err("this may give back other columns than were allocated, or columns in use");
                }
                held.live.retain(|own| *own != slot);
                held.addresses.retain(|(_, own)| *own != slot);
            }
            Act::Relinquish => held.relinquished = true,
            Act::WaitLoad => held.loads = false,
            Act::WaitStore => held.stores.clear(),
            Act::Load(cells) | Act::Store(cells) => {
                let cells = self
                    .cells(one, held, cells)
                    .ok_or("this may be outside of the warp's lanes, or of what is allocated")?;
                let is_store = matches!(one.act, Act::Store(_));
                let meets = held.stores.iter().any(|other| !is_store || overlaps(*other, cells));
                if meets || is_store && held.loads {
                    return Err("the warp has not waited for its loads and stores of tensor memory before this");
                }
                match is_store {
                    true => held.stores.push(cells),
                    false => held.loads = true,
                }
            }
        }
        Ok(())
    }

    /// The slot of an address, which all lanes of the warp name, and what is added to it: a number, and what is not known.
    fn place(&self, one: &Use, held: &Held) -> Option<(Slot, i128, Form)> {
        let form = one.address.as_ref()?;
        let is_slot = |(mono, coef): &&(Mono, Coef)| {
            matches!(coef, Coef::One(1)) && held.addresses.iter().any(|(symbol, _)| mono[..] == [*symbol])
        };
        let start = form.terms.iter().find(is_slot)?;
        let (_, slot) = held.addresses.iter().find(|(symbol, _)| start.0[..] == [*symbol])?;
        let added = form.constant.at(32 * self.warp);
        let is_common = (0..32).all(|lane| form.constant.at(32 * self.warp + lane) == added);
        let terms = form.terms.iter().filter(|term| term.0 != start.0).cloned().collect();
        let further = Form { terms, constant: Coef::One(0) };
        let is_own = |symbol| held.addresses.iter().any(|(own, _)| *own == symbol);
        let is_one = self.machine.world.scope(&further) <= Scope::Warp && !further.symbols().any(is_own);
        (is_common && is_one).then_some((*slot, added, further))
    }

    /// The cells of an access, in the warp's quarter and in what is allocated: all columns in which it may be.
    fn cells(&self, one: &Use, held: &Held, [lanes, columns]: [i128; 2]) -> Option<(Slot, Cells)> {
        let (slot, added, further) = self.place(one, held)?;
        let (lane, column) = (added >> 16, added & 0xffff);
        let first = self.warp as i128 % 4 * QUARTER;
        let is_lane = added >= 0 && (lane == first || lane == first + 16 && lanes == 16);
        let rest = self.columns[&slot] - column - columns;
        let fits = is_lane && rest >= 0;
        if further == Form::number(0) {
            return fits.then_some((slot, [(lane, lanes), (column, columns)]));
        }
        let leaves = [Cond::lt(&further, &Form::number(0))?, Cond::lt(&Form::number(rest), &further)?];
        let conds = [one.path.cond()];
        let stays = leaves.iter().all(|goal| is_never(self.machine, &conds, goal));
        (fits && stays).then_some((slot, [(lane, lanes), (column, columns + rest)]))
    }
}

fn overlaps((slot, a): (Slot, Cells), (other, b): (Slot, Cells)) -> bool {
    slot == other && a.iter().zip(&b).all(|((a, m), (b, n))| a < &(b + n) && b < &(a + m))
}
