//! Accesses of a warp while the engine looks whether it spins.

use super::space::{Place, Where};
use std::cell::RefCell;

/// Number of remembered accesses; a loop with more is no simple wait.
const MOST: usize = 256;

/// A read inside of a loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    pub pc: u32,
    pub place: Place,
    pub size: u64,
}

/// Accesses of a warp while it is examined.
#[derive(Debug, Default)]
pub(super) struct Probe(pub(super) RefCell<Touched>);

#[derive(Debug, Default)]
pub(super) struct Touched {
    pub reads: Vec<Read>,
    /// Places that were written, with what they held before.
    pub writes: Vec<(Place, usize, Vec<u8>)>,
    pub full: bool,
}

impl Probe {
    pub(super) fn read(&self, read: Read) {
        let mut touched = self.0.borrow_mut();
        let shared = matches!(read.place.space, Where::Global | Where::Generic | Where::Shared);
        if shared && touched.reads.len() < MOST && !touched.reads.iter().any(|old| old.place == read.place) {
            touched.reads.push(read);
        }
    }

    pub(super) fn write(&self, place: Place, lane: usize, before: &[u8]) {
        let mut touched = self.0.borrow_mut();
        let known = touched.writes.iter().any(|(at, l, old)| *at == place && *l == lane && old.len() == before.len());
        if known {
            return;
        }
        touched.full |= touched.writes.len() >= MOST;
        if !touched.full {
            touched.writes.push((place, lane, before.to_vec()));
        }
    }
}
