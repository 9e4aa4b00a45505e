//! Findings of the watcher: one file each, with its sentences. The codes are in `diag/codes.rs` (W…), their pages in
//! `explain/`.

pub(super) mod blank;
pub(crate) mod bounds;
pub(crate) mod cluster;
pub(crate) mod copies;
pub(crate) mod deadlock;
pub(super) mod divergence;
pub(super) mod flying;
pub(super) mod grid;
mod lanes;
pub(crate) mod mbarrier;
mod phase;
pub(super) mod race;
pub(crate) mod registers;
pub(crate) mod steps;
pub(super) mod tensor;
pub(crate) mod tmem;
pub(super) mod unwritten;

use super::Watch;
use super::clock::Actor;
use super::event::Event;
use crate::fault::Party;
use crate::program::Program;
use crate::space::Place;

/// An access as an instruction makes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touch {
    pub place: Place,
    /// Lanes that access the same bytes.
    pub lanes: u32,
    /// As the instruction saw it.
    pub address: u64,
    pub size: u64,
    pub writes: bool,
}

impl Touch {
    /// The place of one of its bytes.
    pub(super) fn at(&self, offset: u64) -> Place {
        Place { at: self.place.at.wrapping_add(offset), ..self.place }
    }
}

/// `(3, 0, 0)`
fn triple([x, y, z]: [u32; 3]) -> String {
    format!("({x}, {y}, {z})")
}

/// An instruction of the program, with what happened there.
pub(super) fn party(program: &Program, pc: u32, text: String) -> Option<Party> {
    let span = program.code.get(pc as usize)?.span;
    Some(Party { text, span, thread: None, block: None })
}

/// Who made an earlier access, and what he did with it.
fn who(program: &Program, watch: &Watch, event: Event, did: &str) -> Option<Party> {
    let place = watch.place(event.warp);
    let block = watch.id(place.0);
    let thread = watch.thread(place, event.lanes.trailing_zeros() % 32);
    let (subject, thread) = match event.actor() {
        Actor::Thread => (format!("thread {} of block {}", triple(thread), triple(block)), Some(thread)),
        Actor::Phase => (format!("an asynchronous operation for block {}", triple(block)), None),
        _ => (
            format!("the asynchronous operation of thread {} of block {}", triple(thread), triple(block)),
            Some(thread),
        ),
    };
    let party = party(program, event.pc(), format!("{subject} {did}"))?;
    Some(Party { thread, block: Some(block), ..party })
}
