//! Accesses: the buffer or variable of an address, the offset in it, and the value that is loaded.
use crate::form::{Coef, Cond, Form};
use crate::machine::{Machine, State, Value};
use crate::site::{Site, integer};
use crate::trace::{Access, Base, Element, Kind, Step, Turns, What};
use crate::world::{Effort, Meaning, Origin, Scope, Symbol};
use ptx_core::ir::{Base as Start, Operand, Param, RegId, Space, Symbol as Name, VarId, Variable};
use ptx_core::isa::Type;

/// An address in a buffer or variable.
pub(crate) struct Place {
    pub(crate) base: usize,
    /// As a sum of integers; the address is this modulo its width.
    pub(crate) offset: Form,
    /// The bits of the address.
    pub(crate) bits: u32,
    /// True for a generic address in the window of its space.
    pub(crate) is_generic: bool,
}

impl Place {
    /// So many bytes further.
    pub(crate) fn plus(&self, bytes: i128) -> Option<Place> {
        Some(self.at(self.offset.plus(bytes)?))
    }

    /// At another offset.
    pub(crate) fn at(&self, offset: Form) -> Place {
        Place { offset, ..*self }
    }
}

/// The end of the addresses of shared memory: no block has 256 KiB.
const SHARED: i128 = 1 << 18;
/// The alignment of allocated memory.
pub(crate) const ALLOCATED: u64 = 256;

/// The spaces by the modifiers of accesses.
const SPACES: [(&str, Space); 7] = [
    ("global", Space::Global),
    ("shared", Space::Shared),
    ("shared::cta", Space::Shared),
    ("shared::cluster", Space::Shared),
    ("local", Space::Local),
    ("const", Space::Const),
    ("param", Space::Param),
];

/// Modifiers of accesses that are not those of the thread alone, now.
const OTHERS: [&str; 5] = ["async", "bulk", "multimem", "reduce", "mbarrier"];
/// Accesses that other threads may use for communication.
const STRONG: [&str; 7] = ["volatile", "relaxed", "acquire", "release", "acq_rel", "mmio", "sc"];

/// Scopes without other blocks, or other clusters.
const NARROW: [&str; 2] = ["cta", "cluster"];

