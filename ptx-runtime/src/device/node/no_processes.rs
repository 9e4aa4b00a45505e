//! Groups of processes on systems where there are none, and without the feature `processes`.

use crate::error::Error;
use ptx_interp::{Fault, Turn};

#[derive(Default)]
pub(super) struct Processes(());

#[derive(Default)]
pub(super) struct Turns;

#[derive(Default)]
pub(super) struct Wait(());

impl Wait {
    pub(super) fn note(&mut self, _: &Turn) {}
}

impl Processes {
    pub(super) fn has_any(&self) -> bool {
        false
    }

    pub(super) fn has_others(&self) -> bool {
        false
    }

    pub(super) fn take_turns(&self) -> Turns {
        Turns
    }

    pub(super) fn pause(&self, _: &mut Wait) -> Option<(Error, Option<Box<Fault>>)> {
        None
    }
}
