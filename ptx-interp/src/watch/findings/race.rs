//! Two accesses to the same bytes that nothing orders, one of them a write; and what is ordered, but not for the other proxy.

use super::{Touch, triple, who, who_elsewhere};
use crate::exec::ExecState;
use crate::fault::{Fault, FaultKind};
use crate::role::Actor;
use crate::role::{Act, Order, Role};
use crate::space::Where;
use crate::watch::event::Event;
use crate::watch::shadow::{Clash, Relation};
use crate::watch::{ClusterWatch, Watch};
use ptx_core::diag::{Code, codes};

/// The finding, and the fix.
struct Verdict {
    kind: FaultKind,
    code: &'static Code,
    message: &'static str,
    help: &'static str,
}

const SHARED: Verdict = Verdict {
    kind: FaultKind::Race,
    code: &codes::W0201,
    message: "a data race in shared memory",
    help: "let a barrier stand between the two: `bar.sync 0` for the block, `bar.warp.sync` for a warp, an mbarrier",
};
const GLOBAL: Verdict = Verdict {
    kind: FaultKind::Race,
    code: &codes::W0202,
    message: "a data race in global memory",
    help: "let each thread have bytes of its own, use `atom` or `red`, or order the two with `.release` and `.acquire`",
};
const SCOPE: Verdict = Verdict {
    kind: FaultKind::Race,
    code: &codes::W0203,
    message: "atomic accesses whose scopes do not include each other",
    help: "use a scope that both threads are in: `.cluster`, `.gpu`",
};
/// Between threads of two ranks.
const RANKS: Verdict = Verdict {
    message: "a data race between two ranks",
    help: "let a signal order the two, with the scope of the system on both sides: `st.release.sys` (or `fence.acq_rel.sys` and a \
           strong write) behind the one, `ld.acquire.sys` in front of the other",
    ..GLOBAL
};
const RANKS_SCOPE: Verdict = Verdict {
    message: "strong accesses of two ranks whose scopes do not include each other",
    help: "use the scope `.sys`: `.gpu` is the scope of the threads of one GPU",
    ..SCOPE
};
/// Behind an arrival for the threads of a block alone.
const NARROW: Verdict = Verdict {
    message: "an access behind an arrival whose scope is the block of the thread that arrived",
    help: "let the arrival at the mbarrier of another block release to the cluster: `mbarrier.arrive.release.cluster`",
    ..SCOPE
};
/// The race in shared memory by an asynchronous copy.
const REUSED: Verdict = Verdict {
    help: "let the copy begin when all who used the bytes before are done: they arrive at an `empty` mbarrier, for whose phase \
           its thread waits (with a parity that turns over), or a barrier stands between",
    ..SHARED
};
const EARLY: Verdict = Verdict {
    kind: FaultKind::Async,
    code: &codes::W0402,
    message: "an access to bytes that an asynchronous copy may still be writing",
    help: "commit it and wait for it first: `cp.async.commit_group` and `cp.async.wait_group`, or with `.bulk` (what nobody \
           committed, no group has), or the phase of its mbarrier; then a barrier, if other threads began it",
};
const SOURCE: Verdict = Verdict {
    kind: FaultKind::Async,
    code: &codes::W0403,
    message: "a write to bytes that an asynchronous operation may still be reading",
    help: "commit it and wait for it first: `cp.async.bulk.commit_group` and `cp.async.bulk.wait_group.read`, or those of \
           `wgmma` (what nobody committed, no group has); then a barrier, if other threads began it",
};
const UNFENCED: Verdict = Verdict {
    kind: FaultKind::Async,
    code: &codes::W0401,
    message: "an asynchronous read of bytes that ordinary instructions wrote, without a proxy fence between them",
    help: "let each thread that wrote execute `fence.proxy.async` before the barrier",
};
const OBJECT: Verdict = Verdict {
    kind: FaultKind::Sync,
    code: &codes::W0414,
    message: "an ordinary access to an mbarrier object",
    help: "only `mbarrier` instructions may touch it; `mbarrier.inval` ends it",
};

const TOO_EARLY: Verdict = Verdict {
    kind: FaultKind::Race,
    code: &codes::W0204,
    message: "an access before `griddepcontrol.wait` to what the launch before uses",
    help: "let the thread execute `griddepcontrol.wait` first, or learn from one that has, by a barrier",
};