impl Machine<'_> {
    /// The address of a variable.
    pub(crate) fn variable(&mut self, id: VarId) -> Option<Form> {
        let variable = self.module.variables.get(id.index())?;
        if variable.space == Space::Param && !self.function.entry {
            return None;
        }
        // Arrays without a size are all at the start of dynamic shared memory.
        let is_dynamic = |variable: &Variable| variable.space == Space::Shared && variable.size == 0;
        let first = self.module.variables.iter().position(is_dynamic).filter(|_| is_dynamic(variable));
        let id = first.and_then(|first| u32::try_from(first).ok()).map_or(id, VarId);
        let variable = self.module.variables.get(id.index())?;
        let what = What::Var(id);
        if let Some(base) = self.base_of.get(&what) {
            return Some(self.address_of(*base));
        }
        let len = if variable.size == 0 {
            Form::number(self.dynamic_shared.into())
        } else {
            Form::number(variable.size.into())
        };
        let align = if variable.size == 0 { variable.align.max(16) } else { variable.align.max(1) };
        let most = match (variable.space, len.known()) {
            (Space::Global, _) => 1 << 47,
            (Space::Shared, Some(len)) => (SHARED - len).max(0),
            _ => 1 << 24,
        };
        let base = Base { what, space: variable.space, name: variable.name.clone(), len, align };
        Some(self.add_base(base, most))
    }

    pub(crate) fn add_base(&mut self, base: Base, most: i128) -> Form {
        let (scope, origin, meaning) = (Scope::Grid, Origin::Loose, Meaning::Base);
        let symbol = self.world.add(Symbol { least: 0, most, scope, origin, meaning, facts: Vec::new() });
        self.world.align(symbol, base.align.into());
        self.register(base, symbol)
    }

    pub(crate) fn register(&mut self, base: Base, symbol: u32) -> Form {
        self.base_of.insert(base.what, self.bases.len());
        self.base_symbols.push(symbol);
        self.bases.push(base);
        Form::symbol(symbol)
    }

    fn address_of(&self, base: usize) -> Form {
        self.base_symbols.get(base).map_or_else(|| Form::number(0), |symbol| Form::symbol(*symbol))
    }

    /// Makes bases of the parameters that are addresses.
    pub(crate) fn add_buffers(&mut self, pointers: &[bool]) {
        for (at, param) in self.function.params.iter().enumerate() {
            let Param::Var(id) = param else { continue };
            let Some(variable) = self.module.variables.get(id.index()) else { continue };
            if pointers.get(at) != Some(&true) {
                continue;
            }
            let Some(symbol) = self.launch.params.get(at).cloned().flatten().and_then(|form| form.symbols().next())
            else {
                continue;
            };
            let align = variable.points_to.map_or(ALLOCATED, |(_, align)| align.max(1)).min(ALLOCATED);
            let align = self.aligns.get(at).copied().flatten().unwrap_or(align);
            let len = self.lens.get(at).cloned().flatten().unwrap_or_else(|| {
                Form::symbol(self.world.add(Symbol {
                    least: 0,
                    most: 1 << 47,
                    scope: Scope::Grid,
                    origin: Origin::Loose,
                    meaning: Meaning::Other,
                    facts: Vec::new(),
                }))
            });
            let base = Base { what: What::Param(at), space: Space::Global, name: variable.name.clone(), len, align };
            self.register(base, symbol);
        }
    }

    /// Makes bases of the memory at addresses in structs.
    pub(crate) fn add_regions(&mut self) {
        for (base, symbol) in self.launch.regions.clone() {
            self.register(base, symbol);
        }
    }

    /// The buffers or variables of an address operand: several, with the condition of each, where one of several addresses is chosen.
    pub(crate) fn places(&mut self, at: usize, site: &Site<'_>, operand: &Operand) -> Vec<(Place, Cond)> {
        let Some((address, bits)) = self.address(at, site, operand) else { return Vec::new() };
        let mut places = self.places_of(at, address, bits);
        let found = places.len();
        places.retain(|(place, _)| self.takes(site, place));
        if places.len() < found {
            self.gap(
                at,
                "the address is generic where one in its state space is due, or the reverse: `cvta` converts it",
            );
        }
        places
    }

    /// The same of an address.
    pub(crate) fn places_of(&mut self, at: usize, address: Form, bits: u32) -> Vec<(Place, Cond)> {
        let address = self.world.whole(&address);
        let ways = self.world.by_choice(&address, &|symbol| self.is_base(symbol));
        let mut found = Vec::new();
        for (address, cond) in ways {
            // Of an address or zero, the way to this instruction may leave the address.
            let is_none = cond != Cond::Const(true) && !address.symbols().any(|symbol| self.is_base(symbol));
            if is_none && (self.world.excludes)(&self.world, &[self.world.here.cond()], &cond, Effort::Little) {
                continue;
            }
            found.extend(self.split(at, &address, bits).map(|place| (place, cond)));
        }
        found
    }

    fn is_base(&self, symbol: u32) -> bool {
        self.world.symbol(symbol).meaning == Meaning::Base
    }

    /// An address and its bits.
    pub(crate) fn address(&mut self, at: usize, site: &Site<'_>, operand: &Operand) -> Option<(Form, u32)> {
        let Operand::Memory { base, offset, .. } = operand else { return None };
        let (address, bits) = match base {
            Start::Reg(register) => match self.current.get(register.index()) {
                Some(Value::Bits(form)) => (form.clone(), site.width(&Operand::Reg(*register))),
                _ => return self.lost(at, "the address is computed in a way that is not described here"),
            },
            Start::Symbol(Name::Var(id)) => (self.variable(*id)?, 64),
            _ => return self.lost(at, "the address is not in a buffer or variable"),
        };
        Some((address.plus((*offset).into())?, bits))
    }

    fn lost<T>(&mut self, at: usize, missing: &str) -> Option<T> {
        self.gap(at, missing);
        None
    }

    /// Base and offset of an address.
    fn split(&mut self, at: usize, address: &Form, bits: u32) -> Option<Place> {
        let single = |(mono, coef): &(Vec<u32>, Coef)| match (mono.as_slice(), coef) {
            ([symbol], Coef::One(1)) => Some(*symbol),
            _ => None,
        };
        let symbols: Vec<u32> = address.terms.iter().filter_map(single).collect();
        let mut found = (0..self.bases.len()).filter(|base| symbols.contains(&self.base_symbols[*base]));
        let (first, second) = (found.next(), found.next());
        let base = match (first, second) {
            (Some(base), None) => base,
            (Some(_), Some(_)) => return self.lost(at, "the address is a sum of two addresses"),
            _ => {
                let is_param = |symbol: &u32| match self.world.symbol(*symbol).meaning {
                    Meaning::Param(param) if self.world.symbol(*symbol).most > 1 << 33 => Some(param),
                    _ => None,
                };
                let params: Vec<usize> = symbols.iter().filter_map(is_param).collect();
                if let [param] = params.as_slice() {
                    self.pointers.insert(*param);
                }
                return self.lost(at, "the address is not that of one buffer or variable, plus an offset");
            }
        };
        let offset = address.sub(&self.address_of(base))?;
        let (offset, is_generic) = self.without_window(self.bases[base].space, offset);
        let is_base = |symbol: u32| self.world.symbol(symbol).meaning == Meaning::Base;
        if offset.symbols().any(is_base) {
            return self.lost(at, "the offset depends on an address");
        }
        let offset = match offset.constant() {
            Some(_) => self.world.number(&offset, bits, true),
            None => offset,
        };
        Some(Place { base, offset, bits, is_generic })
    }

    /// Returns true if a condition never holds where the current instruction is executed under its guard.
    fn never_comes(&self, guard: &Cond, cond: Cond) -> bool {
        let world = &self.world;
        match world.simplify(cond) {
            Cond::Const(holds) => !holds,
            cond => (world.excludes)(world, &[world.here.cond(), guard.clone()], &cond, Effort::Little),
        }
    }

    /// Records that a warp as one uses lanes of tensor memory: base and first lane, number and kind.
    pub(crate) fn use_of_warp(
        &mut self,
        (inst, state): (usize, &State),
        (base, lane): (usize, Form),
        (size, kind): (u64, Kind),
    ) {
        let access = Access {
            inst,
            kind,
            base,
            offset: lane,
            bits: 0,
            size,
            needs: None,
            align: 1,
            path: state.path.clone(),
            guard: Cond::Const(true),
            value: None,
            strong: false,
            narrow: false,
            of_warp: true,
            is_copy: false,
            turns: self.open.as_slice().into(),
        };
        let node = state.from.first().copied().unwrap_or(usize::MAX);
        self.trace.access(node, access);
    }

    /// Records an access, if its space is that of the buffer.
    pub(crate) fn record(&mut self, site: &Site<'_>, state: &State, place: &Place, access: Access) -> bool {
        let space = self.bases[place.base].space;
        if let Some(named) = site.one_of(&SPACES)
            && named != space
            && !site.is("async")
            && !matches!(access.kind, Kind::Signal | Kind::Take)
        {
            self.gap(access.inst, "the address is in another state space than the instruction names");
            return false;
        }
        if !matches!(access.kind, Kind::Read | Kind::Fetch | Kind::Take) {
            let what = self.bases[place.base].what;
            self.writes.insert(what);
            match what {
                What::Peer(id, _) => drop(self.writes.insert(What::Var(id))),
                What::Entry(entry) => self.writes.extend(self.param_of_entry(entry)),
                _ => {}
            }
        }
        let node = state.from.first().copied().unwrap_or(usize::MAX);
        self.trace.access(node, access);
        true
    }
}

