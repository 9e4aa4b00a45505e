//! The symbols of a proof, with their ranges and definitions, and the arithmetic that makes new ones.

use crate::form::{Coef, Cond, Form, Mono, Sym};
use crate::path::Path;
use crate::solver::gcd;
use ptx_core::hash::{Map, Set};
use ptx_target::sort::SortSmall;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Threads for which a symbol has one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// All of the launch.
    Grid,
    /// Those of a block.
    Block,
    /// Those of a warp.
    Warp,
    /// One thread.
    Thread,
}

/// The freedom of a symbol's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// Every value in its range occurs in some launch, or its definitions determine it.
    Exact,
    /// A number in a struct, whose constructors may exclude values.
    Passed,
    /// Its value may be one that no run has.
    Loose,
}

/// The meaning of a symbol to the user.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Meaning {
    /// The value of a parameter.
    Param(usize),
    /// The length in bytes of a parameter's buffer.
    Len(usize),
    /// A free number of the contract.
    Number(usize),
    /// A number in a parameter that is a struct: the parameter, and the offset of its first byte.
    Field(usize, i128),
    /// `%ctaid`
    Block(usize),
    /// `%nctaid`
    Blocks(usize),
    /// The address of a buffer or variable.
    Base,
    /// The number of a loop's turn.
    Turn,
    /// Anything else.
    Other,
}

/// A symbol: an integer.
#[derive(Clone, Debug)]
pub(crate) struct Symbol {
    pub(crate) least: i128,
    pub(crate) most: i128,
    pub(crate) scope: Scope,
    pub(crate) origin: Origin,
    pub(crate) meaning: Meaning,
    /// Conditions that hold for its value.
    pub(crate) facts: Vec<Cond>,
}

/// The work of each part of a proof, what is accessed and in which order, in inequalities that are looked at.
pub(crate) const WORK: u32 = 12_000_000;
/// That of the execution: without the facts about its loops, the other parts have nothing to decide by.
const EXECUTION: u32 = 6 * WORK;
/// The most forms of a condition in a register, or of a step of a path.
const LONGEST: usize = 256;

/// The most forms of the condition of a choice that takes the choice's place.
const CHOICE: usize = 8;

/// The work for a question while values are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Most values ask such a question.
    Little,
    /// Few do.
    Much,
}

/// All symbols of a proof.
pub(crate) struct World {
    /// Shared with the questions in which choices are settled.
    symbols: Rc<Vec<Symbol>>,
    /// Of such a question: the facts about its symbols, in place of those that they have elsewhere.
    settled: Option<Map<Sym, Vec<Cond>>>,
    /// Threads of a block.
    pub(crate) threads: usize,
    /// Results of operations that are computed already, so that equal values have equal symbols.
    made: Map<(&'static str, Vec<Form>, i128), Form>,
    /// The first symbol of a probe, if one is executed: its symbols are of no use behind it.
    probe: Option<Sym>,
    /// The work that is left for all questions of a proof, in inequalities.
    pub(crate) work: Cell<u32>,
    /// Ranges that intervals do not find: of the terms with a constant.
    known: Map<Terms, Vec<(Coef, i128, i128)>>,
    /// Sums that are numbers of 32 bits, by what is left of them modulo 2^32.
    residues: Map<Form, Form>,
    /// The conditions of every launch.
    pub(crate) facts: Vec<Cond>,
    /// The way to the instruction that is executed.
    pub(crate) here: Path,
    /// Decides that conditions exclude a goal in all launches. The solver's questions need a world, so that it is given.
    pub(crate) excludes: fn(&World, &[Cond], &Cond, Effort) -> bool,
    /// Symbols that are a form where a condition holds, and else zero.
    choices: Map<Sym, (Cond, Form)>,
    /// Numbers that divide a symbol's value.
    aligns: Map<Sym, i128>,
    /// Quotients of such symbols: the symbol and the number.
    units: Map<Sym, (Sym, i128)>,
    /// The symbols that are one where a condition holds, and else zero: one for each condition, so that choices go together.
    bits: Map<Cond, Sym>,
    /// Symbols for sums that are factors: remainders, and products of many factors.
    names: Map<Form, Form>,
    /// The places in constant memory whose values symbols are.
    places: Map<Sym, Form>,
    /// Symbols that are remainders by a number.
    remainders: Map<Sym, Remainder>,
    /// Answers to whether a form is in a range, by the way on which that was asked.
    asked: Map<(Form, i128, i128), Vec<(Path, bool)>>,
    /// Answers to whether a condition excludes another one in every launch.
    excluded: RefCell<Map<(Cond, Cond), bool>>,
}

/// Adds the symbol that a product has beside those of a form with one term. The sign is that of what a place is less than: `place < symbol · factor`.
fn add_factor((mono, coef): &(Mono, Coef), of: &Form, found: &mut Vec<Sym>) {
    let [(own, _)] = of.terms.as_slice() else { return };
    if coef.most() <= 0 || mono.len() != own.len() + 1 {
        return;
    }
    let mut rest = mono.clone();
    for symbol in own {
        let Some(at) = rest.iter().position(|other| other == symbol) else { return };
        rest.remove(at);
    }
    if !found.contains(&rest[0]) && found.len() < FACTORS {
        found.push(rest[0]);
    }
}

/// Adds the sum of which a form has a multiple of another one, a symbol or a multiple of it.
fn add_cofactor(form: &Form, of: &Form, found: &mut Vec<Form>) {
    let ([(single, Coef::One(by))], Coef::One(0)) = (of.terms.as_slice(), &of.constant) else { return };
    let [symbol] = single[..] else { return };
    let mut sum = Form::number(0);
    for (mono, coef) in form.terms.iter().filter(|(mono, _)| mono.len() > 1 && mono.contains(&symbol)) {
        let mut mono = mono.clone();
        mono.retain(|other| *other != symbol);
        let Coef::One(coef) = coef else { return };
        // The sign is that of what a place is less than: `place < symbol · sum`.
        let coef = -coef;
        if coef % by != 0 || mono.is_empty() {
            return;
        }
        let term = Form { terms: vec![(mono, Coef::One(coef / by))], constant: Coef::One(0) };
        let Some(more) = sum.add(&term) else { return };
        sum = more;
    }
    let is_new = sum.terms.len() > 1 && !found.contains(&sum) && found.len() < FACTORS;
    let is_less = |(_, coef): &(Mono, Coef)| coef.least() > 0;
    if is_new && sum.terms.iter().any(is_less) {
        found.push(sum);
    }
}

/// Divides the terms that are multiples of `by` for all threads exactly. The other terms are the rest, which may be a remainder already.
fn parted(form: &Form, by: i128) -> Division {
    let (whole, rest): (Vec<_>, Vec<_>) =
        form.terms.iter().cloned().partition(|(_, coef)| coef.all(|value| value % by == 0));
    let quotient = Form {
        terms: whole.into_iter().map(|(mono, coef)| (mono, coef.map(|value| value / by))).collect(),
        constant: form.constant.map(|value| value.div_euclid(by)),
    };
    (quotient, Form { terms: rest, constant: form.constant.map(|value| value.rem_euclid(by)) })
}

/// 2^32
const WORD: i128 = 1 << 32;

/// The form without the terms that are multiples of 2^32, and the constant modulo that.
fn modulo_word(form: &Form) -> Form {
    let is_left = |(_, coef): &&(Mono, Coef)| !coef.all(|value| value % WORD == 0);
    Form {
        terms: form.terms.iter().filter(is_left).cloned().collect(),
        constant: form.constant.map(|value| value.rem_euclid(WORD)),
    }
}

/// `of mod by`
#[derive(Clone)]
struct Remainder {
    of: Form,
    by: i128,
    /// The same as a sum with the quotient.
    sum: Form,
}

/// The most values of remainders that are looked at one by one.
const CASES: i128 = 64;
/// The most choices of addresses that are open at once.
const WAYS: usize = 8;
/// The most factors that are tried as bounds of a quotient.
const FACTORS: usize = 4;

/// The part of a form beside its constant.
type Terms = Vec<(Mono, Coef)>;

/// A quotient and a remainder.
pub(crate) type Division = (Form, Form);

impl World {
    pub(crate) fn new(threads: usize) -> World {
        World {
            symbols: Rc::default(),
            settled: None,
            threads,
            made: Map::default(),
            probe: None,
            known: Map::default(),
            residues: Map::default(),
            work: Cell::new(EXECUTION),
            facts: Vec::new(),
            here: Path::default(),
            excludes: |_, _, _, _| false,
            choices: Map::default(),
            aligns: Map::default(),
            units: Map::default(),
            bits: Map::default(),
            names: Map::default(),
            places: Map::default(),
            remainders: Map::default(),
            asked: Map::default(),
            excluded: RefCell::default(),
        }
    }

