//! Symbolic execution of an entry: all threads of one block at once, every path once.
//!
//! `step` executes an instruction, `blocks` walks the blocks and joins paths, `turns` the loops, `memory` the accesses. A state has a value for each register and the conditions
//! under which threads are here. What happens in memory and at barriers is recorded as a graph of events, which `bounds`, `races` and `barriers`
//! read.

use crate::contract::Symbols;
use crate::flow::Flow;
use crate::form::{Cond, Form, Sym};
use crate::path::Path;
use crate::site::{Site, integer};
use crate::trace::{Base, Trace, What};
use crate::world::{Division, Origin, Scope, World};
use ptx_core::hash::{Map, Set};
use ptx_core::ir::{Base as Start, Function, Inst, Module, Operand, RegId, Space, Symbol as Name};
use ptx_core::isa::{Class, SpecialRegister, Type};
use std::rc::Rc;

/// The value of a register.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// A number modulo `2^width`.
    Bits(Form),
    /// The value of a predicate.
    Truth(Cond),
    /// Nothing is known.
    Unknown,
}

/// Threads on one way through the function.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) registers: Rc<Vec<Value>>,
    pub(crate) path: Path,
    /// The nodes of the trace that lead here.
    pub(crate) from: Vec<usize>,
}

impl State {
    pub(crate) fn set(&mut self, register: RegId, value: Value) {
        if let Some(place) = Rc::make_mut(&mut self.registers).get_mut(register.index()) {
            *place = value;
        }
    }

    pub(crate) fn get(&self, register: RegId) -> Value {
        self.registers.get(register.index()).cloned().unwrap_or(Value::Unknown)
    }
}

/// Something that the prover does not describe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    /// The instruction.
    pub(crate) inst: usize,
    /// The fact or the rule that is missing.
    pub(crate) missing: String,
    pub(crate) open: Open,
}

/// The properties that a gap leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Open {
    All,
    /// Those of order: what is accessed is known.
    Order,
    /// Those of order, if the exploration of the pipeline does not prove it.
    Pipeline,
}

/// A symbolic execution.
pub(crate) struct Machine<'m> {
    pub(crate) world: World,
    pub(crate) module: &'m Module,
    pub(crate) function: &'m Function,
    pub(crate) flow: &'m Flow,
    pub(crate) launch: Symbols,
    pub(crate) block: [u32; 3],
    pub(crate) cluster: [u32; 3],
    pub(crate) bases: Vec<Base>,
    pub(crate) base_of: Map<What, usize>,
    /// Buffers and variables that the entry writes, as an earlier execution found.
    pub(crate) written: Set<What>,
    /// Buffers and variables that were taken for constant: loads of equal places have equal values.
    pub(crate) constant: Set<What>,
    /// Parameters that an access had to take for addresses.
    pub(crate) pointers: Set<usize>,
    pub(crate) trace: Trace,
    pub(crate) gaps: Vec<Gap>,
    /// The symbol of each base.
    pub(crate) base_symbols: Vec<Sym>,
    /// The starts of the windows of spaces in generic addresses.
    pub(crate) windows: Map<Space, Sym>,
    /// By parameter: the length of its buffer.
    pub(crate) lens: Vec<Option<Form>>,
    /// By parameter: the alignment of its buffer, if the contract has it.
    pub(crate) aligns: Vec<Option<u64>>,
    /// Bytes of dynamic shared memory.
    pub(crate) dynamic_shared: u64,
    /// Bytes of the boxes of tensor maps, by the names of their parameters.
    pub(crate) boxes: Vec<(String, u64)>,
    /// Buffers and variables that this execution wrote.
    pub(crate) writes: Set<What>,
    /// Numbers in parameters that are structs: by parameter, offset, bits and sign.
    pub(crate) fields: Map<(usize, i128, u32, bool), Form>,
    /// Loads of parameters beyond their ends.
    pub(crate) outside_params: Vec<usize>,
    /// Loads of equal memory: by buffer, offset and type.
    pub(crate) loads: Map<(usize, Form, Type), Form>,
    /// The entries of tables that were loaded: the table, and the number of the entry.
    pub(crate) entries: Vec<(usize, Form)>,
    /// The loops around the current instruction that are executed once for all turns.
    pub(crate) open: Vec<usize>,
    /// By their headers: the loops of `open`, and those that lanes of a warp may leave apart.
    pub(crate) headers: Vec<usize>,
    pub(crate) apart: Vec<usize>,
    /// So many executions are drafts, one in the other.
    pub(crate) drafts: usize,
    /// Numbers of other lanes that have limits since whole warps read them.
    pub(crate) lent: usize,
    /// The registers that the current instruction reads.
    pub(crate) current: Rc<Vec<Value>>,
    /// True if the entry accesses memory by instructions whose order a pipeline gives.
    pub(crate) has_signals: bool,
    /// True if the trace has a node for each side of a branch.
    pub(crate) has_sides: bool,
    /// True if cuts are facts about numbers that stay: an execution before has proved them.
    pub(crate) keeps_cuts: bool,
    /// Instructions that may still be executed.
    pub(crate) steps: u32,
    branches: u32,
    /// The instruction that is executed.
    at: usize,
}

