//! The execution of warps, each until it waits or comes to an open condition. The effects at barriers are in `effect`.

use super::code::{Code, Role};
use super::effect::{self, Here};
use super::needs::{Need, Needs};
use super::state::{Clock, Split, State, Stop, Warp};
use super::term::{Atoms, MEMORY, Poly};
use super::value::{JOINS, LANES, OPERATIONS, OTHERS, TESTS, Value, active, masked, number};
use crate::flow::End;
use crate::site::{Site, integer};
use ptx_core::hash::{Map, Set};
use ptx_core::ir::{Base, Inst, Operand, RegId, Symbol};
use ptx_core::isa::{Class, SpecialRegister, Type};
use std::cell::RefCell;
use std::rc::Rc;

/// The most steps of an exploration.
pub(super) const STEPS: u64 = 12_000_000;

/// An exploration ends without a proof.
#[derive(Clone, Debug)]
pub(crate) struct Halt {
    pub(crate) inst: usize,
    pub(crate) text: String,
    /// True if an order of the events goes wrong, and not only something is not described.
    pub(crate) is_violation: bool,
}

pub(crate) fn gap<T>(inst: usize, text: impl Into<String>) -> Result<T, Halt> {
    Err(Halt { inst, text: text.into(), is_violation: false })
}

pub(crate) fn wrong<T>(inst: usize, text: impl Into<String>) -> Result<T, Halt> {
    Err(Halt { inst, text: text.into(), is_violation: true })
}

/// The lanes that execute an instruction.
pub(crate) enum Who {
    Lanes(u32),
    Open(Poly),
    Unknown,
}

/// The result of one instruction.
pub(crate) enum Done {
    Next,
    /// The warp waits, and executes it again.
    Waits,
    Open(Poly),
}

pub(crate) struct Walk<'c, 'm> {
    pub(crate) code: &'c Code<'m>,
    pub(crate) atoms: Atoms,
    pub(crate) block: [u32; 3],
    pub(crate) cluster: [u32; 3],
    /// Bytes of a box, by the tensor map's parameter.
    pub(crate) boxes: Map<String, u64>,
    /// Bytes that copies write: block, start and end.
    pub(crate) ranges: Set<(usize, u32, u32)>,
    /// Barriers: block and address.
    pub(crate) marks: Set<(usize, u32)>,
    /// Instructions that have computed a term, or compared one.
    pub(crate) reads: Set<usize>,
    /// Loads of memory that is taken for constant.
    pub(crate) loads: Set<usize>,
    /// Instructions that may read bytes that nothing has written.
    pub(crate) unwritten: Set<usize>,
    /// Copies to memory: true for those that are always behind the end of the launch before.
    pub(crate) stores: Map<usize, bool>,
    /// The events that barriers pass on.
    pub(crate) needs: RefCell<Needs>,
}

impl Walk<'_, '_> {
    /// Executes all warps until each waits, has ended or comes to an open condition; false if none moved.
    pub(crate) fn run(&mut self, state: &mut State) -> Result<bool, Halt> {
        let mut has_moved = false;
        loop {
            let mut moved = false;
            for warp in 0..state.warps.len() {
                if state.warps[warp].stop != Stop::Ended {
                    moved |= self.warp(state, warp)?;
                }
            }
            if !moved {
                return Ok(has_moved);
            }
            has_moved = true;
        }
    }