    /// The world of a question in which choices are settled: the symbols of this one, with other facts.
    pub(crate) fn settled(&self, facts: Map<Sym, Vec<Cond>>) -> World {
        let mut own = World::new(self.threads);
        (own.symbols, own.settled, own.work) = (self.symbols.clone(), Some(facts), self.work.clone());
        own.places.clone_from(&self.places);
        own
    }

    /// Takes from the work that is left; false if there is none.
    pub(crate) fn spend(&self, cost: u32) -> bool {
        let left = self.work.get().saturating_sub(cost);
        self.work.set(left);
        left > 0
    }

    /// Notes that a probe begins; the one around it.
    pub(crate) fn begin_probe(&mut self) -> Option<Sym> {
        let outer = self.probe;
        self.probe = outer.or(Some(self.next()));
        outer
    }

    /// Goes back to what was before a probe.
    pub(crate) fn end_probe(&mut self, outer: Option<Sym>) {
        self.probe = outer;
    }

    /// Gives questions as much work as a proof begins with.
    pub(crate) fn renew(&mut self) {
        self.work.set(WORK);
    }

    /// Returns true if there is none.
    pub(crate) fn is_spent(&self) -> bool {
        self.work.get() == 0
    }

    pub(crate) fn add(&mut self, symbol: Symbol) -> Sym {
        Rc::make_mut(&mut self.symbols).push(symbol);
        self.symbols.len() as Sym - 1
    }

    /// The number of symbols so far, which is the next one.
    pub(crate) fn next(&self) -> Sym {
        self.symbols.len() as Sym
    }

    /// The conditions that hold for a symbol's value.
    pub(crate) fn facts_of(&self, symbol: Sym) -> &[Cond] {
        match &self.settled {
            Some(facts) => facts.get(&symbol).map_or(&[], Vec::as_slice),
            None => &self.symbol(symbol).facts,
        }
    }

    /// Notes that a symbol is the value at a place in constant memory: where the place is one, the value is.
    pub(crate) fn note_place(&mut self, symbol: Sym, place: Form) {
        self.places.insert(symbol, place);
    }

    /// The place in constant memory whose value a symbol is.
    pub(crate) fn place_of(&self, symbol: Sym) -> Option<&Form> {
        self.places.get(&symbol)
    }

    /// Changes the range of a symbol.
    pub(crate) fn set_range(&mut self, symbol: Sym, (least, most): (i128, i128)) {
        let known = self.symbol_mut(symbol);
        (known.least, known.most) = (least, most);
    }

    fn symbol_mut(&mut self, symbol: Sym) -> &mut Symbol {
        &mut Rc::make_mut(&mut self.symbols)[symbol as usize]
    }

    /// A symbol of the launch.
    pub(crate) fn launch(&mut self, meaning: Meaning, (least, most): (i128, i128), scope: Scope) -> Sym {
        self.add(Symbol { least, most, scope, origin: Origin::Exact, meaning, facts: Vec::new() })
    }

    /// A number in a parameter that is a struct.
    pub(crate) fn field(&mut self, (param, offset): (usize, i128), (least, most): (i128, i128)) -> Sym {
        let (scope, origin, meaning) = (Scope::Grid, Origin::Passed, Meaning::Field(param, offset));
        self.add(Symbol { least, most, scope, origin, meaning, facts: Vec::new() })
    }

    /// A value in a range of which nothing else is known.
    pub(crate) fn unknown(&mut self, range: (i128, i128), scope: Scope) -> Form {
        Form::symbol(self.loose(range, scope))
    }

    /// Returns true for a number of which nothing is known but its range.
    pub(crate) fn is_name(&self, form: &Form) -> bool {
        let is = |symbol: Sym| self.symbol(symbol).origin == Origin::Loose && self.symbol(symbol).facts.is_empty();
        matches!(form.terms.as_slice(), [(mono, Coef::One(1))] if form.constant.is_zero() && mono.len() == 1 && is(mono[0]))
    }

    /// The symbol of such a value.
    pub(crate) fn loose(&mut self, (least, most): (i128, i128), scope: Scope) -> Sym {
        let (origin, meaning) = (Origin::Loose, Meaning::Other);
        self.add(Symbol { least, most, scope, origin, meaning, facts: Vec::new() })
    }

    /// Any value of so many bits.
    pub(crate) fn any(&mut self, bits: u32) -> Form {
        self.unknown((0, (1 << bits.min(64)) - 1), Scope::Thread)
    }

    fn derived(&mut self, (least, most): (i128, i128), scope: Scope) -> Sym {
        let meaning = Meaning::Other;
        self.add(Symbol { least, most, scope, origin: Origin::Exact, meaning, facts: Vec::new() })
    }

    pub(crate) fn symbol(&self, symbol: Sym) -> &Symbol {
        &self.symbols[symbol as usize]
    }

    pub(crate) fn assume(&mut self, symbol: Sym, fact: Cond) {
        if fact != Cond::Const(true) {
            self.symbol_mut(symbol).facts.push(fact);
        }
    }

    pub(crate) fn scope(&self, form: &Form) -> Scope {
        if !form.is_even() {
            return Scope::Thread;
        }
        form.symbols().map(|symbol| self.symbol(symbol).scope).max().unwrap_or(Scope::Grid)
    }

    /// The threads for which a condition has one value.
    pub(crate) fn cond_scope(&self, cond: &Cond) -> Scope {
        match cond {
            Cond::Const(_) => Scope::Grid,
            Cond::Table(_) => Scope::Thread,
            Cond::AtLeast(form) => self.scope(form),
            Cond::All(parts) | Cond::Any(parts) => {
                parts.iter().map(|part| self.cond_scope(part)).max().unwrap_or(Scope::Grid)
            }
        }
    }

