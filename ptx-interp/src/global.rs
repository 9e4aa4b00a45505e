//! Global memory: allocations with bounds, at addresses that depend only on the order of the calls.

use super::bounds;
use super::bytes::{Bytes, OutsideMemory};
use super::fault::{Fault, FaultKind};
use super::kept::{Keeper, Kept};
use super::written::Written;
use std::cell::{Cell, RefCell};

/// The first address that an allocation can have. Below lie the generic windows of the other spaces.
const BASE: u64 = 0x0000_7f00_0000_0000;
/// Every allocation starts at a multiple of this, as `cudaMalloc` promises.
const ALIGN: u64 = 256;
/// Unmapped bytes between two allocations, so that an index one past the end never hits a neighbor.
const GAP: u64 = 256;
/// Maximum memory of one machine: more is an error, not an abort of the process.
const LIMIT: u64 = 1 << 36;
/// Total size of the heap of `malloc` in kernels: CUDA's default for a device.
const HEAP: u64 = 8 << 20;
/// The least that an allocation takes of it.
const HEAP_ALIGN: u64 = 16;
/// Number of freed allocations that are remembered.
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
    /// A limit of the host's, below [`LIMIT`].
    lowered: Option<u64>,
    /// The allocation that was used last: the next access is likely there too.
    last: Cell<usize>,
    /// Bytes that kernels took from the heap.
    heap: u64,
    /// Log of accesses, while blocks run ahead.
    log: Option<RefCell<Log>>,
}

/// Which bytes of each allocation were touched, and which written.
#[derive(Debug, Default)]
struct Log {
    touched: Vec<Written>,
    written: Vec<Written>,
}

impl Log {
    fn new(allocations: usize) -> Log {
        let nothing = || vec![Written::Nothing; allocations];
        Log { touched: nothing(), written: nothing() }
    }

    fn note(notes: &mut [Written], block: usize, at: u64, size: u64, len: u64) {
        notes.get_mut(block).into_iter().for_each(|written| written.mark(at, size, len));
    }
}

/// One allocation, which of its bytes hold something, and what an observer keeps of it.
#[derive(Debug)]
struct Allocation {
    base: u64,
    data: Bytes,
    written: Written,
    kept: RefCell<Kept>,
    /// True if a kernel allocated it.
    heap: bool,
}

impl Allocation {
    fn is_outside(&self) -> bool {
        matches!(self.data, Bytes::Outside(_))
    }
}

impl Global {
    /// Lowers how much all allocations may hold together.
    pub(super) fn limit_to(&mut self, bytes: u64) {
        self.lowered = Some(bytes);
    }

    fn limit(&self) -> u64 {
        self.lowered.map_or(LIMIT, |bytes| bytes.min(LIMIT))
    }

    /// Reserves `bytes` zeroed bytes; zero bytes get an address of their own that nothing may touch.
    pub(super) fn alloc(&mut self, bytes: u64) -> Result<u64, Fault> {
        let no_memory = || no_memory(bytes, self.used, self.limit());
        if bytes > self.limit().saturating_sub(self.used) {
            return Err(no_memory());
        }
        let size = usize::try_from(bytes).map_err(|_| no_memory())?;
        // Whether the host has so much is asked first, because zeroed memory that costs nothing until it is used comes from
        // `vec!` alone, which aborts.
        Vec::<u8>::new().try_reserve_exact(size).map_err(|_| no_memory())?;
        Ok(self.add(Bytes::Own(vec![0; size]), Written::Nothing))
    }

    /// Memory of the host's, all of which counts as written.
    pub(super) fn map(&mut self, memory: Box<dyn OutsideMemory>) -> u64 {
        self.add(Bytes::Outside(memory), Written::All)
    }

    fn add(&mut self, data: Bytes, written: Written) -> u64 {
        let (address, bytes) = (BASE + self.next, data.get().len() as u64);
        self.next += bytes.next_multiple_of(ALIGN) + GAP;
        self.used += bytes;
        let (kept, heap) = Default::default();
        self.blocks.push(Allocation { base: address, data, written, kept, heap });
        address
    }

    /// Reserves bytes for a kernel's `malloc`, or none if its heap is used up.
    pub(super) fn take_from_heap(&mut self, bytes: u64) -> Option<u64> {
        let heap = self.heap.checked_add(heap_bytes(bytes)?).filter(|heap| *heap <= HEAP)?;
        let address = self.alloc(bytes).ok()?;
        self.blocks.last_mut()?.heap = true;
        self.heap = heap;
        Some(address)
    }