/// Returns true for an access that this module does not describe, which leaves a gap. An access of another block of the cluster is in its variable, or
/// not, as one of the own block is; the order of both is not described.
fn is_other(machine: &mut Machine<'_>, at: usize, site: &Site<'_>) -> bool {
    if site.is("shared::cluster") {
        machine.gap_of_order(at, format!("`{}` in the window of the cluster is not described here", site.row.name));
    }
    let other = OTHERS.iter().any(|modifier| site.is(modifier));
    if other {
        machine.gap(at, format!("`{}` is not described here", site.row.name));
    }
    other
}

/// The elements of an operand.
fn elements(operand: &Operand) -> &[Operand] {
    match operand {
        Operand::Vector(elements) => elements,
        other => std::slice::from_ref(other),
    }
}

/// Number of values that an operand is.
pub(crate) fn count(site: &Site<'_>, operand: &Operand) -> u64 {
    match operand {
        Operand::Vector(elements) => elements.len() as u64,
        Operand::Reg(register) => {
            site.function.registers.get(register.index()).map_or(1, |register| register.vector.max(1).into())
        }
        _ => 1,
    }
}

pub(crate) fn load(
    machine: &mut Machine<'_>,
    at: usize,
    site: &Site<'_>,
    state: &mut State,
    guard: &Cond,
) -> Vec<(RegId, Value)> {
    if is_other(machine, at, site) {
        return Vec::new();
    }
    let (Some(ty), Some(memory)) = (site.last_type(), site.inst.operands.get(1)) else { return Vec::new() };
    if let Operand::Memory { base: Start::Symbol(Name::Var(id)), offset, .. } = memory
        && machine.module.variables.get(id.index()).is_some_and(|variable| variable.space == Space::Param)
    {
        return machine.load_param(at, site, *id, *offset, ty);
    }
    let places = machine.places(at, site, memory);
    let size = ty.bytes() * count(site, site.operand(0));
    let mut is_recorded = false;
    for (place, cond) in &places {
        let guard = Cond::all([guard.clone(), cond.clone()]);
        let access = accessed(machine, state, &guard, site, place, (at, size, Kind::Read));
        is_recorded = machine.record(site, state, place, access);
    }
    let mut found = Vec::new();
    let [(place, _)] = places.as_slice() else { return found };
    let mut values = Vec::new();
    for (element, operand) in (0..).zip(elements(site.operand(0))) {
        if let Operand::Reg(register) = operand
            && let Some(value) = machine.loaded(site, place, element, ty, operand)
        {
            if let Value::Bits(form) = &value
                && let [(mono, Coef::One(1))] = form.terms.as_slice()
                && let ([symbol], true) = (mono.as_slice(), is_recorded && size == 4 && is_word(machine, place))
            {
                machine.trace.slot_loads.insert(machine.trace.accesses.len() - 1, *symbol);
            }
            if let Value::Bits(form) = &value {
                values.push(form.clone());
            }
            found.push((*register, value));
        }
    }
    if is_recorded && machine.is_distinct(place, (size, count(site, site.operand(0))), values.len()) {
        machine.trace.elements.push(Element { access: machine.trace.accesses.len() - 1, values });
    }
    found
}