/// The inputs of an execution.
pub(crate) struct Setup<'m> {
    pub(crate) world: World,
    pub(crate) module: &'m Module,
    pub(crate) function: &'m Function,
    pub(crate) flow: &'m Flow,
    pub(crate) launch: Symbols,
    pub(crate) block: [u32; 3],
    pub(crate) cluster: [u32; 3],
    pub(crate) written: Set<What>,
    pub(crate) has_signals: bool,
    pub(crate) has_sides: bool,
    pub(crate) keeps_cuts: bool,
    pub(crate) dynamic_shared: u64,
    pub(crate) boxes: Vec<(String, u64)>,
    pub(crate) lens: Vec<Option<Form>>,
    pub(crate) aligns: Vec<Option<u64>>,
}

/// Stands among the headers of loops for a probe. Which threads take the turns of a probe is not known.
pub(crate) const PROBE: usize = usize::MAX;

/// The most instructions of one execution.
const STEPS: u32 = 60_000;

impl<'m> Machine<'m> {
    pub(crate) fn new(setup: Setup<'m>) -> Machine<'m> {
        let Setup {
            world,
            module,
            function,
            flow,
            launch,
            block,
            cluster,
            written,
            has_signals,
            has_sides,
            keeps_cuts,
            dynamic_shared,
            boxes,
            lens,
            aligns,
        } = setup;
        Machine {
            base_symbols: Vec::new(),
            windows: Map::default(),
            lens,
            aligns,
            dynamic_shared,
            boxes,
            writes: Set::default(),
            fields: Map::default(),
            outside_params: Vec::new(),
            world,
            module,
            function,
            flow,
            launch,
            block,
            cluster,
            bases: Vec::new(),
            base_of: Map::default(),
            written,
            constant: Set::default(),
            pointers: Set::default(),
            trace: Trace::default(),
            gaps: Vec::new(),
            loads: Map::default(),
            entries: Vec::new(),
            open: Vec::new(),
            headers: Vec::new(),
            apart: Vec::new(),
            drafts: 0,
            lent: 0,
            current: Rc::default(),
            has_signals,
            has_sides,
            keeps_cuts,
            steps: STEPS,
            branches: 0,
            at: 0,
        }
    }

    pub(crate) fn gap(&mut self, inst: usize, missing: impl Into<String>) {
        self.note(Gap { inst, missing: missing.into(), open: Open::All });
    }

    /// A gap that leaves open what orders threads, and not what they access.
    pub(crate) fn gap_of_order(&mut self, inst: usize, missing: impl Into<String>) {
        self.note(Gap { inst, missing: missing.into(), open: Open::Order });
    }

    /// A gap of order that a proof of the pipeline closes.
    pub(crate) fn gap_of_pipeline(&mut self, inst: usize, missing: impl Into<String>) {
        self.note(Gap { inst, missing: missing.into(), open: Open::Pipeline });
    }

    /// Notes the instruction that is executed.
    pub(crate) fn begin(&mut self, inst: usize) {
        self.at = inst;
    }

    /// Notes that the instruction reads a value of which nothing is known.
    pub(crate) fn lose(&mut self) {
        self.trace.inexact.insert(self.at);
    }

    /// The number that bits are, for an instruction whose result depends on it. Notes whether it is another one than the sum that the bits come from.
    pub(crate) fn read_number(&mut self, form: &Form, bits: u32, signed: bool) -> Form {
        let number = self.world.number(form, bits, signed);
        if number != *form || form.symbols().any(|symbol| self.world.symbol(symbol).origin == Origin::Loose) {
            self.lose();
        }
        number
    }

    fn note(&mut self, gap: Gap) {
        if !self.gaps.contains(&gap) {
            self.gaps.push(gap);
        }
    }

    /// Returns true if a parameter is the address of a buffer.
    pub(crate) fn is_address(&self, param: usize) -> bool {
        self.base_of.contains_key(&What::Param(param))
    }

    pub(crate) fn next_branch(&mut self) -> u32 {
        self.branches += 1;
        self.branches
    }

    /// The site of an instruction.
    pub(crate) fn site(&self, inst: usize) -> Option<Site<'m>> {
        let function = self.function;
        let inst = function.insts.get(inst)?;
        Some(Site { function, inst, row: inst.row? })
    }

