//! mbarriers: their beginning and end, who has come to them, and what their phases carry.

use super::clock::View;
use super::event::Event;
use super::findings;
use super::history::Came;
use super::order::{hear, message};
use super::threads::Threads;
use super::vars::{Copy, Phases};
use super::{Agent, ClusterWatch, Watch};
use crate::exec::ExecState;
use crate::fault::Fault;
use crate::kept::{MbarrierPlace, Message};
use crate::mbarrier::{BYTES, Mbarrier};
use crate::observe::Touch;
use crate::role::{Act, Actor, Role, Scope};
use crate::space::Where;
use std::cell::RefCell;
use std::sync::Arc;

/// Instructions that complete on an mbarrier through the async proxy.
const COPIES: &[&str] = &["cp.async.bulk", "cp.reduce.async.bulk"];

impl Watch {
    /// The running operation completes on an mbarrier: its accesses happen before whatever follows a wait for the phase.
    pub(super) fn act_for(
        &self,
        exec: &mut ExecState,
        lane: usize,
        place: MbarrierPlace,
        at: u64,
    ) -> Result<(), Fault> {
        let copy = Copy { pc: exec.warp.at, thread: exec.warp.tid[lane], block: exec.block.id };
        let Some(phases) = ClusterWatch::phases_mut(&mut exec.cluster.kept, place) else { return Ok(()) };
        let number = phases.count.saturating_add(1);
        phases.copies = Some((number, copy));
        self.agent.set(Some(Agent { rank: place.0, number: phases.agent, phase: number }));
        let Some(threads) = Threads::of(&exec.warp.kept).map(RefCell::borrow) else { return Ok(()) };
        let begun = phases.begun.map(|begun| (begun, self.place(begun.warp)));
        if begun.is_some_and(|(begun, place)| !threads.knows(lane, begun, place)) {
            return Err(findings::mbarrier::not_begun(exec.listing, phases.init, lane, at));
        }
        let name = exec.listing.code.get(exec.warp.at as usize).map_or("", |code| code.name);
        let copies = COPIES.iter().any(|copy| name.starts_with(copy));
        let sees = || begun.is_none_or(|(begun, place)| threads.knows_fenced(lane, begun, place));
        if copies && !phases.fenced && !sees() {
            return Err(findings::mbarrier::not_fenced(exec.listing, (name, phases.init), lane, at));
        }
        Ok(())
    }

    /// A phase of an mbarrier is complete: gives what its waiters learn.
    pub(super) fn turn_phase(
        &self,
        watch: &mut ClusterWatch,
        place: MbarrierPlace,
        awaited: bool,
    ) -> Option<Arc<View>> {
        let block = watch.blocks.get(place.0)?.number;
        let phases = watch.phases.get_mut(&place)?;
        phases.count = phases.count.saturating_add(1);
        if awaited {
            phases.seen = phases.count;
        }
        phases.history.turn();
        let agent = self.agent_place(phases.agent);
        phases.arriving.view.seen.ticks_mut(block, agent + 1)[agent] = phases.count;
        phases.done = Some(phases.arriving.shared());
        phases.done.clone()
    }
}

/// An mbarrier is initialized.
pub(super) fn begin(exec: &mut ExecState, lane: usize, place: MbarrierPlace, at: u64) -> Result<(), Fault> {
    let Some(watch) = ClusterWatch::of_mut(&mut exec.cluster.kept) else { return Ok(()) };
    if let Some(phases) = watch.phases.get(&place) {
        return Err(findings::mbarrier::again(exec.listing, phases.init, lane, at));
    }
    let Some(block) = watch.blocks.get_mut(place.0) else { return Ok(()) };
    block.agents += 1;
    let (agent, init) = (block.agents - 1, exec.warp.at);
    let begun = Threads::of_mut(&mut exec.warp.kept)
        .map(|threads| Event::new(threads.number, 1 << lane, threads.now, (Actor::Thread, init), Role::PLAIN));
    watch.phases.insert(place, Phases { init, agent, begun, ..Phases::default() });
    Ok(())
}

/// A lane works on an mbarrier as on any object: it must know of its beginning, as it must of a write.
pub(super) fn begun_access(exec: &ExecState, space: Where, lane: usize, at: u64) -> Result<Option<Touch>, Fault> {
    match exec.role().act {
        Act::Object => exec.readable(space, lane, at, BYTES).map(Some),
        _ => Ok(None),
    }
}

/// The use of an mbarrier ends.
pub(super) fn end(exec: &mut ExecState, place: MbarrierPlace) {
    if let Some(watch) = ClusterWatch::of_mut(&mut exec.cluster.kept) {
        watch.phases.remove(&place);
        watch.ended.insert(place, exec.warp.at);
    }
}

/// A lane arrives at an mbarrier, or an asynchronous operation of it does.
pub(super) fn arrive(exec: &mut ExecState, lane: usize, place: MbarrierPlace) {
    let role = exec.role();
    let beyond = role.scope == Scope::Block && place.0 != exec.block.rank;
    let threads = Threads::of_mut(&mut exec.warp.kept);
    let Some((threads, phases)) = threads.zip(ClusterWatch::phases_mut(&mut exec.cluster.kept, place)) else { return };
    match role.order.releases() {
        // Its scope is the block: threads of another one learn that it is done with what it read, to free it.
        true if beyond => phases.arriving.join_reads(&threads.snapshot(lane)),
        true => threads.release(1 << lane, &mut phases.arriving),
        false => threads.prepared(lane).iter().for_each(|view| phases.arriving.join(view)),
    }
}

/// The operations that an agent of a lane has begun so far complete in the running phase of an mbarrier.
pub(super) fn hand_over(exec: &mut ExecState, lane: usize, actor: Actor, place: MbarrierPlace) {
    let threads = Threads::of_mut(&mut exec.warp.kept);
    if let Some((threads, phases)) = threads.zip(ClusterWatch::phases_mut(&mut exec.cluster.kept, place)) {
        threads.hand_over(lane, actor, &mut phases.arriving);
    }
}

/// A lane has seen that the last phase of an mbarrier is complete.
pub(super) fn see(exec: &mut ExecState, lane: usize, place: MbarrierPlace) {
    let Some(phases) = ClusterWatch::phases_mut(&mut exec.cluster.kept, place) else { return };
    phases.seen = phases.count;
    let done: Message = message(phases.done.clone());
    let acquires = exec.role().order.acquires();
    hear(&mut exec.warp.kept, (1 << lane, exec.warp.live), &done, acquires);
}

/// A lane has changed an mbarrier.
pub(super) fn remember(exec: &mut ExecState, lane: usize, place: MbarrierPlace, [before, after]: [Mbarrier; 2]) {
    let Some(phases) = ClusterWatch::phases_mut(&mut exec.cluster.kept, place) else { return };
    let ((pending, bytes), (left, open)) = (before.open(), after.open());
    let more = open - bytes;
    phases.history.add(Came {
        block: exec.block.id,
        warp: exec.warp.index,
        lanes: 1 << lane,
        pc: exec.warp.at,
        arrivals: (pending - left).unsigned_abs(),
        announced: more.max(0).unsigned_abs(),
        brought: more.min(0).unsigned_abs(),
    });
}

impl ClusterWatch {
    /// A fence of lanes of a warp behind the mbarriers that they have initialized.
    pub(super) fn fence_begun(&mut self, warp: u32, group: u32) {
        let own = |begun: &Event| begun.warp == warp && begun.lanes & group != 0;
        for phases in self.phases.values_mut().filter(|phases| phases.begun.as_ref().is_some_and(own)) {
            phases.fenced = true;
        }
    }
}
