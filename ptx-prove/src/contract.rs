//! The launches that a proof is about: block, grid and conditions over the arguments.
//!
//! A number in a struct of parameters is a symbol as a parameter is. Its conditions are those of the attribute alone: what constructors of the
//! struct exclude is not seen here.

use crate::form::{Coef, Cond, Form, Sym};
use crate::solver::gcd;
use crate::trace::{Base, What};
use crate::world::{Meaning, Origin, Scope, Symbol, World};
use ptx_core::hash::Map;
use ptx_core::host::{Expr, Field, Operator, Plain};
use ptx_core::ir::{Space, Variable};
use ptx_core::isa::Class;
use ptx_target::sort::SortSmall;

/// The source of an entry's parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// The argument of this number: a scalar, or the address of its buffer.
    Argument(usize),
    /// The free number of this number.
    Number(usize),
    /// Anything else.
    Other,
}

/// Addresses that elements of a buffer are, as somebody vouches: each is that of memory which other launches share.
#[derive(Clone, Debug)]
pub struct Table {
    /// The argument with the addresses, of 64 bits each.
    pub argument: usize,
    /// The first of these elements, and the one behind the last.
    pub entries: [Expr; 2],
    /// Elements of the memory at each address.
    pub len: Expr,
    /// Bytes of one of them.
    pub element: u64,
    /// Each address is a multiple of this.
    pub align: u64,
    /// The argument that one of the entries is the address of; nothing if the memory is that of no argument.
    pub of: Option<usize>,
}

/// A number in a struct that is the address of memory, as somebody vouches. Different ones, those of tables and arguments are addresses of memory that does not
/// overlap.
#[derive(Clone, Debug)]
pub struct Region {
    /// Its name in messages.
    pub name: String,
    /// The argument that is the struct.
    pub argument: usize,
    /// The number, of 64 bits.
    pub field: Field,
    /// Elements of the memory.
    pub len: Expr,
    /// Bytes of one of them.
    pub element: u64,
    /// The address is a multiple of this.
    pub align: u64,
}

/// A tensor map whose memory is its own, as somebody vouches: different elements are at different addresses, only copies by maps access them, and those that
/// are written by one map are accessed by no other one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The name of its parameter.
    pub map: String,
    /// The extents of its boxes, the innermost one first.
    pub extents: Vec<u64>,
}

/// The launches to prove an entry for.
#[derive(Clone, Debug, Default)]
pub struct Contract {
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// Blocks of a cluster.
    pub cluster: [u32; 3],
    /// Blocks: a number or a list; any grid if absent.
    pub grid: Option<Expr>,
    /// Bytes of dynamic shared memory.
    pub shared: u64,
    /// Conditions that every launch fulfills.
    pub assume: Vec<Expr>,
    /// The parameters of the entry, in order.
    pub params: Vec<Passed>,
    /// For each argument the bytes of one element, because lengths in expressions count elements; zero if they are not known.
    pub elements: Vec<u64>,
    /// The alignment of every buffer, in bytes; if absent, the one that the entry declares (`.ptr .align`), or that of an allocation.
    pub align: Option<u64>,
    /// By parameter of the entry: the alignment of its buffer in bytes, where launches guarantee another one.
    pub aligns: Vec<Option<u64>>,
    /// True if a launch passes the address zero for a buffer of no bytes, and for no other.
    pub absent: bool,
    /// By parameter: true if its number has a sign, of any type; see [`signed_params`](crate::signed_params).
    pub signed: Vec<bool>,
    /// True if a launch may start while the one before it still runs.
    pub overlaps: bool,
    /// True if all blocks of a launch are resident at once.
    pub cooperative: bool,
    /// Bytes of a box of each tensor map, by the name of its parameter.
    pub boxes: Vec<(String, u64)>,
    /// The argument whose elements a tensor map describes, by the name of the map's parameter.
    pub maps: Vec<(String, usize)>,
    /// Tensor maps of memory that nothing else accesses.
    pub mapped: Vec<Mapped>,
    /// Buffers of addresses. The memory of different ones, and of arguments, is not the same, but for that which a table names.
    pub tables: Vec<Table>,
    /// Numbers in structs that are addresses.
    pub regions: Vec<Region>,
    /// Arguments whose elements are offsets, as somebody vouches: they do not decrease, and none is below zero. Proofs of races compare those of two
    /// threads; accesses are in bounds whatever the elements are.
    pub offsets: Vec<usize>,
    /// Buffers by whose elements threads find where they write, as somebody vouches: different elements are different numbers. Proofs of races compare
    /// those of two threads; accesses are in bounds whatever the elements are.
    pub distinct: Vec<Distinct>,
    /// Names of the free numbers (`Expr::Dim`).
    pub numbers: Vec<String>,
    /// True if a condition that is not described is left out, and not refused.
    pub partial: bool,
    /// True if the report shall have launches to run where something is open.
    pub samples: bool,
}

