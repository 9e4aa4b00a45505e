//! The variables that an entry may use: those that its instructions name, those of the functions that it may call, and those
//! whose addresses these variables hold.

use ptx_core::check::access;
use ptx_core::hash::Set;
use ptx_core::ir::{Function, Inst, Module, Operand, Space, Symbol, Variable};
use ptx_core::span::Span;
use ptx_target::sort::SortSmall;

/// The variables of each entry, by its name.
pub fn used(module: &Module) -> Vec<(String, Used)> {
    let mut reach = Reach::new(module);
    let entries = module.functions.iter().enumerate().filter(|(_, function)| function.entry && function.defined);
    entries.map(|(at, entry)| (entry.name.clone(), Used::of(reach.variables(at)))).collect()
}

/// The variables that an entry may use.
#[derive(Default)]
pub struct Used {
    /// Their names in the PTX.
    pub names: Set<String>,
    /// The declaration of dynamic shared memory.
    pub dynamic: Option<Span>,
}

impl Used {
    fn of(variables: Vec<&Variable>) -> Used {
        let mut used = Used::default();
        for variable in variables {
            used.names.insert(variable.name.clone());
            if variable.space == Space::Shared && variable.size == 0 {
                used.dynamic = Some(variable.span);
            }
        }
        used
    }
}

/// The symbols that functions and variables name, as numbers: the functions, then the variables.
///
/// Entries of one module often call the same functions. So what leads to no variable is left out, and a function that names one symbol
/// alone is replaced by that symbol: a long chain of calls costs each entry one step.
struct Reach<'m> {
    module: &'m Module,
    next: Vec<Vec<usize>>,
}

impl<'m> Reach<'m> {
    fn new(module: &'m Module) -> Reach<'m> {
        let functions = module.functions.len();
        let number = |symbol: Symbol| match symbol {
            Symbol::Func(id) => id.index(),
            Symbol::Var(id) => functions + id.index(),
        };
        let of_functions = module.functions.iter().map(|function| {
            let mut named = Vec::new();
            of_function(function, &mut named);
            named.into_iter().map(number).collect()
        });
        let of_variables = module.variables.iter().map(|variable| {
            let relocations = variable.init.iter().flat_map(|init| &init.relocations);
            relocations.map(|relocation| number(relocation.of)).collect()
        });
        let mut next: Vec<Vec<usize>> = of_functions.chain(of_variables).collect();
        let leads = leads(&next, functions);
        for list in &mut next {
            list.retain(|at| leads.get(*at) == Some(&true));
            list.sort_small();
            list.dedup();
        }
        Reach { module, next }
    }

    fn variables(&mut self, entry: usize) -> Vec<&'m Variable> {
        let (mut open, mut seen, mut variables) = (self.next[entry].clone(), Set::default(), Vec::new());
        while let Some(at) = open.pop() {
            let at = self.end_of_chain(at);
            if seen.insert(at) {
                open.extend(&self.next[at]);
                variables
                    .extend(at.checked_sub(self.module.functions.len()).and_then(|at| self.module.variables.get(at)));
            }
        }
        variables
    }

    /// The variable, or the function that names several symbols, to which a function leads that names one. There is an end: a circle of such
    /// functions leads to no variable.
    fn end_of_chain(&mut self, from: usize) -> usize {
        let (mut at, mut chain) = (from, Vec::new());
        while let ([only], true) = (self.next[at].as_slice(), at < self.module.functions.len()) {
            chain.push(at);
            at = *only;
        }
        chain.into_iter().for_each(|passed| self.next[passed] = vec![at]);
        at
    }
}

/// The symbols from which a variable can be reached, the variables among them.
fn leads(next: &[Vec<usize>], functions: usize) -> Vec<bool> {
    let mut before = vec![Vec::new(); next.len()];
    for (from, list) in next.iter().enumerate() {
        for to in list {
            before[*to].push(from);
        }
    }
    let mut leads = vec![false; next.len()];
    let mut open: Vec<usize> = (functions..next.len()).collect();
    while let Some(at) = open.pop() {
        if !std::mem::replace(&mut leads[at], true) {
            open.extend(&before[at]);
        }
    }
    leads
}

fn of_function(function: &Function, to: &mut Vec<Symbol>) {
    let of_inst = |inst: &Inst| inst.operands.iter().for_each(|operand| of_operand(operand, to));
    function.insts.iter().for_each(of_inst);
    function.targets.iter().flatten().for_each(|operand| of_operand(operand, to));
}

fn of_operand(operand: &Operand, to: &mut Vec<Symbol>) {
    access::symbols(operand, &mut |symbol| to.push(symbol));
}