    /// Executes one warp; true if it moved.
    fn warp(&mut self, state: &mut State, w: usize) -> Result<bool, Halt> {
        let mut moved = false;
        state.warps[w].stop = Stop::None;
        loop {
            self.meet(state, w);
            let at = state.warps[w].at;
            if state.warps[w].live == 0 || at >= self.code.function.insts.len() {
                let warp = &mut state.warps[w];
                warp.stop = Stop::Ended;
                let (block, clock) = (warp.block, warp.clock.clone());
                state.ended[block].join(&clock);
                if let Some(text) = effect::open_copy(state, w) {
                    return wrong(at.saturating_sub(1), text);
                }
                effect::complete_cluster(state);
                return Ok(true);
            }
            if !self.code.counts[at] {
                let meet = state.warps[w].splits.last().map(|split| split.meet).filter(|meet| *meet > at);
                state.warps[w].at = self.code.next[at].min(meet.unwrap_or(usize::MAX));
                continue;
            }
            self.atoms.spend(1);
            if self.atoms.steps.get() > STEPS {
                return gap(at, format!("its exploration takes more than the budget of {STEPS} steps"));
            }
            match self.step(state, w, at)? {
                Done::Next => {
                    state.warps[w].open = 0;
                    moved = true;
                }
                Done::Waits => {
                    state.warps[w].stop = Stop::Waits;
                    return Ok(moved);
                }
                Done::Open(of) => {
                    state.warps[w].stop = Stop::Open(of);
                    return Ok(moved);
                }
            }
        }
    }

    /// Joins lanes that have come to where they meet.
    fn meet(&self, state: &mut State, w: usize) {
        let warp = &mut state.warps[w];
        while let Some(top) = warp.splits.last_mut() {
            if warp.mask & warp.live != 0 && warp.at != top.meet {
                break;
            }
            match (top.other.take(), &mut top.both) {
                (Some((at, mask)), both) => {
                    (warp.at, warp.mask) = (at, mask & warp.live);
                    if let Some(both) = both {
                        std::mem::swap(&mut both.registers, &mut warp.registers);
                        // What the other side has left open stays so.
                        both.is_synchronized &= warp.since == 0 && warp.behind.is_none();
                    }
                }
                (None, both) => {
                    (warp.at, warp.mask) = (top.meet, top.mask & warp.live);
                    both.iter().for_each(|both| both.join(&mut warp.registers));
                    warp.splits.pop();
                }
            }
        }
    }

    /// The lanes for which a guard holds.
    pub(crate) fn who(&self, state: &State, w: usize, inst: &Inst) -> Who {
        let warp = &state.warps[w];
        let Some(guard) = inst.guard else { return Who::Lanes(warp.mask) };
        let value = &warp.registers[guard.register.index()];
        let lanes = active(warp.mask);
        let bits: Option<u32> = lanes
            .map(|lane| Some(u32::from((value.at(lane)? != 0) != guard.negated) << lane))
            .try_fold(0, |sum, bit| Some(sum | bit?));
        if let Some(bits) = bits {
            return Who::Lanes(bits);
        }
        match value.cond(warp.mask) {
            Some(cond) => match state.facts.truth(&self.atoms, &cond) {
                Ok(value) => Who::Lanes(if value != guard.negated { warp.mask } else { 0 }),
                Err(open) => Who::Open(open),
            },
            None => Who::Unknown,
        }
    }

    /// Returns true if a warp that a clock is of comes behind an event, or may do so if barriers pass more on.
    pub(crate) fn is_behind(&self, state: &State, w: usize, clock: &Clock, (need, event): (Need, u32)) -> bool {
        clock.at(need.0) >= event || self.may_come_behind(state, w, need)
    }

    /// Returns true if a warp may come behind an event if barriers pass more on.
    pub(crate) fn may_come_behind(&self, state: &State, w: usize, need: Need) -> bool {
        self.needs.borrow_mut().ask(w, &state.warps[w].joined, need)
    }

