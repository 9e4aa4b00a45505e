//! Entry of an access in shadow memory: thread, time, instruction, and strength.

use crate::role::{Actor, Order, Role, Scope};

/// An access. All zero: none that matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// The warp's number among all that this machine ever ran, from 1.
    pub warp: u32,
    /// Its lanes; for an operation that completes on an mbarrier the number of that agent.
    pub lanes: u32,
    /// The actor's time.
    pub tick: u32,
    /// The instruction (23 bits), the actor (4), whether the access is strong (1) and its scope (2), and whether the word is
    /// an mbarrier object (1).
    packed: u32,
}

const PC: u32 = (1 << ACTOR) - 1;
const ACTOR: u32 = 23;
const STRONG: u32 = 1 << 27;
const SCOPE: u32 = 28;
const OBJECT: u32 = 1 << 30;
/// Marks the list of readers of a cell, see `shadow`.
const MANY: u32 = 1 << 31;

impl Event {
    pub(super) fn new(warp: u32, lanes: u32, tick: u32, (actor, pc): (Actor, u32), role: Role) -> Event {
        let strong = if role.order == Order::Weak { 0 } else { STRONG };
        let packed = pc & PC | (actor as u32) << ACTOR | strong | (role.scope as u32) << SCOPE;
        Event { warp, lanes, tick, packed }
    }

    /// A list of readers.
    pub(super) fn many(list: u32) -> Event {
        Event { warp: u32::MAX, lanes: list, tick: 0, packed: MANY }
    }

    /// The same, made by these lanes too.
    pub(super) fn with(self, lanes: u32) -> Event {
        Event { lanes: self.lanes | lanes, ..self }
    }

    /// The same, as made by these lanes.
    pub(super) fn by(self, lanes: u32) -> Event {
        Event { lanes, ..self }
    }

    /// The number of the list, if it is one.
    pub(super) fn list(self) -> Option<usize> {
        (self.packed & MANY != 0).then_some(self.lanes as usize)
    }

    /// The same as the beginning of an mbarrier object.
    pub(super) fn object(self) -> Event {
        Event { packed: self.packed | OBJECT, ..self }
    }

    pub(super) fn is_object(self) -> bool {
        self.packed & OBJECT != 0
    }

    pub(super) fn pc(self) -> u32 {
        self.packed & PC
    }

    pub(super) fn is_strong(self) -> bool {
        self.packed & STRONG != 0
    }

    /// Returns true if the two may meet though they are of launches that overlap: both are strong, and the whole GPU
    /// sees them.
    pub(super) fn meets(self, other: Event) -> bool {
        self.is_strong() && other.is_strong() && self.scope().min(other.scope()) >= Scope::Gpu
    }

    pub(super) fn scope(self) -> Scope {
        Scope::ALL[(self.packed >> SCOPE & 3) as usize]
    }

    pub(super) fn actor(self) -> Actor {
        const ACTORS: [Actor; 9] = [
            Actor::Thread,
            Actor::Copy,
            Actor::Source,
            Actor::Bulk,
            Actor::Matrix,
            Actor::Tensor,
            Actor::Load,
            Actor::Store,
            Actor::Phase,
        ];
        ACTORS.get((self.packed >> ACTOR & 15) as usize).copied().unwrap_or(Actor::Phase)
    }

    /// Returns true if both are of one warp, of the same kind and strength.
    pub(super) fn alike(self, other: Event) -> bool {
        self.warp == other.warp && self.packed & !PC == other.packed & !PC
    }
}
