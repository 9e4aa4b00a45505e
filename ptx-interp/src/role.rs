//! Meaning of an instruction beside its result: the strength of its accesses, their actor, and the order that it
//! creates. Observers read it.
//!
//! `ops::role` has the table of them.

/// The agent that accesses memory: a thread, or an asynchronous agent that works for it. The number is its index in a block's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Actor {
    /// The thread itself.
    Thread,
    /// Its `cp.async` copies.
    Copy,
    /// Its bulk copies, as readers of their source.
    Source,
    /// Its bulk copies, as writers.
    Bulk,
    /// Its warpgroup's `wgmma`.
    Matrix,
    /// Its `tcgen05.mma`, `.cp` and `.shift`.
    Tensor,
    /// Its warp's `tcgen05.ld`, and `tcgen05.st`.
    Load,
    Store,
    /// Operations that complete on an mbarrier: an agent for each mbarrier, a tick for each phase.
    Phase,
}

/// The semantics of an access or a fence (8.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Weak,
    Relaxed,
    Acquire,
    Release,
    Both,
}

impl Order {
    pub(super) fn acquires(self) -> bool {
        matches!(self, Order::Acquire | Order::Both)
    }

    pub(super) fn releases(self) -> bool {
        matches!(self, Order::Release | Order::Both)
    }
}

/// The threads with which a strong access synchronizes (8.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Scope {
    Block,
    Cluster,
    Gpu,
    System,
}

impl Scope {
    /// From the narrowest to the widest.
    pub(super) const ALL: [Scope; 4] = [Scope::Block, Scope::Cluster, Scope::Gpu, Scope::System];

    /// This scope and those inside of it.
    pub(super) fn inner(self) -> &'static [Scope] {
        &Scope::ALL[..=self as usize]
    }
}

/// Effect of an instruction beside computing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Reads and writes in the name of its threads, if it does.
    Plain,
    /// Reads, computes and writes in one step.
    Update,
    /// Makes an mbarrier object.
    Begin,
    /// Works on one.
    Object,
    /// Reads and writes in the name of asynchronous agents.
    Async {
        reads: Actor,
        writes: Actor,
    },
    /// Orders what its threads did before and after.
    Fence,
    /// The same, and makes the mbarriers visible that its threads have initialized.
    BegunFence,
    /// Makes what its threads know visible to the async proxy.
    ProxyFence,
    /// Closes a group of asynchronous operations.
    Commit(Actor),
    /// Waits until at most this many groups are open. Without a number: for all, committed or not.
    Wait(Actor, Option<u32>),
    /// Orders what its threads did to registers before `wgmma`.
    RegisterFence,
    /// Loads registers from tensor memory, past its threads.
    Load,
    /// Waits for those loads.
    Loaded,
    /// Stores registers to tensor memory, past its threads.
    Store,
    /// Orders `tcgen05` instructions before what synchronizes threads, and behind it.
    BeforeSync,
    AfterSync,
    /// Takes tensor memory.
    Allocate,
    /// Waits for the other threads of the cluster.
    Gate,
    /// Waits for the launch before.
    Launch,
    /// Asks for registers (the new count) or gives them back.
    Registers(u32),
}

/// The meaning of one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Role {
    pub act: Act,
    pub order: Order,
    pub scope: Scope,
    /// All threads of the warp must execute it together.
    pub aligned: bool,
    /// True for atomic accesses by which threads count; locks are taken by others.
    pub counts: bool,
}

impl Role {
    /// That of an instruction that does nothing special.
    pub(super) const PLAIN: Role =
        Role { act: Act::Plain, order: Order::Weak, scope: Scope::Block, aligned: false, counts: false };

    /// Returns true if what it sees is known at once.
    pub(super) fn acquires(self) -> bool {
        self.order.acquires()
    }

    /// Returns true if it does more than access memory.
    pub(super) fn is_more_than_access(self) -> bool {
        self.aligned || !matches!(self.act, Act::Plain | Act::Update | Act::Object)
    }

    /// Returns true if its accesses go through the async proxy.
    pub(super) fn through_async_proxy(self) -> bool {
        matches!(self.act, Act::Async { reads, .. } if reads != Actor::Copy)
    }
}
