//! The variables that an entry may use: those that its instructions name, those of the functions that it may call, and those
//! whose addresses these variables hold.

use ptx_core::hash::Set;
use ptx_core::ir::{Base, Function, Inst, Module, Operand, Space, Symbol, Variable};
use ptx_core::span::Span;

/// The variables of each entry, by its name.
pub fn used(module: &Module) -> Vec<(String, Used)> {
    let entries = module.functions.iter().filter(|function| function.entry && function.defined);
    entries.map(|entry| (entry.name.clone(), Used::by(module, entry))).collect()
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
    fn by(module: &Module, entry: &Function) -> Used {
        let mut used = Used::default();
        for variable in reached(module, entry) {
            used.names.insert(variable.name.clone());
            if variable.space == Space::Shared && variable.size == 0 {
                used.dynamic = Some(variable.span);
            }
        }
        used
    }
}

fn reached<'m>(module: &'m Module, entry: &Function) -> Vec<&'m Variable> {
    let (mut open, mut seen) = (Vec::new(), Set::default());
    of_function(entry, &mut open);
    let mut variables = Vec::new();
    while let Some(symbol) = open.pop() {
        if !seen.insert(symbol) {
            continue;
        }
        match symbol {
            Symbol::Func(id) => module.functions.get(id.index()).into_iter().for_each(|f| of_function(f, &mut open)),
            Symbol::Var(id) => {
                let Some(variable) = module.variables.get(id.index()) else { continue };
                variables.push(variable);
                open.extend(variable.init.iter().flat_map(|init| &init.relocations).map(|relocation| relocation.of));
            }
        }
    }
    variables
}

fn of_function(function: &Function, to: &mut Vec<Symbol>) {
    let of_inst = |inst: &Inst| inst.operands.iter().for_each(|operand| of_operand(operand, to));
    function.insts.iter().for_each(of_inst);
    function.targets.iter().flatten().for_each(|operand| of_operand(operand, to));
}

fn of_operand(operand: &Operand, to: &mut Vec<Symbol>) {
    match operand {
        Operand::Symbol(symbol, _) => to.push(*symbol),
        Operand::Func(id) => to.push(Symbol::Func(*id)),
        Operand::Memory { base, rest, .. } => {
            if let Base::Symbol(symbol) = base {
                to.push(*symbol);
            }
            rest.iter().for_each(|operand| of_operand(operand, to));
        }
        Operand::Vector(parts) | Operand::List(parts) => parts.iter().for_each(|operand| of_operand(operand, to)),
        Operand::Pair(one, other) => [one, other].into_iter().for_each(|operand| of_operand(operand, to)),
        Operand::Unified(inner) | Operand::Not(inner) | Operand::Neg(inner) => of_operand(inner, to),
        _ => {}
    }
}
