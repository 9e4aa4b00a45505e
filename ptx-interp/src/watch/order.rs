//! Ordering of accesses: fences, barriers, waits and the strong accesses themselves.

use super::clock::{Release, Scoped, View};
use super::findings;
use super::threads::{Gates, Threads};
use super::vars::{Home, Vars};
use super::{ClusterWatch, Watch};
use crate::exec::ExecState;
use crate::fault::Fault;
use crate::kept::{Kept, Message};
use crate::observe::Touch;
use crate::role::{Act, Actor, Role, Scope};
use crate::warp::lanes;
use std::sync::Arc;

impl Threads {
    /// View that a strong access carries between threads.
    pub(super) fn synchronize(
        &mut self,
        (watch, live): (&Watch, u32),
        vars: &mut Vars,
        role: Role,
        (key, touch): (u64, &Touch),
    ) {
        let reads = !touch.writes || role.act == Act::Update;
        if let Some(var) = vars.get_mut(&key).filter(|_| reads) {
            for (scope, view) in var.acquire(self.home(watch), role.scope) {
                match role.order.acquires() {
                    true => self.acquire(touch.lanes, live, &view),
                    false => lanes(touch.lanes).for_each(|lane| self.find(lane, live, (&view, scope))),
                }
            }
        }
        if !touch.writes {
            return;
        }
        let home = self.home(watch);
        for lane in lanes(touch.lanes) {
            let views = match role.order.releases() {
                true => everywhere(&self.snapshot(lane)),
                false => self.published(lane).clone(),
            };
            for (scope, view) in role.scope.inner().iter().zip(&views) {
                view.iter().for_each(|view| vars.entry(key).or_default().release(home, *scope, view));
            }
        }
    }

    fn home(&self, watch: &Watch) -> Home {
        Home { block: self.block, cluster: watch.own.cluster_of(self.block), rank: watch.own.rank }
    }

    /// Lanes that synchronize with each other: each joins the clocks of all.
    pub(super) fn meet(&mut self, group: u32, live: u32) {
        let mut release = Release::default();
        self.release(group, &mut release);
        self.set_view(group, live, &Arc::new(release.view));
    }
}

/// A view for threads of every scope.
fn everywhere(view: &Arc<View>) -> Scoped {
    std::array::from_fn(|_| Some(view.clone()))
}

/// A view as the engine carries it from those who leave it to those whom they wake.
pub(super) fn message(view: Option<Arc<View>>) -> Message {
    let view = view?;
    Some(view)
}

/// The view that a message holds.
fn view_of(message: &Message) -> Option<Arc<View>> {
    message.clone()?.downcast().ok()
}

/// Lanes see what somebody released, and learn it now or with their next fence of any scope.
pub(super) fn hear(warp: &mut Kept, (group, live): (u32, u32), message: &Message, acquires: bool) {
    let Some((threads, view)) = Threads::of_mut(warp).zip(view_of(message)) else { return };
    match acquires {
        true => threads.acquire(group, live, &view),
        false => lanes(group).for_each(|lane| threads.find(lane, live, (&view, Scope::Block))),
    }
}

impl Watch {
    /// Checks that the running instruction may run now.
    pub(super) fn check_before(&self, exec: &mut ExecState, active: u32) -> Result<(), Fault> {
        let role = exec.role();
        self.agent.set(None);
        if role.aligned {
            findings::divergence::check_divergence(exec, active)?;
        }
        let Some(note) = self.notes.at(exec.warp.at) else { return Ok(()) };
        if let Some(noted) = &note.annotations {
            findings::annotation::check_before(exec, active, noted)?;
        }
        if let Some(blank) = &note.blank {
            findings::blank::check_blank(exec, active, blank)?;
        }
        self.follow(exec, active)?;
        let origin = exec.warp.origin;
        match role.act {
            Act::Registers(count) => return findings::registers::change(exec, count),
            Act::Async { writes: Actor::Matrix, .. } => return findings::flying::check_fence(exec, note),
            Act::Gate => count_at_gate(exec, active, |gates| gates.waited += 1),
            _ => {}
        }
        findings::flying::check_flying(exec, note)?;
        if !note.written.is_empty() {
            exec.warp.flight.touch(note.touched.iter().map(|slot| origin + slot));
        }
        Ok(())
    }

    /// Records the changes of the running instruction.
    pub(super) fn record_after(&self, exec: &mut ExecState, active: u32) {
        let (role, live, origin, at) = (exec.role(), exec.warp.live, exec.warp.origin, exec.warp.at);
        let Some(threads) = Threads::of_mut(&mut exec.warp.kept) else { return };
        match role.act {
            Act::RegisterFence => exec.warp.flight.fence(),
            Act::Load => {
                let note = self.notes.at(at);
                let registers = note.into_iter().flat_map(|note| note.written.iter().map(|slot| origin + slot));
                exec.warp.flight.load(at, registers);
            }
            Act::Loaded => {
                exec.warp.flight.loaded();
                threads.wait(active, Actor::Load, None);
            }
            Act::BeforeSync => threads.before_sync(active, live),
            Act::AfterSync => threads.after_sync(active, live),
            Act::Allocate => {
                let block = ClusterWatch::of_mut(&mut exec.cluster.kept)
                    .and_then(|watch| watch.blocks.get_mut(exec.block.rank));
                block.into_iter().for_each(|block| block.allocated = Some((at, exec.warp.tid[0])));
            }
            Act::Launch => threads.wait_for_launch(active, live),
            Act::Fence => threads.fence(active, live, role.scope),
            Act::BegunFence => {
                threads.fence(active, live, role.scope);
                let number = threads.number;
                ClusterWatch::of_mut(&mut exec.cluster.kept)
                    .into_iter()
                    .for_each(|watch| watch.fence_begun(number, active));
            }
            Act::ProxyFence => threads.proxy_fence(active, live),
            Act::Commit(actor) => threads.commit(active, actor),
            Act::Wait(actor, open) => threads.wait(active, actor, open),
            _ => {}
        }
    }
}

fn count_at_gate(exec: &mut ExecState, group: u32, count: impl Fn(&mut Gates)) {
    Threads::of_mut(&mut exec.warp.kept).into_iter().for_each(|threads| threads.at_gate(group, &count));
}

/// Lanes arrive at a barrier of the block.
pub(super) fn release_at_barrier(exec: &mut ExecState, barrier: usize, group: u32) {
    let block = ClusterWatch::of_mut(&mut exec.cluster.kept).and_then(|watch| watch.blocks.get_mut(exec.block.rank));
    if let Some((threads, block)) = Threads::of_mut(&mut exec.warp.kept).zip(block) {
        threads.release(group, block.barriers.entry(barrier).or_default());
    }
}

/// Lanes arrive at the barrier of the cluster.
pub(super) fn release_at_gate(exec: &mut ExecState, group: u32) {
    count_at_gate(exec, group, |gates| gates.arrived += 1);
    let releases = exec.role().order.releases();
    let threads = Threads::of_mut(&mut exec.warp.kept);
    let Some((threads, watch)) = threads.zip(ClusterWatch::of_mut(&mut exec.cluster.kept)) else { return };
    if releases {
        threads.release(group, &mut watch.gate);
    } else {
        lanes(group).filter_map(|lane| threads.prepared(lane)).for_each(|view| watch.gate.join(&view));
    }
}