/// Returns true for a known place in shared memory.
fn is_word(machine: &Machine<'_>, place: &Place) -> bool {
    machine.bases[place.base].space == Space::Shared && place.offset.known().is_some()
}

/// The access of a warp as one that writes a word to a known place in shared memory: variable and offset.
pub(crate) fn access_of_warp(
    machine: &mut Machine<'_>,
    at: usize,
    site: &Site<'_>,
    state: &State,
    operand: &Operand,
) -> Option<(usize, i128)> {
    let places = machine.places(at, site, operand);
    let [(place, Cond::Const(true))] = places.as_slice() else { return None };
    let slot = (place.base, place.offset.known().filter(|_| is_word(machine, place))?);
    let access = accessed(machine, state, &Cond::Const(true), site, place, (at, 4, Kind::Write));
    machine.record(site, state, place, Access { of_warp: true, ..access }).then_some(slot)
}

/// The access of an instruction.
pub(crate) fn accessed(
    machine: &Machine<'_>,
    state: &State,
    guard: &Cond,
    site: &Site<'_>,
    place: &Place,
    (inst, size, kind): (usize, u64, Kind),
) -> Access {
    let guard = machine.world.simplify(guard.clone());
    let strong = STRONG.iter().any(|modifier| site.is(modifier));
    let narrow = NARROW.iter().any(|modifier| site.is(modifier));
    let (base, offset, bits, path) = (place.base, place.offset.clone(), place.bits, state.path.clone());
    let turns = machine.open.as_slice().into();
    Access {
        inst,
        kind,
        base,
        offset,
        bits,
        size,
        needs: None,
        align: size,
        path,
        guard,
        value: None,
        strong,
        narrow,
        of_warp: false,
        is_copy: false,
        turns,
    }
}