/// A buffer whose elements are different numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Distinct {
    /// The argument.
    pub argument: usize,
    /// The elements that lead to an access are below this.
    pub below: Option<Expr>,
}

/// The most blocks in each dimension.
const MOST_BLOCKS: [i128; 3] = [(1 << 31) - 1, 65535, 65535];
/// The most bytes of a buffer: addresses have 48 bits.
const MOST_BYTES: i128 = 1 << 47;
/// Bytes of an address.
const ADDRESS: u64 = 8;
/// The values of a free number.
const NUMBERS: (i128, i128) = (-(1 << 63), (1 << 63) - 1);

/// The symbols of a launch.
pub(crate) struct Symbols {
    /// `%ctaid`
    pub(crate) block: [Form; 3],
    /// `%nctaid`
    pub(crate) blocks: [Form; 3],
    /// By parameter of the entry: its value as a number.
    pub(crate) params: Vec<Option<Form>>,
    /// By argument: the length in bytes.
    pub(crate) lens: Vec<Form>,
    /// By free number.
    pub(crate) numbers: Vec<Form>,
    /// Numbers in parameters that are structs, which conditions read: by parameter and offset, with the bits.
    pub(crate) fields: Map<(usize, i128), (Form, u32)>,
    /// Buffers of addresses.
    pub(crate) tables: Vec<Entries>,
    /// Memory at addresses in structs, with the symbols of the addresses.
    pub(crate) regions: Vec<(Base, Sym)>,
    /// By parameter of the entry: the number below which the elements of a buffer of different numbers are, if there is one.
    pub(crate) distinct: Vec<(usize, Option<Form>)>,
    /// Conditions of the contract.
    pub(crate) facts: Vec<Cond>,
    /// True if a condition is not described, and so left out: launches may be fewer.
    pub(crate) is_wider: bool,
}

impl Contract {
    /// Returns true if an expression has the length of this argument.
    pub(crate) fn has_len(&self, argument: usize) -> bool {
        let is_table = self.tables.iter().any(|table| table.argument == argument || table.of == Some(argument));
        is_table || self.assume.iter().chain(&self.grid).any(|expr| names_len(expr, argument))
    }

    /// The parameter of the entry that an argument is.
    fn param_of(&self, argument: usize) -> Option<usize> {
        self.params.iter().position(|passed| *passed == Passed::Argument(argument))
    }

    /// The values of a parameter that is an address. Where buffers may be absent, only its declaration shows that it is one.
    fn addresses(&self, variable: &Variable) -> (i128, i128) {
        match (self.absent, variable.points_to) {
            (false, _) => (1 << 8, MOST_BYTES),
            (true, Some(_)) => (0, MOST_BYTES),
            (true, None) => (0, (1 << 64) - 1),
        }
    }
}

fn names_len(expr: &Expr, argument: usize) -> bool {
    match expr {
        Expr::Len(at) => *at == argument,
        Expr::List(parts) => parts.iter().any(|part| names_len(part, argument)),
        Expr::Unary(_, of) => names_len(of, argument),
        Expr::Binary(_, both, _) => both.iter().any(|part| names_len(part, argument)),
        Expr::If(parts) => parts.iter().any(|part| names_len(part, argument)),
        _ => false,
    }
}

/// An expression that the prover does not describe.
pub(crate) struct Refused;

/// The value of a host expression.
#[derive(Clone)]
pub(crate) enum Value {
    Int(Form),
    Truth(Cond),
    List(Vec<Form>),
}

/// The entries of a table, as forms.
#[derive(Clone)]
pub(crate) struct Entries {
    /// The parameter of the entry with the addresses.
    pub(crate) param: usize,
    pub(crate) first: Form,
    pub(crate) end: Form,
    /// Bytes of the memory at each.
    pub(crate) len: Form,
    pub(crate) align: u64,
    /// The parameter that is one of them.
    pub(crate) of: Option<usize>,
}

