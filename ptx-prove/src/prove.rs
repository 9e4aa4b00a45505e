//! From a module and a contract to a report.

use crate::cases::{cases, joined, open};
use crate::contract::{self, Contract, Passed};
use crate::event::Event;
use crate::finding::blank;
use crate::flow::Flow;
use crate::machine::{Gap, Machine, Open, Setup, State, Value};
use crate::path::Path;
use crate::pipeline::{Outcome, Pipeline, explore};
use crate::report::{Finding, Property, Report, Verdict};
use crate::samples::samples;
use crate::trace::What;
use crate::world::World;
use crate::{barriers, bounds, initial, races, strides, tensor, transfers, united};
use ptx_core::check::Checked;
use ptx_core::hash::Set;
use ptx_core::ir::annotation::Kind;
use ptx_core::ir::{Function, Module, Param, Variable};
use ptx_core::isa::Class;
use ptx_core::span::Span;
use ptx_target::sort::SortSmall;
use std::rc::Rc;

/// A contract that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such entry.
    NoEntry,
    /// The block has no thread, or more than 1024.
    Block,
    /// An expression of the contract is not described, such as a division by a number that may be zero.
    Expression,
}

/// The most threads of a block.
const THREADS: u64 = 1024;
/// The most executions to find the parameters that are addresses.
const ROUNDS: usize = 4;

/// Decides all properties of an entry for every launch of the contract.
///
/// # Errors
/// A contract that cannot be used.
pub fn prove(checked: &Checked, entry: &str, contract: &Contract) -> Result<Report, Refusal> {
    let whole = prove_at_once(checked, entry, contract)?;
    let cases = if whole.is_proved() || whole.is_refuted() { None } else { cases(contract) };
    let Some(cases) = cases else { return Ok(whole) };
    let mut reports = Vec::new();
    for case in &cases {
        let Ok(report) = prove_at_once(checked, entry, case) else { return Ok(whole) };
        // A case in which as much is open makes all cases no better.
        if open(&report).iter().zip(open(&whole)).all(|(own, whole)| *own >= whole) {
            return Ok(whole);
        }
        reports.push(report);
    }
    Ok(joined(whole, reports))
}

/// Decides them without cases. Where cuts are proved, and leave open what threads do together, that is decided by numbers that are not cut.
fn prove_at_once(checked: &Checked, entry: &str, contract: &Contract) -> Result<Report, Refusal> {
    let cut = prove_with(checked, entry, contract, None)?;
    let has_cuts =
        checked.module().entry(entry).is_some_and(|own| own.annotations.iter().any(|one| one.kind == Kind::Cut));
    let is_open = |of_order: bool| {
        let own = |finding: &&Finding| finding.property.is_of_order() == of_order;
        cut.findings.iter().filter(own).any(|finding| finding.verdict != Verdict::Proved)
    };
    if !has_cuts || is_open(false) || !is_open(true) || cut.is_refuted() {
        return Ok(cut);
    }
    let whole = prove_with(checked, entry, contract, Some(&cut))?;
    Ok(joined(cut, vec![whole]))
}

