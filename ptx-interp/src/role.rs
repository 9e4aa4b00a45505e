//! Meaning of an instruction beside its result: the strength of its accesses, their actor, and the order that it
//! creates. Observers read it.
//!
//! [`ROLES`] is a table beside the semantics of `ops/`. An instruction that is in no line accesses memory as `ld` and `st`
//! do; so a family of instructions needs a line here only where it is asynchronous, atomic, or orders something.

use super::site::Site;
use ptx_core::ir::Operand;

/// Who acts: a thread, or one of the asynchronous agents that work for it. The number is its place in a block's clock.
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

/// The threads with which a strong access synchronises (8.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    Block,
    Cluster,
    Gpu,
    System,
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
    /// The same, and makes the mbarriers visible that its threads have initialised.
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
    /// Orders `tcgen05` instructions before what synchronises threads, and behind it.
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

    /// That of an instruction: the line with the longest name that fits.
    pub(super) fn of(site: &Site) -> Role {
        let name = site.row.name;
        let fits = |line: &str| name.strip_prefix(line).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        let line = ROLES.iter().filter(|(line, _)| fits(line)).max_by_key(|(line, _)| line.len());
        line.map_or(Role::PLAIN, |(_, role)| role(site))
    }
}

type Reader = fn(&Site) -> Role;

/// The lines: a name or the start of one, and what the modifiers make of it.
#[rustfmt::skip]
const ROLES: &[(&str, Reader)] = &[
    ("ld", access), ("st", access), ("multimem", access),
    ("atom", update), ("red", update),
    ("cp.async", |_| asynchronous(Actor::Copy, Actor::Copy)),
    ("cp.async.commit_group", |_| act(Act::Commit(Actor::Copy))),
    ("cp.async.wait_group", |s| act(Act::Wait(Actor::Copy, number(s)))),
    ("cp.async.wait_all", |_| act(Act::Wait(Actor::Copy, None))),
    ("cp.async.mbarrier", |_| act(Act::Object)),
    ("cp.async.bulk", bulk), ("cp.reduce.async.bulk", bulk),
    ("st.async", |s| Role { act: bulk(s).act, ..access(s) }), ("red.async", |s| Role { act: bulk(s).act, ..update(s) }),
    ("cp.async.bulk.prefetch", |_| Role::PLAIN),
    ("cp.async.bulk.commit_group", |_| act(Act::Commit(Actor::Bulk))),
    ("cp.async.bulk.wait_group", |s| act(Act::Wait(if has(s, "read") { Actor::Source } else { Actor::Bulk }, number(s)))),
    ("tcgen05.mma", |_| asynchronous(Actor::Tensor, Actor::Tensor)), ("tcgen05.cp", |_| asynchronous(Actor::Tensor, Actor::Tensor)),
    ("tcgen05.shift", |_| asynchronous(Actor::Tensor, Actor::Tensor)),
    ("wgmma.mma_async", |_| asynchronous(Actor::Matrix, Actor::Matrix)),
    ("tcgen05.alloc", |_| act(Act::Allocate)),
    ("tcgen05.ld", |_| act(Act::Load)), ("tcgen05.wait::ld", |_| act(Act::Loaded)),
    ("tcgen05.st", |_| act(Act::Store)), ("tcgen05.wait::st", |_| act(Act::Wait(Actor::Store, None))),
    ("tcgen05.fence::before_thread_sync", |_| act(Act::BeforeSync)),
    ("tcgen05.fence::after_thread_sync", |_| act(Act::AfterSync)),
    ("griddepcontrol.wait", |_| act(Act::Launch)), ("griddepcontrol", griddep),
    ("wgmma.fence", |_| act(Act::RegisterFence)),
    ("wgmma.commit_group", |_| act(Act::Commit(Actor::Matrix))),
    ("wgmma.wait_group", |s| act(Act::Wait(Actor::Matrix, number(s)))),
    ("mbarrier", |s| object(s, Order::Relaxed)), ("mbarrier.init", |_| act(Act::Begin)),
    ("mbarrier.arrive", |s| object(s, Order::Release)), ("mbarrier.arrive_drop", |s| object(s, Order::Release)),
    ("mbarrier.test_wait", |s| object(s, Order::Acquire)), ("mbarrier.try_wait", |s| object(s, Order::Acquire)),
    ("barrier.cluster.arrive", |s| Role { aligned: has(s, "aligned"), ..ordered(s, Order::Release, Scope::Cluster) }),
    ("barrier.cluster.wait",
        |s| Role { act: Act::Gate, aligned: has(s, "aligned"), ..ordered(s, Order::Acquire, Scope::Cluster) }),
    ("bar", |_| Role { aligned: true, ..Role::PLAIN }), ("bar.warp", |_| Role::PLAIN),
    ("barrier", |s| Role { aligned: has(s, "aligned"), ..Role::PLAIN }),
    ("fence", fence), ("membar", fence),
    ("fence.proxy", proxy), ("membar.proxy", proxy),
    ("setmaxnreg", |s| act(number(s).map_or(Act::Plain, Act::Registers))),
];