/// Makes the symbols of a launch, with the facts of the contract.
pub(crate) fn symbols(
    world: &mut World,
    contract: &Contract,
    variables: &[&Variable],
    is_pointer: &[bool],
    is_read: [bool; 3],
) -> Result<Symbols, Refused> {
    let arguments = contract.elements.len();
    // Whole elements.
    let len = |world: &mut World, at: usize| {
        scaled(world, Meaning::Len(at), (0, MOST_BYTES), i128::from(contract.elements[at]).max(1))
    };
    let lens: Option<Vec<Form>> = (0..arguments).map(|at| len(world, at)).collect();
    let lens = lens.ok_or(Refused)?;
    let number = |world: &mut World, at: usize| {
        scaled(world, Meaning::Number(at), NUMBERS, multiple_of(contract, &Expr::Dim(at)))
    };
    let numbers: Option<Vec<Form>> = (0..contract.numbers.len()).map(|at| number(world, at)).collect();
    let numbers = numbers.ok_or(Refused)?;
    let params = variables.iter().enumerate().map(|(at, variable)| {
        let passed = contract.params.get(at).copied().unwrap_or(Passed::Other);
        let signed = contract.signed.get(at) == Some(&true);
        let address = is_pointer.get(at).filter(|is_pointer| **is_pointer).map(|_| contract.addresses(variable));
        let by = match passed {
            Passed::Argument(argument) => multiple_of(contract, &Expr::Argument(argument)),
            _ => 1,
        };
        param(world, (at, variable, signed, by), passed, (&numbers, &lens), address)
    });
    let params: Vec<Option<Form>> = params.collect();
    let mut symbols = Symbols {
        block: std::array::from_fn(|_| Form::number(0)),
        blocks: std::array::from_fn(|_| Form::number(1)),
        params,
        lens,
        numbers,
        fields: Map::default(),
        tables: Vec::new(),
        regions: Vec::new(),
        distinct: Vec::new(),
        facts: Vec::new(),
        is_wider: false,
    };
    symbols.add_regions(world, contract, variables);
    symbols.add_fields(world, contract, variables);
    for condition in contract.assume.iter().flat_map(conjuncts) {
        match symbols.value(world, contract, condition) {
            Ok(Value::Truth(cond)) => {
                narrow(world, &cond);
                learn_products(world, &cond);
                symbols.facts.push(cond);
            }
            // What holds in more launches holds in those of the contract.
            _ if contract.partial => symbols.is_wider = true,
            _ => return Err(Refused),
        }
    }
    let extents = match &contract.grid {
        None => None,
        Some(grid) => Some(match symbols.value(world, contract, grid)? {
            Value::Int(extent) => vec![extent],
            Value::List(extents) => extents,
            Value::Truth(_) => return Err(Refused),
        }),
    };
    for (dimension, most) in MOST_BLOCKS.into_iter().enumerate() {
        symbols.add_dimension(world, dimension, (most, is_read[dimension]), extents.as_deref())?;
    }
    symbols.tables = contract.tables.iter().filter_map(|table| symbols.entries(world, contract, table).ok()).collect();
    symbols.measure_regions(world, contract);
    symbols.distinct = contract.distinct.iter().filter_map(|own| symbols.numbered(world, contract, own)).collect();
    // A grid of at least one block bounds the numbers in its expression.
    for _ in 0..ROUNDS {
        // Of alternatives such as `rows == 0 || …` a launch with blocks leaves one.
        symbols.facts = symbols.facts.into_iter().map(|fact| world.simplify(fact)).collect();
        symbols.facts.iter().for_each(|fact| narrow(world, fact));
        for symbol in 0..world.next() {
            let facts = world.facts_of(symbol).to_vec();
            facts.iter().for_each(|fact| narrow(world, fact));
        }
    }
    symbols.facts = symbols.facts.into_iter().map(|fact| world.simplify(fact)).collect();
    Ok(symbols)
}

/// The conditions that a condition joins, in order: the first ones bound what the others divide by.
fn conjuncts(condition: &Expr) -> Vec<&Expr> {
    match condition {
        Expr::Binary(Operator::And, both, _) => both.iter().flat_map(conjuncts).collect(),
        other => vec![other],
    }
}

/// Calls `visit` with every field of a struct in an expression.
fn fields(expr: &Expr, visit: &mut dyn FnMut(usize, Field)) {
    match expr {
        Expr::Field(at, field) => visit(*at, *field),
        Expr::Unary(_, of) => fields(of, visit),
        Expr::Binary(_, both, _) => both.iter().for_each(|part| fields(part, visit)),
        Expr::If(parts) => parts.iter().for_each(|part| fields(part, visit)),
        Expr::List(parts) => parts.iter().for_each(|part| fields(part, visit)),
        Expr::Int(_) | Expr::Bool(_) | Expr::Float(_) | Expr::Argument(_) | Expr::Len(_) | Expr::Dim(_) => {}
    }
}