    fn step(&mut self, state: &mut State, w: usize, at: usize) -> Result<Done, Halt> {
        let inst = &self.code.function.insts[at];
        let Some(site) = self.code.site(at) else {
            return gap(at, "an instruction in `unchecked { }`, whose meaning is unknown");
        };
        let who = match self.who(state, w, inst) {
            // One state stands for both sides of a branch.
            Who::Open(_) if state.warps[w].is_on_a_side() => Who::Unknown,
            who => who,
        };
        if ptx_core::check::graph::ends(inst) {
            return self.branch(state, w, at, who);
        }
        let lanes = match who {
            Who::Lanes(lanes) => lanes,
            Who::Open(of) => return Ok(Done::Open(of)),
            Who::Unknown if self.code.roles[at].only_orders() => {
                state.warps[w].at += 1;
                return Ok(Done::Next);
            }
            Who::Unknown if self.code.roles[at].only_computes() => {
                self.forget(state, w, at);
                state.warps[w].at += 1;
                return Ok(Done::Next);
            }
            Who::Unknown => return gap(at, "a value that is not described decides if this is executed"),
        };
        let role = self.code.roles[at];
        // A fence on a side of a branch is perhaps not executed.
        let is_passed = state.warps[w].is_on_a_side() && role.only_orders() && role != Role::WarpSync;
        if lanes == 0 || is_passed {
            state.warps[w].at += 1;
            return Ok(Done::Next);
        }
        let done = match self.code.roles[at] {
            role if role.only_computes() => match self.compute(state, w, (at, &site), lanes)? {
                Done::Open(_) if state.warps[w].is_on_a_side() => {
                    self.forget(state, w, at);
                    Done::Next
                }
                done => done,
            },
            _ => Here { walk: self, state, w, at, site, lanes }.act()?,
        };
        // Instructions that are aligned bring the lanes together.
        if lanes == u32::MAX && site.is("aligned") {
            state.synchronize(w);
        }
        if matches!(done, Done::Next) {
            state.warps[w].at += 1;
        }
        Ok(done)
    }

    fn branch(&mut self, state: &mut State, w: usize, at: usize, who: Who) -> Result<Done, Halt> {
        let block = self.code.flow.graph.block_of(at);
        let taken = match who {
            Who::Lanes(lanes) => lanes,
            Who::Open(of) if !self.waits_for_memory(block, &of) => return Ok(Done::Open(of)),
            Who::Open(_) | Who::Unknown => return self.undecided(state, w, at, block),
        };
        let meet = self.code.start(self.code.meet[block]);
        let warp = &mut state.warps[w];
        let to = match self.code.flow.ends[block] {
            End::Jump(to) => self.code.start(to),
            End::Leave => {
                warp.live &= !taken;
                warp.mask &= !taken;
                warp.at = at + 1;
                return Ok(Done::Next);
            }
            _ => return gap(at, "a jump to a computed place is not described"),
        };
        if taken == warp.mask {
            warp.at = to;
        } else if taken == 0 {
            warp.at = at + 1;
        } else {
            warp.splits.push(Split { meet, mask: warp.mask, other: Some((at + 1, warp.mask & !taken)), both: None });
            (warp.at, warp.mask) = (to, taken);
        }
        Ok(Done::Next)
    }

    /// The registers that an instruction writes have any value.
    pub(super) fn forget(&mut self, state: &mut State, w: usize, at: usize) {
        let inst = &self.code.function.insts[at];
        let mut all = Vec::new();
        ptx_core::check::access::writes(inst, &mut |register| all.push(register));
        for register in all {
            let value = self.any(state, w, register);
            let (mask, live) = (state.warps[w].mask, state.warps[w].live);
            self.set(state, w, register, value, (mask, live));
        }
    }

    /// Any value: of one lane it has a name.
    fn any(&mut self, state: &State, w: usize, register: RegId) -> Value {
        let is_number = self.code.function.registers.get(register.index()).is_some_and(|own| integer(own.ty).is_some());
        if is_number && state.warps[w].mask.count_ones() == 1 {
            Value::term(self.atoms.fresh(true))
        } else {
            Value::Unknown
        }
    }

    pub(crate) fn set(&self, state: &mut State, w: usize, register: RegId, value: Value, (mask, live): (u32, u32)) {
        let warp = &mut state.warps[w];
        let live = live & self.readers(warp, register);
        let value = match value {
            // Bits that nothing reads are zero.
            Value::Number(_) | Value::Lanes(_) | Value::Some(..) => {
                value.changed(|own| own & self.code.bits[register.index()])
            }
            value => value,
        };
        let old = &warp.registers[register.index()];
        let new = old.merged(value, mask, live);
        if *old != new {
            Rc::make_mut(&mut warp.registers)[register.index()] = new;
        }
    }