    /// Returns true if the launch and the number of the block determine symbols: they depend on no memory, which threads may read at different times.
    pub(crate) fn is_of_launch(&self, mut pending: Vec<Sym>) -> bool {
        let mut seen: Set<Sym> = Set::default();
        while let Some(symbol) = pending.pop() {
            let known = self.symbol(symbol);
            if known.origin == Origin::Loose || known.scope > Scope::Block || known.meaning == Meaning::Turn {
                return false;
            }
            if seen.insert(symbol) {
                self.facts_of(symbol).iter().for_each(|fact| fact.forms(&mut |form| pending.extend(form.symbols())));
            }
        }
        true
    }

    /// The least and the greatest value over all threads, by intervals and what is known of such sums, or of sums of which they are multiples.
    pub(crate) fn range(&self, form: &Form) -> Option<(i128, i128)> {
        let own = self.known_range(form, self.interval(form));
        if form.terms.len() < 2 {
            return own;
        }
        let (single, by) = form.reduced();
        let of_single = if by > 1 { self.known_range(&single, None) } else { None };
        let (low, high) = of_single.unwrap_or((i128::MIN, i128::MAX));
        match (own, low.checked_mul(by), high.checked_mul(by)) {
            (Some((least, most)), Some(low), Some(high)) => Some((least.max(low), most.min(high))),
            (None, Some(low), Some(high)) => Some((low, high)),
            (own, ..) => own,
        }
    }

    /// The range of a sum with what is known of those with the same terms.
    fn known_range(&self, form: &Form, mut found: Option<(i128, i128)>) -> Option<(i128, i128)> {
        for (constant, least, most) in self.known.get(&form.terms).into_iter().flatten() {
            if let Some(Coef::One(more)) = form.constant.zip(constant, i128::checked_sub) {
                let (low, high) = found.unwrap_or((i128::MIN, i128::MAX));
                found = Some((low.max(least + more), high.min(most + more)));
            }
        }
        found
    }

    fn interval(&self, form: &Form) -> Option<(i128, i128)> {
        let (mut least, mut most) = (form.constant.least(), form.constant.most());
        for (mono, coef) in &form.terms {
            let (low, high) = self.product_range(mono)?;
            let ends = [(low, coef.least()), (low, coef.most()), (high, coef.least()), (high, coef.most())];
            let ends: Vec<i128> = ends.iter().map(|(a, b)| a.checked_mul(*b)).collect::<Option<_>>()?;
            least = least.checked_add(*ends.iter().min()?)?;
            most = most.checked_add(*ends.iter().max()?)?;
        }
        Some((least, most))
    }

    pub(crate) fn product_range(&self, mono: &Mono) -> Option<(i128, i128)> {
        mono.iter().try_fold((1i128, 1i128), |(low, high), symbol| {
            let Symbol { least, most, .. } = self.symbol(*symbol);
            let ends = [
                low.checked_mul(*least)?,
                low.checked_mul(*most)?,
                high.checked_mul(*least)?,
                high.checked_mul(*most)?,
            ];
            Some((*ends.iter().min()?, *ends.iter().max()?))
        })
    }

    fn within(&self, form: &Form, (least, most): (i128, i128)) -> bool {
        self.range(form).is_some_and(|(low, high)| low >= least && high <= most)
    }

    /// Returns true if the conditions of the way to this instruction keep a form in a range. Its value is of use on that way alone.
    fn within_here(&mut self, form: &Form, (least, most): (i128, i128)) -> bool {
        // Values from memory have no conditions that would help.
        if form.symbols().any(|symbol| self.symbol(symbol).origin == Origin::Loose) {
            return false;
        }
        let key = (form.clone(), least, most);
        let known = self.asked.get(&key).into_iter().flatten();
        let mut known = known.filter(|(path, is)| if *is { self.here.starts_with(path) } else { self.here.is(path) });
        if let Some((_, is)) = known.next() {
            return *is;
        }
        let way = self.here.cond();
        let sides = [Cond::le(&Form::number(least), form), Cond::le(form, &Form::number(most))];
        let is = sides.into_iter().all(|side| {
            side.is_some_and(|side| {
                let side = self.simplify(side);
                side == Cond::Const(true)
                    || (self.excludes)(self, std::slice::from_ref(&way), &side.negate(), Effort::Little)
            })
        });
        self.asked.entry(key).or_default().push((self.here.clone(), is));
        is
    }

    /// The form with a number of a thread on the way to this instruction in the place of those that other threads have; nothing if that is the same.
    fn of_those_here(&self, form: &Form) -> Option<Form> {
        let mut here = vec![true; self.threads];
        self.here.steps().filter(|_| !form.is_even()).for_each(|step| step.cond.keep(&mut here));
        let first = here.iter().position(|own| *own).filter(|_| here.contains(&false))?;
        let of: Vec<Option<usize>> =
            here.iter().enumerate().map(|(at, own)| Some(if *own { at } else { first })).collect();
        Some(form.taken(&of))
    }

    /// The number that bits are: `form` stands for its value modulo `2^bits`.
    pub(crate) fn number(&mut self, form: &Form, bits: u32, signed: bool) -> Form {
        let bits = bits.min(64);
        let modulus = 1i128 << bits;
        let least = if signed { -(modulus / 2) } else { 0 };
        let reduce = |value: i128| (value - least).rem_euclid(modulus) + least;
        if let Some(constant) = form.constant() {
            return Form { terms: Vec::new(), constant: constant.map(reduce) };
        }
        let range = (least, least + modulus - 1);
        if self.within(form, range) || self.within_here(form, range) {
            return form.clone();
        }
        if let Some(known) = self.residue(form).filter(|known| bits == 32 && self.within(known, range)) {
            return known;
        }
        if let Some(own) = self.of_those_here(form).filter(|own| self.within(own, range)) {
            return own;
        }
        let quotient = self.divide_shifted(form, modulus, least);
        let wrapped = quotient.and_then(|quotient| form.sub(&quotient.scale(modulus)?));
        let Some(wrapped) = wrapped else { return self.unknown(range, Scope::Thread) };
        self.learn(&wrapped, range);
        wrapped
    }

    /// Remembers a range that intervals do not find.
    pub(crate) fn learn(&mut self, form: &Form, (least, most): (i128, i128)) {
        let known = self.known.entry(form.terms.clone()).or_default();
        if !known.iter().any(|(constant, ..)| *constant == form.constant) {
            known.push((form.constant.clone(), least, most));
        }
        if least >= 0 && most < WORD {
            self.residues.entry(modulo_word(form)).or_insert_with(|| form.clone());
        }
    }

    /// A sum that differs from this one by a multiple of 2^32 and is a number of 32 bits, if one is known.
    fn residue(&self, form: &Form) -> Option<Form> {
        self.residues.get(&modulo_word(form)).cloned()
    }

    /// A condition about a turn as one about another turn: symbols from `first` on that the turn made get new names.
    pub(crate) fn of_turn(&mut self, cond: &Cond, old: Sym, new: &Form, first: Sym) -> Option<Cond> {
        let mut renamed = Map::default();
        self.renamed(cond, (old, new, first), &mut renamed)
    }