fn has(site: &Site, modifier: &str) -> bool {
    site.modifiers().any(|m| m == modifier)
}

fn act(act: Act) -> Role {
    Role { act, ..Role::PLAIN }
}

fn asynchronous(reads: Actor, writes: Actor) -> Role {
    act(Act::Async { reads, writes })
}

/// The literal that is the first operand.
fn number(site: &Site) -> Option<u32> {
    match site.operand(0) {
        Operand::Int(n) => u32::try_from(*n).ok(),
        _ => None,
    }
}

/// The order and scope that the modifiers name.
fn ordered(site: &Site, order: Order, scope: Scope) -> Role {
    const ORDERS: [(&str, Order); 9] = [
        ("weak", Order::Weak),
        ("relaxed", Order::Relaxed),
        ("volatile", Order::Relaxed),
        ("mmio", Order::Relaxed),
        ("mbarrier_init", Order::Both),
        ("acquire", Order::Acquire),
        ("release", Order::Release),
        ("acq_rel", Order::Both),
        ("sc", Order::Both),
    ];
    const SCOPES: [(&str, Scope); 7] = [
        ("cta", Scope::Block),
        ("cluster", Scope::Cluster),
        ("gpu", Scope::Gpu),
        ("gl", Scope::Gpu),
        ("sys", Scope::System),
        ("volatile", Scope::System),
        ("mmio", Scope::System),
    ];
    let order = ORDERS.iter().find(|(name, _)| has(site, name)).map_or(order, |(_, order)| *order);
    let scope = SCOPES.iter().find(|(name, _)| has(site, name)).map_or(scope, |(_, scope)| *scope);
    Role { order, scope, ..Role::PLAIN }
}

fn griddep(site: &Site) -> Role {
    act(if has(site, "wait") { Act::Launch } else { Act::Plain })
}

fn access(site: &Site) -> Role {
    ordered(site, Order::Weak, Scope::System)
}

fn update(site: &Site) -> Role {
    let counts = ["add", "inc", "dec", "or"].iter().any(|operation| has(site, operation));
    Role { act: Act::Update, counts, ..ordered(site, Order::Relaxed, Scope::Gpu) }
}

fn object(site: &Site, order: Order) -> Role {
    Role { act: Act::Object, ..ordered(site, order, Scope::Block) }
}

fn fence(site: &Site) -> Role {
    let act = if has(site, "mbarrier_init") { Act::BegunFence } else { Act::Fence };
    Role { act, ..ordered(site, Order::Both, Scope::System) }
}

/// Fences of the async proxy; the others order tensor maps, for which they are ordinary fences here.
fn proxy(site: &Site) -> Role {
    match site.modifiers().any(|m| m.starts_with("async")) {
        true => Role { act: Act::ProxyFence, ..ordered(site, Order::Weak, Scope::Cluster) },
        false => fence(site),
    }
}

/// Bulk copies complete in groups of their thread or on an mbarrier. Reductions are atomic.
fn bulk(site: &Site) -> Role {
    let role = match has(site, "bulk_group") {
        true => asynchronous(Actor::Source, Actor::Bulk),
        false => asynchronous(Actor::Phase, Actor::Phase),
    };
    let order =
        if site.row.opcode() == "cp" && site.row.name.contains("reduce") { Order::Relaxed } else { Order::Weak };
    Role { order, scope: Scope::Gpu, ..role }
}

impl Role {
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
