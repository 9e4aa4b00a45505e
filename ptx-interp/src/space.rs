//! The address map: where each space lies in the generic address space, and which bytes an address names.

use super::bounds;
use super::ctx::Ctx;
use super::fault::Fault;
use super::observe::Touch;
use super::soft::mask;
use super::spin::Read;
use super::warp::Lanes;
use ptx_core::ir::Space;

/// Generic windows: the number above bit 40 tells the space, what is below it is the address in that space.
const WINDOW: u32 = 40;
const LOCAL: u64 = 1;
const SHARED: u64 = 2;
const CONST: u64 = 3;
const PARAM: u64 = 4;
const CODE: u64 = 5;
/// Start of a thread's local memory: never 0, and apart from the entry's parameters, so that `ld.param` can tell.
pub(super) const LOCAL_START: u64 = 1 << 16;
/// Bits of a `shared::cluster` address below the block's rank plus one.
pub(super) const RANK: u32 = 24;

/// The space that an instruction names, or that a generic address is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    Generic,
    Global,
    Shared,
    Const,
    Local,
    Param,
}

impl Where {
    /// The space a modifier names; none is generic.
    pub(super) fn of(modifier: Option<&str>) -> Where {
        const NAMES: [(&str, Where); 5] = [
            ("global", Where::Global),
            ("shared", Where::Shared),
            ("const", Where::Const),
            ("local", Where::Local),
            ("param", Where::Param),
        ];
        let name = modifier.unwrap_or("").split("::").next().unwrap_or("");
        NAMES.iter().find(|(n, _)| *n == name).map_or(Where::Generic, |(_, space)| *space)
    }

    fn window(self) -> u64 {
        match self {
            Where::Local => LOCAL << WINDOW,
            Where::Shared => SHARED << WINDOW,
            Where::Const => CONST << WINDOW,
            Where::Param => PARAM << WINDOW,
            Where::Generic | Where::Global => 0,
        }
    }

    /// The generic address of an address in this space.
    pub(super) fn to_generic(self, address: u64) -> u64 {
        address.wrapping_add(self.window())
    }

    /// The address in this space of a generic one.
    pub(super) fn local_to(self, address: u64) -> u64 {
        address.wrapping_sub(self.window())
    }

    /// Returns true if an address in this space means other bytes in every thread.
    pub(super) fn is_private(self, address: u64) -> bool {
        match self {
            Where::Local => true,
            Where::Param => address >= LOCAL_START,
            Where::Generic => resolve(address).0 == Where::Local,
            _ => false,
        }
    }

    /// Its name in messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Where::Generic => "generic",
            Where::Global => "global",
            Where::Shared => "shared",
            Where::Const => "const",
            Where::Local => "local",
            Where::Param => "param",
        }
    }
}

impl From<Space> for Where {
    fn from(space: Space) -> Where {
        match space {
            Space::Global | Space::Opaque => Where::Global,
            Space::Shared => Where::Shared,
            Space::Const => Where::Const,
            Space::Local => Where::Local,
            Space::Param => Where::Param,
        }
    }
}

/// The space of a generic address, and the address there.
pub(super) fn resolve(address: u64) -> (Where, u64) {
    let space = match address >> WINDOW {
        LOCAL => Where::Local,
        SHARED => Where::Shared,
        CONST => Where::Const,
        PARAM => Where::Param,
        _ => return (Where::Global, address),
    };
    (space, address & mask(WINDOW))
}

/// The address of a function, 16 bytes apart.
pub(super) fn code_address(function: usize) -> u64 {
    (CODE << WINDOW) + 16 * (function as u64 + 1)
}

/// The function at an address.
pub(super) fn function_at(address: u64) -> Option<usize> {
    let offset = address.checked_sub(CODE << WINDOW)?;
    if offset % 16 == 0 { (offset / 16).checked_sub(1).map(|f| f as usize) } else { None }
}

/// Place of the bytes of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub space: Where,
    /// The block of the cluster, for shared memory.
    pub rank: usize,
    /// The address there; in local memory from the start of the thread's.
    pub at: u64,
}