/// Bits of an integer in a struct, and its values.
fn values_of(field: Field) -> Option<(u32, (i128, i128))> {
    let (bytes, is_signed) = match field.ty {
        Plain::Unsigned(bytes) => (bytes, false),
        Plain::Signed(bytes) => (bytes, true),
        Plain::Float(_) => return None,
    };
    let bits = 8 * u32::from(bytes);
    (1..=64).contains(&bits).then(|| (bits, numbers_of(bits, is_signed)))
}

/// The numbers of so many bits.
fn numbers_of(bits: u32, is_signed: bool) -> (i128, i128) {
    match is_signed {
        true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        false => (0, (1i128 << bits) - 1),
    }
}

/// The most rounds in which facts narrow each other.
const ROUNDS: usize = 4;

/// Narrows the ranges of symbols that a condition bounds: products of bounded factors then stay in the width of a register.
fn narrow(world: &mut World, cond: &Cond) {
    match cond {
        Cond::All(parts) => parts.iter().for_each(|part| narrow(world, part)),
        Cond::AtLeast(form) if form.is_even() => {
            for (at, (mono, factor)) in form.terms.iter().enumerate() {
                let ([symbol], Coef::One(factor)) = (mono.as_slice(), factor) else { continue };
                let mut rest = form.clone();
                rest.terms.remove(at);
                if rest.symbols().any(|other| other == *symbol) {
                    continue;
                }
                // factor · symbol + rest >= 0
                let Some((_, rest)) = world.range(&rest) else { continue };
                let known = world.symbol(*symbol);
                let bound = -rest.div_euclid(factor.abs());
                let (least, most) = match *factor > 0 {
                    true => (known.least.max(bound), known.most),
                    false => (known.least, known.most.min(-bound)),
                };
                if least <= most {
                    world.set_range(*symbol, (least, most));
                }
            }
        }
        Cond::Any(parts) => narrow_any(world, parts),
        _ => {}
    }
}

/// Remembers the greatest values of products, which intervals of their factors do not have: extents whose product a launch limits.
fn learn_products(world: &mut World, cond: &Cond) {
    match cond {
        Cond::All(parts) => parts.iter().for_each(|part| learn_products(world, part)),
        Cond::AtLeast(Form { terms, constant: Coef::One(most) }) => {
            let [(mono, Coef::One(-1))] = terms.as_slice() else { return };
            let product = Form { terms: vec![(mono.clone(), Coef::One(1))], constant: Coef::One(0) };
            if let (true, Some((least, _))) = (mono.len() > 1, world.product_range(mono)) {
                world.learn(&product, (least, *most));
            }
        }
        _ => {}
    }
}

/// Of alternatives, the ranges that hold all of theirs.
fn narrow_any(world: &mut World, parts: &[Cond]) {
    let mut symbols = Vec::new();
    parts.iter().for_each(|part| part.forms(&mut |form| symbols.extend(form.symbols())));
    symbols.sort_small();
    symbols.dedup();
    let ranges = |world: &World| -> Vec<(i128, i128)> {
        symbols.iter().map(|symbol| (world.symbol(*symbol).least, world.symbol(*symbol).most)).collect()
    };
    let set = |world: &mut World, ranges: &[(i128, i128)]| {
        symbols.iter().zip(ranges).for_each(|(symbol, range)| world.set_range(*symbol, *range));
    };
    let before = ranges(world);
    let mut hull: Option<Vec<(i128, i128)>> = None;
    for part in parts {
        narrow(world, part);
        let own = ranges(world);
        set(world, &before);
        hull = Some(match hull {
            None => own,
            Some(hull) => hull.iter().zip(&own).map(|(a, b)| (a.0.min(b.0), a.1.max(b.1))).collect(),
        });
    }
    set(world, &hull.unwrap_or(before));
}

/// The symbol of which a form is a multiple, and the positive factor.
fn single(form: &Form) -> Option<(Sym, i128)> {
    match (form.terms.as_slice(), &form.constant) {
        ([(mono, Coef::One(by))], Coef::One(0)) if *by > 0 => match mono.as_slice() {
            [symbol] => Some((*symbol, *by)),
            _ => None,
        },
        _ => None,
    }
}