/// The finding about an access and an earlier one.
pub(in crate::watch) fn found(exec: &ExecState, watch: &Watch, touch: &Touch, clash: &Clash) -> Fault {
    let is_of_rank = watch.launch_of(clash.other.warp).is_some_and(|launch| launch.rank != watch.own.rank);
    let verdict = if is_of_rank { between_ranks(clash, exec.role()) } else { verdict(touch, clash, exec.role()) };
    let lane = accuser(touch, watch, exec, clash.other);
    let now = match (exec.role().act, touch.writes) {
        (Act::Async { .. }, true) => "asynchronous write",
        (_, true) => "write",
        (_, false) => "read",
    };
    let article = if now.starts_with('a') { "an" } else { "a" };
    let before = if clash.wrote { "wrote" } else { "read" };
    let other = match clash.other.actor() {
        Actor::Thread => "another thread",
        _ => "an asynchronous operation",
    };
    let tail = match clash.relation {
        Relation::Object => String::new(),
        Relation::Early => format!(" that it {before}"),
        Relation::Apart => format!(" that {other} {before}, and nothing orders the two"),
        _ => format!(" that {other} {before}"),
    };
    let message = format!("{}: {article} {now} of {} bytes{tail}", verdict.message, touch.size);
    let did = format!("{before} them here");
    let elsewhere = who_elsewhere(watch, clash.other, &format!("{before} them"));
    let fault = Fault::new(verdict.kind, message)
        .code(verdict.code)
        .at(touch.address.wrapping_add(clash.offset))
        .place(exec.name_of(touch.at(clash.offset), lane))
        .lane(lane)
        .party(match clash.relation {
            Relation::Early => None,
            _ => who(exec.listing, watch, apart(clash.other, watch, exec, lane), &did),
        })
        .help(match completes_on(exec, watch, clash.other) {
            Some(mbarrier) => format!("{}: it completes on {mbarrier}", verdict.help),
            None => verdict.help.to_string(),
        });
    elsewhere.into_iter().fold(fault, Fault::help)
}

/// The mbarrier on which an earlier copy completes.
fn completes_on(exec: &ExecState, watch: &Watch, other: Event) -> Option<String> {
    let cluster = ClusterWatch::of(&exec.cluster.kept).filter(|_| other.actor() == Actor::Phase)?;
    let number = watch.place(other.warp).block;
    let of_block = |rank: usize| cluster.blocks.get(rank).is_some_and(|block| block.number == number);
    let found = cluster.phases.iter().find(|((rank, _), phases)| of_block(*rank) && phases.agent == other.lanes);
    let ((_, at), _) = found?;
    Some(format!("{} of block {}", exec.map().shared(*at)?, triple(watch.own.id(number))))
}

/// The lane that accesses now: of several that access the same bytes together, none that made the other access itself.
fn accuser(touch: &Touch, watch: &Watch, exec: &ExecState, other: Event) -> usize {
    let own = watch.own.first_warp(watch.own.number(exec.block.id)) + exec.warp.index == other.warp;
    let others = if own && other.actor() == Actor::Thread { touch.lanes & !other.lanes } else { touch.lanes };
    let lanes = if others == 0 { touch.lanes } else { others };
    lanes.trailing_zeros() as usize % 32
}

/// The other access, as one of somebody else: of several lanes, not that which accesses now.
fn apart(other: Event, watch: &Watch, exec: &ExecState, lane: usize) -> Event {
    let own = watch.own.first_warp(watch.own.number(exec.block.id)) + exec.warp.index == other.warp;
    let others = if own && other.actor() == Actor::Thread { other.lanes & !(1 << lane) } else { other.lanes };
    if others == 0 { other } else { other.by(others) }
}

fn between_ranks(clash: &Clash, role: Role) -> &'static Verdict {
    if clash.other.is_strong() && role.order != Order::Weak { &RANKS_SCOPE } else { &RANKS }
}

fn verdict(touch: &Touch, clash: &Clash, role: Role) -> &'static Verdict {
    let other = clash.other.actor();
    match clash.relation {
        Relation::Unfenced => &UNFENCED,
        Relation::Object => &OBJECT,
        Relation::Early => &TOO_EARLY,
        Relation::Narrow => &NARROW,
        _ if other != Actor::Thread && clash.wrote => &EARLY,
        _ if other != Actor::Thread => &SOURCE,
        _ if clash.other.is_strong() && role.order != Order::Weak => &SCOPE,
        _ if touch.place.space == Where::Shared && matches!(role.act, Act::Async { .. }) => &REUSED,
        _ if touch.place.space == Where::Shared => &SHARED,
        _ => &GLOBAL,
    }
}
