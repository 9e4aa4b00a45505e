//! Global memory: allocations with bounds, at addresses that depend only on the order of the calls.

use super::fault::{Fault, FaultKind};
use super::watch::findings::bounds;
use super::watch::{Shadow, Written};
use std::cell::{Cell, RefCell};

/// The first address that an allocation can have. Below lie the generic windows of the other spaces.
const BASE: u64 = 0x0000_7f00_0000_0000;
/// Every allocation starts at a multiple of this, as `cudaMalloc` promises.
const ALIGN: u64 = 256;
/// Unmapped bytes between two allocations, so that an index one past the end never hits a neighbour.
const GAP: u64 = 256;
/// How much one machine may hold: more is an error, not an abort of the process.
const LIMIT: u64 = 1 << 36;
/// How many allocations are remembered after they were given back.
const FREED: usize = 4096;

/// All allocations of a machine.
#[derive(Debug, Default)]
pub(super) struct Global {
    /// By base: new ones always lie above.
    blocks: Vec<Allocation>,
    /// Base and size of those that were given back, by base.
    freed: Vec<(u64, u64)>,
    next: u64,
    used: u64,
    /// The allocation that was used last: the next access is likely there too.
    last: Cell<usize>,
}

/// One allocation, and what the watcher knows of it.
#[derive(Debug)]
struct Allocation {
    base: u64,
    data: Vec<u8>,
    written: Written,
    shadow: RefCell<Shadow>,
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
        self.blocks.push(Allocation { base: address, data, written: Written::Nothing, shadow: RefCell::default() });
        Ok(address)
    }

    /// Gives an allocation back; an address that `alloc` did not give is ignored.
    pub(super) fn free(&mut self, address: u64) {
        if let Ok(at) = self.blocks.binary_search_by_key(&address, |block| block.base) {
            let size = self.blocks.remove(at).data.len() as u64;
            self.used -= size;
            let at = self.freed.partition_point(|(base, _)| *base < address);
            self.freed.insert(at, (address, size));
            if self.freed.len() > FREED {
                self.freed.remove(0);
            }
        }
    }

    /// The bytes `address .. address + size`, if one allocation holds them all.
    pub(super) fn bytes(&self, address: u64, size: u64) -> Result<&[u8], Fault> {
        self.range(address, size).ok_or_else(|| self.outside(address, size))
    }

    /// The same, without saying why not.
    pub(super) fn range(&self, address: u64, size: u64) -> Option<&[u8]> {
        let block = self.blocks.get(self.find(address)?)?;
        block.data.get(range(address - block.base, size)?)
    }

    /// The same, to write to.
    pub(super) fn range_mut(&mut self, address: u64, size: u64) -> Option<&mut [u8]> {
        let at = self.find(address)?;
        let block = self.blocks.get_mut(at)?;
        block.data.get_mut(range(address - block.base, size)?)
    }

    /// The same for the host, whose bytes count as written.
    pub(super) fn bytes_mut(&mut self, address: u64, size: u64) -> Result<&mut [u8], Fault> {
        if self.range(address, size).is_none() {
            return Err(self.outside(address, size));
        }
        self.mark(address, size);
        self.range_mut(address, size).ok_or_else(|| bounds::unmapped(size, address, None))
    }

    /// The bytes hold something from now on.
    pub(super) fn mark(&mut self, address: u64, size: u64) {
        let Some(block) = self.find(address).and_then(|at| self.blocks.get_mut(at)) else { return };
        block.written.mark(address - block.base, size, block.data.len() as u64);
    }

    /// Every allocation counts as written: nobody looks who writes from now on.
    pub(super) fn mark_all(&mut self) {
        self.blocks.iter_mut().for_each(|block| block.written = Written::All);
    }

    /// Forgets all accesses.
    pub(super) fn forget(&mut self) {
        self.blocks.iter_mut().for_each(|block| block.shadow = RefCell::default());
    }

    /// The address of the first byte of a range that nobody has written.
    pub(super) fn unwritten(&self, address: u64, size: u64) -> Option<u64> {
        let block = self.blocks.get(self.find(address)?)?;
        block.written.missing(address - block.base, size).map(|at| block.base + at)
    }

    /// The shadow of an address, and where in it.
    pub(super) fn shadow(&self, address: u64) -> Option<(&RefCell<Shadow>, u64)> {
        let block = self.blocks.get(self.find(address)?)?;
        Some((&block.shadow, address - block.base))
    }

    /// The allocation with the highest base at or below an address.
    fn find(&self, address: u64) -> Option<usize> {
        let holds = |at: usize| {
            self.blocks.get(at).is_some_and(|block| address.wrapping_sub(block.base) < block.data.len() as u64)
        };
        if holds(self.last.get()) {
            return Some(self.last.get());
        }
        let at = self.blocks.partition_point(|block| block.base <= address).checked_sub(1)?;
        self.last.set(at);
        Some(at)
    }

    /// Says which allocation is near, or was there.
    #[cold]
    pub(super) fn outside(&self, address: u64, size: u64) -> Fault {
        let freed = self.freed.partition_point(|(base, _)| *base <= address).checked_sub(1);
        if let Some((base, len)) = freed.and_then(|at| self.freed.get(at)).filter(|(base, len)| address - base < *len) {
            return bounds::freed(size, address, (*base, *len));
        }
        let near = self.find(address).and_then(|at| self.blocks.get(at));
        bounds::unmapped(size, address, near.map(|block| (block.base, block.data.len())))
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
