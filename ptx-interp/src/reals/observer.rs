//! The observer of programs over the real numbers: it follows which registers and bytes hold numbers, and objects to instructions that may depend on their bits.

use super::class::Class;
use crate::exec::ExecState;
use crate::fault::{Fault, FaultKind};
use crate::field::{Field, encode_floats};
use crate::kept::Keeper;
use crate::listing::Entry;
use crate::observe::{Nobody, Observer, Touch};
use crate::program::Program;
use crate::space::{Place, Where, number};
use crate::warp::lanes;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A byte: of global memory, of the shared memory of a block, of a thread's own.
type Byte = (u64, [u32; 3], u32);

/// The bytes of global memory that hold numbers, from one launch to the next, and the first function that is no sum or product.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    bytes: HashSet<Byte>,
    /// The bits of unknown numbers that the host has, which are no floats.
    given: HashSet<u64>,
    unknown: Option<String>,
}

impl Memory {
    /// The bytes hold numbers from now on.
    pub(crate) fn mark(&mut self, address: u64, len: u64) {
        self.bytes.extend((address..address.saturating_add(len)).map(global));
    }

    /// The host has an unknown number with these bits.
    pub(crate) fn give(&mut self, bits: u64) {
        self.given.insert(bits);
    }

    /// The parameters of a launch: floats become numbers of the field, unless they are already.
    pub(crate) fn params(&self, field: Field, entry: &Entry, params: &[u8]) -> Vec<u8> {
        let mut params = params.to_vec();
        for (at, ty) in &entry.floats {
            let end = at + u64::from(ty.bits() / 8);
            let Some(bytes) = params.get_mut(*at as usize..end as usize) else { continue };
            if !self.given.contains(&number(bytes)) {
                encode_floats(field, *ty, bytes);
            }
        }
        params
    }

    /// The first instruction that computed a function of which nothing is known.
    pub(crate) fn unknown(&self) -> Option<&str> {
        self.unknown.as_deref()
    }
}

fn global(at: u64) -> Byte {
    (at, [u32::MAX; 3], 0)
}

/// The observer of a launch.
#[derive(Debug)]
pub(crate) struct Numbers {
    classes: Arc<[Class]>,
    state: RefCell<State>,
}

#[derive(Debug)]
struct State {
    memory: Memory,
    /// For each register of a warp, the lanes in which it holds a number.
    warps: HashMap<([u32; 3], u32), Vec<u32>>,
    /// True if the running instruction has read one.
    holds: bool,
}

impl Numbers {
    pub(crate) fn new(program: &Program, memory: Memory) -> Numbers {
        let classes = program.listing.code.iter().map(Class::of).collect();
        Numbers { classes, state: RefCell::new(State { memory, warps: HashMap::new(), holds: false }) }
    }

    /// The numbers in global memory, behind the launch.
    pub(crate) fn finish(self) -> Memory {
        let mut memory = self.state.into_inner().memory;
        memory.bytes.retain(|(_, block, _)| *block == [u32::MAX; 3]);
        memory
    }

    fn class(&self, exec: &ExecState) -> Class {
        self.classes.get(exec.warp.at as usize).copied().unwrap_or(Class::Other)
    }

    fn object(&self, exec: &ExecState, what: &str) -> Result<(), Fault> {
        let name = exec.listing.name_at(exec.warp.at);
        match self.class(exec) {
            Class::Converts | Class::Other => {
                let message = format!(
                    "`{name}` takes the bits of a real number {what}: it may depend on more than sums and products"
                );
                Err(Fault::new(FaultKind::Undecided, message))
            }
            _ => Ok(()),
        }
    }
}

