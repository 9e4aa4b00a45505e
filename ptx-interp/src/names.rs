//! The variables that a function sees, by address.

use super::layout::{Home, Layout};
use ptx_core::ir::{Function, Module, Param, VarId};
use ptx_target::sort::SortSmall;

/// A variable where it lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub at: u64,
    pub size: u64,
    pub name: String,
}

/// The variables that a function sees.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    pub shared: Vec<Named>,
    /// Those whose size the launch decides.
    pub dynamic: Vec<String>,
    pub params: Vec<Named>,
    pub frame: Vec<Named>,
}

impl Names {
    /// Those of a function. Shared variables of entries lie over each other: only its own count.
    pub(super) fn new(module: &Module, layout: &Layout, index: usize) -> Names {
        let mut names = Names::default();
        let Some(function) = module.functions.get(index) else { return names };
        let foreign = |id: &VarId| layout.owners.get(id).is_some_and(|owner| *owner != index);
        let ids = (0..module.variables.len()).map(|at| VarId(at as u32));
        for id in ids.filter(|id| !foreign(id)) {
            let own = owns(function, id);
            let Some((variable, home)) = module.variables.get(id.index()).zip(layout.home(id)) else { continue };
            let named = |at| Named { at, size: variable.size, name: variable.name.clone() };
            match home {
                Home::Shared(at) => names.shared.push(named(at)),
                Home::Dynamic => names.dynamic.push(variable.name.clone()),
                Home::Param(at) if own => names.params.push(named(at)),
                Home::Frame(at) if own => names.frame.push(named(at)),
                _ => {}
            }
        }
        for list in [&mut names.shared, &mut names.params, &mut names.frame] {
            sort_by_address(list);
        }
        names
    }
}

fn owns(function: &Function, id: VarId) -> bool {
    let mut outer = function.params.iter().chain(&function.returns);
    function.variables.contains(&id) || outer.any(|param| matches!(param, Param::Var(own) if *own == id))
}

/// Puts names into the order of their addresses.
pub(super) fn sort_by_address(list: &mut [Named]) {
    list.sort_small_by_key(|named| named.at);
}