impl Machine<'_> {
    /// The value of a load: equal for equal places of memory that the entry does not write.
    fn loaded(&mut self, site: &Site<'_>, place: &Place, element: i128, ty: Type, to: &Operand) -> Option<Value> {
        let (bits, signed) = integer(ty)?;
        let range = if signed { (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1) } else { (0, (1i128 << bits) - 1) };
        if site.width(to) > 64 {
            return None;
        }
        let what = self.bases[place.base].what;
        let offset = place.offset.plus(element * i128::from(ty.bytes()))?;
        let has_others = matches!(what, What::Entry(_));
        let is_constant = !self.written.contains(&what) && !has_others && self.bases[place.base].space != Space::Local;
        if let (true, What::Param(param), 64) = (is_constant, what, bits)
            && let Some(address) = self.entry_of_table(param, &offset)
        {
            return Some(Value::Bits(address));
        }
        let scope = self.world.scope(&offset);
        if !is_constant {
            let scope = self.scope_of_load(site, place, scope);
            return Some(Value::Bits(self.world.unknown(range, scope)));
        }
        if scope == Scope::Thread {
            let symbol = self.world.loose(range, Scope::Thread);
            // Nobody writes what is read in this way.
            if site.is("nc") {
                self.constant.insert(what);
                self.world.note_place(symbol, offset);
            }
            return Some(Value::Bits(Form::symbol(symbol)));
        }
        self.constant.insert(what);
        let key = (place.base, offset, ty);
        if let Some(form) = self.loads.get(&key) {
            return Some(Value::Bits(form.clone()));
        }
        let symbol = self.world.loose(range, scope);
        // Shared memory that nobody writes is another one in each block.
        if self.bases[place.base].space != Space::Shared {
            self.world.note_place(symbol, key.1.clone());
        }
        let form = Form::symbol(symbol);
        self.loads.insert(key, form.clone());
        Some(Value::Bits(form))
    }

    /// Returns true if all values of a load are elements of a buffer of different numbers: so many bytes for so many elements.
    fn is_distinct(&self, place: &Place, (size, count): (u64, u64), values: usize) -> bool {
        let What::Param(param) = self.bases[place.base].what else { return false };
        let is_one = self.launch.distinct.iter().any(|(own, _)| *own == param);
        is_one && values as u64 == count && place.offset.is_multiple_of(size.into())
    }

    /// The threads to which a load of memory that the entry writes gives one value: if no thread races, those that come to it between the same barriers.
    /// Only these order what threads do, not instructions whose order a pipeline gives.
    fn scope_of_load(&self, site: &Site<'_>, place: &Place, scope: Scope) -> Scope {
        let base = &self.bases[place.base];
        let is_plain = base.space == Space::Shared && matches!(base.what, What::Var(_)) && !self.has_signals;
        if !is_plain || STRONG.iter().any(|modifier| site.is(modifier)) {
            return Scope::Thread;
        }
        scope.max(self.scope_of_turn())
    }

    /// The threads that are in the same turns of all loops around the current instruction, between two barriers.
    fn scope_of_turn(&self) -> Scope {
        let of = |own: &usize| match &self.trace.loops[*own] {
            Turns { together: true, .. } => Scope::Block,
            Turns { warps: true, .. } => Scope::Warp,
            _ => Scope::Thread,
        };
        self.open.iter().map(of).max().unwrap_or(Scope::Block)
    }

    /// The value of a parameter of the entry.
    fn load_param(&mut self, at: usize, site: &Site<'_>, id: VarId, offset: i64, ty: Type) -> Vec<(RegId, Value)> {
        let position = self.function.params.iter().position(|param| *param == Param::Var(id));
        let Some(variable) = self.module.variables.get(id.index()) else { return Vec::new() };
        let Some(param) = position.filter(|_| self.function.entry) else {
            self.gap(at, "parameters of functions are not described");
            return Vec::new();
        };
        let (start, size) = (i128::from(offset), i128::from(ty.bytes()));
        let count = elements(site.operand(0)).len() as i128;
        if start < 0 || start + size * count > i128::from(variable.size) || start % (size * count) != 0 {
            self.outside_params.push(at);
        }
        let mut found = Vec::new();
        for (element, operand) in (0..).zip(elements(site.operand(0))) {
            let Operand::Reg(register) = operand else { continue };
            let Some((bits, signed)) = integer(ty) else { continue };
            let whole = self.launch.params.get(param).cloned().flatten();
            let form = match whole {
                // A register of this width holds it whatever its sign is.
                Some(form) if start == 0 && variable.ty.bits() == bits => match site.width(operand) == bits {
                    true => form,
                    false => self.world.number(&form, bits, signed),
                },
                _ => self.field(param, start + element * size, (bits, signed)),
            };
            if site.width(operand) <= 64 {
                found.push((*register, Value::Bits(form)));
            }
        }
        found
    }

    /// A number in a parameter that is a struct or an array.
    fn field(&mut self, param: usize, offset: i128, (bits, signed): (u32, bool)) -> Form {
        if let Some((form, own)) = self.launch.fields.get(&(param, offset)).cloned()
            && own == bits
        {
            // In a case of a launch a number may be known.
            return match self.world.range(&form) {
                Some((least, most)) if least == most => self.world.number(&Form::number(least), bits, signed),
                _ => self.world.number(&form, bits, signed),
            };
        }
        let key = (param, offset, bits, signed);
        if let Some(form) = self.fields.get(&key) {
            return form.clone();
        }
        let range = if signed { (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1) } else { (0, (1i128 << bits) - 1) };
        let form = Form::symbol(self.world.field((param, offset), range));
        self.fields.insert(key, form.clone());
        form
    }
}

