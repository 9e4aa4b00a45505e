//! Names of addresses in the words of the source: a byte of a variable, or of a parameter's target.

use super::ctx::Ctx;
use super::global::Global;
use super::grid::Grid;
use super::layout::{Home, Layout};
use super::program::Program;
use super::space::{Place, Where};
use ptx_core::ir::{Function, Module, Param, VarId};

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
    shared: Vec<Named>,
    /// Those whose size the launch decides.
    dynamic: Vec<String>,
    params: Vec<Named>,
    frame: Vec<Named>,
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
            list.sort_by_key(|named| named.at);
        }
        names
    }
}

fn owns(function: &Function, id: VarId) -> bool {
    let mut outer = function.params.iter().chain(&function.returns);
    function.variables.contains(&id) || outer.any(|param| matches!(param, Param::Var(own) if *own == id))
}

/// Data that names an address.
#[derive(Clone, Copy)]
pub(super) struct Map<'a> {
    pub program: &'a Program,
    pub grid: &'a Grid<'a>,
    pub global: &'a Global,
}

impl Map<'_> {
    /// Name of a place in a space that all threads see alike.
    pub(super) fn name_of(self, place: Place) -> Option<String> {
        match place.space {
            Where::Shared => self.shared(place.at),
            Where::Global | Where::Generic => self.global(place.at),
            Where::Const => self.constant(place.at),
            Where::Param => near(&self.names(self.grid.entry)?.params, place.at),
            Where::Local => None,
        }
    }

    /// ``byte 4 of `tile` ``
    pub(super) fn shared(self, at: u64) -> Option<String> {
        let names = self.names(self.grid.entry)?;
        if at >= self.grid.dynamic && self.grid.dynamic_bytes > 0 {
            let byte = at - self.grid.dynamic;
            return Some(match names.dynamic.as_slice() {
                [only] => format!("byte {byte} of `{only}`"),
                _ => format!("byte {byte} of dynamic shared memory"),
            });
        }
        near(&names.shared, at)
    }

    /// A global variable, or the allocation and the parameter that points to it.
    fn global(self, at: u64) -> Option<String> {
        let (base, len) = self.global.around(at)?;
        if let Some(variable) = self.grid.addresses.iter().position(|address| *address == base) {
            let id = self.program.layout.globals.get(variable)?;
            let name = self.program.variables.get(id.index())?.name.clone();
            return near(&[Named { at: base, size: len, name }], at);
        }
        let words = self.grid.params.chunks_exact(8).map(super::space::number);
        let pointer = (0..).step_by(8).zip(words).find(|(_, word)| word.wrapping_sub(base) < len)?;
        let names = self.names(self.grid.entry)?;
        let param = names.params.iter().rfind(|param| param.at <= pointer.0)?;
        let (name, start) = (&param.name, pointer.1);
        Some(match at.checked_sub(start) {
            Some(byte) if start == base && byte < len => format!("byte {byte} of the {len} that `{name}` points to"),
            Some(byte) if start == base => format!("{} the {len} bytes that `{name}` points to", behind(byte - len)),
            Some(byte) => format!("{byte} bytes behind where `{name}` points"),
            None => format!("{} bytes before where `{name}` points", start - at),
        })
    }

    fn constant(self, at: u64) -> Option<String> {
        let named = |(id, at): &(VarId, u64)| {
            let data = self.program.variables.get(id.index())?;
            Some(Named { at: *at, size: data.size, name: data.name.clone() })
        };
        let mut list: Vec<Named> = self.program.layout.constants.iter().filter_map(named).collect();
        list.sort_by_key(|named| named.at);
        near(&list, at)
    }

    fn names(&self, function: usize) -> Option<&Names> {
        self.program.names.get(function)
    }
}

/// The variable at an address, or the one before it.
fn near(list: &[Named], at: u64) -> Option<String> {
    let Named { at: start, size, name } = list.iter().rfind(|named| named.at <= at)?;
    Some(match at - start {
        0 if *size > 0 => format!("`{name}`"),
        byte if byte < *size => format!("byte {byte} of `{name}`"),
        byte => format!("{} `{name}`, which has {size} bytes", behind(byte - size)),
    })
}

fn behind(bytes: u64) -> String {
    if bytes == 0 { "right behind".into() } else { format!("{bytes} bytes behind") }
}

impl Ctx<'_> {
    /// For naming what lies at addresses.
    pub(super) fn map(&self) -> Map<'_> {
        Map { program: self.program, grid: self.grid, global: self.global }
    }

    /// Name of a place in the running function.
    #[cold]
    pub(super) fn name_of(&self, place: Place, lane: usize) -> Option<String> {
        let map = self.map();
        match place.space {
            Where::Shared if place.rank != self.block.rank => {
                map.shared(place.at).map(|name| format!("{name}, in block {} of the cluster", place.rank))
            }
            Where::Local => {
                let function = self.program.code.get(self.warp.at as usize)?.function as usize;
                let byte = place.at.checked_sub(u64::from(self.warp.frame[lane % 32]))?;
                near(&map.names(function)?.frame, byte)
            }
            _ => map.name_of(place),
        }
    }
}