    /// The lanes whose old value of a register may still be read: those that execute, and those that wait for them where it is read from there on.
    fn readers(&self, warp: &Warp, register: RegId) -> u32 {
        let reads = |at: usize| self.code.live_at(at).contains(&register.0);
        warp.splits.iter().fold(warp.mask, |lanes, split| {
            let (at, later) = split.other.unwrap_or((split.meet, 0));
            let met = split.mask & !later;
            let meets = if reads(split.meet) { met } else { 0 };
            lanes | meets | if later != 0 && reads(at) { later } else { 0 }
        })
    }

    /// Executes an instruction that computes registers.
    fn compute(
        &mut self,
        state: &mut State,
        w: usize,
        (at, site): (usize, &Site<'_>),
        lanes: u32,
    ) -> Result<Done, Halt> {
        let value = match self.code.roles[at] {
            Role::LoadParam => self.param(site),
            Role::Load => self.loaded(state, w, (at, site), lanes),
            Role::MapShared => self.mapped(state, w, site),
            Role::Elect => Some(Value::lanes(|lane| u64::from(lanes.trailing_zeros() as usize == lane))),
            Role::Shuffle => self.shuffled(state, w, site, lanes),
            Role::Compare => match self.compared(state, w, (at, site), lanes) {
                Some(Ok(value)) => Some(value),
                Some(Err(open)) => return Ok(Done::Open(open)),
                None => None,
            },
            Role::Select => match self.selected(state, w, site, lanes) {
                Some(Ok(value)) => Some(value),
                Some(Err(open)) => return Ok(Done::Open(open)),
                None => None,
            },
            _ => self.operated(state, w, (at, site), lanes),
        };
        let value = value.or_else(|| self.is_uniform(state, w, at, lanes).then_some(Value::Uniform));
        let mut written = Vec::new();
        ptx_core::check::access::writes(site.inst, &mut |register| written.push(register));
        let live = state.warps[w].live;
        let first = match site.operand(0) {
            Operand::Reg(register) => Some(*register),
            Operand::Pair(first, second) => match (&**first, &**second, self.code.roles[at]) {
                (_, Operand::Reg(register), Role::Elect) => Some(*register),
                (Operand::Reg(register), _, _) => Some(*register),
                _ => None,
            },
            _ => None,
        };
        for register in written {
            let own = value.clone().filter(|_| Some(register) == first);
            let value = match own {
                Some(value) => value,
                None => Value::Unknown,
            };
            self.set(state, w, register, value, (lanes, live));
        }
        Ok(Done::Next)
    }

    fn param(&mut self, site: &Site<'_>) -> Option<Value> {
        let Operand::Memory { base: Base::Symbol(Symbol::Var(id)), offset, .. } = site.operand(1) else { return None };
        let variable = self.code.module.variables.get(id.index())?;
        let (bits, is_signed) = site.last_type().and_then(integer)?;
        let name = super::assume::name_of((&variable.name, variable.size), u64::try_from(*offset).ok()?, bits);
        if !is_signed {
            return Some(Value::term(self.atoms.name(name)));
        }
        // A number with a sign is one without it, less than its least value.
        let own = self.atoms.name(format!("{name} + 2^{}", bits - 1));
        Some(Value::term(own.add(-(1 << (bits - 1)))))
    }

    /// A value from memory: all lanes that read one address at a time read one value.
    fn loaded(&mut self, state: &State, w: usize, (at, site): (usize, &Site<'_>), lanes: u32) -> Option<Value> {
        let (bits, is_signed) = site.last_type().and_then(integer)?;
        if !matches!(site.operand(0), Operand::Reg(_)) {
            return None;
        }
        let address = self.address(state, w, site.operand(1)).poly(lanes, 64).filter(|_| site.is("nc"));
        let own = match address {
            Some(address) => {
                self.loads.insert(at);
                let kind = i128::from(bits) * if is_signed { -1 } else { 1 };
                self.atoms.of(MEMORY, vec![address, Poly::number(kind)])
            }
            None if lanes.count_ones() == 1 => self.atoms.fresh(true),
            None => return None,
        };
        Some(Value::term(if is_signed { own.add(-(1 << (bits - 1))) } else { own }))
    }

    fn mapped(&mut self, state: &State, w: usize, site: &Site<'_>) -> Option<Value> {
        let (address, rank) = (self.source(state, w, site.operand(1), 32), self.source(state, w, site.operand(2), 32));
        let both = |lane: usize| Some((address.at(lane)?, rank.at(lane)?));
        let mask = state.warps[w].mask;
        active(mask).try_for_each(|lane| both(lane).map(|_| ()))?;
        Some(Value::lanes(|lane| both(lane).map_or(0, |(address, rank)| address & 0xff_ffff | (rank + 1) << 24)))
    }

    fn shuffled(&mut self, state: &State, w: usize, site: &Site<'_>, lanes: u32) -> Option<Value> {
        let (value, from) = (self.source(state, w, site.operand(1), 32), self.source(state, w, site.operand(2), 32));
        let clamp = self.source(state, w, site.operand(3), 32);
        let (Value::Number(from), Value::Number(31)) = (from, clamp) else { return None };
        let from = (from & 31) as usize;
        match &value {
            Value::Lanes(_) | Value::Some(..) => value.at(from).map(Value::Number),
            Value::Single(lane, of) if *lane == from => Some(Value::term((**of).clone())),
            Value::Number(_) | Value::Term(_) if lanes == state.warps[w].mask => Some(value),
            _ => None,
        }
    }

    fn compared(
        &mut self,
        state: &State,
        w: usize,
        (at, site): (usize, &Site<'_>),
        lanes: u32,
    ) -> Option<Result<Value, Poly>> {
        let kind = integer(site.ty(1)?)?;
        let (_, test, of) = TESTS.iter().find(|(name, ..)| site.is(name))?;
        let (a, b) = (self.source(state, w, site.operand(1), kind.0), self.source(state, w, site.operand(2), kind.0));
        let join = JOINS.iter().find(|(name, ..)| site.is(name));
        let numbers = |lane: usize| Some(test(number(a.at(lane)?, kind), number(b.at(lane)?, kind)));
        let plain = active(lanes).all(|lane| numbers(lane).is_some());
        let value = if plain {
            Value::lanes(|lane| u64::from(numbers(lane).unwrap_or(false)))
        } else {
            let (a, b) = (a.read(lanes, kind)?, b.read(lanes, kind)?);
            self.reads.insert(at);
            let difference = a.plus(&b, -1)?;
            if kind.1 && self.atoms.is_data(&difference) {
                return None;
            }
            Value::truth(of(difference)?)
        };
        let Some((_, both, join)) = join else { return Some(Ok(value)) };
        let (other, negated) = match site.operand(3) {
            Operand::Not(inner) => (self.source(state, w, inner, 1), true),
            operand => (self.source(state, w, operand, 1), false),
        };
        let all = |of: &Value| active(lanes).all(|lane| of.at(lane).is_some());
        if all(&value) && all(&other) {
            let pair = |lane: usize| (value.at(lane) == Some(1), (other.at(lane) == Some(1)) != negated);
            return Some(Ok(Value::lanes(|lane| {
                let (a, b) = pair(lane);
                u64::from(both(a, b))
            })));
        }
        let second = other.cond(lanes)?;
        let second = if negated { second.negate() } else { second };
        Some(Ok(Value::truth(join(value.cond(lanes)?, second))))
    }

    fn selected(&mut self, state: &State, w: usize, site: &Site<'_>, lanes: u32) -> Option<Result<Value, Poly>> {
        let bits = site.last_type().map_or(32, Type::bits);
        let (a, b) = (self.source(state, w, site.operand(1), bits), self.source(state, w, site.operand(2), bits));
        let predicate = self.source(state, w, site.operand(3), 1);
        if matches!(predicate, Value::Lanes(_) | Value::Some(..)) {
            let one = |lane: usize| if predicate.at(lane)? != 0 { a.at(lane) } else { b.at(lane) };
            return active(lanes)
                .all(|lane| one(lane).is_some())
                .then(|| Ok(Value::lanes(|lane| one(lane).unwrap_or(0))));
        }
        match state.facts.truth(&self.atoms, &predicate.cond(lanes)?) {
            Ok(true) => Some(Ok(a)),
            Ok(false) => Some(Ok(b)),
            Err(open) => Some(Err(open)),
        }
    }

    fn operated(&mut self, state: &State, w: usize, (at, site): (usize, &Site<'_>), lanes: u32) -> Option<Value> {
        let operation = OPERATIONS.iter().find(|operation| operation.name == site.row.name)?;
        if OTHERS.iter().any(|modifier| site.is(modifier)) {
            return None;
        }
        if !matches!(site.operand(0), Operand::Reg(_)) || matches!(site.operand(1), Operand::Vector(_)) {
            return None;
        }
        let is_pred = |at: usize| site.ty(at).is_some_and(|ty| ty.class() == Class::Pred);
        let kind = site.ty(1).or_else(|| site.ty(0)).or_else(|| site.last_type());
        if kind.is_some_and(|kind| kind.class() == Class::Pred) || is_pred(1) {
            if let Some((_, both, join)) = JOINS.iter().find(|(name, ..)| *name == site.row.name) {
                let [a, b] = [1, 2].map(|at| self.source(state, w, site.operand(at), 1));
                let numbers = |lane: usize| Some(both(a.at(lane)? != 0, b.at(lane)? != 0));
                if active(lanes).all(|lane| numbers(lane).is_some()) {
                    return Some(Value::lanes(|lane| u64::from(numbers(lane).unwrap_or(false))));
                }
                return Some(Value::truth(join(a.cond(lanes)?, b.cond(lanes)?)));
            }
            return match site.operand(1) {
                Operand::Reg(register) if operation.is_copy => Some(state.warps[w].registers[register.index()].clone()),
                Operand::Int(value) if operation.is_copy => Some(Value::Number(*value)),
                _ => None,
            };
        }
        let kind = kind.and_then(integer)?;
        // The third source of `mad.wide` is as wide as the result.
        let kind_of = |at: usize| if site.is("wide") && at == 2 { (kind.0 * 2, kind.1) } else { kind };
        let sources: Vec<Value> = (1..site.inst.operands.len())
            .filter(|at| *site.operand(*at) != Operand::Absent)
            .map(|at| self.source(state, w, site.operand(at), kind_of(at - 1).0))
            .collect();
        let to = integer(site.ty(0).or_else(|| site.last_type())?)?.0.max(if site.is("wide") { kind.0 * 2 } else { 0 });
        if operation.is_copy
            && let [value @ (Value::Single(..) | Value::Term(_))] = &sources[..]
        {
            return Some(value.clone());
        }
        let of_lane = |lane: usize| {
            let sources = sources.iter().enumerate();
            let numbers: Option<Vec<i128>> =
                sources.map(|(at, source)| Some(number(source.at(lane)?, kind_of(at)))).collect();
            (operation.numbers)(&numbers?, kind.0).map(|value| masked(value as u64, to))
        };
        if active(lanes).all(|lane| of_lane(lane).is_some()) {
            return Some(Value::lanes(|lane| of_lane(lane).unwrap_or(0)));
        }
        self.reads.insert(at);
        let term = |(at, source): (usize, &Value)| match operation.is_modular {
            true => source.poly(lanes, kind.0),
            false => source.read(lanes, kind_of(at)),
        };
        let terms: Option<Vec<Poly>> = sources.iter().enumerate().map(term).collect();
        (operation.terms)(&mut self.atoms, &terms?, kind.0).map(|of| match of.known() {
            Some(value) => Value::Number(masked(value as u64, to)),
            None => Value::term(of),
        })
    }

    /// The address of an operand in brackets.
    pub(crate) fn address(&mut self, state: &State, w: usize, operand: &Operand) -> Value {
        let Operand::Memory { base, offset, .. } = operand else { return Value::Unknown };
        let value = match base {
            Base::Reg(register) => state.warps[w].registers.get(register.index()).cloned().unwrap_or(Value::Unknown),
            Base::Symbol(Symbol::Var(id)) => self.variable(id.index()),
            Base::Absolute => Value::Number(0),
            Base::Symbol(_) | Base::Element(_) => Value::Unknown,
        };
        match value {
            Value::Number(_) | Value::Lanes(_) | Value::Some(..) => {
                value.changed(|own| own.wrapping_add(*offset as u64))
            }
            Value::Term(of) => Value::term(of.add((*offset).into())),
            Value::Single(lane, of) => Value::Single(lane, Rc::new(of.add((*offset).into()))),
            _ => Value::Unknown,
        }
    }

    fn variable(&mut self, at: usize) -> Value {
        match self.code.shared.iter().find(|(id, _)| id.index() == at) {
            Some((_, address)) => Value::Number((*address).into()),
            None => match self.code.module.variables.get(at) {
                Some(variable) => Value::term(self.atoms.name(format!("&{}", variable.name))),
                None => Value::Unknown,
            },
        }
    }

    pub(crate) fn source(&mut self, state: &State, w: usize, operand: &Operand, bits: u32) -> Value {
        let own = |register: &RegId| state.warps[w].registers.get(register.index()).cloned().unwrap_or(Value::Unknown);
        match operand {
            Operand::Reg(register) => own(register),
            Operand::Sum(register, offset) => match own(register) {
                Value::Term(of) => Value::term(of.add((*offset).into())),
                own => own.changed(|own| masked(own.wrapping_add(*offset as u64), bits)),
            },
            Operand::Int(value) => Value::Number(masked(*value, bits)),
            Operand::Special(register) => self.special(state, w, register),
            Operand::Symbol(Symbol::Var(id), offset) => match self.variable(id.index()) {
                Value::Number(value) => Value::Number(value.wrapping_add(*offset as u64)),
                Value::Term(of) => Value::term(of.add((*offset).into())),
                other => other,
            },
            _ => Value::Unknown,
        }
    }

    fn special(&mut self, state: &State, w: usize, register: &SpecialRegister) -> Value {
        let name = register.name.trim_start_matches('%');
        let (name, component) = name.split_once('.').unwrap_or((name, register.component));
        let d = ["x", "y", "z"].iter().position(|own| *own == component).unwrap_or(0);
        let warp = &state.warps[w];
        let extent = |of: [u32; 3], at: usize, d: usize| {
            let [x, y, _] = of.map(|extent| extent as usize);
            ([at % x, at / x % y, at / x / y][d]) as u64
        };
        let (index, rank) = (warp.index, extent(self.cluster, warp.block, d));
        let size = self.cluster[d];
        match name {
            "tid" => Value::lanes(|lane| extent(self.block, index * LANES + lane, d)),
            "ntid" => Value::Number(self.block[d].into()),
            "laneid" => Value::lanes(|lane| lane as u64),
            "cluster_ctarank" => Value::Number(warp.block as u64),
            "cluster_ctaid" => Value::Number(rank),
            "cluster_nctaid" => Value::Number(size.into()),
            "cluster_nctarank" => Value::Number(self.cluster.iter().map(|extent| u64::from(*extent)).product()),
            "clusterid" => Value::term(self.atoms.name(format!("%clusterid.{component}"))),
            "nclusterid" => Value::term(self.atoms.name(format!("%nclusterid.{component}"))),
            "ctaid" => {
                let cluster = self.atoms.name(format!("%clusterid.{component}"));
                cluster.scale(size.into()).map_or(Value::Unknown, |of| Value::term(of.add(rank.into())))
            }
            "nctaid" => {
                let clusters = self.atoms.name(format!("%nclusterid.{component}"));
                clusters.scale(size.into()).map_or(Value::Unknown, Value::term)
            }
            _ => Value::Unknown,
        }
    }

    pub(crate) fn name_of(&self, at: usize) -> &'static str {
        self.code.site(at).map_or("", |site| site.row.name)
    }

    /// The condition as words.
    pub(crate) fn show(&self, of: &Poly) -> String {
        format!("{} >= 0", self.atoms.show(of))
    }
}
