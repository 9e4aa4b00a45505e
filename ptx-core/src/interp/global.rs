//! Global memory: allocations with bounds, at addresses that depend only on the order of the calls.

use super::fault::{Fault, FaultKind};
use std::collections::BTreeMap;

/// The first address that an allocation can have. Below lie the generic windows of the other spaces.
const BASE: u64 = 0x0000_7f00_0000_0000;
/// Every allocation starts at a multiple of this, as `cudaMalloc` promises.
const ALIGN: u64 = 256;
/// Unmapped bytes between two allocations, so that an index one past the end never hits a neighbour.
const GAP: u64 = 256;
/// How much one machine may hold: more is an error, not an abort of the process.
const LIMIT: u64 = 1 << 36;

/// All allocations of a machine.
#[derive(Debug, Default)]
pub(super) struct Global {
    /// By base address.
    blocks: BTreeMap<u64, Vec<u8>>,
    next: u64,
    used: u64,
}

impl Global {
    /// Reserves `bytes` zeroed bytes; zero bytes get an address of their own that nothing may touch.
    pub(super) fn alloc(&mut self, bytes: u64) -> Result<u64, Fault> {
        if bytes > LIMIT - self.used.min(LIMIT) {
            return Err(no_memory(bytes, self.used));
        }
        let size = usize::try_from(bytes).map_err(|_| no_memory(bytes, self.used))?;
        let mut data = Vec::new();
        data.try_reserve_exact(size).map_err(|_| no_memory(bytes, self.used))?;
        data.resize(size, 0);
        let address = BASE + self.next;
        self.next += bytes.next_multiple_of(ALIGN) + GAP;
        self.used += bytes;
        self.blocks.insert(address, data);
        Ok(address)
    }

    /// Gives an allocation back; an address that `alloc` did not give is ignored.
    pub(super) fn free(&mut self, address: u64) {
        if let Some(data) = self.blocks.remove(&address) {
            self.used -= data.len() as u64;
        }
    }

    /// The bytes `address .. address + size`, if one allocation holds them all.
    pub(super) fn bytes(&self, address: u64, size: u64) -> Result<&[u8], Fault> {
        let (base, data) = self.blocks.range(..=address).next_back().ok_or_else(|| self.outside(address, size))?;
        let at = (address - base) as usize;
        at.checked_add(size as usize).and_then(|end| data.get(at..end)).ok_or_else(|| self.outside(address, size))
    }

    /// The same, to write to.
    pub(super) fn bytes_mut(&mut self, address: u64, size: u64) -> Result<&mut [u8], Fault> {
        self.bytes(address, size)?;
        let found = self.blocks.range_mut(..=address).next_back().and_then(|(base, data)| {
            let at = (address - base) as usize;
            data.get_mut(at..at + size as usize)
        });
        found.ok_or_else(|| Fault::new(FaultKind::OutOfBounds, "no allocation holds this address"))
    }

    /// Says which allocation is near.
    fn outside(&self, address: u64, size: u64) -> Fault {
        let near = match self.blocks.range(..=address).next_back() {
            Some((base, data)) => {
                format!("the allocation below it is {} bytes at {base:#x}", data.len())
            }
            None => "no allocation lies below it".to_string(),
        };
        Fault::new(FaultKind::OutOfBounds, format!("{size} bytes of global memory that no allocation holds; {near}"))
            .at(address)
    }
}

fn no_memory(asked: u64, used: u64) -> Fault {
    let message = format!("{asked} bytes of global memory were asked for; {used} of {LIMIT} bytes are in use");
    Fault::new(FaultKind::OutOfMemory, message)
}