/// Decides them; with the report of an execution that has proved the cuts and all bounds, what threads do together.
fn prove_with(checked: &Checked, entry: &str, contract: &Contract, proved: Option<&Report>) -> Result<Report, Refusal> {
    let module = checked.module();
    let function = module.entry(entry).ok_or(Refusal::NoEntry)?;
    let threads = contract.block.iter().map(|extent| u64::from(*extent)).product::<u64>();
    if !(1..=THREADS).contains(&threads) || module.functions.is_empty() {
        return Err(Refusal::Block);
    }
    if function.insts.is_empty() {
        return Ok(Report::default());
    }
    let flow = Flow::new(function, &Event::is_barrier);
    let variables: Vec<&Variable> = function.params.iter().filter_map(|param| variable(module, *param)).collect();
    // A parameter with a length is the address of a buffer.
    let has_len = |at: usize| match contract.params.get(at) {
        Some(Passed::Argument(argument)) => contract.has_len(*argument),
        _ => false,
    };
    let mut pointers: Vec<bool> = (0..variables.len()).map(|at| is_address(variables[at], has_len(at))).collect();
    let mut written = Set::default();
    let keeps_cuts = proved.is_some();
    let input = Input { module, function, flow: &flow, contract, variables: &variables, keeps_cuts };
    for round in 0.. {
        let mut machine = input.execute(&pointers, written.clone())?;
        // What was taken for constant is not written. Other memory may be.
        let mut changed = machine.constant.iter().any(|what| machine.writes.contains(what));
        written.extend(machine.writes.iter().copied());
        for param in &machine.pointers {
            changed |= !std::mem::replace(&mut pointers[*param], true);
        }
        if changed && round == ROUNDS {
            machine.gap(0, "the buffers that the entry writes are not found");
        }
        if !changed || round == ROUNDS {
            let explored = match proved {
                Some(report) => report.pipeline.clone(),
                None => explore(checked, entry, contract, &contract.boxes),
            };
            return Ok(report(machine, contract, explored));
        }
    }
    Ok(Report::default())
}

fn variable(module: &Module, param: Param) -> Option<&Variable> {
    match param {
        Param::Var(id) => module.variables.get(id.index()),
        Param::Reg(_) => None,
    }
}

/// Returns true if a parameter is an address by its declaration, or by the length that the contract gives it.
fn is_address(variable: &Variable, has_len: bool) -> bool {
    let is_word =
        variable.size == 8 && variable.dims.is_empty() && matches!(variable.ty.class(), Class::Bits | Class::Unsigned);
    variable.points_to.is_some() || has_len && is_word
}

struct Input<'m> {
    module: &'m Module,
    function: &'m Function,
    flow: &'m Flow,
    contract: &'m Contract,
    variables: &'m [&'m Variable],
    keeps_cuts: bool,
}

impl<'m> Input<'m> {
    /// One symbolic execution.
    fn execute(&self, pointers: &[bool], written: Set<What>) -> Result<Machine<'m>, Refusal> {
        let contract = self.contract;
        let threads = contract.block.iter().map(|extent| *extent as usize).product();
        let mut world = World::new(threads);
        let launch = contract::symbols(&mut world, contract, self.variables, pointers, self.flow.reads_block)
            .map_err(|_| Refusal::Expression)?;
        world.facts = launch.facts.clone();
        world.excludes = strides::excludes;
        let passed = |at: usize| contract.params.get(at).copied().unwrap_or(Passed::Other);
        let len = |at: usize| match passed(at) {
            Passed::Argument(argument) => launch.lens.get(argument).cloned(),
            _ => None,
        };
        let lens = (0..self.variables.len()).map(len).collect();
        let align = |at: usize| contract.aligns.get(at).copied().flatten().or(contract.align);
        let aligns = (0..self.variables.len()).map(align).collect();
        let mut machine = Machine::new(Setup {
            world,
            module: self.module,
            function: self.function,
            flow: self.flow,
            launch,
            block: contract.block,
            cluster: contract.cluster,
            written,
            has_signals: Event::has_signals(self.function),
            has_sides: contract.overlaps || tensor::is_used(self.function),
            keeps_cuts: self.keeps_cuts,
            dynamic_shared: contract.shared,
            boxes: contract.boxes.clone(),
            lens,
            aligns,
        });
        machine.add_buffers(pointers);
        machine.add_regions();
        let state = State {
            registers: Rc::new(vec![Value::Unknown; self.function.registers.len()]),
            path: Path::default(),
            from: Vec::new(),
        };
        if self.flow.is_structured {
            machine.region(None, 0, state);
        } else {
            machine.gap(0, "the flow of control has a loop with several entries, or a jump to a computed place");
        }
        Ok(machine)
    }
}