    /// Returns true if numbers tell that at most one thread of a block fulfills a condition.
    pub(crate) fn is_of_one_thread(&self, cond: &Cond) -> bool {
        let mut threads = vec![true; self.world.threads];
        cond.keep(&mut threads);
        threads.iter().filter(|own| **own).count() <= 1
    }

    /// The condition under which an instruction is executed.
    pub(crate) fn guard(&mut self, inst: &Inst) -> Cond {
        let Some(guard) = inst.guard else { return Cond::Const(true) };
        let cond = match self.current.get(guard.register.index()) {
            Some(Value::Truth(cond)) => cond.clone(),
            _ => self.world.any_truth(Scope::Thread),
        };
        if guard.negated { cond.negate() } else { cond }
    }

    /// `if cond { yes } else { no }`
    pub(crate) fn chosen(&mut self, cond: &Cond, yes: Value, no: Value) -> Value {
        match (cond, yes, no) {
            (Cond::Const(true), yes, _) => yes,
            (Cond::Const(false), _, no) => no,
            (_, yes, no) if yes == no => yes,
            (cond, Value::Bits(yes), Value::Bits(no)) => {
                self.world.choose(cond, &yes, &no).map_or(Value::Unknown, Value::Bits)
            }
            (cond, Value::Truth(yes), Value::Truth(no)) => Value::Truth(cond.choose(yes, no)),
            _ => Value::Unknown,
        }
    }

    /// The value; of a condition that is too long nothing is known.
    pub(crate) fn bounded(&mut self, value: Value) -> Value {
        match value {
            Value::Truth(cond) => Value::Truth(self.world.bounded(cond)),
            other => other,
        }
    }

    /// The value of a source.
    pub(crate) fn source(&mut self, site: &Site<'_>, operand: &Operand, ty: Option<Type>) -> Value {
        let is_predicate = ty.is_some_and(|ty| ty.class() == Class::Pred);
        match operand {
            Operand::Reg(register) if self.is_scalar(site, *register) => {
                self.current.get(register.index()).cloned().unwrap_or(Value::Unknown)
            }
            Operand::Sum(register, offset) => match self.current.get(register.index()) {
                Some(Value::Bits(form)) => form.plus((*offset).into()).map_or(Value::Unknown, Value::Bits),
                _ => Value::Unknown,
            },
            Operand::Int(value) if is_predicate => Value::Truth(Cond::Const(*value != 0)),
            // A float's literal stands for other bits.
            Operand::Int(_) if ty.is_some_and(|ty| integer(ty).is_none()) => Value::Unknown,
            Operand::Int(value) => Value::Bits(Form::number((*value as i64).into())),
            Operand::Not(inner) => match self.source(site, inner, ty) {
                Value::Truth(cond) => Value::Truth(cond.negate()),
                _ => Value::Unknown,
            },
            Operand::Neg(inner) => match self.source(site, inner, ty) {
                Value::Bits(form) => form.scale(-1).map_or(Value::Unknown, Value::Bits),
                _ => Value::Unknown,
            },
            Operand::Special(register) => self.special(register).map_or(Value::Unknown, Value::Bits),
            Operand::Symbol(Name::Var(id), offset) | Operand::Element(Start::Symbol(Name::Var(id)), offset) => {
                let address = self.variable(*id).and_then(|base| base.plus((*offset).into()));
                address.map_or(Value::Unknown, Value::Bits)
            }
            _ => Value::Unknown,
        }
    }