    /// Gives back what a kernel's `malloc` gave; another address is ignored.
    pub(super) fn give_to_heap(&mut self, address: u64) {
        let block = self.find(address).and_then(|at| self.blocks.get(at)).filter(|b| b.heap && b.base == address);
        if let Some(bytes) = block.and_then(|block| heap_bytes(block.data.get().len() as u64)) {
            self.heap -= bytes;
            self.free(address);
        }
    }

    /// Gives an allocation back; an address that `alloc` did not give is ignored.
    pub(super) fn free(&mut self, address: u64) {
        if let Ok(at) = self.blocks.binary_search_by_key(&address, |block| block.base) {
            let size = self.blocks.remove(at).data.get().len() as u64;
            self.used -= size;
            let at = self.freed.partition_point(|(base, _)| *base < address);
            self.freed.insert(at, (address, size));
            if self.freed.len() > FREED {
                self.freed.remove(0);
            }
        }
    }

    /// Bytes of all allocations.
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// The same memory for blocks that run ahead, observed or not. From now on both note what is touched.
    pub(super) fn fork(&mut self, observer: Option<&dyn Keeper>) -> Global {
        let count = self.blocks.len();
        self.log.get_or_insert_with(|| RefCell::new(Log::new(count)));
        let share = |block: &mut Allocation| {
            let data = block.data.share();
            let (written, kept) = match observer {
                Some(observer) => (block.written.clone(), observer.fork_memory(block.kept.get_mut())),
                None => (Written::All, Kept::default()),
            };
            Allocation { base: block.base, data, written, kept: RefCell::new(kept), heap: block.heap }
        };
        let blocks = self.blocks.iter_mut().map(share).collect();
        Global {
            blocks,
            freed: self.freed.clone(),
            next: self.next,
            used: self.used,
            lowered: self.lowered,
            heap: self.heap,
            last: Cell::new(0),
            log: Some(RefCell::new(Log::new(count))),
        }
    }

    /// Returns true if neither has written what the other has touched.
    pub(super) fn is_apart_from(&self, other: &Global) -> bool {
        let (Some(mine), Some(theirs)) = (&self.log, &other.log) else { return false };
        let (mine, theirs) = (mine.borrow(), theirs.borrow());
        let meet = |written: &[Written], touched: &[Written]| written.iter().zip(touched).any(|(w, t)| w.overlaps(t));
        !meet(&mine.written, &theirs.touched) && !meet(&theirs.written, &mine.touched)
    }

    /// Returns true if what an observer has seen of both is what it would have seen of one.
    pub(super) fn has_room_for(&self, other: &Global, observer: &dyn Keeper) -> bool {
        let mut pairs = self.blocks.iter().zip(&other.blocks);
        pairs.all(|(mine, theirs)| observer.has_room_for(&mine.kept.borrow(), &theirs.kept.borrow()))
    }

    /// Writes here what the other has written, with what its observer has seen.
    ///
    /// # Errors
    /// [`FaultKind::OutOfMemory`] if there is no room for a copy of what others still have.
    pub(super) fn take_over(&mut self, other: Global, observer: Option<&dyn Keeper>) -> Result<(), Fault> {
        let (Some(mine), Some(theirs)) = (&mut self.log, other.log) else { return Ok(()) };
        let (mine, theirs) = (mine.get_mut(), theirs.into_inner());
        for ((to, from), new) in self.blocks.iter_mut().zip(other.blocks).zip(&theirs.written) {
            if !matches!(new, Written::Nothing) {
                new.copy(from.data.get(), to.data.get_mut().ok_or_else(bounds::no_copy)?);
            }
            to.written.join(from.written);
            if let Some(observer) = observer {
                observer.take_over(to.kept.get_mut(), from.kept.into_inner());
            }
        }
        mine.written.iter_mut().zip(theirs.written).for_each(|(all, new)| all.join(new));
        mine.touched.iter_mut().zip(theirs.touched).for_each(|(all, new)| all.join(new));
        Ok(())
    }

    /// No block runs ahead any more.
    pub(super) fn settle(&mut self, observer: Option<&dyn Keeper>) {
        self.log = None;
        for block in &mut self.blocks {
            block.data.settle();
            observer.into_iter().for_each(|observer| observer.settle_memory(block.kept.get_mut()));
        }
    }

