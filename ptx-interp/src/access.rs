//! Accesses to memory by address: which bytes, with a report to the observer.

use super::bounds;
use super::ctx::Ctx;
use super::exec::ExecState;
use super::fault::Fault;
use super::map::Map;
use super::observe::Touch;
use super::probe::Read;
use super::soft::mask;
use super::space::{LOCAL_START, Place, RANK, Where, resolve};
use super::warp::Lanes;

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

    /// The bytes of a whole warp, if its lanes access neighbors of `size` bytes in global or shared memory, all there
    /// are; else nothing, and each lane's access is looked at alone.
    pub(super) fn row(&self, space: Where, addresses: &Lanes, size: u64) -> Option<&[u8]> {
        let place = self.row_place(space, addresses, size)?;
        let found = self.look(place, 0, 32 * size)?;
        self.observer.is_none_or(|observer| observer.read_row(self, place, size)).then_some(found)
    }

    /// The same, to write to.
    pub(super) fn row_mut(&mut self, space: Where, addresses: &Lanes, size: u64) -> Option<&mut [u8]> {
        let place = self.row_place(space, addresses, size)?;
        self.bytes_at(place, 0, 32 * size)?;
        if self.observer.is_some_and(|observer| !observer.write_row(self, place, size)) {
            return None;
        }
        self.look_mut(place, 0, 32 * size)
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
        self.look_mut(place, lane, size).ok_or_else(|| bounds::no_copy().at(address).lane(lane))
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
        self.look_mut(place, lane, size).ok_or_else(|| bounds::no_copy().at(address).lane(lane))
    }

    fn look(&self, place: Place, lane: usize, size: u64) -> Option<&[u8]> {
        if let Some(probe) = self.probe {
            probe.read(Read { pc: self.warp.at, place, size });
        }
        self.bytes_at(place, lane, size)
    }

    fn look_mut(&mut self, place: Place, lane: usize, size: u64) -> Option<&mut [u8]> {
        if let Some(probe) = self.probe {
            self.bytes_at(place, lane, size).into_iter().for_each(|before| probe.write(place, lane, before));
        }
        self.exec.bytes_at_mut(place, lane, size)
    }
}