    fn renamed(&mut self, cond: &Cond, turn: (Sym, &Form, Sym), names: &mut Map<Sym, Sym>) -> Option<Cond> {
        Some(match cond {
            Cond::AtLeast(form) => Cond::at_least(self.renamed_form(form, turn, names)?),
            Cond::All(parts) => {
                Cond::all(parts.iter().map(|part| self.renamed(part, turn, names)).collect::<Option<Vec<_>>>()?)
            }
            Cond::Any(parts) => {
                Cond::any(parts.iter().map(|part| self.renamed(part, turn, names)).collect::<Option<Vec<_>>>()?)
            }
            decided => decided.clone(),
        })
    }

    fn renamed_form(&mut self, form: &Form, turn: (Sym, &Form, Sym), names: &mut Map<Sym, Sym>) -> Option<Form> {
        let mut sum = Form { terms: Vec::new(), constant: form.constant.clone() };
        for (mono, coef) in &form.terms {
            let mut product = Form { terms: Vec::new(), constant: coef.clone() };
            for symbol in mono {
                let factor = match *symbol {
                    old if old == turn.0 => turn.1.clone(),
                    made if made >= turn.2 => Form::symbol(self.renamed_symbol(made, turn, names)?),
                    other => Form::symbol(other),
                };
                product = product.mul(&factor)?;
            }
            sum = sum.add(&product)?;
        }
        Some(sum)
    }

    fn renamed_symbol(&mut self, symbol: Sym, turn: (Sym, &Form, Sym), names: &mut Map<Sym, Sym>) -> Option<Sym> {
        if let Some(name) = names.get(&symbol) {
            return Some(*name);
        }
        let old = self.symbol(symbol).clone();
        let facts = old.facts.clone();
        let new = self.add(Symbol { facts: Vec::new(), ..old });
        names.insert(symbol, new);
        for fact in &facts {
            let fact = self.renamed(fact, turn, names)?;
            self.assume(new, fact);
        }
        Some(new)
    }

    /// `⌊(form - least) / by⌋`
    fn divide_shifted(&mut self, form: &Form, by: i128, least: i128) -> Option<Form> {
        let shifted = form.plus(least.checked_neg()?)?;
        self.floor(&shifted, by).map(|(quotient, _)| quotient)
    }

    /// Notes that a number divides a symbol's value.
    pub(crate) fn align(&mut self, symbol: Sym, by: i128) {
        self.aligns.insert(symbol, by);
    }

    /// The quotient of a symbol that a number divides.
    fn unit(&mut self, symbol: Sym, by: i128) -> Option<Sym> {
        let align = self.aligns.get(&symbol).copied()?;
        if let Some((unit, _)) = self.units.iter().find(|(_, of)| **of == (symbol, by)) {
            return Some(*unit);
        }
        if by < 2 || align.checked_rem(by) != Some(0) {
            return None;
        }
        let Symbol { least, most, scope, .. } = *self.symbol(symbol);
        let unit = self.derived((least.div_euclid(by), most.div_euclid(by)), scope);
        self.symbol_mut(unit).origin = Origin::Loose;
        let fact = Cond::equal(&Form::symbol(unit).scale(by)?, &Form::symbol(symbol))?;
        self.assume(unit, fact);
        self.units.insert(unit, (symbol, by));
        Some(unit)
    }

    /// The form with symbols in the place of multiples of their quotients.
    pub(crate) fn whole(&self, form: &Form) -> Form {
        let mut sum = Form { terms: Vec::new(), constant: form.constant.clone() };
        for (mono, coef) in &form.terms {
            let unit = match mono.as_slice() {
                [unit] => self.units.get(unit).filter(|(_, by)| coef.all(|coef| coef % by == 0)),
                _ => None,
            };
            let term = match unit {
                Some((symbol, by)) => (vec![*symbol], coef.map(|coef| coef / by)),
                None => (mono.clone(), coef.clone()),
            };
            let Some(more) = sum.add(&Form { terms: vec![term], constant: Coef::One(0) }) else { return form.clone() };
            sum = more;
        }
        sum
    }

    /// The quotient of the part of a form whose symbols a number divides, and the other part.
    fn aligned_part(&mut self, form: &Form, by: i128) -> Option<Division> {
        let mut quotient = Form::number(0);
        let mut rest = form.clone();
        for (mono, coef) in &form.terms {
            let [symbol] = mono.as_slice() else { continue };
            let Some(unit) = self.unit(*symbol, by) else { continue };
            let part = |symbol: Sym| Form { terms: vec![(vec![symbol], coef.clone())], constant: Coef::One(0) };
            quotient = quotient.add(&part(unit))?;
            rest = rest.sub(&part(*symbol))?;
        }
        (!quotient.terms.is_empty()).then_some((quotient, rest))
    }

    /// Floor division by a positive number.
    pub(crate) fn floor(&mut self, form: &Form, by: i128) -> Option<Division> {
        if by == 1 {
            return Some((form.clone(), Form::number(0)));
        }
        if let Some((units, rest)) = self.aligned_part(form, by) {
            let (quotient, rest) = self.floor(&rest, by)?;
            return Some((quotient.add(&units)?, rest));
        }
        let (mut quotient, mut rest) = parted(form, by);
        if self.within(&rest, (0, by - 1)) {
            return Some((quotient, rest));
        }
        let own = self.of_those_here(form).map(|own| parted(&own, by));
        if let Some(own) = own.filter(|(_, rest)| self.within(rest, (0, by - 1))) {
            return Some(own);
        }
        // Neighbors stay neighbors: of -1, 0, 1, … only the first one is in another multiple.
        if matches!(quotient.constant, Coef::Each(_)) && form.constant.most() - form.constant.least() < by {
            let common = form.constant.most().div_euclid(by);
            quotient.constant = Coef::One(common);
            rest.constant = form.constant.map(|value| value - common * by);
        }
        let more = self.quotient(&rest, by)?;
        Some((quotient.add(&more)?, rest.sub(&more.scale(by)?)?))
    }

    /// Division by a positive number, towards zero.
    pub(crate) fn towards_zero(&mut self, form: &Form, by: i128) -> Option<Division> {
        let negative = Cond::at_least(form.scale(-1)?.plus(-1)?);
        let (down, _) = self.floor(form, by)?;
        let (up, _) = self.floor(&form.plus(by - 1)?, by)?;
        let quotient = self.choose(&negative, &up, &down)?;
        let rest = form.sub(&quotient.scale(by)?)?;
        Some((quotient, rest))
    }

    /// A symbol for the quotient.
    fn quotient(&mut self, form: &Form, by: i128) -> Option<Form> {
        let key = ("floor", vec![form.clone()], by);
        if let Some(found) = self.made.get(&key) {
            return Some(found.clone());
        }
        // A common factor is none of a quotient.
        let common = gcd(form.reduced().1, by).filter(|common| *common > 1);
        if let Some(form) = common.and_then(|common| form.divided(common)) {
            return self.quotient(&form, by / common?);
        }
        // A quotient of a quotient is one of the number itself.
        if let Some((of, own)) = self.dividend(form)
            && let Some(by) = own.checked_mul(by)
        {
            return self.quotient(&of, by);
        }
        let (least, most) = self.range(form)?;
        let symbol = self.derived((least.div_euclid(by), most.div_euclid(by)), self.scope(form));
        let quotient = Form::symbol(symbol);
        let rest = form.sub(&quotient.scale(by)?)?;
        self.assume(symbol, Cond::all([Cond::at_least(rest.clone()), Cond::lt(&rest, &Form::number(by))?]));
        self.made.insert(key, quotient.clone());
        Some(quotient)
    }

