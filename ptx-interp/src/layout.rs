//! Address of each variable of a module, and registers of each function.

use ptx_core::ir::{Function, Module, Param, Space, VarId, Variable};
use std::collections::HashMap;

/// Place of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// In global memory: its number among the program's globals.
    Global(u32),
    /// At this address of the block's shared memory.
    Shared(u64),
    /// At the start of the block's dynamic shared memory.
    Dynamic,
    /// At this address of the constant bank.
    Const(u64),
    /// At this address among the entry's parameters.
    Param(u64),
    /// At this offset of the frame of the function that declares it.
    Frame(u64),
}

/// The homes of all variables, and what spaces need in all.
#[derive(Debug, Default)]
pub(super) struct Layout {
    /// By variable.
    pub homes: Vec<Option<Home>>,
    /// The variables in global memory.
    pub globals: Vec<VarId>,
    /// The variables in the constant bank, with their addresses.
    pub constants: Vec<(VarId, u64)>,
    /// The size of the constant bank.
    pub constant_bytes: u64,
    /// By function.
    pub functions: Vec<Sizes>,
    /// The variables that entries declare in their bodies, with the number of the entry.
    pub owners: HashMap<VarId, usize>,
}

/// Memory of one function.
#[derive(Clone, Debug, Default)]
pub(super) struct Sizes {
    /// The first slot of each register; slots hold 64 bits of each lane.
    pub slots: Vec<u32>,
    /// The slot of the address of an element whose index is in a register.
    pub element: u32,
    /// Slots in all; the last is where sinks write.
    pub registers: u32,
    /// Bytes of local memory.
    pub frame: u64,
    /// Bytes of the entry's parameters.
    pub params: u64,
    /// Bytes of static shared memory when this entry runs.
    pub shared: u64,
}

/// Hands out addresses, each at a multiple of its alignment.
#[derive(Clone, Copy, Default)]
struct Bump(u64);

impl Bump {
    fn place(&mut self, variable: &Variable) -> u64 {
        let at = self.0.checked_next_multiple_of(variable.align.max(1)).unwrap_or(u64::MAX);
        self.0 = at.saturating_add(variable.size);
        at
    }
}

/// A parameter of a function: registers, or bytes of its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// A register of so many components, each of so many bits in slots of its own.
    Register {
        slot: u32,
        bits: u32,
        count: u32,
    },
    Frame {
        offset: u64,
        size: u64,
    },
}

impl Layout {
    /// Places every variable of a module.
    pub(super) fn new(module: &Module) -> Layout {
        let mut layout = Layout { homes: vec![None; module.variables.len()], ..Layout::default() };
        layout.functions = module.functions.iter().map(registers).collect();
        layout.place_frames(module);
        layout.place_shared(module);
        let mut bank = Bump::default();
        for (index, variable) in module.variables.iter().enumerate() {
            let id = VarId(index as u32);
            let home = match variable.space {
                _ if layout.homes[index].is_some() => continue,
                Space::Const => {
                    let at = bank.place(variable);
                    layout.constants.push((id, at));
                    Home::Const(at)
                }
                _ => {
                    layout.globals.push(id);
                    Home::Global(layout.globals.len() as u32 - 1)
                }
            };
            layout.homes[index] = Some(home);
        }
        layout.constant_bytes = bank.0;
        layout
    }

    /// Place of a variable.
    pub(super) fn home(&self, id: VarId) -> Option<Home> {
        self.homes.get(id.index()).copied().flatten()
    }

    /// The slot of a parameter variable of a `.func`, or of one of a body that a call names.
    pub(super) fn frame_slot(&self, module: &Module, id: VarId) -> Option<Slot> {
        match self.home(id)? {
            Home::Frame(offset) => Some(Slot::Frame { offset, size: module.variables.get(id.index())?.size }),
            _ => None,
        }
    }

    fn set(&mut self, id: VarId, home: Home) {
        if let Some(place) = self.homes.get_mut(id.index()) {
            *place = Some(home);
        }
    }

    /// Parameters and local variables.
    fn place_frames(&mut self, module: &Module) {
        for (index, function) in module.functions.iter().enumerate() {
            let (mut frame, mut params) = (Bump::default(), Bump::default());
            let outer = function.params.iter().chain(&function.returns);
            for id in outer.filter_map(|p| if let Param::Var(id) = p { Some(*id) } else { None }) {
                let Some(variable) = module.variables.get(id.index()) else { continue };
                let home = match function.entry {
                    true => Home::Param(params.place(variable)),
                    false => Home::Frame(frame.place(variable)),
                };
                self.set(id, home);
            }
            for id in &function.variables {
                let Some(variable) = module.variables.get(id.index()) else { continue };
                if matches!(variable.space, Space::Local | Space::Param) {
                    self.set(*id, Home::Frame(frame.place(variable)));
                }
            }
            self.functions[index].frame = frame.0.checked_next_multiple_of(16).unwrap_or(u64::MAX);
            self.functions[index].params = params.0;
        }
    }

    /// Shared variables: those of the module and of `.func`s first, then the entry's own, then the dynamic ones.
    fn place_shared(&mut self, module: &Module) {
        let owners = entry_owned(module);
        let mut common = Bump::default();
        let shared = |v: &Variable| v.space == Space::Shared;
        for (index, variable) in module.variables.iter().enumerate().filter(|(_, v)| shared(v)) {
            let id = VarId(index as u32);
            match variable.size {
                0 => self.set(id, Home::Dynamic),
                _ if owners.contains_key(&id) => {}
                _ => self.set(id, Home::Shared(common.place(variable))),
            }
        }
        self.owners = owners;
        let owners = self.owners.clone();
        for (index, function) in module.functions.iter().enumerate() {
            let mut own = common;
            for id in function.variables.iter().filter(|id| owners.contains_key(id)) {
                let Some(variable) = module.variables.get(id.index()).filter(|v| shared(v) && v.size != 0) else {
                    continue;
                };
                self.set(*id, Home::Shared(own.place(variable)));
            }
            self.functions[index].shared = own.0;
        }
    }
}

/// The variables that entries declare in their bodies.
fn entry_owned(module: &Module) -> HashMap<VarId, usize> {
    let mut owners = HashMap::new();
    for (at, entry) in module.functions.iter().enumerate().filter(|(_, function)| function.entry) {
        owners.extend(entry.variables.iter().map(|id| (*id, at)));
    }
    owners
}

/// Numbers the registers of a function.
fn registers(function: &Function) -> Sizes {
    let mut next = 0u32;
    let mut slots = Vec::with_capacity(function.registers.len());
    for register in &function.registers {
        slots.push(next);
        next = next.saturating_add(register.vector.max(1).saturating_mul(register.ty.bits().div_ceil(64)));
    }
    Sizes { slots, element: next, registers: next.saturating_add(3), ..Sizes::default() }
}
