//! The watcher as an observer: each report goes to the file of its subject.

use super::order::{hear, message, release_at_barrier, release_at_gate};
use super::shadow::Shadow;
use super::threads::Threads;
use super::{BlockWatch, ClusterWatch, Watch, findings, follow, phases, tensor, tiles};
use crate::block::Block;
use crate::cluster::{Cluster, Shared};
use crate::exec::{ExecState, Src};
use crate::fault::Fault;
use crate::kept::{Keeper, Kept, MbarrierPlace, Message};
use crate::listing::Listing;
use crate::map::Map;
use crate::mbarrier::Mbarrier;
use crate::observe::{Observer, Reasons, Touch};
use crate::role::Actor;
use crate::space::{Place, Where};
use crate::tmem::{Cells, Use};
use crate::warp::Warp;
use ptx_target::tensor::Swizzle;
use std::cell::RefCell;
use std::ops::Range;

impl Keeper for Watch {
    fn start_block(&self, cluster: &mut Kept, id: [u32; 3]) {
        let block = BlockWatch { number: self.own.number(id), ..BlockWatch::default() };
        if let Some(watch) = cluster.get_or_default::<ClusterWatch>() {
            watch.blocks.push(block);
        }
    }

    fn start_warp(&self, warp: &mut Kept, block: [u32; 3], index: u32) {
        *warp = Kept::new(RefCell::new(self.threads(block, index)));
    }

    fn is_quiet(&self) -> bool {
        self.together().vars.is_empty()
    }

    fn rewind(&self) {
        self.together().vars.clear();
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
        listing: &Listing,
        shared: &Shared,
        phase: (MbarrierPlace, Mbarrier),
        blocks: &[(Block, Vec<Warp>)],
    ) -> Reasons {
        let watch = ClusterWatch::of(&shared.kept);
        watch.map_or_else(Reasons::default, |watch| findings::phase::reasons(listing, (watch, shared), phase, blocks))
    }

    fn fork(&self) -> Box<dyn Observer> {
        Box::new(self.fresh())
    }

    fn check_guard(&self, exec: &ExecState, group: u32, slot: u32) -> Result<(), Fault> {
        let note = self.notes.at(exec.warp.at);
        if let Some(noted) = note.and_then(|note| note.annotations.as_ref()) {
            findings::annotation::check_guard(exec, group, slot, noted)?;
        }
        let blank = note.and_then(|note| note.blank.as_ref());
        if blank.is_some_and(|blank| blank.guard.is_some()) {
            findings::blank::check_guard(exec, group, slot)?;
        }
        follow::check_guard(exec, group, slot)
    }

    fn before(&self, exec: &mut ExecState, active: u32) -> Result<(), Fault> {
        self.check_before(exec, active)
    }

    fn after(&self, exec: &mut ExecState, active: u32) -> Result<(), Fault> {
        self.record_after(exec, active);
        let noted = self.notes.at(exec.warp.at).and_then(|note| note.annotations.as_ref());
        noted.map_or(Ok(()), |noted| findings::annotation::check_after(exec, active, noted))
    }

    fn exit(&self, exec: &mut ExecState, group: u32) {
        findings::cluster::leave(exec, group);
        if let Some((ended, threads)) = self.ended.as_ref().zip(Threads::of_mut(&mut exec.warp.kept)) {
            threads.release(group, &mut ended.borrow_mut());
        }
    }

    fn read(&self, exec: &ExecState, touch: &Touch) -> Result<(), Fault> {
        self.look_at(exec, touch)
    }

    fn write(&self, exec: &mut ExecState, touch: &Touch) -> Result<(), Fault> {
        self.look_at(exec, touch)?;
        self.mark(exec, touch.place, touch.lanes, touch.size);
        Ok(())
    }

    fn read_row(&self, exec: &ExecState, place: Place, size: u64) -> bool {
        self.look_at_row(exec, place, size, false)
    }

    fn write_row(&self, exec: &mut ExecState, place: Place, size: u64) -> bool {
        let fine = self.look_at_row(exec, place, size, true);
        if fine {
            self.mark(exec, place, 1, 32 * size);
        }
        fine
    }

