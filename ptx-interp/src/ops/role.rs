//! The role of each instruction: a table of names beside the semantics.
//!
//! An instruction that is in no line accesses memory as `ld` and `st` do. A family of instructions needs a line here only where
//! it is asynchronous, atomic, or orders something.

use crate::role::{Act, Actor, Order, Role, Scope};
use crate::site::Site;
use ptx_core::ir::Operand;

/// That of an instruction: the line with the longest name that fits.
pub(crate) fn find_role(site: &Site) -> Role {
    let name = site.row.name;
    let fits = |line: &str| name.strip_prefix(line).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let line = ROLES.iter().filter(|(line, _)| fits(line)).max_by_key(|(line, _)| line.len());
    line.map_or(Role::PLAIN, |(_, role)| role(site))
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
    site.modifiers.contains(&modifier)
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

/// Without a scope it is `.cta`, which code writes for arrivals at other blocks, too: only a scope that is named counts.
fn object(site: &Site, order: Order) -> Role {
    Role { act: Act::Object, ..ordered(site, order, Scope::Cluster) }
}

fn fence(site: &Site) -> Role {
    let act = if has(site, "mbarrier_init") { Act::BegunFence } else { Act::Fence };
    Role { act, ..ordered(site, Order::Both, Scope::System) }
}

/// Fences of the async proxy; the others order tensor maps, for which they are ordinary fences here.
fn proxy(site: &Site) -> Role {
    match site.modifiers.iter().any(|m| m.starts_with("async")) {
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