/// The value of a parameter; nothing for a float or a struct.
fn param(
    world: &mut World,
    (at, variable, signed, by): (usize, &Variable, bool, i128),
    passed: Passed,
    (numbers, lens): (&[Form], &[Form]),
    address: Option<(i128, i128)>,
) -> Option<Form> {
    if !variable.dims.is_empty() || variable.vector > 1 || variable.size > 8 {
        return None;
    }
    let bits = variable.ty.bits();
    let range = match variable.ty.class() {
        Class::Signed => numbers_of(bits, true),
        Class::Unsigned | Class::Bits => numbers_of(bits, signed),
        _ => return None,
    };
    if let Passed::Number(number) = passed {
        let form = numbers.get(number)?.clone();
        let (symbol, by) = single(&form)?;
        world.restrict(symbol, quotients(range, by));
        return Some(form);
    }
    if let Some((least, most)) = address {
        let (scope, origin, meaning) = (Scope::Grid, Origin::Loose, Meaning::Base);
        let base = world.add(Symbol { least, most, scope, origin, meaning, facts: Vec::new() });
        if let Passed::Argument(argument) = passed
            && let Some(len) = lens.get(argument).filter(|_| least == 0)
        {
            let some = Cond::at_least(len.plus(-1)?);
            let is_there = Cond::at_least(Form::symbol(base).plus(-1)?);
            world.assume(base, some.choose(is_there.clone(), is_there.negate()));
        }
        return Some(Form::symbol(base));
    }
    scaled(world, Meaning::Param(at), range, by)
}

/// A number of the launch that is a multiple: a symbol times that.
fn scaled(world: &mut World, meaning: Meaning, range: (i128, i128), by: i128) -> Option<Form> {
    Form::symbol(world.launch(meaning, quotients(range, by), Scope::Grid)).scale(by)
}

/// The numbers whose multiples are in a range.
fn quotients((least, most): (i128, i128), by: i128) -> (i128, i128) {
    (-(-least).div_euclid(by), most.div_euclid(by))
}

/// The greatest number of which conditions are read.
const MULTIPLE: i128 = 1 << 20;

/// The number of which a launch passes a multiple, by conditions such as `n % 4 == 0`. With a symbol for the quotient all that is computed from it
/// shows its multiples, and no equality is left to the solver.
fn multiple_of(contract: &Contract, number: &Expr) -> i128 {
    let mut found = 1;
    for condition in &contract.assume {
        divisors(condition, number, &mut |by| {
            let both = lcm(found, by);
            found = if both <= MULTIPLE { both } else { found };
        });
    }
    found
}

/// The least number that two positive ones divide.
fn lcm(a: i128, b: i128) -> i128 {
    a / gcd(a, b).unwrap_or(1) * b
}

/// The numbers that divide a number under a condition.
fn divisors(condition: &Expr, number: &Expr, visit: &mut dyn FnMut(i128)) {
    let mut divides = |of: &Expr, by: &Expr| match by {
        Expr::Int(by) if plain(of) == number && (1..=MULTIPLE).contains(&(*by).into()) => visit((*by).into()),
        _ => {}
    };
    let Expr::Binary(operator, both, _) = condition else { return };
    match (operator, &both[..]) {
        (Operator::And, [a, b]) => {
            divisors(a, number, visit);
            divisors(b, number, visit);
        }
        (Operator::IsMultipleOf, [of, by]) => divides(of, by),
        (Operator::Eq, [Expr::Binary(Operator::Rem, parts, _), Expr::Int(0)]) => divides(&parts[0], &parts[1]),
        _ => {}
    }
}

/// The number that a condition gives a field, in every launch.
fn known(contract: &Contract, (at, field): (usize, Field)) -> Option<i64> {
    contract.assume.iter().find_map(|condition| match condition {
        Expr::Binary(Operator::Eq, both, _) => match &both[..] {
            [Expr::Field(own, of), Expr::Int(value)] if (*own, *of) == (at, field) => Some(*value),
            _ => None,
        },
        _ => None,
    })
}

/// The expression without the mark of integers that have no type: none has one here.
pub(crate) fn plain(expr: &Expr) -> &Expr {
    match expr {
        Expr::Unary(Operator::Exact, of) => plain(of),
        other => other,
    }
}

