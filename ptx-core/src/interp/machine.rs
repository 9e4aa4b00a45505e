//! The machine: global memory, and launches on it.

use super::fault::{Fault, FaultKind};
use super::global::Global;
use super::program::Program;

/// A device: its global memory and what runs on it. Addresses depend only on the order of the calls.
#[derive(Debug, Default)]
pub struct Machine {
    global: Global,
}

/// One launch of an entry.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The entry's name.
    pub entry: &'a str,
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z; at most 1024 in all.
    pub block: [u32; 3],
    /// Blocks of a cluster in x, y, z; `[1, 1, 1]` without clusters.
    pub cluster: [u32; 3],
    /// Bytes of dynamic shared memory, behind the static ones.
    pub dynamic_shared: u32,
    /// The parameters, laid out as the entry declares them (each at a multiple of its alignment).
    pub params: &'a [u8],
    /// How to run.
    pub options: Options,
}

/// How to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether to look for races and uninitialised reads as well. Bounds and alignment are always checked.
    pub watch: bool,
    /// One seed gives one interleaving of the threads; 0 is the plainest.
    pub seed: u64,
    /// After how many warp instructions a run is called endless; `None` never stops it.
    pub step_limit: Option<u64>,
}

impl Default for Options {
    fn default() -> Options {
        Options { watch: true, seed: 0, step_limit: Some(10_000_000_000) }
    }
}

/// What a launch did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Instructions times the threads that executed them (guarded-off ones do not count).
    pub instructions: u64,
    /// Instructions that warps issued.
    pub warp_instructions: u64,
    /// What the kernel printed through `vprintf`.
    pub printed: String,
}

impl Machine {
    /// A machine with empty memory.
    pub fn new() -> Machine {
        Machine::default()
    }

    /// Reserves `bytes` zeroed bytes of global memory and gives their address, a multiple of 256.
    ///
    /// # Errors
    /// [`FaultKind::OutOfMemory`] if the machine's limit is reached or the host has no more.
    pub fn alloc(&mut self, bytes: u64) -> Result<u64, Fault> {
        self.global.alloc(bytes)
    }

    /// Gives an allocation back. An address that [`Machine::alloc`] did not give is ignored.
    pub fn free(&mut self, address: u64) {
        self.global.free(address);
    }

    /// Copies from global memory.
    ///
    /// # Errors
    /// [`FaultKind::OutOfBounds`] if no single allocation holds the whole range.
    pub fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        into.copy_from_slice(self.global.bytes(address, into.len() as u64)?);
        Ok(())
    }

    /// Copies to global memory.
    ///
    /// # Errors
    /// [`FaultKind::OutOfBounds`] if no single allocation holds the whole range.
    pub fn write(&mut self, address: u64, from: &[u8]) -> Result<(), Fault> {
        self.global.bytes_mut(address, from.len() as u64)?.copy_from_slice(from);
        Ok(())
    }

    /// Runs an entry to its end.
    ///
    /// # Errors
    /// A [`Fault`] that names the instruction, the thread and the reason. Memory then holds what was written so far.
    pub fn launch(&mut self, program: &Program, launch: &Launch) -> Result<Stats, Fault> {
        let _ = program;
        Err(Fault::new(FaultKind::Launch, format!("no entry `{}` in this program", launch.entry)))
    }
}
