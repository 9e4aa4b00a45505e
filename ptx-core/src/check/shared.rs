//! The shared variables that a kernel and the functions that it may call use.
//!
//! Kernels of one module often call the same functions. So a function that adds no variable to those of its only callee is replaced by the callee
//! once, and a function that leads to no variable is left out: a long chain of calls costs each kernel one step.

use super::access;
use super::graph::{reach, reversed};
use super::resources::laid_out;
use crate::hash::Set;
use crate::ir::{Function, Module, Space, Symbol, Variable};
use ptx_target::sort::SortSmall;

/// The calls of a module, as far as they lead to shared variables. Functions are numbers.
pub(super) struct Shared {
    /// The shared variables of each function.
    own: Vec<Vec<usize>>,
    /// The functions that each function may call.
    callees: Vec<Vec<usize>>,
    /// A function with the same variables, reached in fewer steps.
    same: Vec<usize>,
    /// The variables that get their size at launch. They are of every kernel, so that the module is searched once.
    open: Vec<usize>,
}

impl Shared {
    pub(super) fn new(module: &Module) -> Shared {
        let (mut own, mut callees): (Vec<_>, Vec<_>) = module.functions.iter().map(|f| named(f, module)).unzip();
        own.iter_mut().chain(&mut callees).for_each(|list: &mut Vec<usize>| sort(list));
        let is_open = |var: &Variable| var.space == Space::Shared && var.size == 0;
        let open = module.variables.iter().enumerate().filter(|(_, var)| is_open(var)).map(|(at, _)| at).collect();
        let mut shared = Shared { same: (0..own.len()).collect(), own, callees, open };
        let leads = shared.leads();
        shared.callees.iter_mut().for_each(|list| list.retain(|callee| leads[*callee]));
        for function in shared.callees_first() {
            let mut list: Vec<usize> = shared.callees[function].iter().map(|callee| shared.same[*callee]).collect();
            list.retain(|callee| *callee != function);
            sort(&mut list);
            if let ([callee], []) = (list.as_slice(), shared.own[function].as_slice()) {
                shared.same[function] = *callee;
            }
            shared.callees[function] = list;
        }
        shared
    }

    /// The bytes that a function and its callees use.
    pub(super) fn bytes(&self, function: usize, module: &Module) -> u64 {
        let (mut seen, mut pending) = (Set::default(), vec![function]);
        let mut used: Set<usize> = Set::default();
        while let Some(at) = pending.pop() {
            let at = self.same[at];
            if seen.insert(at) {
                used.extend(&self.own[at]);
                pending.extend(&self.callees[at]);
            }
        }
        // ptxas lays them out as they are declared. What gets its size at launch begins behind them in every kernel.
        let mut used: Vec<&Variable> = used.iter().filter_map(|var| module.variables.get(*var)).collect();
        used.sort_small_by_key(|var| var.span.lo);
        let open = self.open.iter().filter_map(|var| module.variables.get(*var));
        laid_out(used.into_iter().chain(open))
    }

    /// The functions from which a shared variable can be reached.
    fn leads(&self) -> Vec<bool> {
        let own = (0..self.own.len()).filter(|at| !self.own[*at].is_empty());
        reach(&reversed(&self.callees), own.collect())
    }

    /// All functions, each after its callees, recursion aside.
    fn callees_first(&self) -> Vec<usize> {
        let mut order = Vec::with_capacity(self.own.len());
        let mut visited = vec![false; self.own.len()];
        for root in 0..self.own.len() {
            let mut path = if std::mem::replace(&mut visited[root], true) { Vec::new() } else { vec![(root, 0)] };
            while let Some((function, next)) = path.last_mut() {
                match self.callees[*function].get(*next) {
                    Some(callee) => {
                        *next += 1;
                        if !std::mem::replace(&mut visited[*callee], true) {
                            path.push((*callee, 0));
                        }
                    }
                    None => {
                        order.push(*function);
                        path.pop();
                    }
                }
            }
        }
        order
    }
}

fn sort(list: &mut Vec<usize>) {
    list.sort_small();
    list.dedup();
}

/// The shared variables and the functions that a function declares or names.
pub(super) fn named(function: &Function, module: &Module) -> (Vec<usize>, Vec<usize>) {
    let mut variables: Vec<usize> = function.variables.iter().map(|var| var.index()).collect();
    let mut functions = Vec::new();
    for operand in function.insts.iter().flat_map(|inst| &inst.operands) {
        access::symbols(operand, &mut |symbol| match symbol {
            Symbol::Var(var) => variables.push(var.index()),
            Symbol::Func(func) => functions.push(func.index()),
        });
    }
    variables.retain(|var| module.variables.get(*var).is_some_and(|var| var.space == Space::Shared && var.size > 0));
    functions.retain(|func| *func < module.functions.len());
    (variables, functions)
}