pub(crate) fn store(
    machine: &mut Machine<'_>,
    at: usize,
    site: &Site<'_>,
    state: &mut State,
    guard: &Cond,
) -> Vec<(RegId, Value)> {
    if is_other(machine, at, site) {
        return Vec::new();
    }
    let (Some(ty), Some(memory)) = (site.last_type(), site.inst.operands.first()) else { return Vec::new() };
    if let Operand::Memory { base: Start::Symbol(Name::Var(id)), .. } = memory
        && machine.module.variables.get(id.index()).is_some_and(|variable| variable.space == Space::Param)
    {
        machine.gap(at, "parameters of functions are not described");
        return Vec::new();
    }
    let size = ty.bytes() * count(site, site.operand(1));
    let value = match machine.source(site, site.operand(1), Some(ty)) {
        Value::Bits(form) => Some(form),
        _ => None,
    };
    for (place, cond) in machine.places(at, site, memory) {
        let guard = Cond::all([guard.clone(), cond]);
        let access = accessed(machine, state, &guard, site, &place, (at, size, Kind::Write));
        let value = match &value {
            // What others read is this number.
            Some(form) if size == 4 && is_word(machine, &place) => Some(machine.world.number(form, 32, false)),
            other => other.clone(),
        };
        machine.record(site, state, &place, Access { value, ..access });
    }
    Vec::new()
}

pub(crate) fn atomic(
    machine: &mut Machine<'_>,
    at: usize,
    site: &Site<'_>,
    state: &mut State,
    guard: &Cond,
) -> Vec<(RegId, Value)> {
    if is_other(machine, at, site) {
        return Vec::new();
    }
    let memory = site.inst.operands.iter().position(|operand| matches!(operand, Operand::Memory { .. }));
    let (Some(ty), Some(memory)) = (site.last_type(), memory) else { return Vec::new() };
    let size = ty.bytes() * count(site, site.operand(memory + 1));
    // Shares of blocks at a barrier of the grid are such.
    let shares = integer(ty).filter(|_| site.is("acq_rel"));
    let value = match shares.map(|of| (machine.source(site, site.operand(memory + 1), Some(ty)), of)) {
        Some((Value::Bits(form), (bits, signed))) => Some(machine.world.number(&form, bits, signed)),
        _ => None,
    };
    let places = machine.places(at, site, site.operand(memory));
    for (place, cond) in &places {
        let guard = Cond::all([guard.clone(), cond.clone()]);
        let access = accessed(machine, state, &guard, site, place, (at, size, Kind::Atomic));
        machine.record(site, state, place, Access { strong: true, value: value.clone(), ..access });
    }
    let is_known = matches!(places.as_slice(), [(place, _)] if place.offset.known().is_some());
    before_atomic(machine, site, (&Cond::all([state.path.cond(), guard.clone()]), is_known), ty)
}

