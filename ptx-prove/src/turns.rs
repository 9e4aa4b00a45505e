//! Loops. A loop whose turns are decided by numbers alone is executed turn by turn, unless it has an invariant. Any other is executed once for all
//! turns: a register that a turn changes by a constant is its first value plus the number of the turn times that constant, and any other may have any value.

use crate::blocks::Edges;
use crate::common::{Common, narrow};
use crate::counted::Counted;
use crate::event::Event;
use crate::flow::End;
use crate::form::{Coef, Cond, Form};
use crate::kept::Kept;
use crate::local::{FAR, is_excluded};
use crate::machine::{Machine, PROBE, State, Value};
use crate::query::{LOOP_BUDGET, decide};
use crate::rings::Ring;
use crate::site::integer;
use crate::trace::{Barrier, Span, Turns};
use crate::world::{Meaning, Origin, Scope, Symbol};
use ptx_core::check::access;
use ptx_core::ir::RegId;
use ptx_target::sort::SortSmall;

/// The most turns of a loop that is executed turn by turn.
const TURNS: usize = 512;
/// The number of a loop's turn.
const MOST_TURNS: i128 = 1 << 62;

/// A register that every turn changes by the same amount.
struct Induction {
    register: RegId,
    bits: u32,
    step: Form,
}

/// A fact about a register at the start of every turn: its value as a number of this sign stays in the register's width.
#[derive(Clone)]
struct Candidate {
    register: RegId,
    signed: bool,
    /// `first + turn · step`
    value: Form,
    step: Form,
    range: (i128, i128),
}

/// A sum that is not zero behind any turn, and is less than zero as long as no turn was the last one: the way of a loop that ends where a counter
/// equals a number.
#[derive(Clone, PartialEq)]
struct Before {
    /// Of the turn before.
    sum: Form,
}

impl Before {
    /// The sum of the first turn.
    fn at_start(&self, turn: u32) -> Option<Form> {
        self.sum.replaced(&|symbol| Some(if symbol == turn { Form::number(0) } else { Form::symbol(symbol) }))
    }
}

/// The condition under which a turn leads to the next one.
#[derive(Clone)]
struct Back {
    cond: Cond,
    turn: u32,
    /// The first symbol that was made in the turn.
    first: u32,
}

impl Back {
    /// Returns true if numbers that the turn made are in it.
    fn has_own_numbers(&self) -> bool {
        let mut found = false;
        self.cond.forms(&mut |form| found |= form.symbols().any(|symbol| symbol >= self.first && symbol != self.turn));
        found
    }
}

/// The registers that a loop changes.
struct Changes {
    written: Vec<RegId>,
    inductions: Vec<Induction>,
    rings: Vec<Ring>,
    kept: Vec<Kept>,
    common: Vec<Common>,
}

/// What earlier executions of a loop found.
#[derive(Clone, Default)]
struct Known {
    /// Facts that do not carry over to the next turn: register and sign.
    refused: Vec<(RegId, bool)>,
    /// By place in the list: sums that are not less than zero.
    passed: Vec<usize>,
    /// By number: invariants that do not hold at the first turn, or over one turn.
    broken: Vec<usize>,
    before: Option<Back>,
    /// That of an execution with facts, in which sums do not wrap. It gives candidates alone.
    likely: Option<Back>,
    /// Registers that some turns change; nothing before the first execution that could find them.
    counted: Option<Vec<Counted>>,
}

impl Known {
    /// Leaves out what does not hold in an execution, first that on which the rest may depend: sums, facts, and invariants, which may need facts.
    fn leave_out(&mut self, found: &Summary) {
        if !found.passed.is_empty() {
            self.passed.extend(&found.passed);
        } else if !found.failed.is_empty() {
            self.refused.extend(&found.failed);
        } else {
            self.broken.extend(&found.broken);
        }
    }

