//! The watcher as an observer: each report goes to the file of its subject.

use super::order::{hear, message, release_at_barrier, release_at_gate};
use super::shadow::Shadow;
use super::threads::Threads;
use super::{BlockWatch, ClusterWatch, Watch, findings, follow, phases, tensor, tiles};
use crate::block::Block;
use crate::cluster::{Cluster, Shared};
use crate::ctx::{Ctx, Src};
use crate::fault::Fault;
use crate::kept::{Keeper, Kept, MbarrierPlace, Message};
use crate::map::Map;
use crate::mbarrier::Mbarrier;
use crate::observe::{Observer, Reasons, Touch};
use crate::program::Program;
use crate::role::Actor;
use crate::space::{Place, Where};
use crate::tmem::{Cells, Use};
use crate::warp::Warp;
use ptx_core::tensor::Swizzle;
use std::cell::RefCell;
use std::ops::Range;

impl Keeper for Watch {
    fn start_block(&self, cluster: &mut Kept, id: [u32; 3]) {
        let block = BlockWatch { number: self.number(id), ..BlockWatch::default() };
        if let Some(watch) = cluster.get_or_default::<ClusterWatch>() {
            watch.blocks.push(block);
        }
    }

    fn start_warp(&self, warp: &mut Kept, block: [u32; 3], index: u32) {
        *warp = Kept::new(RefCell::new(self.threads(block, index)));
    }

    fn is_quiet(&self) -> bool {
        self.vars.borrow().is_empty()
    }

    fn rewind(&self) {
        self.vars.borrow_mut().clear();
    }

    fn fork_memory(&self, kept: &mut Kept) -> Kept {
        kept.get_or_default().map_or_else(Kept::default, |shadow: &mut Shadow| Kept::new(shadow.fork()))
    }

    fn has_room_for(&self, mine: &Kept, theirs: &Kept) -> bool {
        let shadows = mine.get::<Shadow>().zip(theirs.get());
        shadows.is_some_and(|(mine, theirs)| mine.has_room_for(theirs))
    }

    fn take_over(&self, mine: &mut Kept, theirs: Kept) {
        if let Some((mine, theirs)) = mine.get_mut::<Shadow>().zip(theirs.take()) {
            mine.take_over(theirs);
        }
    }

    fn settle_memory(&self, kept: &mut Kept) {
        kept.get_mut().into_iter().for_each(Shadow::settle);
    }

    fn write_local(&self, warp: &mut Kept, lane: usize, bytes: Range<u64>, len: u64) {
        Threads::mark_local(warp, lane, bytes, len);
    }

    fn resize_local(&self, warp: &mut Kept, lane: usize, before: u64, after: u64) {
        Threads::clear_local(warp, lane, before, after);
    }

    fn meet(&self, warp: &mut Kept, group: u32, live: u32) {
        Threads::of_mut(warp).into_iter().for_each(|threads| threads.meet(group, live));
    }

    fn learn(&self, warp: &mut Kept, lanes: (u32, u32), message: &Message, acquires: bool) {
        hear(warp, lanes, message, acquires);
    }

    fn open_barrier(&self, cluster: &mut Kept, rank: usize, barrier: usize) -> Message {
        let block = ClusterWatch::of_mut(cluster)?.blocks.get_mut(rank)?;
        message(block.barriers.remove(&barrier)?.view())
    }

    fn open_gate(&self, cluster: &mut Kept) -> Message {
        let watch = ClusterWatch::of_mut(cluster)?;
        watch.opened = Some(watch.gate.shared());
        message(watch.opened.clone())
    }

    fn gate_message(&self, cluster: &Kept) -> Message {
        message(ClusterWatch::of(cluster)?.opened.clone())
    }

    fn complete_phase(&self, cluster: &mut Kept, place: MbarrierPlace, awaited: bool) -> Message {
        message(self.turn_phase(ClusterWatch::of_mut(cluster)?, place, awaited))
    }
}

impl Observer for Watch {
    fn finish_cluster(&self, map: Map, cluster: &Cluster) -> Result<(), Fault> {
        let Some(watch) = ClusterWatch::of(&cluster.shared.kept) else { return Ok(()) };
        findings::check_end(self, map, watch, cluster)
    }

    fn explain_phase(
        &self,
        program: &Program,
        shared: &Shared,
        phase: (MbarrierPlace, Mbarrier),
        blocks: &[(Block, Vec<Warp>)],
    ) -> Reasons {
        let watch = ClusterWatch::of(&shared.kept);
        watch.map_or_else(Reasons::default, |watch| findings::phase::reasons(program, watch, phase, blocks))
    }

    fn fork(&self) -> Box<dyn Observer> {
        Box::new(self.fresh())
    }

    fn check_guard(&self, ctx: &Ctx, group: u32, slot: u32) -> Result<(), Fault> {
        let blank = self.notes.at(ctx.warp.at).and_then(|note| note.blank.as_ref());
        if blank.is_some_and(|blank| blank.guard.is_some()) {
            findings::blank::check_guard(ctx, group, slot)?;
        }
        follow::check_guard(ctx, group, slot)
    }