/// The value that an atomic operation returns.
fn before_atomic(
    machine: &mut Machine<'_>,
    site: &Site<'_>,
    (comes, is_known): (&Cond, bool),
    ty: Type,
) -> Vec<(RegId, Value)> {
    let (Operand::Reg(register), Some((bits, false))) = (site.operand(0), integer(ty)) else { return Vec::new() };
    let is_of_one = machine.is_of_one_thread(comes);
    let scope = if is_of_one { machine.scope_of_turn() } else { Scope::Thread };
    let symbol = machine.world.loose((0, (1 << bits) - 1), scope);
    let adds_one = site.is("add")
        && matches!(machine.source(site, site.operand(2), Some(ty)), Value::Bits(form) if form.known() == Some(1));
    let access = machine.trace.accesses.len().checked_sub(1).filter(|_| is_of_one && adds_one && is_known);
    machine.trace.tickets.extend(access.map(|access| (access, symbol)));
    vec![(*register, Value::Bits(Form::symbol(symbol)))]
}

/// Numbers of matrices that one instruction moves.
const MATRICES: [(&str, usize); 3] = [("x1", 1), ("x2", 2), ("x4", 4)];

/// `ldmatrix` and `stmatrix`: the first lanes of each warp have the addresses of rows of 16 bytes.
fn matrix(
    machine: &mut Machine<'_>,
    (at, kind, memory): (usize, Kind, usize),
    site: &Site<'_>,
    state: &State,
    guard: &Cond,
) {
    let shape = site.is("m8n8").then(|| site.one_of(&MATRICES)).flatten();
    let Some(matrices) = shape else {
        return machine.gap(at, format!("this shape of `{}` is not described here", site.row.name));
    };
    let lanes = (0..machine.world.threads).map(|thread| thread % 32 < 8 * matrices).collect();
    let lanes = Cond::table(lanes);
    for (place, cond) in machine.places(at, site, site.operand(memory)) {
        let guard = Cond::all([guard.clone(), lanes.clone(), cond]);
        let access = accessed(machine, state, &guard, site, &place, (at, 16, kind));
        machine.record(site, state, &place, access);
    }
}

pub(crate) fn load_matrix(
    machine: &mut Machine<'_>,
    at: usize,
    site: &Site<'_>,
    state: &mut State,
    guard: &Cond,
) -> Vec<(RegId, Value)> {
    matrix(machine, (at, Kind::Read, 1), site, state, guard);
    Vec::new()
}

pub(crate) fn store_matrix(
    machine: &mut Machine<'_>,
    at: usize,
    site: &Site<'_>,
    state: &mut State,
    guard: &Cond,
) -> Vec<(RegId, Value)> {
    matrix(machine, (at, Kind::Write, 0), site, state, guard);
    Vec::new()
}

/// The instructions about groups of copies.
const GROUPS: [(&str, Step); 3] =
    [("commit_group", Step::Commit), ("wait_group", Step::WaitGroups(0)), ("wait_all", Step::WaitAll)];

/// The effect of an instruction about groups. A wait that some threads leave out, or for a number that is computed, waits for nothing.
fn group_step(machine: &mut Machine<'_>, site: &Site<'_>, step: Step, guard: &Cond) -> Option<Step> {
    match (step, guard) {
        (Step::Commit, Cond::Const(true)) => Some(step),
        (Step::Commit, _) => Some(Step::MayCommit),
        (Step::WaitGroups(_), Cond::Const(true)) => match machine.source(site, site.operand(0), None) {
            Value::Bits(form) => form.known().filter(|most| *most >= 0).map(Step::WaitGroups),
            _ => None,
        },
        (step, guard) => (*guard == Cond::Const(true)).then_some(step),
    }
}