    /// The number whose quotient by another one a symbol is.
    fn dividend(&self, quotient: &Form) -> Option<(Form, i128)> {
        let made = self.made.iter().find(|((name, ..), found)| *name == "floor" && *found == quotient);
        made.and_then(|((_, of, by), _)| Some((of.first()?.clone(), *by)))
    }

    /// Division of a number that is not negative: the quotient, and the remainder. Where the divisor is negative, nothing is known of the quotient; if it may be,
    /// there is no remainder. By zero the quotient has all bits, and the remainder is the dividend's.
    pub(crate) fn divide(&mut self, a: &Form, b: &Form, bits: u32) -> Option<(Form, Option<Form>)> {
        let key = ("divide", vec![a.clone(), b.clone()], i128::from(bits));
        let ((_, most), (divisor, _)) = (self.range(a)?, self.range(b)?);
        // In every launch, so that the quotient is of use on all ways.
        let never = |world: &World, most: i128| {
            let below = Cond::le(b, &Form::number(most))?;
            Some((world.excludes)(world, &[], &below, Effort::Little))
        };
        let is_known = self.made.contains_key(&key);
        let is_positive = divisor > 0 || !is_known && never(self, 0)?;
        let is_natural = divisor >= 0 || is_positive || never(self, -1)?;
        let with_rest = |quotient: Form| {
            let rest = if is_natural { Some(a.sub(&quotient.mul(b)?)?) } else { None };
            Some((quotient, rest))
        };
        if let Some(quotient) = self.made.get(&key).cloned() {
            return with_rest(quotient);
        }
        let all = (1i128 << bits.min(64)) - 1;
        let scope = self.scope(a).max(self.scope(b));
        let symbol = self.derived((0, if is_positive { most / divisor.max(1) } else { most.max(all) }), scope);
        let quotient = Form::symbol(symbol);
        let rest = a.sub(&quotient.mul(b)?)?;
        let divides = Cond::all([Cond::at_least(rest.clone()), Cond::lt(&rest, b)?]);
        let by_zero =
            || Some(Cond::all([Cond::equal(b, &Form::number(0))?, Cond::equal(&quotient, &Form::number(all))?]));
        let fact = match (is_positive, is_natural) {
            (true, _) => divides,
            (false, true) => Cond::any([divides, by_zero()?]),
            (false, false) => Cond::any([divides, by_zero()?, Cond::lt(b, &Form::number(0))?]),
        };
        self.assume(symbol, fact);
        self.made.insert(key, quotient.clone());
        if is_natural {
            self.limit(symbol, a, b);
        }
        if is_positive {
            self.name_rest(&rest, b);
        }
        with_rest(quotient)
    }

    /// The condition of a choice, and its value where that holds. Else it is zero.
    pub(crate) fn choice(&self, symbol: Sym) -> Option<&(Cond, Form)> {
        self.choices.get(&symbol)
    }

    /// The condition of a choice that is a factor in a condition.
    pub(crate) fn choice_of_factor(&self, cond: &Cond) -> Option<Cond> {
        let mut found = None;
        cond.forms(&mut |form| {
            let mut factors = form.terms.iter().filter(|(mono, _)| mono.len() > 1).flat_map(|(mono, _)| mono);
            found = found.take().or_else(|| factors.find_map(|symbol| self.choices.get(symbol)));
        });
        found.map(|(cond, _)| cond.clone())
    }

    /// Narrows the range of a symbol.
    pub(crate) fn restrict(&mut self, symbol: Sym, (least, most): (i128, i128)) {
        let Symbol { least: low, most: high, .. } = *self.symbol(symbol);
        self.set_range(symbol, (low.max(least), high.min(most)));
    }

    /// Notes the factors that a quotient stays below: of `a / b` where `a < r · b` in every launch, or on the way to this instruction; of `a / (8 · b)`
    /// eight times the quotient does. The solver does not look for such bounds itself.
    fn limit(&mut self, quotient: Sym, of: &Form, by: &Form) {
        // What a probe divides has no need of them.
        if self.probe.is_some_and(|first| of.symbols().chain(by.symbols()).any(|symbol| symbol >= first)) {
            return;
        }
        let mut factors = Vec::new();
        let mut look =
            |cond: &Cond| cond.forms(&mut |form| form.terms.iter().for_each(|term| add_factor(term, by, &mut factors)));
        match by.degree() {
            ..2 => {
                self.facts.iter().for_each(&mut look);
                self.symbols.iter().flat_map(|symbol| &symbol.facts).for_each(&mut look);
            }
            // Of a product, conditions of the way limit the dividend.
            _ => look(&self.here.cond()),
        }
        // The remainder of a division is divided again.
        let products = of.terms.iter().filter(|(mono, _)| mono.len() > 1).flat_map(|(mono, _)| mono);
        for symbol in products.filter(|symbol| !by.symbols().any(|own| own == **symbol)) {
            if !factors.contains(symbol) && factors.len() < FACTORS {
                factors.push(*symbol);
            }
        }
        factors.retain(|factor| self.symbol(*factor).scope == Scope::Grid);
        self.limit_by_sums(quotient, by);
        let mut sums = Vec::new();
        self.here.cond().forms(&mut |form| {
            form.scale(-1).iter().for_each(|form| add_cofactor(form, by, &mut sums));
        });
        for sum in sums {
            let _ = self.limit_by(quotient, of, (&sum, by, 1));
        }
        let (single, unit) = by.reduced();
        for factor in factors {
            let factor = Form::symbol(factor);
            let _ = self.limit_by(quotient, of, (&factor, &single, unit));
        }
    }

    /// Notes that `unit` times a quotient stays below a factor, or is at most that: the divisor is so many times `single`.
    fn limit_by(&mut self, quotient: Sym, of: &Form, (factor, single, unit): (&Form, &Form, i128)) -> Option<()> {
        // A part of a factor, such as `a · n / m` with `n <= m`, may be all of it.
        let is_whole = |mono: &Mono| mono.len() > 1 && factor.symbols().all(|own| mono.contains(&own));
        let most = i128::from(of.terms.iter().any(|(mono, _)| is_whole(mono)));
        for more in 0..=most {
            let factor = factor.plus(more)?;
            let over = Cond::le(&factor, &Form::symbol(quotient).scale(unit)?)?;
            // It follows from that, as no divisor is below zero: the quotient times the divisor is at most the dividend.
            let is_more = Cond::le(&factor.mul(single)?, of)?;
            let here = self.here.cond();
            // Most factors fail on the way already, so that all ways are no question for them.
            if !(self.excludes)(self, std::slice::from_ref(&here), &is_more, Effort::Little) {
                continue;
            }
            let is_excluded = here == Cond::Const(true) || (self.excludes)(self, &[], &is_more, Effort::Little);
            // Other ways come to this quotient, too.
            let fact = if is_excluded { over.negate() } else { Cond::any([is_more, over.negate()]) };
            self.assume(quotient, fact);
            break;
        }
        Some(())
    }