    /// Returns true if an execution found the registers that it was told of. Else they are those of the next one, or none if these are not the same.
    fn counts(&mut self, found: &[Counted]) -> bool {
        let told = self.counted.clone().unwrap_or_default();
        let is_same = told.iter().all(|one| found.iter().any(|other| one.is(other)));
        if is_same && (self.counted.is_some() || found.is_empty()) {
            return true;
        }
        self.counted = Some(if self.counted.is_none() { found.to_vec() } else { Vec::new() });
        false
    }
}

/// An execution of a loop for all turns.
struct Summary {
    exits: Vec<(usize, State)>,
    /// What holds at the start of every turn.
    facts: Vec<Cond>,
    failed: Vec<(RegId, bool)>,
    passed: Vec<usize>,
    broken: Vec<usize>,
    back: Back,
    counted: Vec<Counted>,
    /// Registers that were taken for common ones and are none.
    parted: Vec<RegId>,
    /// The threads that leave together.
    leave: Scope,
}

impl Machine<'_> {
    /// Executes a loop; the states that leave it.
    pub(crate) fn turns(&mut self, header: usize, state: State) -> Vec<(usize, State)> {
        if let Some(exits) = self.passed_by(header, &state) {
            return exits;
        }
        // An invariant is for all turns at once, which are less work than many turns.
        if self.invariants(header).next().is_some() {
            return self.all_turns(header, state);
        }
        let (trace, gaps, steps) = (self.trace.clone(), self.gaps.clone(), self.steps);
        if let Some(exits) = self.turn_by_turn(header, state.clone()) {
            return exits;
        }
        (self.trace, self.gaps) = (trace, gaps);
        self.steps = steps.min(self.steps.saturating_add(steps / 4));
        self.all_turns(header, state)
    }

    /// Executes turns one by one while numbers decide them; nothing if they do not.
    fn turn_by_turn(&mut self, header: usize, state: State) -> Option<Vec<(usize, State)>> {
        let start = state.path.clone();
        if self.drafts == 0 && self.has_quiet(header) {
            let first = state.clone();
            let next = self.probe(|machine| {
                let edges = machine.region(Some(header), header, first);
                machine.join(edges.back)
            });
            if !next?.is_none_or(|next| self.is_decided(&start, &next)) {
                return None;
            }
        }
        let (mut exits, mut current) = (Vec::new(), state);
        for _ in 0..TURNS {
            let Edges { exits: more, back } = self.region(Some(header), header, current);
            exits.extend(more);
            let Some(next) = self.join(back) else { return Some(exits) };
            if !self.is_decided(&start, &next) || self.steps == 0 {
                return None;
            }
            if let Some(which) = next.path.cond().decided(self.world.threads)
                && !which.contains(&true)
            {
                return Some(exits);
            }
            current = next;
        }
        None
    }

    /// Returns true if numbers decide who comes from one state to a later one.
    fn is_decided(&self, start: &crate::path::Path, next: &State) -> bool {
        let decided = |cond: &Cond| cond.decided(self.world.threads).is_some();
        next.path.since(start).iter().all(|step| !step.decides || decided(&step.cond))
    }

    /// The registers that a loop writes.
    pub(crate) fn written_in(&self, header: usize) -> Vec<RegId> {
        let mut found = Vec::new();
        let blocks = self.flow.loops[header].iter().flat_map(|own| &own.blocks).enumerate().filter(|(_, own)| **own);
        for (block, _) in blocks {
            for inst in &self.function.insts[self.flow.graph.range(block)] {
                access::writes(inst, &mut |register| found.push(register));
            }
        }
        found.sort_small();
        found.dedup();
        found
    }

    /// Bits of a register that holds an integer; nothing of a predicate.
    pub(crate) fn bits_of(&self, register: RegId) -> Option<u32> {
        let declared = self.function.registers.get(register.index())?;
        if declared.vector > 1 || declared.ty.bits() == 1 {
            return None;
        }
        integer(declared.ty).map(|(bits, _)| bits).or(Some(declared.ty.bits()).filter(|bits| *bits <= 64))
    }

    /// Forgets what a loop writes.
    pub(crate) fn forget(&mut self, state: &mut State, written: &[RegId]) {
        for register in written {
            let value = match self.bits_of(*register) {
                Some(bits) => Value::Bits(self.world.any(bits)),
                None => Value::Unknown,
            };
            state.set(*register, value);
        }
    }

    /// Executes a loop once for all turns.
    fn all_turns(&mut self, header: usize, mut state: State) -> Vec<(usize, State)> {
        let changed = self.written_in(header);
        // What nobody reads before it is written again has no value at the start of a turn, the first one included.
        self.drop_dead(header, &mut state);
        let is_live = |register: &RegId| self.flow.live.has(header, *register);
        let written: Vec<RegId> = changed.iter().copied().filter(is_live).collect();
        let inductions = self.inductions(header, &state, &written);
        let inductive: Vec<RegId> = inductions.iter().map(|one| one.register).collect();
        let rings = self.rings(header, &state, &written, &inductive);
        let range = self.flow.loops[header].iter().flat_map(|own| &own.blocks).enumerate().filter(|(_, own)| **own);
        let blocks = range.map(|(block, _)| block);
        let blocks: Vec<usize> = blocks.collect();
        let mut blocks = blocks.into_iter();
        let is_barrier = |block: usize| {
            let insts = &self.function.insts[self.flow.graph.range(block)];
            insts.iter().any(Event::is_barrier)
        };
        let together = blocks.clone().any(is_barrier);
        let warps = blocks.any(|block| {
            let insts = &self.function.insts[self.flow.graph.range(block)];
            insts.iter().any(Event::is_of_warp)
        });
        let scope = match (together, warps) {
            (true, _) => Scope::Block,
            (_, true) => Scope::Warp,
            _ => Scope::Thread,
        };
        let others: Vec<RegId> = inductive.into_iter().chain(rings.iter().map(|ring| ring.register)).collect();
        let kept = self.kept(header, &state, &written, &others);
        let known_better = |own: &RegId| others.contains(own) || kept.iter().any(|kept| kept.is(*own));
        let open: Vec<RegId> = changed.iter().copied().filter(|own| !known_better(own)).collect();
        let scopes = [(together, Scope::Block), (warps, Scope::Warp)].into_iter().filter(|(is, _)| *is);
        let mut common = self.common(header, &state, &open, &scopes.map(|(_, scope)| scope).collect::<Vec<_>>());
        common.retain(|(register, _)| self.flow.live.has(header, *register));
        // What leads from turn to turn is found without facts that are not proved yet.
        let mut changes = Changes { written, inductions, rings, kept, common };
        let all = changes.inductions.iter().flat_map(|one| [(one.register, false), (one.register, true)]);
        let nothing = Known { refused: all.collect(), ..Known::default() };
        let mut known = nothing.clone();
        let begins_as_draft = self.drafts == 0 && self.has_quiet(header);
        let mut is_draft = begins_as_draft;
        loop {
            let (trace, gaps, lent) = (self.trace.clone(), self.gaps.clone(), self.lent);
            let execute = |machine: &mut Self| machine.summary(header, &state, &changes, (scope, warps), &known);
            let summary = if is_draft { self.draft(execute) } else { execute(self) };
            if self.steps == 0 {
                // The facts of this execution may not hold.
                let at = self.flow.graph.range(header).start;
                self.gap(at, "the loop is too long for the budget of a proof");
                return summary.exits;
            }
            if summary.leave > Scope::Warp && self.lent > lent && !self.apart.contains(&header) {
                // Lanes that left in earlier turns lend no numbers.
                self.apart.push(header);
                (self.trace, self.gaps) = (trace, gaps);
                // What a draft found with them may not hold.
                if begins_as_draft {
                    known = nothing.clone();
                }
                continue;
            }
            if !summary.parted.is_empty() {
                narrow(&mut changes.common, &summary.parted, warps);
                if begins_as_draft {
                    known = nothing.clone();
                }
                (self.trace, self.gaps) = (trace, gaps);
                continue;
            }
            let holds = summary.failed.is_empty() && summary.passed.is_empty() && summary.broken.is_empty();
            if known.before.is_none() {
                known = Known { before: Some(summary.back), ..Known::default() };
            } else if known.likely.is_none() {
                let wraps = known.before.as_ref().is_some_and(Back::has_own_numbers);
                if holds && !wraps && counters(&summary.back.cond, summary.back.turn, summary.back.first).is_empty() {
                    if known.counts(&summary.counted) && !std::mem::take(&mut is_draft) {
                        self.limit_turns(&summary);
                        return summary.exits;
                    }
                    (self.trace, self.gaps) = (trace, gaps);
                    continue;
                }
                // Without sums, the next execution finds the same.
                let repeats = counters(&summary.back.cond, summary.back.turn, summary.back.first).is_empty();
                if !holds && repeats {
                    known.leave_out(&summary);
                }
                // Without wrapped numbers, if they are known not to wrap.
                known.before = known.before.map(|before| if holds { summary.back.clone() } else { before });
                known.likely = Some(summary.back);
            } else if holds {
                if known.counts(&summary.counted) && !std::mem::take(&mut is_draft) {
                    self.limit_turns(&summary);
                    return summary.exits;
                }
            } else {
                known.leave_out(&summary);
            }
            (self.trace, self.gaps) = (trace, gaps);
        }
    }

    /// Narrows the range of a turn's number by the facts about it: products of wide ranges are hard to decide.
    fn limit_turns(&mut self, summary: &Summary) {
        let turn = summary.back.turn;
        let forms = summary.facts.iter().filter_map(|fact| match fact {
            Cond::AtLeast(form) => Some(form),
            _ => None,
        });
        let most = forms.filter_map(|form| self.most_turns(form, turn));
        if let Some(most) = most.min() {
            self.world.restrict(turn, (0, most));
        }
    }

    /// The greatest number of a turn for which a sum can be at least zero, if it falls with every turn.
    fn most_turns(&self, sum: &Form, turn: u32) -> Option<i128> {
        let (with, rest): (Vec<_>, Vec<_>) = sum.terms.iter().cloned().partition(|(mono, _)| mono.contains(&turn));
        let [(mono, factor)] = &with[..] else { return None };
        let least = |symbol: &u32| if *symbol == turn { 1 } else { self.world.symbol(*symbol).least };
        let once = mono.iter().filter(|symbol| **symbol == turn).count() == 1;
        let falls = factor.most() < 0 && mono.iter().all(|symbol| least(symbol) > 0);
        let (_, most) = self.world.range(&Form { terms: rest, constant: sum.constant.clone() })?;
        let each =
            mono.iter().try_fold(factor.most().checked_neg()?, |each, symbol| each.checked_mul(least(symbol)))?;
        (once && falls && most >= 0).then(|| most / each)
    }

    /// Executes something of which nothing stays but its result; nothing if it takes too long.
    pub(crate) fn probe<T>(&mut self, execute: impl FnOnce(&mut Self) -> T) -> Option<T> {
        let (trace, gaps, writes, steps) = (self.trace.clone(), self.gaps.clone(), self.writes.clone(), self.steps);
        let outer = self.world.begin_probe();
        self.headers.push(PROBE);
        let found = self.draft(execute);
        let is_whole = self.steps > 0;
        self.headers.pop();
        self.world.end_probe(outer);
        (self.trace, self.gaps, self.writes, self.steps) = (trace, gaps, writes, steps);
        is_whole.then_some(found)
    }

    /// The registers that change by the same amount in every turn: found by a turn from any values.
    fn inductions(&mut self, header: usize, state: &State, written: &[RegId]) -> Vec<Induction> {
        let first = self.world.next();
        let mut start = state.clone();
        self.forget(&mut start, written);
        let before = start.registers.clone();
        let after = self.probe(|machine| {
            let edges = machine.region(Some(header), header, start);
            machine.join(edges.back)
        });
        let after = after.flatten();
        let mut found = Vec::new();
        for register in written {
            let (Some(bits), Some(after)) = (self.bits_of(*register), &after) else { continue };
            if let (Some(Value::Bits(old)), Value::Bits(new)) = (before.get(register.index()), after.get(*register))
                && let Some(step) = new.sub(old)
                && step.symbols().all(|symbol| symbol < first)
            {
                found.push(Induction { register: *register, bits, step });
            }
        }
        found
    }

    /// One execution for all turns, with the facts that are not refused.
    fn summary(
        &mut self,
        header: usize,
        state: &State,
        changes: &Changes,
        (scope, warps): (Scope, bool),
        known: &Known,
    ) -> Summary {
        // The last instruction of an execution before is on another way.
        self.world.here = state.path.clone();
        let first = self.world.next();
        let turn = self.turn_number(scope);
        let mut start = state.clone();
        self.forget(&mut start, &changes.written);
        let candidates = self.start(&mut start, state, (turn, &changes.inductions), &known.refused);
        self.start_others(&mut start, state, (turn, scope), changes, known);
        let mut facts: Vec<Cond> = candidates.iter().flat_map(|fact| inside(&fact.value, fact.range)).collect();
        let is_first = Cond::at_least(Form { terms: vec![(vec![turn], Coef::One(-1))], constant: Coef::One(0) });
        let mut enters = None;
        let mut sums: Vec<(usize, Before)> = Vec::new();
        if let Some(back) = &known.likely
            && let Some(last) = Form::symbol(turn).plus(-1)
            && let Some(cond) = self.world.of_turn(&back.cond, back.turn, &last, back.first)
        {
            sums = counters(&cond, turn, back.first)
                .into_iter()
                .enumerate()
                .filter(|(at, _)| !known.passed.contains(at))
                .collect();
            for (_, one) in &sums {
                let Some(holds) = less(&one.sum) else { continue };
                let at_start = one.at_start(turn).and_then(|sum| less(&sum));
                let from_start = at_start.is_some_and(|cond| self.follows(state, &cond));
                facts.push(if from_start { holds } else { Cond::any([is_first.clone(), holds]) });
            }
        }
        if let Some(back) = &known.before
            && let Some(cond) = self.led_here(back, turn, scope)
        {
            // A turn is the first one, or the one before led back.
            let cond = Cond::any([is_first, cond]);
            enters = Some(cond.clone());
            facts.push(cond);
        }
        let (invariants, mut broken) = self.assumed_invariants(header, (state, &start), known);
        facts.extend(invariants.iter().map(|(_, holds)| holds.clone()));
        start.path = start.path.fact(Cond::all(facts.iter().cloned()));
        let own = self.trace.loops.len();
        self.trace.loops.push(Turns { turn, first, together: scope == Scope::Block, warps, enters });
        let node = self.trace.node(&start.from, &self.open, &start.path);
        start.from = vec![node];
        let (entered, before) = (start.path.clone(), start.clone());
        self.open.push(own);
        self.headers.push(header);
        let Edges { exits, back } = self.region(Some(header), header, start);
        self.open.pop();
        self.headers.pop();
        let counted = match back.as_slice() {
            [next] => self.counted((&before, next), &changes.written, (turn, first)),
            _ => Vec::new(),
        };
        let parted = self.parted(&entered, &back, &changes.common);
        let (mut failed, mut passed) = (Vec::new(), Vec::new());
        let ways = back.iter().map(|next| Cond::all(next.path.since(&entered).iter().map(|step| step.cond.clone())));
        let way = Back { cond: Cond::any(ways.collect::<Vec<_>>()), turn, first };
        for next in &back {
            if scope == Scope::Block {
                self.meet(header, (Span::Block, &entered), next);
            } else if warps {
                self.meet(header, (Span::Warp, &entered), next);
            }
            next.from.iter().for_each(|from| self.trace.nodes[*from].next.push((node, Some(own))));
            for fact in &candidates {
                if !self.carries(next, fact) {
                    failed.push((fact.register, fact.signed));
                }
            }
            for (at, _) in &invariants {
                if !self.keeps(header, *at, next) {
                    broken.push(*at);
                }
            }
            for (at, one) in &sums {
                let held = following(&one.sum, turn).and_then(|sum| less(&sum));
                if !held.is_some_and(|held| self.follows(next, &held)) {
                    passed.push(*at);
                }
            }
        }
        // A way to the end of the launch is none that others take.
        let several = exits.iter().filter(|(to, _)| !self.flow.aborts[*to]).count() > 1;
        let ends = self.ends_threads(header);
        let of = self.leave_together(&entered, exits.iter().map(|(_, left)| left).chain(&back), (scope, warps));
        let leaves = exits.into_iter().map(|(to, left)| {
            let path = left.path.as_facts(&state.path);
            let path = if several { self.way_out(path, (of, false)) } else { path };
            // Of those who entered, some have ended.
            let path = if ends { self.way_out(path, (of, true)) } else { path };
            (to, State { path, ..left })
        });
        let exits: Vec<_> = leaves.collect();
        failed.sort_small();
        failed.dedup();
        passed.sort_small();
        passed.dedup();
        Summary { exits, facts, failed, passed, broken, back: way, counted, parted, leave: of }
    }

    /// Gives the registers that return to their first values, and those that some turns change, their values at the start of a turn.
    fn start_others(
        &mut self,
        start: &mut State,
        state: &State,
        (turn, scope): (u32, Scope),
        changes: &Changes,
        known: &Known,
    ) {
        for ring in &changes.rings {
            if let Value::Bits(initial) = state.get(ring.register)
                && let Some(value) = ring.value(&mut self.world, &initial, turn)
            {
                start.set(ring.register, Value::Bits(value));
            }
        }
        self.start_common(start, &changes.common);
        self.start_kept(start, &changes.kept);
        for counted in known.counted.iter().flatten() {
            if let Value::Bits(initial) = state.get(counted.register())
                && let Some(value) = self.counted_value(counted, &initial, (turn, scope))
            {
                start.set(counted.register(), Value::Bits(value));
            }
        }
    }

    /// The invariants of a loop that hold at its first turn, as conditions of any turn; the numbers of those that do not hold there.
    fn assumed_invariants(
        &mut self,
        header: usize,
        (first, start): (&State, &State),
        known: &Known,
    ) -> (Vec<(usize, Cond)>, Vec<usize>) {
        let (mut found, mut broken) = (Vec::new(), Vec::new());
        for (at, one) in self.invariants(header).filter(|(at, _)| !known.broken.contains(at)) {
            match self.annotated(one, start).filter(|_| self.keeps(header, at, first)) {
                Some(holds) => found.push((at, holds)),
                None => broken.push(at),
            }
        }
        (found, broken)
    }

    /// Returns true if an invariant holds in a state that comes to the loop.
    fn keeps(&mut self, header: usize, number: usize, state: &State) -> bool {
        let Some((_, one)) = self.invariants(header).find(|(at, _)| *at == number) else { return false };
        self.annotated(one, state).is_some_and(|cond| self.follows_apart(state, &cond))
    }

    fn turn_number(&mut self, scope: Scope) -> u32 {
        let (origin, meaning) = (Origin::Exact, Meaning::Turn);
        self.world.add(Symbol { least: 0, most: MOST_TURNS, scope, origin, meaning, facts: Vec::new() })
    }

    /// The condition under which the turn before this one led to it.
    fn led_here(&mut self, back: &Back, turn: u32, scope: Scope) -> Option<Cond> {
        let last = Form::symbol(turn).plus(-1)?;
        if !back.has_own_numbers() {
            return self.world.of_turn(&back.cond, back.turn, &last, back.first);
        }
        // The facts about a turn's own numbers hold for turns that there are: the first one has none before it.
        let before = Form::symbol(self.turn_number(scope));
        let led = self.world.of_turn(&back.cond, back.turn, &before, back.first)?;
        Some(Cond::all([Cond::equal(&before, &last)?, led]))
    }

    /// Notes that threads take a jump back together.
    fn meet(&mut self, header: usize, (span, entered): (Span, &crate::path::Path), next: &State) {
        let (inst, path, guard) = (self.flow.graph.range(header).start, next.path.clone(), Cond::Const(true));
        self.trace.meetings.push(Barrier { inst, span, since: entered.clone(), path, guard });
    }

    /// The threads that leave a loop together, and on one way, since values that they have together decide it.
    fn leave_together<'s>(
        &self,
        entered: &crate::path::Path,
        ways: impl Iterator<Item = &'s State>,
        (scope, warps): (Scope, bool),
    ) -> Scope {
        let steps = ways.flat_map(|way| way.path.since(entered)).filter(|step| step.decides);
        let widest = steps.map(|step| self.world.cond_scope(&step.cond)).max().unwrap_or(Scope::Grid);
        let together = if warps { scope.max(Scope::Warp) } else { scope };
        if widest <= scope { scope } else { together.max(widest) }
    }

    /// One of several ways out of a loop: which of them a thread takes is not known.
    fn way_out(&mut self, path: crate::path::Path, (scope, excused): (Scope, bool)) -> crate::path::Path {
        let cond = self.world.any_truth(scope);
        let branch = self.next_branch();
        path.branch(cond, branch, excused)
    }

    /// Returns true if a guarded instruction of a loop ends threads.
    fn ends_threads(&self, header: usize) -> bool {
        let own = self.flow.loops[header].iter().flat_map(|own| &own.blocks).enumerate().filter(|(_, own)| **own);
        own.map(|(block, _)| block).any(|block| {
            self.flow.ends[block] == End::Leave && !self.flow.traps[block]
                || self.function.insts[self.flow.graph.range(block)].iter().any(Event::ends_threads)
        })
    }

    /// Gives the inductive registers their values at the start of a turn.
    fn start(
        &mut self,
        start: &mut State,
        state: &State,
        (turn, inductions): (u32, &[Induction]),
        refused: &[(RegId, bool)],
    ) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        for Induction { register, bits, step } in inductions {
            let Value::Bits(initial) = state.get(*register) else { continue };
            let turns = Form::symbol(turn);
            let Some(plain) = self.world.product(step, &turns).and_then(|change| initial.add(&change)) else {
                continue;
            };
            if step.known() == Some(0) || *bits < 16 {
                start.set(*register, Value::Bits(plain));
                continue;
            }
            let mut value = plain;
            for signed in [false, true] {
                let (bits, modulus) = (*bits, 1i128 << (*bits).min(64));
                if refused.contains(&(*register, signed)) {
                    continue;
                }
                let number = self.world.number(&initial, bits, signed);
                // The places of an address are those of its plain sum, which accesses take.
                if number != initial && initial.symbols().any(|symbol| is_base(self.world.symbol(symbol))) {
                    continue;
                }
                let initial = number;
                let step = self.world.number(step, bits, true);
                let Some(exact) = self.world.product(&step, &turns).and_then(|change| initial.add(&change)) else {
                    continue;
                };
                let least = if signed { -(modulus / 2) } else { 0 };
                let range = (least, least + modulus - 1);
                candidates.push(Candidate { register: *register, signed, value: exact.clone(), step, range });
                self.world.learn(&exact, range);
                value = exact;
            }
            start.set(*register, Value::Bits(value));
        }
        candidates
    }

    /// Returns true if a fact about a turn holds for the next one.
    fn carries(&mut self, next: &State, fact: &Candidate) -> bool {
        let Some(value) = fact.value.add(&fact.step) else { return false };
        inside(&value, fact.range).iter().all(|cond| self.follows(next, cond))
    }

    /// Returns true if a condition follows from the path to the next turn.
    pub(crate) fn follows(&self, next: &State, cond: &Cond) -> bool {
        let conds: Vec<Cond> = next.path.steps().map(|step| step.cond.clone()).collect();
        decide(&self.world, &conds, &self.launch.facts, &cond.negate(), LOOP_BUDGET).is_impossible()
    }
}