    fn read_gaps(&self, exec: &ExecState, touch: &Touch) -> Result<u64, Fault> {
        self.look_for_gaps(exec, touch)
    }

    fn leave_gap(&self, exec: &mut ExecState, registers: (u32, u32), touch: &Touch, byte: u64) {
        self.begin_gap(exec, registers, touch, byte);
    }

    fn use_tensor(&self, exec: &mut ExecState, rank: usize, lane: usize, cells: Cells, how: Use) -> Result<(), Fault> {
        self.look_at_cells(exec, (rank, lane), cells, how)
    }

    fn allocate_columns(&self, exec: &mut ExecState, rank: usize, column: u32, count: u32) {
        tensor::clear(exec, rank, column, count);
    }

    fn note_pair(&self, exec: &mut ExecState, first: u32) {
        tensor::note_pair(exec, first);
    }

    fn part_pair(&self, exec: &ExecState, first: u32) -> Result<(), Fault> {
        self.check_pair(exec, first)
    }

    fn note_tile(&self, exec: &mut ExecState, at: u64, swizzle: Swizzle) {
        tiles::note(exec, at, swizzle);
    }

    fn check_tile(&self, exec: &ExecState, rank: usize, at: u64, swizzle: Swizzle) -> Result<(), Fault> {
        tiles::check_tile(exec, rank, at, swizzle)
    }

    fn check_sources(
        &self,
        exec: &ExecState,
        group: u32,
        named: &dyn Fn(usize) -> u32,
        source: &dyn Fn(usize) -> usize,
    ) -> Result<(), Fault> {
        findings::lanes::check_sources(exec, group, named, source)
    }

    fn shuffle(&self, exec: &mut ExecState, registers: (u32, Src), group: u32, source: &dyn Fn(usize) -> usize) {
        if let Some(blank) = self.notes.at(exec.warp.at).and_then(|note| note.blank.as_ref()) {
            blank.shuffle(exec, registers, group, source);
        }
        follow::shuffle(exec, registers, group, source);
    }

    fn arrive(&self, exec: &mut ExecState, barrier: usize, group: u32) {
        release_at_barrier(exec, barrier, group);
    }

    fn arrive_at_gate(&self, exec: &mut ExecState, group: u32) {
        release_at_gate(exec, group);
    }

    fn begin_mbarrier(&self, exec: &mut ExecState, lane: usize, place: MbarrierPlace, at: u64) -> Result<(), Fault> {
        phases::begin(exec, lane, place, at)
    }

    fn end_mbarrier(&self, exec: &mut ExecState, place: MbarrierPlace) {
        phases::end(exec, place);
    }

    fn use_mbarrier(&self, exec: &ExecState, space: Where, lane: usize, at: u64) -> Result<(), Fault> {
        match phases::begun_access(exec, space, lane, at)? {
            Some(touch) => self.read(exec, &touch),
            None => Ok(()),
        }
    }

    fn arrive_at_mbarrier(&self, exec: &mut ExecState, lane: usize, place: MbarrierPlace) {
        phases::arrive(exec, lane, place);
    }

    fn change_mbarrier(&self, exec: &mut ExecState, lane: usize, place: MbarrierPlace, states: [Mbarrier; 2]) {
        phases::remember(exec, lane, place, states);
    }

    fn see_phase(&self, exec: &mut ExecState, lane: usize, place: MbarrierPlace) {
        phases::see(exec, lane, place);
    }

    fn hand_over(&self, exec: &mut ExecState, lane: usize, actor: Actor, place: MbarrierPlace) {
        phases::hand_over(exec, lane, actor, place);
    }

    fn complete_on(&self, exec: &mut ExecState, lane: usize, place: MbarrierPlace, at: u64) -> Result<(), Fault> {
        self.act_for(exec, lane, place, at)
    }

    fn explain_misuse(&self, exec: &ExecState, fault: Fault, place: MbarrierPlace) -> Fault {
        findings::mbarrier::explain_misuse(exec, fault, place)
    }
}