    /// Notes the sums that a quotient stays below: of `a / b` where `a < b · (n - m)` in every launch.
    fn limit_by_sums(&mut self, quotient: Sym, by: &Form) {
        let mut sums = Vec::new();
        let mut look = |cond: &Cond| cond.forms(&mut |form| add_cofactor(form, by, &mut sums));
        self.facts.iter().for_each(&mut look);
        self.symbols.iter().flat_map(|symbol| &symbol.facts).for_each(&mut look);
        sums.retain(|sum| self.scope(sum) == Scope::Grid);
        for sum in sums {
            let Some(over) = Cond::le(&sum, &Form::symbol(quotient)) else { continue };
            if (self.excludes)(self, &[], &over, Effort::Little) {
                self.assume(quotient, over.negate());
            }
        }
    }

    /// `if cond { yes } else { no }`
    pub(crate) fn choose(&mut self, cond: &Cond, yes: &Form, no: &Form) -> Option<Form> {
        if yes == no {
            return Some(yes.clone());
        }
        if let Some(which) = cond.decided(self.threads) {
            return Form::select(&which, yes, no);
        }
        if let Some(found) = self.wrapped(cond, yes, no) {
            return Some(found);
        }
        // Address and index differ in few places: the parts that both have stay.
        let difference = yes.sub(no)?;
        let scope = self.cond_scope(cond);
        if difference.constant().is_some() || self.scope(&difference) == Scope::Grid {
            let bit = Form::symbol(self.bit_of(cond)?);
            let found = no.add(&difference.mul(&bit)?)?;
            self.learn_choice(&found, [yes, no]);
            return Some(found);
        }
        // A multiple stays one.
        let (difference, factor) = difference.reduced();
        let (low, high) = self.range(&difference)?;
        let symbol = self.derived((low.min(0), high.max(0)), scope.max(self.scope(&difference)));
        let chosen = Form::symbol(symbol);
        let fact = cond.choose(Cond::equal(&chosen, &difference)?, Cond::equal(&chosen, &Form::number(0))?);
        self.assume(symbol, fact);
        self.choices.insert(symbol, (cond.clone(), difference));
        let found = no.add(&chosen.scale(factor)?)?;
        self.learn_choice(&found, [yes, no]);
        Some(found)
    }

    /// Notes that a choice is in the ranges of both.
    fn learn_choice(&mut self, found: &Form, both: [&Form; 2]) {
        self.learn_hull(found, both);
        // The same of numbers that differ from both by one multiple of 2^32.
        if let [Some(yes), Some(no)] = both.map(|form| self.residue(form))
            && let (Some(more), Some(of_no)) = (both[0].sub(&yes), both[1].sub(&no))
            && more == of_no
            && let Some(found) = found.sub(&more)
        {
            self.learn_hull(&found, [&yes, &no]);
        }
    }

    fn learn_hull(&mut self, found: &Form, both: [&Form; 2]) {
        let [Some((a, b)), Some((c, d))] = both.map(|form| self.range(form)) else { return };
        let (least, most) = (a.min(c), b.max(d));
        if self.range(found).is_none_or(|(low, high)| low < least || high > most) {
            self.learn(found, (least, most));
        }
    }

    /// `form mod by` as a symbol with that range.
    pub(crate) fn remainder(&mut self, form: &Form, by: i128) -> Option<Form> {
        let (_, sum) = self.floor(form, by)?;
        self.learn(&sum, (0, by - 1));
        let name = self.named(&sum)?;
        let symbol = name.symbols().next()?;
        self.remainders.insert(symbol, Remainder { of: form.clone(), by, sum });
        Some(name)
    }

    /// The form with sums in the place of remainders, or with their values where the turn is known.
    pub(crate) fn expanded(&self, form: &Form, known: &dyn Fn(Sym) -> Option<i128>) -> Form {
        let turn = |symbol: Sym| Some(known(symbol).map_or_else(|| Form::symbol(symbol), Form::number));
        let sum = |symbol: Sym| {
            let remainder = self.remainders.get(&symbol);
            let own = || remainder.map_or_else(|| turn(symbol), |own| own.sum.replaced(&turn));
            self.remainder_at(symbol, &turn).or_else(own)
        };
        form.replaced(&sum).unwrap_or_else(|| form.clone())
    }

    /// The value of a remainder where other forms take the place of symbols, if these leave a number.
    pub(crate) fn remainder_at(&self, symbol: Sym, by: &dyn Fn(Sym) -> Option<Form>) -> Option<Form> {
        let own = self.remainders.get(&symbol)?;
        Some(Form::number(own.of.replaced(by)?.known()?.rem_euclid(own.by)))
    }

    /// A form for each value of the remainders in it, with the condition that they have these values.
    pub(crate) fn by_remainder(&self, form: &Form) -> Vec<(Form, Cond)> {
        let single = |(mono, coef): &(Mono, Coef)| match (mono.as_slice(), coef) {
            ([symbol], Coef::One(_)) => self.remainders.get(symbol).map(|own| (*symbol, own.by)),
            _ => None,
        };
        let mut found = vec![(form.clone(), Cond::Const(true))];
        for (symbol, by) in form.terms.iter().filter_map(single) {
            if found.len() as i128 * by > CASES {
                break;
            }
            let with = |(form, cond): &(Form, Cond), value: i128| {
                let value = Form::number(value);
                let own = |other: Sym| Some(if other == symbol { value.clone() } else { Form::symbol(other) });
                let is = Cond::equal(&Form::symbol(symbol), &value)?;
                Some((form.replaced(&own)?, Cond::all([cond.clone(), is])))
            };
            let cases = found.iter().flat_map(|case| (0..by).map(|value| with(case, value)).collect::<Vec<_>>());
            let Some(cases) = cases.collect::<Option<Vec<_>>>() else { break };
            found = cases;
        }
        found
    }

    /// A choice at an end of a ring, where its index goes on at the other end: it has the index of the next turn.
    fn wrapped(&mut self, cond: &Cond, yes: &Form, no: &Form) -> Option<Form> {
        let sides = [(cond.clone(), yes, no), (cond.negate(), no, yes)];
        let (index, is_last, yes, no) = sides.into_iter().find_map(|(cond, yes, no)| {
            let (index, is_last) = self.end_of_ring(&cond)?;
            Some((index, is_last, yes, no))
        })?;
        let Remainder { of, by, .. } = self.remainders.get(&index)?.clone();
        let end = Form::number(if is_last { by - 1 } else { 0 });
        let at_end = |symbol: Sym| Some(if symbol == index { end.clone() } else { Form::symbol(symbol) });
        let difference = yes.sub(no)?.replaced(&at_end)?.known()?;
        let step = difference / by;
        if step.checked_mul(by) != Some(difference) {
            return None;
        }
        // The index takes a step, but not at the end: there, it is further by the whole ring.
        let (index, forward) = (Form::symbol(index), if is_last { 1 } else { -1 });
        let next = self.remainder(&of.plus(forward)?, by)?;
        let turned = index.sub(&next)?.scale(forward)?.plus(1)?;
        no.add(&turned.scale(step)?)
    }