impl Machine<'_> {
    /// The same by work of its own: such questions are few, and leave the work of all others as it is.
    pub(crate) fn follows_apart(&self, next: &State, cond: &Cond) -> bool {
        let (work, left) = (&self.world.work, self.world.work.get());
        work.set(LOOP_BUDGET);
        let conds: Vec<Cond> = next.path.steps().map(|step| step.cond.clone()).collect();
        let is_near = is_excluded(&self.world, (&conds, &self.launch.facts), &cond.negate(), FAR);
        let follows = is_near || self.follows(next, cond);
        work.set(left);
        follows
    }
}

fn is_base(symbol: &Symbol) -> bool {
    symbol.meaning == Meaning::Base
}

/// Sums that are not zero under the condition, as `unequal` finds them.
fn counters(cond: &Cond, turn: u32, made: u32) -> Vec<Before> {
    let mut found = Vec::new();
    unequal(cond, turn, made, &mut found);
    found
}

/// Sums of the turn before that are not zero under a condition, with the sign with which they grow. Numbers that a turn makes are not in them.
fn unequal(cond: &Cond, turn: u32, made: u32, found: &mut Vec<Before>) {
    match cond {
        Cond::All(parts) => parts.iter().for_each(|part| unequal(part, turn, made, found)),
        Cond::Any(parts) => {
            let [Cond::AtLeast(above), Cond::AtLeast(below)] = &parts[..] else { return };
            let opposite = above.add(below).and_then(|sum| sum.known()) == Some(-2);
            let factor = above.terms.iter().find(|(mono, _)| mono[..] == [turn]).map(|(_, factor)| factor.clone());
            let (true, Some(factor)) = (opposite, factor) else { return };
            let is_fixed = above.symbols().all(|symbol| symbol == turn || symbol < made);
            let sum = if factor.all(|factor| factor > 0) {
                above.plus(1)
            } else if factor.all(|factor| factor < 0) {
                below.plus(1)
            } else {
                None
            };
            if let Some(sum) = sum.filter(|_| is_fixed)
                && found.len() < SUMS
                && !found.contains(&Before { sum: sum.clone() })
            {
                found.push(Before { sum });
            }
        }
        _ => {}
    }
}

/// The most sums of a loop.
const SUMS: usize = 4;

/// `sum < 0`
fn less(sum: &Form) -> Option<Cond> {
    Cond::lt(sum, &Form::number(0))
}

/// A sum of the turn before as one of this turn.
fn following(sum: &Form, turn: u32) -> Option<Form> {
    let mut next = Form { terms: Vec::new(), constant: sum.constant.clone() };
    for (mono, coef) in &sum.terms {
        let mut product = Form { terms: Vec::new(), constant: coef.clone() };
        for symbol in mono {
            let factor = Form::symbol(*symbol);
            product = product.mul(&if *symbol == turn { factor.plus(1)? } else { factor })?;
        }
        next = next.add(&product)?;
    }
    Some(next)
}

/// The two bounds of a range.
fn inside(form: &Form, (least, most): (i128, i128)) -> Vec<Cond> {
    [Cond::le(&Form::number(least), form), Cond::le(form, &Form::number(most))].into_iter().flatten().collect()
}