impl Symbols {
    /// Makes the symbols of the fields that the contract reads.
    fn add_fields(&mut self, world: &mut World, contract: &Contract, variables: &[&Variable]) {
        let mut found = Vec::new();
        let of_tables = contract.tables.iter().flat_map(|table| table.entries.iter().chain([&table.len]));
        let of_regions = contract.regions.iter().map(|region| &region.len);
        for expr in contract.assume.iter().chain(&contract.grid).chain(of_tables).chain(of_regions) {
            fields(expr, &mut |at, field| found.push((at, field)));
        }
        for (argument, field) in found {
            let Some(param) = contract.param_of(argument) else { continue };
            let (Some((bits, range)), Some(variable)) = (values_of(field), variables.get(param)) else { continue };
            let key = (param, i128::from(field.offset));
            let is_inside = field.offset.checked_add((bits / 8).into()).is_some_and(|end| end <= variable.size);
            if self.fields.contains_key(&key) || !is_inside {
                continue;
            }
            if let Some(value) = known(contract, (argument, field)) {
                self.fields.insert(key, (Form::number(value.into()), bits));
                continue;
            }
            let by = multiple_of(contract, &Expr::Field(argument, field));
            let symbol = world.field(key, quotients(range, by));
            if let Some(form) = Form::symbol(symbol).scale(by) {
                self.fields.insert(key, (form, bits));
            }
        }
    }

    /// Makes the symbols of addresses in structs.
    fn add_regions(&mut self, world: &mut World, contract: &Contract, variables: &[&Variable]) {
        for region in &contract.regions {
            let Some((param, variable)) =
                contract.param_of(region.argument).and_then(|at| Some((at, variables.get(at)?)))
            else {
                continue;
            };
            let (what, key) = (What::Field(param, region.field.offset), (param, i128::from(region.field.offset)));
            let is_inside = region.field.offset.checked_add(ADDRESS).is_some_and(|end| end <= variable.size);
            if region.field.ty != Plain::Unsigned(8) || self.fields.contains_key(&key) || !is_inside {
                continue;
            }
            let (scope, origin, meaning) = (Scope::Grid, Origin::Loose, Meaning::Base);
            let symbol = world.add(Symbol { least: 0, most: MOST_BYTES, scope, origin, meaning, facts: Vec::new() });
            let by = multiple_of(contract, &Expr::Field(region.argument, region.field));
            let align = lcm(region.align.into(), by);
            world.align(symbol, align);
            self.fields.insert(key, (Form::symbol(symbol), 64));
            let (name, len) = (region.name.clone(), Form::number(0));
            let align = u64::try_from(align).unwrap_or(region.align);
            self.regions.push((Base { what, space: Space::Global, name, len, align }, symbol));
        }
    }

    /// Gives the memory at addresses in structs its length, which the other fields tell. That without one has no bytes.
    fn measure_regions(&mut self, world: &mut World, contract: &Contract) {
        for region in &contract.regions {
            let what = contract.param_of(region.argument).map(|param| What::Field(param, region.field.offset));
            let Ok(len) = self.integer(world, contract, &region.len) else { continue };
            let Some(len) = len.scale(region.element.into()) else { continue };
            let own = self.regions.iter_mut().filter(|(base, _)| Some(base.what) == what);
            own.for_each(|(base, _)| base.len = len.clone());
        }
    }

    /// The extent of the grid in a dimension, and the block's place.
    fn add_dimension(
        &mut self,
        world: &mut World,
        dimension: usize,
        (most, is_read): (i128, bool),
        extents: Option<&[Form]>,
    ) -> Result<(), Refused> {
        let extent = match extents {
            Some(extents) => extents.get(dimension).cloned().unwrap_or_else(|| Form::number(1)),
            // Copies of all blocks in a dimension that the entry does not read are no sensible launch.
            None if !is_read => Form::number(1),
            None => Form::symbol(world.launch(Meaning::Blocks(dimension), (1, most), Scope::Grid)),
        };
        let (least, greatest) = world.range(&extent).unwrap_or((1, most));
        let (least, greatest) = (least.max(1), greatest.min(most));
        // A launch without blocks runs no thread.
        let fits = [Cond::le(&Form::number(1), &extent), Cond::le(&extent, &Form::number(most))];
        self.facts.extend(fits.into_iter().flatten());
        if greatest < 1 {
            self.facts.push(Cond::Const(false));
        }
        let (blocks, block) = if least == greatest && greatest == 1 {
            (Form::number(1), Form::number(0))
        } else {
            let blocks = match (extent.known(), single(&extent)) {
                (Some(_), _) => extent.clone(),
                // The number itself: one name for one value, so that products with it are the same.
                (None, Some((symbol, by))) => {
                    world.restrict(symbol, quotients((1, greatest.max(by)), by));
                    extent.clone()
                }
                // Of a range that registers hold.
                (None, None) => {
                    let symbol = world.launch(Meaning::Blocks(dimension), (least, greatest.max(least)), Scope::Grid);
                    let same = Cond::equal(&Form::symbol(symbol), &extent).ok_or(Refused)?;
                    world.assume(symbol, same);
                    Form::symbol(symbol)
                }
            };
            let symbol = world.launch(Meaning::Block(dimension), (0, (greatest - 1).max(0)), Scope::Block);
            let inside = Cond::lt(&Form::symbol(symbol), &blocks).ok_or(Refused)?;
            world.assume(symbol, inside);
            (blocks, Form::symbol(symbol))
        };
        self.blocks[dimension] = blocks;
        self.block[dimension] = block;
        Ok(())
    }