    /// The index of a ring, if a condition is that it is the last one, true, or the first one.
    fn end_of_ring(&self, cond: &Cond) -> Option<(Sym, bool)> {
        let parts = match cond {
            Cond::All(parts) => parts.as_ref(),
            one => std::slice::from_ref(one),
        };
        let mut found: Option<(Sym, i128, i128)> = None;
        for part in parts {
            let Cond::AtLeast(form) = part else { return None };
            let ([(mono, Coef::One(factor))], Coef::One(constant)) = (form.terms.as_slice(), &form.constant) else {
                return None;
            };
            let [symbol] = mono.as_slice() else { return None };
            let (own, least, most) = found.unwrap_or((*symbol, 0, self.remainders.get(symbol)?.by - 1));
            // `factor · index + constant >= 0`
            let (least, most) = match factor.signum() {
                1 => (least.max(-constant.div_euclid(*factor)), most),
                _ => (least, most.min(constant.div_euclid(-factor))),
            };
            found = Some((own, least, most)).filter(|_| own == *symbol);
            found?;
        }
        let (index, least, most) = found?;
        let last = self.remainders.get(&index)?.by - 1;
        match (least == most, least) {
            (true, 0) => Some((index, false)),
            (true, at) if at == last => Some((index, true)),
            _ => None,
        }
    }

    /// The symbol that is one where a condition holds, and else zero.
    fn bit_of(&mut self, cond: &Cond) -> Option<Sym> {
        if let Some(symbol) = self.bits.get(cond) {
            return Some(*symbol);
        }
        let symbol = self.derived((0, 1), self.cond_scope(cond));
        let is = Cond::at_least(Form::symbol(symbol).plus(-1)?);
        self.assume(symbol, cond.choose(is.clone(), is.negate()));
        self.choices.insert(symbol, (cond.clone(), Form::number(1)));
        self.bits.insert(cond.clone(), symbol);
        Some(symbol)
    }

    /// A change of a value that threads make where a condition holds, and else not: the condition, and the change.
    pub(crate) fn conditional(&self, change: &Form) -> Option<(Cond, Form)> {
        let is_bit = |symbol: &Sym| self.choices.get(symbol).is_some_and(|(_, yes)| yes.known() == Some(1));
        let bit = change.symbols().find(is_bit)?;
        let with = |value: i128| {
            let own = |symbol: Sym| if symbol == bit { Form::number(value) } else { Form::symbol(symbol) };
            change.replaced(&|symbol| Some(own(symbol)))
        };
        let (cond, _) = self.choices.get(&bit)?;
        let (yes, no) = (with(1)?, with(0)?);
        let is_none = |form: &Form| form.known() == Some(0);
        match (is_none(&yes), is_none(&no)) {
            (false, true) => Some((cond.clone(), yes)),
            (true, false) => Some((cond.negate(), no)),
            _ => None,
        }
    }

    /// A product. A remainder has one name in it, and so has a sum where the products of all factors would be too long.
    pub(crate) fn product(&mut self, a: &Form, b: &Form) -> Option<Form> {
        if a.constant().is_some() || b.constant().is_some() {
            return a.mul(b);
        }
        let (a, b) = (self.by_name(a), self.by_name(b));
        if let Some(product) = a.mul(&b) {
            return Some(product);
        }
        let (longer, other) = if a.degree() >= b.degree() { (&a, &b) } else { (&b, &a) };
        let name = self.named(longer)?;
        match name.mul(other) {
            Some(product) => Some(product),
            None => name.mul(&self.named(other)?),
        }
    }

    /// The name of a sum or of its multiple, if it has one; else the sum.
    fn by_name(&self, form: &Form) -> Form {
        if let Some(name) = self.names.get(form) {
            return name.clone();
        }
        let (single, by) = form.reduced();
        let name = self.names.get(&single).and_then(|name| name.scale(by));
        name.or_else(|| self.shorter(form)).unwrap_or_else(|| form.clone())
    }

    /// The sum with the name of a part that has products, such as a remainder to which something is added: the shortest such sum.
    fn shorter(&self, form: &Form) -> Option<Form> {
        let products = form.terms.iter().filter(|(mono, _)| mono.len() > 1);
        let named = products.flat_map(|(mono, coef)| {
            self.names.iter().filter_map(move |(sum, name)| {
                let (_, own) = sum.terms.iter().find(|(other, _)| other == mono)?;
                let (Coef::One(coef), Coef::One(own)) = (coef, own) else { return None };
                let by = Some(coef / own).filter(|by| by * own == *coef)?;
                let rest = form.sub(&sum.scale(by)?)?;
                (rest.terms.len() + 1 < form.terms.len()).then_some((rest.terms.len(), rest.add(&name.scale(by)?)?))
            })
        });
        let key = |form: &Form| form.symbols().collect::<Vec<_>>();
        named.min_by_key(|(length, form)| (*length, key(form))).map(|(_, form)| form)
    }

    /// The form with the names of remainders in the place of these sums: their bounds are no products.
    pub(crate) fn with_names(&self, form: &Form) -> Form {
        let mut names: Vec<(&Form, &Form)> = self.names.iter().filter(|(sum, _)| sum.degree() > 1).collect();
        names.sort_small_by_key(|(_, name)| name.symbols().next());
        names.into_iter().fold(form.clone(), |form, (sum, name)| self.with_name(&form, sum, name).unwrap_or(form))
    }

    fn with_name(&self, form: &Form, sum: &Form, name: &Form) -> Option<Form> {
        let (mono, Coef::One(own)) = sum.terms.iter().find(|(mono, _)| mono.len() > 1)? else { return None };
        let (_, Coef::One(factor)) = form.terms.iter().find(|(other, _)| other == mono)? else { return None };
        let by = factor.checked_div(*own).filter(|by| by * own == *factor)?;
        let replaced = form.sub(&sum.scale(by)?)?.add(&name.scale(by)?)?;
        (replaced.degree() < form.degree() || replaced.terms.len() < form.terms.len()).then_some(replaced)
    }

    /// The sum that a symbol is the name of.
    pub(crate) fn sum_of(&self, symbol: Sym) -> Option<&Form> {
        let name = Form::symbol(symbol);
        self.names.iter().find(|(_, own)| **own == name).map(|(sum, _)| sum)
    }

    /// A symbol that is a sum.
    fn named(&mut self, form: &Form) -> Option<Form> {
        if let Some(name) = self.names.get(form) {
            return Some(name.clone());
        }
        // Multiples of one sum have one name.
        let (single, by) = form.reduced();
        if by != 1 {
            return self.named(&single)?.scale(by);
        }
        let symbol = self.derived(self.range(form)?, self.scope(form));
        let name = Form::symbol(symbol);
        self.assume(symbol, Cond::equal(&name, form)?);
        self.names.insert(form.clone(), name.clone());
        Some(name)
    }

    /// Names the remainder of a division by a number above zero, so that products with it have its bounds.
    fn name_rest(&mut self, rest: &Form, by: &Form) -> Option<()> {
        let (_, most) = self.range(by)?;
        self.learn(rest, (0, most.checked_sub(1)?));
        let symbol = self.derived((0, most - 1), self.scope(rest));
        let name = Form::symbol(symbol);
        self.assume(symbol, Cond::equal(&name, rest)?);
        self.assume(symbol, Cond::lt(&name, by)?);
        self.names.insert(rest.clone(), name);
        Some(())
    }