impl Ctx<'_> {
    /// The bytes that a lane reads at an address.
    pub(super) fn bytes(&self, space: Where, lane: usize, address: u64, size: u64) -> Result<&[u8], Fault> {
        self.bytes_for(space, 1 << lane, address, size)
    }

    /// The bytes that several lanes read at one address.
    pub(super) fn bytes_for(&self, space: Where, group: u32, address: u64, size: u64) -> Result<&[u8], Fault> {
        let lane = group.trailing_zeros() as usize % 32;
        let place = self.place(space, lane, address, size)?;
        let found = self.look(place, lane, size).ok_or_else(|| self.outside(place, lane, address, size))?;
        if let Some(observer) = self.observer {
            observer.read(self, &Touch { place, lanes: group, address, size, writes: false })?;
        }
        Ok(found)
    }

    /// The bytes that a lane reads at an address, a bit for each (of 64) that nobody has written, and the access.
    pub(super) fn bytes_with_gaps(
        &self,
        space: Where,
        lane: usize,
        address: u64,
        size: u64,
    ) -> Result<(&[u8], u64, Touch), Fault> {
        let place = self.place(space, lane, address, size)?;
        let found = self.look(place, lane, size).ok_or_else(|| self.outside(place, lane, address, size))?;
        let touch = Touch { place, lanes: 1 << lane, address, size, writes: false };
        let gaps = self.observer.map_or(Ok(0), |observer| observer.read_gaps(self, &touch))?;
        Ok((found, gaps, touch))
    }

    /// The bytes of a whole warp, if its lanes access neighbours of `size` bytes in global or shared memory, all there
    /// are; else nothing, and each lane's access is looked at alone.
    pub(super) fn row(&self, space: Where, addresses: &Lanes, size: u64) -> Option<&[u8]> {
        let place = self.row_place(space, addresses, size)?;
        let found = self.look(place, 0, 32 * size)?;
        self.observer.is_none_or(|observer| observer.read_row(self, place, size)).then_some(found)
    }

    /// The same, to write to.
    pub(super) fn row_mut(&mut self, space: Where, addresses: &Lanes, size: u64) -> Option<&mut [u8]> {
        let place = self.row_place(space, addresses, size)?;
        self.look_again(place, 0, 32 * size)?;
        if self.observer.is_some_and(|observer| !observer.write_row(self, place, size)) {
            return None;
        }
        self.look_mut(place, 0, 32 * size)
    }

    fn row_place(&self, space: Where, addresses: &Lanes, size: u64) -> Option<Place> {
        let first = addresses[0];
        let neighbours = addresses.iter().enumerate().all(|(lane, a)| *a == first.wrapping_add(lane as u64 * size));
        if !neighbours || !first.is_multiple_of(size) {
            return None;
        }
        let (space, at) = if space == Where::Generic { resolve(first) } else { (space, first) };
        let near = space == Where::Global || space == Where::Shared && at >> RANK == 0;
        near.then_some(Place { space, rank: self.block.rank, at })
    }

    /// The bytes that a lane reads and writes at an address.
    pub(super) fn bytes_mut(&mut self, space: Where, lane: usize, address: u64, size: u64) -> Result<&mut [u8], Fault> {
        if self.probe.is_some() {
            self.object(space, lane, address, size)?;
        }
        self.bytes_mut_for(space, 1 << lane, address, size)
    }

    /// The bytes to which several lanes write the same at one address.
    pub(super) fn bytes_mut_for(
        &mut self,
        space: Where,
        group: u32,
        address: u64,
        size: u64,
    ) -> Result<&mut [u8], Fault> {
        let lane = group.trailing_zeros() as usize % 32;
        let place = self.writable(space, lane, address, size)?;
        if let Some(observer) = self.observer {
            observer.write(self, &Touch { place, lanes: group, address, size, writes: true })?;
        }
        self.look_mut(place, lane, size)
            .ok_or_else(|| bounds::outside(place.space.name(), 0, size).at(address).lane(lane))
    }

    /// The bytes at an address, without a report to the observer: for objects that are more than bytes.
    pub(super) fn object(&self, space: Where, lane: usize, address: u64, size: u64) -> Result<&[u8], Fault> {
        let place = self.place(space, lane, address, size)?;
        self.look(place, lane, size).ok_or_else(|| self.outside(place, lane, address, size))
    }

    /// The same, to read and to write.
    pub(super) fn object_mut(
        &mut self,
        space: Where,
        lane: usize,
        address: u64,
        size: u64,
    ) -> Result<&mut [u8], Fault> {
        let place = self.writable(space, lane, address, size)?;
        self.look(place, lane, size);
        self.look_mut(place, lane, size)
            .ok_or_else(|| bounds::outside(place.space.name(), 0, size).at(address).lane(lane))
    }

    fn writable(&self, space: Where, lane: usize, address: u64, size: u64) -> Result<Place, Fault> {
        let place = self.place(space, lane, address, size)?;
        if matches!(place.space, Where::Const | Where::Param) {
            return Err(bounds::read_only(place.space.name()).at(address).lane(lane));
        }
        // Who only writes waits for nobody.
        match self.look_again(place, lane, size) {
            Some(_) => Ok(place),
            None => Err(self.outside(place, lane, address, size)),
        }
    }

    fn look(&self, place: Place, lane: usize, size: u64) -> Option<&[u8]> {
        if let Some(probe) = self.probe {
            probe.read(Read { pc: self.warp.at, place, size });
        }
        self.look_again(place, lane, size)
    }

    /// The bytes at a place, without a word to anybody.
    pub(super) fn look_again(&self, place: Place, lane: usize, size: u64) -> Option<&[u8]> {
        match place.space {
            Where::Global | Where::Generic => self.global.range(place.at, size),
            Where::Shared => range(self.cluster.memory.get(place.rank)?, place.at, size),
            Where::Const => range(self.grid.constants, place.at, size),
            Where::Local => range(&self.warp.local[lane], place.at, size),
            Where::Param => range(&self.grid.params, place.at, size),
        }
    }

    fn look_mut(&mut self, place: Place, lane: usize, size: u64) -> Option<&mut [u8]> {
        if let Some(probe) = self.probe {
            self.look_again(place, lane, size).into_iter().for_each(|before| probe.write(place, lane, before));
        }
        match place.space {
            Where::Global | Where::Generic => self.global.range_mut(place.at, size),
            Where::Shared => range_mut(self.cluster.memory.get_mut(place.rank)?, place.at, size),
            Where::Local => range_mut(&mut self.warp.local[lane], place.at, size),
            Where::Const | Where::Param => None,
        }
    }

    /// Resolves a generic address, checks the alignment, and tells parameters of functions (which lie on the local
    /// stack) from those of the entry.
    fn place(&self, space: Where, lane: usize, address: u64, size: u64) -> Result<Place, Fault> {
        if size.is_power_of_two() && address & (size - 1) != 0 {
            return Err(bounds::misaligned(size).at(address).lane(lane));
        }
        let (space, at) = match space {
            Where::Generic => resolve(address),
            Where::Param if address >= LOCAL_START => (Where::Local, address),
            Where::Shared => (space, address & mask(32)),
            _ => (space, address),
        };
        Ok(match space {
            Where::Shared => {
                let (rank, at) = self.shared_place(at);
                Place { space, rank, at }
            }
            // What lies below the local stack wraps around to where nothing is.
            Where::Local => Place { space, rank: 0, at: at.wrapping_sub(LOCAL_START) },
            _ => Place { space, rank: 0, at },
        })
    }

    /// Which block's shared memory of the cluster, and where in it.
    pub(super) fn shared_place(&self, at: u64) -> (usize, u64) {
        match (at >> RANK) as usize {
            0 => (self.block.rank, at),
            rank => (rank - 1, at & mask(RANK)),
        }
    }

    #[cold]
    fn outside(&self, place: Place, lane: usize, address: u64, size: u64) -> Fault {
        let has = match place.space {
            Where::Shared => self.cluster.memory.get(place.rank).map_or(0, Vec::len),
            Where::Const => self.grid.constants.len(),
            Where::Local => self.warp.local[lane].len(),
            Where::Param => self.grid.params.len(),
            Where::Generic | Where::Global => {
                return self.global.outside(address, size).place(self.name_of(place, lane)).lane(lane);
            }
        };
        bounds::outside(place.space.name(), has, size).at(address).place(self.name_of(place, lane)).lane(lane)
    }
}

fn range(bytes: &[u8], at: u64, size: u64) -> Option<&[u8]> {
    let at = usize::try_from(at).ok()?;
    bytes.get(at..at.checked_add(size as usize)?)
}

fn range_mut(bytes: &mut [u8], at: u64, size: u64) -> Option<&mut [u8]> {
    let at = usize::try_from(at).ok()?;
    bytes.get_mut(at..at.checked_add(size as usize)?)
}

/// Up to eight bytes as a number.
pub(super) fn number(bytes: &[u8]) -> u64 {
    match bytes {
        [a, b, c, d] => return u32::from_le_bytes([*a, *b, *c, *d]).into(),
        [a, b, c, d, e, f, g, h] => return u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]),
        _ => {}
    }
    let mut word = [0; 8];
    for (to, from) in word.iter_mut().zip(bytes) {
        *to = *from;
    }
    u64::from_le_bytes(word)
}