    fn entries(&mut self, world: &mut World, contract: &Contract, table: &Table) -> Result<Entries, Refused> {
        let len = self.integer(world, contract, &table.len)?;
        let [first, end] = &table.entries;
        Ok(Entries {
            param: contract.param_of(table.argument).ok_or(Refused)?,
            first: self.integer(world, contract, first)?,
            end: self.integer(world, contract, end)?,
            len: len.scale(table.element.into()).ok_or(Refused)?,
            align: table.align,
            of: table.of.map(|of| contract.param_of(of).ok_or(Refused)).transpose()?,
        })
    }

    /// The parameter that is a buffer of different numbers, and their bound; one that is not described is none.
    fn numbered(&mut self, world: &mut World, contract: &Contract, own: &Distinct) -> Option<(usize, Option<Form>)> {
        let below = own.below.as_ref().and_then(|below| self.integer(world, contract, below).ok());
        Some((contract.param_of(own.argument)?, below))
    }

    fn value(&mut self, world: &mut World, contract: &Contract, expr: &Expr) -> Result<Value, Refused> {
        let int = |form: Option<Form>| form.map(Value::Int).ok_or(Refused);
        match expr {
            Expr::Int(number) => int(Some(Form::number((*number).into()))),
            Expr::Bool(truth) => Ok(Value::Truth(Cond::Const(*truth))),
            Expr::Float(_) => Err(Refused),
            Expr::Field(at, field) => {
                let key = contract.param_of(*at).map(|param| (param, i128::from(field.offset)));
                let found = key.and_then(|key| self.fields.get(&key));
                let bits = values_of(*field).map(|(bits, _)| bits);
                int(found.filter(|(_, own)| bits == Some(*own)).map(|(form, _)| form.clone()))
            }
            Expr::Argument(at) => {
                int(contract.param_of(*at).and_then(|param| self.params.get(param).cloned().flatten()))
            }
            Expr::Len(at) => {
                let (bytes, element) = (self.lens.get(*at).cloned(), contract.elements.get(*at).copied());
                // Zero: the size of an element is not known.
                let element = element.filter(|element| *element > 0).ok_or(Refused)?;
                let (bytes, element) = (bytes.ok_or(Refused)?, i128::from(element));
                int(world.floor(&bytes, element).map(|(quotient, _)| quotient))
            }
            Expr::Dim(at) => int(self.numbers.get(*at).cloned()),
            Expr::List(parts) => {
                let parts = parts.iter().map(|part| self.integer(world, contract, part)).collect::<Result<_, _>>()?;
                Ok(Value::List(parts))
            }
            Expr::Unary(Operator::Neg, of) => {
                let of = self.integer(world, contract, of)?;
                int(of.scale(-1))
            }
            Expr::Unary(Operator::Not, of) => match self.value(world, contract, of)? {
                Value::Truth(cond) => Ok(Value::Truth(cond.negate())),
                _ => Err(Refused),
            },
            Expr::Unary(Operator::Exact, of) => self.value(world, contract, of),
            Expr::Unary(..) => Err(Refused),
            Expr::If(parts) => {
                let Value::Truth(cond) = self.value(world, contract, &parts[0])? else { return Err(Refused) };
                // Of a condition that is decided, the other branch needs no value.
                match cond {
                    Cond::Const(true) => self.value(world, contract, &parts[1]),
                    Cond::Const(false) => self.value(world, contract, &parts[2]),
                    cond => {
                        let (yes, no) =
                            (self.value(world, contract, &parts[1])?, self.value(world, contract, &parts[2])?);
                        chosen(world, &cond, (yes, no)).ok_or(Refused)
                    }
                }
            }
            Expr::Binary(operator, both, _) => {
                let (left, right) = (self.value(world, contract, &both[0])?, self.value(world, contract, &both[1])?);
                match (left, right) {
                    (Value::Int(a), Value::Int(b)) => self.binary(world, *operator, &a, &b).ok_or(Refused),
                    (Value::Truth(a), Value::Truth(b)) => truths(*operator, a, b).ok_or(Refused),
                    _ => Err(Refused),
                }
            }
        }
    }