/// `cp.async`: both accesses, whose order `copies` checks.
pub(crate) fn copy(
    machine: &mut Machine<'_>,
    at: usize,
    site: &Site<'_>,
    state: &mut State,
    guard: &Cond,
) -> Vec<(RegId, Value)> {
    let node = state.from.first().copied().unwrap_or(usize::MAX);
    if let Some(step) = GROUPS.iter().find(|(part, _)| site.row.parts.contains(part)).map(|(_, step)| *step) {
        if let Some(step) = group_step(machine, site, step, guard) {
            machine.trace.copy(node, step);
        }
        return Vec::new();
    }
    if site.row.parts == ["async", "bulk", "prefetch"] {
        fetch(machine, at, site, state, guard);
        return Vec::new();
    }
    if site.row.parts != ["async"] || site.row.operand("ignore_src").is_some() {
        machine.gap(at, format!("`{}` is not described here", site.row.name));
        return Vec::new();
    }
    let number = |machine: &mut Machine<'_>, name: &str| {
        let operand = site.row.operand(name).map(|at| site.operand(at)).filter(|operand| **operand != Operand::Absent);
        operand.map(|operand| machine.source(site, operand, None))
    };
    let size = match number(machine, "cp_size") {
        Some(Value::Bits(form)) => form.known().and_then(|size| u64::try_from(size).ok()),
        _ => None,
    };
    let Some(size) = size else { return Vec::new() };
    let read = match number(machine, "src_size") {
        None => Some(Form::number(size.into())),
        Some(Value::Bits(form)) => Some(machine.world.number(&form, 32, false)),
        Some(_) => None,
    };
    let ends = [(0, Kind::Write), (1, Kind::Read)];
    let places = ends.map(|(operand, kind)| {
        machine.places(at, site, site.operand(operand)).into_iter().map(move |place| (place, kind))
    });
    for ((place, cond), kind) in places.into_iter().flatten().collect::<Vec<_>>() {
        let guard = Cond::all([guard.clone(), cond]);
        let access = Access { is_copy: true, ..accessed(machine, state, &guard, site, &place, (at, size, kind)) };
        match (&read, kind) {
            (Some(read), Kind::Read) if read.known() != Some(size.into()) => {
                // Nothing is read where the size is zero. A part counts as a whole in questions of order.
                let some = read.plus(-1).map_or(Cond::Const(true), |less| machine.world.simplify_plainly(less));
                let more = read.plus(-i128::from(size) - 1).map(Cond::at_least);
                if !more.is_some_and(|more| machine.never_comes(&access.guard, more)) {
                    machine.gap(at, "the copy may be told to read more bytes than it writes");
                }
                // Where all are read or none, the size is a number.
                let all = read.plus(-i128::from(size)).map(|less| machine.world.simplify_plainly(less));
                let needs = Some(read.clone()).filter(|_| all.as_ref() != Some(&some));
                let guard = Cond::all([access.guard.clone(), some]);
                machine.record(site, state, &place, Access { guard, needs, ..access });
            }
            (None, Kind::Read) => machine.gap(at, "the number of bytes to read is not described"),
            _ => {
                machine.record(site, state, &place, access);
            }
        }
    }
    Vec::new()
}

/// `cp.async.bulk.prefetch`: bytes of global memory that a cache may fetch, from the first to the last 16 of them.
fn fetch(machine: &mut Machine<'_>, at: usize, site: &Site<'_>, state: &State, guard: &Cond) {
    let places = machine.places(at, site, site.operand(0));
    let bytes = match machine.source(site, site.operand(1), None) {
        Value::Bits(form) => machine.world.number(&form, 32, false),
        _ => return machine.gap(at, "the number of bytes to fetch is not described"),
    };
    let ends = places.into_iter().flat_map(|(place, cond)| {
        let last = place.offset.add(&bytes).and_then(|end| end.plus(-FETCHED)).map(|offset| place.at(offset));
        [Some(place), last].map(|place| (place, cond.clone()))
    });
    for (place, cond) in ends.collect::<Vec<_>>() {
        let (Some(place), Some(some)) = (place, bytes.plus(-1).map(Cond::at_least)) else {
            return machine.gap(at, "the number of bytes to fetch is not described");
        };
        let guard = Cond::all([guard.clone(), some, cond]);
        let access = accessed(machine, state, &guard, site, &place, (at, FETCHED as u64, Kind::Fetch));
        machine.record(site, state, &place, access);
    }
}

/// The bytes of which a bulk prefetch fetches a multiple.
const FETCHED: i128 = 16;
