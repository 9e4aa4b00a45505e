//! Global memory: allocations with bounds, at addresses that depend only on the order of the calls.

use super::fault::{Fault, FaultKind};
use std::cell::Cell;

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
    /// Base and bytes, by base: new ones always lie above.
    blocks: Vec<(u64, Vec<u8>)>,
    next: u64,
    used: u64,
    /// The allocation that was used last: the next access is likely there too.
    last: Cell<usize>,
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
        self.blocks.push((address, data));
        Ok(address)
    }

    /// Gives an allocation back; an address that `alloc` did not give is ignored.
    pub(super) fn free(&mut self, address: u64) {
        if let Ok(at) = self.blocks.binary_search_by_key(&address, |(base, _)| *base) {
            self.used -= self.blocks.remove(at).1.len() as u64;
        }
    }

    /// The bytes `address .. address + size`, if one allocation holds them all.
    pub(super) fn bytes(&self, address: u64, size: u64) -> Result<&[u8], Fault> {
        self.range(address, size).ok_or_else(|| self.outside(address, size))
    }

    /// The same, without saying why not.
    pub(super) fn range(&self, address: u64, size: u64) -> Option<&[u8]> {
        let (base, data) = self.blocks.get(self.find(address)?)?;
        data.get(range(address - base, size)?)
    }

    /// The same, to write to.
    pub(super) fn range_mut(&mut self, address: u64, size: u64) -> Option<&mut [u8]> {
        let at = self.find(address)?;
        let (base, data) = self.blocks.get_mut(at)?;
        data.get_mut(range(address - *base, size)?)
    }

    /// The same, to write to.
    pub(super) fn bytes_mut(&mut self, address: u64, size: u64) -> Result<&mut [u8], Fault> {
        if self.range(address, size).is_none() {
            return Err(self.outside(address, size));
        }
        self.range_mut(address, size)
            .ok_or_else(|| Fault::new(FaultKind::OutOfBounds, "no allocation holds this address"))
    }

    /// The allocation with the highest base at or below an address.
    fn find(&self, address: u64) -> Option<usize> {
        let holds =
            |at: usize| self.blocks.get(at).is_some_and(|(base, data)| address.wrapping_sub(*base) < data.len() as u64);
        if holds(self.last.get()) {
            return Some(self.last.get());
        }
        let at = self.blocks.partition_point(|(base, _)| *base <= address).checked_sub(1)?;
        self.last.set(at);
        Some(at)
    }

    /// Says which allocation is near.
    fn outside(&self, address: u64, size: u64) -> Fault {
        let near = match self.find(address).and_then(|at| self.blocks.get(at)) {
            Some((base, data)) => {
                format!("the allocation below it is {} bytes at {base:#x}", data.len())
            }
            None => "no allocation lies below it".to_string(),
        };
        Fault::new(FaultKind::OutOfBounds, format!("{size} bytes of global memory that no allocation holds; {near}"))
            .at(address)
    }
}

fn range(at: u64, size: u64) -> Option<std::ops::Range<usize>> {
    let at = usize::try_from(at).ok()?;
    Some(at..at.checked_add(usize::try_from(size).ok()?)?)
}

fn no_memory(asked: u64, used: u64) -> Fault {
    let message = format!("{asked} bytes of global memory were asked for; {used} of {LIMIT} bytes are in use");
    Fault::new(FaultKind::OutOfMemory, message)
}