    /// A form that depends on a choice of addresses as one for each choice, with the condition of each.
    pub(crate) fn by_choice(&self, form: &Form, is_base: &dyn Fn(Sym) -> bool) -> Vec<(Form, Cond)> {
        let mut open = vec![(form.clone(), Cond::Const(true))];
        let mut found = Vec::new();
        while let Some((form, cond)) = open.pop() {
            let of_addresses = |(mono, symbol): (&Mono, Sym)| {
                let (when, yes) = self.choices.get(&symbol)?;
                let has_base = yes.symbols().chain(mono.iter().copied()).any(is_base);
                has_base.then_some((symbol, when, yes))
            };
            let mut symbols = form.terms.iter().flat_map(|(mono, _)| mono.iter().map(move |symbol| (mono, *symbol)));
            let Some((chosen, when, yes)) = symbols.find_map(of_addresses).filter(|_| open.len() < WAYS) else {
                found.push((form, cond));
                continue;
            };
            let with = |value: &Form| {
                form.replaced(&|symbol| Some(if symbol == chosen { value.clone() } else { Form::symbol(symbol) }))
            };
            let (Some(left), Some(right)) = (with(yes), with(&Form::number(0))) else {
                found.push((form, cond));
                continue;
            };
            open.push((right, Cond::all([cond.clone(), when.negate()])));
            open.push((left, Cond::all([cond, when.clone()])));
        }
        found
    }

    /// The smaller of two numbers.
    pub(crate) fn smaller(&mut self, a: &Form, b: &Form) -> Option<Form> {
        if let (Some(a), Some(b)) = (a.constant(), b.constant()) {
            let constant = a.zip(b, |a, b| Some(a.min(b)))?;
            return Some(Form { terms: Vec::new(), constant });
        }
        let ((low, high), (least, most)) = (self.range(a)?, self.range(b)?);
        if high <= least {
            return Some(a.clone());
        }
        if most <= low {
            return Some(b.clone());
        }
        let key = ("smaller", vec![a.clone(), b.clone()], 0);
        if let Some(found) = self.made.get(&key) {
            return Some(found.clone());
        }
        let scope = self.scope(a).max(self.scope(b));
        let symbol = self.derived((low.min(least), high.min(most)), scope);
        let found = Form::symbol(symbol);
        let is = |form: &Form| Cond::equal(&found, form);
        let fact = Cond::all([Cond::le(&found, a)?, Cond::le(&found, b)?, Cond::any([is(a)?, is(b)?])]);
        self.assume(symbol, fact);
        self.limit_smaller(symbol, a, b);
        self.made.insert(key, found.clone());
        [a, b].into_iter().for_each(|form| self.learn_above(form, &found));
        Some(found)
    }

    /// Notes that a number less the smaller one of it and of another is not below zero.
    fn learn_above(&mut self, form: &Form, smaller: &Form) {
        let Some(rest) = form.sub(smaller) else { return };
        if let Some((least, most)) = self.range(&rest)
            && least < 0
        {
            self.learn(&rest, (0, most));
        }
    }

    /// The larger of two numbers.
    pub(crate) fn larger(&mut self, a: &Form, b: &Form) -> Option<Form> {
        self.smaller(&a.scale(-1)?, &b.scale(-1)?)?.scale(-1)
    }

    /// One where a condition holds, else zero.
    pub(crate) fn bit(&mut self, cond: &Cond) -> Option<Form> {
        self.choose(cond, &Form::number(1), &Form::number(0))
    }

    /// A condition of which nothing is known.
    pub(crate) fn any_truth(&mut self, scope: Scope) -> Cond {
        let bit = self.unknown((0, 1), scope);
        Cond::AtLeast(Form { constant: Coef::One(-1), ..bit })
    }

    /// The condition, or one of which nothing is known if it is too long: conditions of conditions double with every step.
    pub(crate) fn bounded(&mut self, cond: Cond) -> Cond {
        if cond.is_longer_than(LONGEST) { self.any_truth(self.cond_scope(&cond)) } else { cond }
    }

    /// The condition that a multiple of a choice is at least a number, by those of the choice and of its value. Else the choice is zero.
    fn of_choice(&self, form: &Form) -> Option<Cond> {
        let (cond, of_value, constant) = self.parts_of_choice(form)?;
        // An address that is chosen is none that is zero, so that the choice alone decides.
        Some(match constant < 0 {
            true if self.is_never(cond, &of_value.negate()) => cond.clone(),
            true => Cond::all([cond.clone(), of_value]),
            false if self.is_never(cond, &of_value) => cond.negate(),
            false => Cond::any([cond.negate(), of_value]),
        })
    }

    /// The condition of a choice, that of its value, and the constant.
    fn parts_of_choice(&self, form: &Form) -> Option<(&Cond, Cond, i128)> {
        let ([(mono, Coef::One(factor))], Coef::One(constant)) = (form.terms.as_slice(), &form.constant) else {
            return None;
        };
        let [symbol] = mono[..] else { return None };
        let (cond, value) = self.choices.get(&symbol).filter(|(cond, _)| !cond.is_longer_than(CHOICE))?;
        let of_value = self.simplify(Cond::at_least(value.scale(*factor)?.plus(*constant)?));
        Some((cond, of_value, *constant))
    }

    /// The condition that a sum is at least zero, as `simplify` has it, but that no question about a choice is asked, which takes long if it is open.
    pub(crate) fn simplify_plainly(&self, form: Form) -> Cond {
        match (self.range(&form), self.parts_of_choice(&form)) {
            (Some((0.., _)), _) => Cond::Const(true),
            (Some((_, ..0)), _) => Cond::Const(false),
            (_, Some((cond, of_value, ..0))) => Cond::all([cond.clone(), of_value]),
            _ => Cond::at_least(form),
        }
    }

    /// Returns true if two conditions exclude each other in every launch. Values from memory have no conditions that would help.
    fn is_never(&self, cond: &Cond, other: &Cond) -> bool {
        let mut has_loose = false;
        let is_loose = |symbol: Sym| {
            let known = self.symbol(symbol);
            known.origin == Origin::Loose && known.meaning != Meaning::Base
        };
        other.forms(&mut |form| has_loose |= form.symbols().any(is_loose));
        if has_loose || matches!(other, Cond::Const(_)) {
            return *other == Cond::Const(false);
        }
        let key = (cond.clone(), other.clone());
        if let Some(known) = self.excluded.borrow().get(&key) {
            return *known;
        }
        let is = (self.excludes)(self, std::slice::from_ref(cond), other, Effort::Little);
        self.excluded.borrow_mut().insert(key, is);
        is
    }

    /// Decides a condition by intervals where they suffice.
    pub(crate) fn simplify(&self, cond: Cond) -> Cond {
        match cond {
            Cond::AtLeast(form) => match self.range(&form) {
                Some((least, _)) if least >= 0 => Cond::Const(true),
                Some((_, most)) if most < 0 => Cond::Const(false),
                _ => self.of_choice(&form).unwrap_or(Cond::AtLeast(form)),
            },
            Cond::All(parts) => Cond::all(parts.iter().map(|part| self.simplify(part.clone()))),
            Cond::Any(parts) => Cond::any(parts.iter().map(|part| self.simplify(part.clone()))),
            decided => decided,
        }
    }
}