/// Places, and the bytes there.
impl ExecState<'_> {
    /// The bytes at a place, without a report to anybody.
    pub(super) fn bytes_at(&self, place: Place, lane: usize, size: u64) -> Option<&[u8]> {
        match place.space {
            Where::Global | Where::Generic => self.global.range(place.at, size),
            Where::Shared | Where::Cluster => range(self.cluster.memory.get(place.rank)?, place.at, size),
            Where::Const => range(self.grid.constants, place.at, size),
            Where::Local => range(&self.warp.local[lane], place.at, size),
            Where::Param => range(self.grid.params, place.at, size),
        }
    }

    /// The same, to write to.
    fn bytes_at_mut(&mut self, place: Place, lane: usize, size: u64) -> Option<&mut [u8]> {
        match place.space {
            Where::Global | Where::Generic => self.global.range_mut(place.at, size),
            Where::Shared | Where::Cluster => range_mut(self.cluster.memory.get_mut(place.rank)?, place.at, size),
            Where::Local => range_mut(&mut self.warp.local[lane], place.at, size),
            Where::Const | Where::Param => None,
        }
    }

    /// The access of a lane that reads the bytes at an address.
    pub(super) fn readable(&self, space: Where, lane: usize, address: u64, size: u64) -> Result<Touch, Fault> {
        let place = self.place(space, lane, address, size)?;
        match self.bytes_at(place, lane, size) {
            Some(_) => Ok(Touch { place, lanes: 1 << lane, address, size, writes: false }),
            None => Err(self.outside(place, lane, address, size)),
        }
    }

    fn writable(&self, space: Where, lane: usize, address: u64, size: u64) -> Result<Place, Fault> {
        let place = self.place(space, lane, address, size)?;
        if matches!(place.space, Where::Const | Where::Param) {
            return Err(bounds::read_only(place.space.name()).at(address).lane(lane));
        }
        // Who only writes waits for nobody.
        match self.bytes_at(place, lane, size) {
            Some(_) => Ok(place),
            None => Err(self.outside(place, lane, address, size)),
        }
    }

    fn row_place(&self, space: Where, addresses: &Lanes, size: u64) -> Option<Place> {
        let first = addresses[0];
        let neighbors = addresses.iter().enumerate().all(|(lane, a)| *a == first.wrapping_add(lane as u64 * size));
        if !neighbors || !first.is_multiple_of(size) {
            return None;
        }
        let (space, at) = if space == Where::Generic { resolve(first) } else { (space, first) };
        let space = if space.is_shared() { Where::Shared } else { space };
        let near = space == Where::Global || space == Where::Shared && at >> RANK == 0;
        near.then_some(Place { space, rank: self.block.rank, at })
    }

    /// Resolves a generic address, checks the alignment, and distinguishes parameters of functions (which lie on the local
    /// stack) from those of the entry.
    fn place(&self, space: Where, lane: usize, address: u64, size: u64) -> Result<Place, Fault> {
        if size.is_power_of_two() && address & (size - 1) != 0 {
            return Err(bounds::misaligned(size).at(address).lane(lane));
        }
        let (found, at) = match space {
            Where::Generic => resolve(address),
            Where::Param if address >= LOCAL_START => (Where::Local, address),
            Where::Shared | Where::Cluster => (Where::Shared, address & mask(32)),
            _ => (space, address),
        };
        Ok(match found {
            Where::Shared => {
                let (rank, at) = self.shared_place_in(space, lane, at)?;
                Place { space: found, rank, at }
            }
            // What lies below the local stack wraps around to where nothing is.
            Where::Local => Place { space: found, rank: 0, at: at.wrapping_sub(LOCAL_START) },
            _ => Place { space: found, rank: 0, at },
        })
    }

    /// The block of the cluster that an address in shared memory belongs to, and the offset there.
    pub(super) fn shared_place(&self, at: u64) -> (usize, u64) {
        match (at >> RANK) as usize {
            0 => (self.block.rank, at),
            rank => (rank - 1, at & mask(RANK)),
        }
    }

    /// The same of an address in a space that an instruction names: `.shared` and `.shared::cta` are the block's own memory.
    pub(super) fn shared_place_in(&self, space: Where, lane: usize, at: u64) -> Result<(usize, u64), Fault> {
        let place = self.shared_place(at);
        if space == Where::Shared && place.0 != self.block.rank {
            return Err(bounds::foreign(place.0, self.map().shared(place.1)).at(at).lane(lane));
        }
        Ok(place)
    }

    #[cold]
    fn outside(&self, place: Place, lane: usize, address: u64, size: u64) -> Fault {
        let has = match place.space {
            Where::Shared | Where::Cluster => self.cluster.memory.get(place.rank).map_or(0, Vec::len),
            Where::Const => self.grid.constants.len(),
            Where::Local => self.warp.local[lane].len(),
            Where::Param => self.grid.params.len(),
            Where::Generic | Where::Global => {
                return self.global.outside(address, size).place(self.name_of(place, lane)).lane(lane);
            }
        };
        bounds::outside(place.space.name(), has, size).at(address).place(self.name_of(place, lane)).lane(lane)
    }

    /// For naming what lies at addresses.
    pub(super) fn map(&self) -> Map<'_> {
        Map { listing: self.listing, grid: self.grid, global: self.global }
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
                let function = self.listing.code.get(self.warp.at as usize)?.function as usize;
                let byte = place.at.checked_sub(u64::from(self.warp.frame[lane % 32]))?;
                map.frame(function, byte)
            }
            _ => map.name_of(place),
        }
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