    fn integer(&mut self, world: &mut World, contract: &Contract, expr: &Expr) -> Result<Form, Refused> {
        match self.value(world, contract, expr)? {
            Value::Int(form) => Ok(form),
            _ => Err(Refused),
        }
    }

    pub(crate) fn binary(&mut self, world: &mut World, operator: Operator, a: &Form, b: &Form) -> Option<Value> {
        let int = |form: Option<Form>| form.map(Value::Int);
        let truth = |cond: Option<Cond>| cond.map(Value::Truth);
        match operator {
            Operator::Add => int(a.add(b)),
            Operator::Sub => int(a.sub(b)),
            Operator::Mul => int(world.product(a, b)),
            Operator::Min => int(world.smaller(a, b)),
            Operator::Max => int(world.larger(a, b)),
            Operator::Shl => int(a.scale(1i128.checked_shl(u32::try_from(b.known()?).ok().filter(|by| *by < 100)?)?)),
            Operator::Shr => {
                int(world.floor(a, 1 << u32::try_from(b.known()?).ok().filter(|by| *by < 100)?).map(|(q, _)| q))
            }
            Operator::Div => int(self.division(world, a, b).map(|(quotient, _)| quotient)),
            Operator::Rem => int(self.division(world, a, b).map(|(_, rest)| rest)),
            Operator::DivCeil => int(self.ceiling(world, a, b)),
            Operator::NextMultipleOf => {
                let quotient = self.ceiling(world, a, b)?;
                int(world.product(&quotient, b))
            }
            Operator::IsMultipleOf => {
                let (_, rest) = self.division(world, a, b)?;
                truth(Cond::equal(&rest, &Form::number(0)))
            }
            Operator::Eq => truth(Cond::equal(a, b)),
            Operator::Ne => truth(Cond::equal(a, b).map(|cond| cond.negate())),
            Operator::Lt => truth(Cond::lt(a, b)),
            Operator::Le => truth(Cond::le(a, b)),
            Operator::Gt => truth(Cond::lt(b, a)),
            Operator::Ge => truth(Cond::le(b, a)),
            Operator::Pow => {
                let (base, power) = (a.known()?, u32::try_from(b.known()?).ok()?);
                int(base.checked_pow(power).map(Form::number))
            }
            _ => None,
        }
    }

    /// A division that has a result: the launch is an error otherwise.
    fn division(&mut self, world: &mut World, a: &Form, b: &Form) -> Option<(Form, Form)> {
        match b.known() {
            Some(by) if by > 0 => {
                let (least, _) = world.range(a)?;
                if least >= 0 { world.floor(a, by) } else { world.towards_zero(a, by) }
            }
            Some(_) => None,
            None => {
                // Below zero a quotient is rounded up, which `divide` does not describe.
                let ((least, _), (divisor, _)) = (world.range(a)?, world.range(b)?);
                if least < 0 || divisor < 1 {
                    return None;
                }
                world.divide(a, b, 64).and_then(|(quotient, rest)| Some((quotient, rest?)))
            }
        }
    }

    fn ceiling(&mut self, world: &mut World, a: &Form, b: &Form) -> Option<Form> {
        match b.known() {
            Some(by) if by > 0 => world.floor(&a.plus(by - 1)?, by).map(|(quotient, _)| quotient),
            Some(_) => None,
            None => self.division(world, &a.add(b)?.plus(-1)?, b).map(|(quotient, _)| quotient),
        }
    }
}

/// `if cond { yes } else { no }`
fn chosen(world: &mut World, cond: &Cond, both: (Value, Value)) -> Option<Value> {
    Some(match both {
        (Value::Int(yes), Value::Int(no)) => Value::Int(world.choose(cond, &yes, &no)?),
        (Value::Truth(yes), Value::Truth(no)) => Value::Truth(cond.choose(yes, no)),
        (Value::List(yes), Value::List(no)) if yes.len() == no.len() => {
            Value::List(yes.iter().zip(&no).map(|(yes, no)| world.choose(cond, yes, no)).collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

pub(crate) fn truths(operator: Operator, a: Cond, b: Cond) -> Option<Value> {
    Some(Value::Truth(match operator {
        Operator::And => Cond::all([a, b]),
        Operator::Or => Cond::any([a, b]),
        Operator::Eq => a.choose(b.clone(), b.negate()),
        Operator::Ne => a.choose(b.negate(), b),
        _ => return None,
    }))
}