    fn is_scalar(&self, site: &Site<'_>, register: RegId) -> bool {
        site.function.registers.get(register.index()).is_some_and(|register| register.vector <= 1)
    }

    /// A number of blocks as one of clusters and what is left.
    fn in_clusters(&mut self, blocks: &Form, dimension: usize) -> Option<Division> {
        self.world.floor(blocks, self.cluster[dimension].max(1).into())
    }

    /// The rank of the block in its cluster.
    fn rank(&mut self) -> Option<Form> {
        let mut rank = Form::number(0);
        for dimension in (0..3).rev() {
            let (_, place) = self.in_clusters(&self.launch.block[dimension].clone(), dimension)?;
            rank = rank.scale(self.cluster[dimension].into())?.add(&place)?;
        }
        Some(rank)
    }

    /// The value of a special register.
    pub(crate) fn special(&mut self, register: &SpecialRegister) -> Option<Form> {
        let name = register.name.trim_start_matches('%');
        let (name, component) = name.split_once('.').unwrap_or((name, register.component));
        let dimension = ["x", "y", "z"].iter().position(|own| *own == component);
        let [x, y, _] = self.block.map(|extent| extent as usize);
        let threads = self.world.threads;
        let table = |f: &dyn Fn(usize) -> u64| Form::table((0..threads).map(|thread| f(thread).into()).collect());
        let place = |thread: usize| [thread % x, thread / x % y, thread / x / y];
        Some(match (name, dimension) {
            ("tid", Some(d)) => table(&|thread| place(thread)[d] as u64),
            ("ntid", Some(d)) => Form::number(self.block[d].into()),
            ("ctaid", Some(d)) => self.launch.block[d].clone(),
            ("nctaid", Some(d)) => self.launch.blocks[d].clone(),
            ("clusterid", Some(d)) => self.in_clusters(&self.launch.block[d].clone(), d)?.0,
            ("nclusterid", Some(d)) => self.in_clusters(&self.launch.blocks[d].clone(), d)?.0,
            ("cluster_ctaid", Some(d)) => self.in_clusters(&self.launch.block[d].clone(), d)?.1,
            ("cluster_nctaid", Some(d)) => Form::number(self.cluster[d].into()),
            ("cluster_ctarank", _) => self.rank()?,
            ("cluster_nctarank", _) => Form::number(self.cluster.iter().copied().map(i128::from).product()),
            ("laneid", _) => table(&|thread| thread as u64 % 32),
            ("lanemask_eq", _) => table(&|thread| 1 << (thread % 32)),
            ("lanemask_lt", _) => table(&|thread| (1 << (thread % 32)) - 1),
            ("lanemask_le", _) => table(&|thread| (2 << (thread % 32)) - 1),
            ("lanemask_gt", _) => table(&|thread| 0xffff_ffff & !((2 << (thread % 32)) - 1)),
            // Where the block runs.
            ("smid" | "nsmid" | "warpid" | "nwarpid", _) => self.world.any(32),
            ("lanemask_ge", _) => table(&|thread| 0xffff_ffff & !((1 << (thread % 32)) - 1)),
            _ => return None,
        })
    }
}