    /// The bytes `address .. address + size`, if one allocation holds them all.
    pub(super) fn bytes(&self, address: u64, size: u64) -> Result<&[u8], Fault> {
        self.range(address, size).ok_or_else(|| self.outside(address, size))
    }

    /// The same, without saying why not.
    pub(super) fn range(&self, address: u64, size: u64) -> Option<&[u8]> {
        let at = self.find(address)?;
        let block = self.blocks.get(at)?;
        let (data, from) = (block.data.get(), address - block.base);
        if let Some(log) = &self.log {
            Log::note(&mut log.borrow_mut().touched, at, from, size, data.len() as u64);
        }
        data.get(range(from, size)?)
    }

    /// The same, to write to.
    pub(super) fn range_mut(&mut self, address: u64, size: u64) -> Option<&mut [u8]> {
        let at = self.find(address)?;
        let block = self.blocks.get_mut(at)?;
        let (data, from) = (block.data.get_mut()?, address - block.base);
        if let Some(log) = &mut self.log {
            let log = log.get_mut();
            Log::note(&mut log.written, at, from, size, data.len() as u64);
            Log::note(&mut log.touched, at, from, size, data.len() as u64);
        }
        data.get_mut(range(from, size)?)
    }

    /// The same for the host, whose bytes count as written.
    pub(super) fn bytes_mut(&mut self, address: u64, size: u64) -> Result<&mut [u8], Fault> {
        if self.range(address, size).is_none() {
            return Err(self.outside(address, size));
        }
        self.mark(address, size);
        if let Some(block) = self.find(address).and_then(|at| self.blocks.get_mut(at)) {
            // No launch runs: what earlier ones did here is over.
            block.kept = RefCell::default();
        }
        self.range_mut(address, size).ok_or_else(bounds::no_copy)
    }

    /// The bytes hold something from now on.
    pub(super) fn mark(&mut self, address: u64, size: u64) {
        let Some(block) = self.find(address).and_then(|at| self.blocks.get_mut(at)) else { return };
        block.written.mark(address - block.base, size, block.data.get().len() as u64);
    }

    /// Every allocation counts as written: nobody looks who writes from now on.
    pub(super) fn mark_all(&mut self) {
        self.blocks.iter_mut().for_each(|block| block.written = Written::All);
    }

    /// Drops what observers keep.
    pub(super) fn forget(&mut self) {
        self.blocks.iter_mut().for_each(|block| block.kept = RefCell::default());
    }

    /// The address of the first byte of a range that nobody has written.
    pub(super) fn unwritten(&self, address: u64, size: u64) -> Option<u64> {
        let block = self.blocks.get(self.find(address)?)?;
        block.written.missing(address - block.base, size).map(|at| block.base + at)
    }

    /// The observer's state of the allocation that holds an address, and the offset of the address there. None for memory of the host's.
    pub(super) fn kept(&self, address: u64) -> Option<(&RefCell<Kept>, u64)> {
        let block = self.blocks.get(self.find(address)?)?;
        (!block.is_outside()).then_some((&block.kept, address - block.base))
    }

    /// Returns true if an address lies in memory of the host's.
    pub(super) fn is_outside(&self, address: u64) -> bool {
        self.find(address).and_then(|at| self.blocks.get(at)).is_some_and(Allocation::is_outside)
    }

    /// Base and size of the allocation that holds an address.
    pub(super) fn around(&self, address: u64) -> Option<(u64, u64)> {
        let block = self.blocks.get(self.find(address)?)?;
        Some((block.base, block.data.get().len() as u64))
    }

    /// The allocation with the highest base at or below an address.
    fn find(&self, address: u64) -> Option<usize> {
        let holds = |at: usize| {
            self.blocks.get(at).is_some_and(|block| address.wrapping_sub(block.base) < block.data.get().len() as u64)
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
        bounds::unmapped(size, address, near.map(|block| (block.base, block.data.get().len())))
    }
}

fn range(at: u64, size: u64) -> Option<std::ops::Range<usize>> {
    let at = usize::try_from(at).ok()?;
    Some(at..at.checked_add(usize::try_from(size).ok()?)?)
}

/// Size of an allocation on the heap.
fn heap_bytes(bytes: u64) -> Option<u64> {
    bytes.max(1).checked_next_multiple_of(HEAP_ALIGN)
}

fn no_memory(asked: u64, used: u64, limit: u64) -> Fault {
    let message = format!("{asked} bytes of global memory were asked for; {used} of {limit} bytes are in use");
    Fault::new(FaultKind::OutOfMemory, message)
}
