//! The calls of a module, walked once for all of its functions: rules ask what a call may lead to for each entry, and
//! entries share their callees.

use super::{Pattern, is};
use crate::check::graph::{reach, reversed};
use crate::hash::Map;
use crate::ir::{Function, Inst, Module, Operand, Symbol};
use std::cell::{OnceCell, RefCell};

const CALL: &[Pattern] = &[("call", "")];
/// Functions of the CUDA runtime that take part in no protocol.
const HARMLESS: &[&str] = &["vprintf", "malloc", "free", "__assertfail", "__assert_fail"];

pub(super) struct Calls<'a> {
    pub(super) module: &'a Module,
    edges: OnceCell<Edges>,
    /// The functions that have an instruction of these or lead to one.
    leads: RefCell<Map<&'static [Pattern], Vec<bool>>>,
}

struct Edges {
    /// The defined functions that each one calls.
    callees: Vec<Vec<usize>>,
    callers: Vec<Vec<usize>>,
    /// True for those that lead out of what is known here.
    open: Vec<bool>,
}

impl<'a> Calls<'a> {
    pub(super) fn new(module: &'a Module) -> Self {
        Calls { module, edges: OnceCell::new(), leads: RefCell::default() }
    }

    /// Returns true if a call from the function may lead out of what is known here.
    pub(super) fn open(&self, function: usize) -> bool {
        self.module.functions[function].insts.iter().any(|inst| inst.row.is_none()) || self.edges().open[function]
    }

    /// Returns true if a function that it calls, or one that that one calls, has an instruction of these.
    pub(super) fn lead_to(&self, function: usize, patterns: &'static [Pattern]) -> bool {
        let edges = self.edges();
        let callees = &edges.callees[function];
        if callees.is_empty() {
            return false;
        }
        let mut leads = self.leads.borrow_mut();
        let leads = leads.entry(patterns).or_insert_with(|| {
            let has = |function: &Function| function.insts.iter().any(|inst| is(inst, patterns));
            reach(&edges.callers, numbers(self.module, has))
        });
        callees.iter().any(|callee| leads[*callee])
    }

    fn edges(&self) -> &Edges {
        self.edges.get_or_init(|| Edges::of(self.module))
    }
}

impl Edges {
    fn of(module: &Module) -> Self {
        let called = |function: &Function| function.insts.iter().filter(|inst| is(inst, CALL)).map(callee).collect();
        let called: Vec<Vec<Option<usize>>> = module.functions.iter().map(called).collect();
        let function = |number: &Option<usize>| number.and_then(|number| Some((number, module.functions.get(number)?)));
        let leads_out = |number: &Option<usize>| {
            function(number).is_none_or(|(_, f)| !f.defined && !HARMLESS.contains(&f.name.as_str()))
        };
        let opens = (0..called.len()).filter(|at| called[*at].iter().any(leads_out)).collect();
        let defined = |number: &Option<usize>| function(number).filter(|(_, f)| f.defined).map(|(number, _)| number);
        let callees: Vec<Vec<usize>> = called.iter().map(|list| list.iter().filter_map(defined).collect()).collect();
        let callers = reversed(&callees);
        Edges { open: reach(&callers, opens), callees, callers }
    }
}

fn numbers(module: &Module, has: impl Fn(&Function) -> bool) -> Vec<usize> {
    module.functions.iter().enumerate().filter(|(_, function)| has(function)).map(|(number, _)| number).collect()
}

/// The number of the function, if the call names one.
fn callee(call: &Inst) -> Option<usize> {
    call.operands.iter().find_map(|operand| match operand {
        Operand::Func(id) | Operand::Symbol(Symbol::Func(id), _) => Some(id.index()),
        _ => None,
    })
}