/// A refutation in launches that a condition without a description may exclude.
fn leave_open(verdict: &mut Verdict) {
    if let Verdict::Refuted(_) = verdict {
        let missing = "it does not follow from the conditions that are described; one that has floats, divides by what may be zero, or asks for powers of two is not";
        *verdict = Verdict::Unknown(missing.to_owned());
    }
}

/// The gaps that are left: where the pipeline is explored, its exploration answers for those of pipelines.
fn closed(machine: &Machine<'_>, contract: &Contract, pipeline: Option<&Pipeline>) -> Vec<Gap> {
    let mut gaps = machine.gaps.clone();
    let has_pipeline = gaps.iter().any(|gap| gap.open == Open::Pipeline);
    if let Some(explored) = pipeline.filter(|_| has_pipeline) {
        gaps.retain(|gap| gap.open != Open::Pipeline);
        let of_order = |(inst, missing)| Gap { inst, missing, open: Open::Order };
        gaps.extend(united::missing(machine, explored).map(of_order));
        gaps.extend(transfers::disorder(machine, contract).into_iter().map(of_order));
    }
    gaps
}

/// All findings, in the order of the text.
fn report(mut machine: Machine<'_>, contract: &Contract, pipeline: Option<Pipeline>) -> Report {
    // What the execution took is not missing for bounds, and what these take not for the order.
    machine.world.renew();
    // These settle which number an offset is. What they find of an execution that keeps cuts, the one before has decided.
    let mut found = bounds::check(&mut machine, contract);
    if machine.keeps_cuts {
        found.clear();
    }
    machine.world.renew();
    if let Some((inst, missing)) = tensor::disorder(&machine) {
        machine.gap_of_order(inst, missing);
    }
    machine.world.renew();
    found.extend(barriers::check(&machine));
    let are_together = found.iter().all(|finding| {
        finding.property != Property::Barriers || finding.verdict == Verdict::Proved || !finding.verb.is_empty()
    });
    found.extend(races::check(&machine, contract, are_together, pipeline.as_ref()));
    let mut initial = initial::check(&machine, contract);
    if let Some(explored) = pipeline.as_ref().filter(|own| own.outcome == Outcome::Proved) {
        let unwritten: Vec<Span> = explored.unwritten.iter().map(|inst| machine.function.insts[*inst].span).collect();
        initial.iter_mut().filter(|own| !unwritten.contains(&own.span)).for_each(|own| own.verdict = Verdict::Proved);
    }
    found.extend(initial);
    if machine.launch.is_wider {
        found.iter_mut().for_each(|finding| leave_open(&mut finding.verdict));
    }
    // What is not described may order threads, or end them.
    let may_end = machine.gaps.iter().any(|gap| gap.open == Open::All);
    for finding in found.iter_mut().filter(|finding| may_end || finding.property.is_of_order()) {
        if let Verdict::Refuted(example) = &mut finding.verdict {
            example.is_certain &= machine.gaps.is_empty();
        }
    }
    for Gap { inst, missing, open } in closed(&machine, contract, pipeline.as_ref()) {
        let open = Property::ALL.into_iter().filter(|property| open == Open::All || property.is_of_order());
        found.extend(
            open.map(|property| Finding {
                verdict: Verdict::Unknown(missing.clone()),
                ..blank(&machine, property, inst)
            }),
        );
    }
    found.sort_small_by_key(|finding| (finding.span.lo, finding.property));
    let mut report = Report {
        findings: found,
        samples: Vec::new(),
        assumptions: machine.function.assumptions().cloned().collect(),
        communicates: races::communicates(&machine),
        pipeline,
    };
    // Nobody makes the memory at the addresses of a table, or of a struct.
    if contract.samples
        && contract.tables.is_empty()
        && contract.regions.is_empty()
        && !machine.launch.is_wider
        && !report.is_refuted()
        && !report.is_proved()
    {
        report.samples = samples(&machine);
    }
    report
}