/// The bytes of an access.
fn bytes(exec: &ExecState, touch: &Touch) -> Vec<Byte> {
    let Touch { place: Place { space, rank, at }, lanes: group, size, .. } = *touch;
    let all = at..at.saturating_add(size);
    let cluster: [u32; 3] = std::array::from_fn(|d| exec.block.id[d] / exec.grid.cluster[d].max(1));
    let warp = exec.warp.index << 5;
    match space {
        Where::Shared | Where::Cluster => all.map(|at| (at, cluster, u32::MAX - rank as u32)).collect(),
        Where::Local => {
            all.flat_map(|at| lanes(group).map(move |lane| (at, exec.block.id, warp | lane as u32))).collect()
        }
        Where::Global | Where::Generic => all.map(global).collect(),
        Where::Const | Where::Param => all.map(|at| (at, [u32::MAX - 1; 3], 0)).collect(),
    }
}

impl Keeper for Numbers {
    fn follows(&self, _: [u32; 3]) -> bool {
        true
    }
}

impl Observer for Numbers {
    fn fork(&self) -> Box<dyn Observer> {
        // Its launch stays on one core.
        Box::new(Nobody)
    }

    fn before(&self, exec: &mut ExecState, active: u32) -> Result<(), Fault> {
        let (at, origin) = (exec.warp.at as usize, exec.warp.origin);
        let code = exec.listing.code.get(at);
        let reads: &[u32] = code.map_or(&[], |code| &code.reads);
        let mut state = self.state.borrow_mut();
        let registers = state.warps.get(&(exec.block.id, exec.warp.index));
        let held = |slot: &u32| registers.and_then(|all| all.get((origin + slot) as usize)).copied().unwrap_or(0);
        state.holds = reads.iter().any(|slot| held(slot) & active != 0);
        let class = self.class(exec);
        if state.holds && matches!(class, Class::Unknown | Class::Bits) && state.memory.unknown.is_none() {
            state.memory.unknown = Some(exec.listing.name_at(exec.warp.at).to_owned());
        }
        let holds = state.holds;
        drop(state);
        if holds { self.object(exec, "in a register") } else { Ok(()) }
    }

    fn after(&self, exec: &mut ExecState, active: u32) -> Result<(), Fault> {
        let (at, origin) = (exec.warp.at as usize, exec.warp.origin);
        let Some(code) = exec.listing.code.get(at) else { return Ok(()) };
        let mut state = self.state.borrow_mut();
        let makes = match self.class(exec) {
            Class::Exact | Class::Unknown | Class::Converts | Class::Moves(true) => true,
            Class::Moves(false) | Class::Bits => state.holds,
            Class::Other => false,
        };
        let registers = state.warps.entry((exec.block.id, exec.warp.index)).or_default();
        for slot in &code.writes {
            let slot = (origin + slot) as usize;
            if registers.len() <= slot {
                registers.resize(slot + 1, 0);
            }
            if let Some(lanes) = registers.get_mut(slot) {
                *lanes = if makes { *lanes | active } else { *lanes & !active };
            }
        }
        Ok(())
    }

    fn read(&self, exec: &ExecState, touch: &Touch) -> Result<(), Fault> {
        let held = {
            let mut state = self.state.borrow_mut();
            let held = bytes(exec, touch).iter().any(|byte| state.memory.bytes.contains(byte));
            state.holds |= held;
            held
        };
        if held { self.object(exec, "in memory") } else { Ok(()) }
    }

    fn write(&self, exec: &mut ExecState, touch: &Touch) -> Result<(), Fault> {
        let mut state = self.state.borrow_mut();
        let holds = state.holds || self.class(exec) == Class::Moves(true);
        for byte in bytes(exec, touch) {
            match holds {
                true => state.memory.bytes.insert(byte),
                false => state.memory.bytes.remove(&byte),
            };
        }
        Ok(())
    }

    fn read_gaps(&self, exec: &ExecState, touch: &Touch) -> Result<u64, Fault> {
        self.read(exec, touch).map(|()| 0)
    }

    fn read_row(&self, _: &ExecState, _: Place, _: u64) -> bool {
        false
    }

    fn write_row(&self, _: &mut ExecState, _: Place, _: u64) -> bool {
        false
    }
}