    fn before(&self, ctx: &mut Ctx, active: u32) -> Result<(), Fault> {
        self.check_before(ctx, active)
    }

    fn after(&self, ctx: &mut Ctx, active: u32) {
        self.record_after(ctx, active);
    }

    fn exit(&self, ctx: &mut Ctx, group: u32) {
        findings::cluster::leave(ctx, group);
    }

    fn read(&self, ctx: &Ctx, touch: &Touch) -> Result<(), Fault> {
        self.look_at(ctx, touch)
    }

    fn write(&self, ctx: &mut Ctx, touch: &Touch) -> Result<(), Fault> {
        self.look_at(ctx, touch)?;
        self.mark(ctx, touch.place, touch.lanes, touch.size);
        Ok(())
    }

    fn read_row(&self, ctx: &Ctx, place: Place, size: u64) -> bool {
        self.look_at_row(ctx, place, size, false)
    }

    fn write_row(&self, ctx: &mut Ctx, place: Place, size: u64) -> bool {
        let fine = self.look_at_row(ctx, place, size, true);
        if fine {
            self.mark(ctx, place, 1, 32 * size);
        }
        fine
    }

    fn read_gaps(&self, ctx: &Ctx, touch: &Touch) -> Result<u64, Fault> {
        self.look_for_gaps(ctx, touch)
    }

    fn leave_gap(&self, ctx: &mut Ctx, registers: (u32, u32), touch: &Touch, byte: u64) {
        self.begin_gap(ctx, registers, touch, byte);
    }

    fn use_tensor(&self, ctx: &mut Ctx, rank: usize, lane: usize, cells: Cells, how: Use) -> Result<(), Fault> {
        self.look_at_cells(ctx, (rank, lane), cells, how)
    }

    fn allocate_columns(&self, ctx: &mut Ctx, rank: usize, column: u32, count: u32) {
        tensor::clear(ctx, rank, column, count);
    }

    fn note_tile(&self, ctx: &mut Ctx, at: u64, swizzle: Swizzle) {
        tiles::note(ctx, at, swizzle);
    }

    fn check_tile(&self, ctx: &Ctx, rank: usize, at: u64, swizzle: Swizzle) -> Result<(), Fault> {
        tiles::check(ctx, rank, at, swizzle)
    }

    fn check_sources(
        &self,
        ctx: &Ctx,
        group: u32,
        named: &dyn Fn(usize) -> u32,
        source: &dyn Fn(usize) -> usize,
    ) -> Result<(), Fault> {
        findings::lanes::check_sources(ctx, group, named, source)
    }

    fn shuffle(&self, ctx: &mut Ctx, registers: (u32, Src), group: u32, source: &dyn Fn(usize) -> usize) {
        if let Some(blank) = self.notes.at(ctx.warp.at).and_then(|note| note.blank.as_ref()) {
            blank.shuffle(ctx, registers, group, source);
        }
        follow::shuffle(ctx, registers, group, source);
    }

    fn arrive(&self, ctx: &mut Ctx, barrier: usize, group: u32) {
        release_at_barrier(ctx, barrier, group);
    }

    fn arrive_at_gate(&self, ctx: &mut Ctx, group: u32) {
        release_at_gate(ctx, group);
    }

    fn begin_mbarrier(&self, ctx: &mut Ctx, lane: usize, place: MbarrierPlace, at: u64) -> Result<(), Fault> {
        phases::begin(ctx, lane, place, at)
    }

    fn end_mbarrier(&self, ctx: &mut Ctx, place: MbarrierPlace) {
        phases::end(ctx, place);
    }

    fn use_mbarrier(&self, ctx: &Ctx, space: Where, lane: usize, at: u64) -> Result<(), Fault> {
        phases::check_begun(ctx, space, lane, at)
    }

    fn arrive_at_mbarrier(&self, ctx: &mut Ctx, lane: usize, place: MbarrierPlace) {
        phases::arrive(ctx, lane, place);
    }

    fn change_mbarrier(&self, ctx: &mut Ctx, lane: usize, place: MbarrierPlace, states: [Mbarrier; 2]) {
        phases::remember(ctx, lane, place, states);
    }

    fn see_phase(&self, ctx: &mut Ctx, lane: usize, place: MbarrierPlace) {
        phases::see(ctx, lane, place);
    }

    fn hand_over(&self, ctx: &mut Ctx, lane: usize, actor: Actor, place: MbarrierPlace) {
        phases::hand_over(ctx, lane, actor, place);
    }

    fn complete_on(&self, ctx: &mut Ctx, lane: usize, place: MbarrierPlace, at: u64) -> Result<(), Fault> {
        self.act_for(ctx, lane, place, at)
    }

    fn explain_misuse(&self, ctx: &Ctx, fault: Fault, place: MbarrierPlace) -> Fault {
        findings::mbarrier::explain_misuse(ctx, fault, place)
    }
}
