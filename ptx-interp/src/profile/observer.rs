//! The profiler as an observer: which instruction runs, and what it accesses.

use super::caches::Caches;
use super::counts::Counts;
use super::facts::{self, Fact, Precision, find_facts};
use super::open::{Access, Memory, Open};
use super::sample::Parts;
use super::{Line, Profile};
use crate::chip::Chip;
use crate::cluster::Cluster;
use crate::exec::ExecState;
use crate::fault::Fault;
use crate::kept::Keeper;
use crate::listing::{Code, Listing};
use crate::map::Map;
use crate::observe::{Nobody, Observer, Touch};
use crate::program::Program;
use crate::space::Place;
use crate::tmem::{Cells, Use};
use std::cell::RefCell;
use std::sync::Arc;

/// The profiler of a launch.
#[derive(Debug)]
pub(crate) struct Profiler {
    facts: Arc<[Fact]>,
    state: RefCell<State>,
}

/// The counters, and the instruction that runs.
#[derive(Debug)]
struct State {
    /// One for each instruction of the program.
    counts: Vec<Counts>,
    at: usize,
    /// The lanes that reached it.
    group: u32,
    open: Open,
    caches: Caches,
    /// The block that runs, and what each cluster has counted, of a sample.
    block: [u32; 3],
    parts: Option<Parts>,
}

impl State {
    /// Counts what the last instruction accessed.
    fn close(&mut self, facts: &[Fact]) {
        if let (Some(fact), Some(counts)) = (facts.get(self.at), self.counts.get_mut(self.at)) {
            self.open.close(fact, &mut self.caches, counts);
        }
    }

    /// Lanes have reached an instruction.
    fn begin(&mut self, facts: &[Fact], exec: &ExecState, group: u32) {
        self.close(facts);
        (self.at, self.group) = (exec.warp.at as usize, group);
        if self.block != exec.block.id {
            self.change_block(exec);
        }
        self.open.local = LOCAL + (u64::from(exec.warp.index) << WARP_BITS);
        if let Some(counts) = self.counts.get_mut(self.at) {
            counts.instructions += 1;
            counts.thread_instructions += u64::from(group.count_ones());
        }
    }

    #[cold]
    fn change_block(&mut self, exec: &ExecState) {
        let (id, [x, y, _]) = (exec.block.id.map(u64::from), exec.grid.grid.map(u64::from));
        self.caches.choose(id[0] + x * (id[1] + y * id[2]));
        if let Some(parts) = &mut self.parts {
            let cluster = std::array::from_fn(|d| exec.block.id[d] / exec.grid.cluster[d].max(1));
            parts.change(cluster, &self.counts);
        }
        self.block = exec.block.id;
    }

    fn add(&mut self, facts: &[Fact], access: Access) {
        self.open.accesses.push(access);
        if let (Some(fact), Some(counts)) = (facts.get(self.at), self.counts.get_mut(self.at)) {
            self.open.count_pieces(fact.way, &mut self.caches, counts);
        }
    }
}

/// Local memory in the caches: above all global memory, a part for each warp of a block. Blocks of one multiprocessor use the same
/// addresses after each other.
const LOCAL: u64 = 1 << 62;
const WARP_BITS: u32 = 24;

impl Profiler {
    /// The profiler of a launch on a chip, of whose multiprocessors each has so many bytes of shared memory in use; of a sample of the blocks
    /// if `samples`.
    pub(crate) fn new(program: &Program, chip: &Chip, shared: u64, samples: bool) -> Profiler {
        let guarded = |at: usize| program.instructions.get(at).is_some_and(|inst| inst.guard.is_some());
        let facts = find_facts(&program.listing, guarded);
        let state = State {
            counts: vec![Counts::default(); facts.len()],
            at: 0,
            group: 0,
            open: Open::default(),
            caches: Caches::new(chip, shared),
            block: [u32::MAX; 3],
            parts: samples.then(Parts::default),
        };
        Profiler { state: RefCell::new(state), facts: facts.into() }
    }

    /// The profile of what has run, one of so many parts of the grid.
    pub(crate) fn finish(self, listing: &Listing, (clusters, cluster): (u64, u64)) -> Profile {
        let mut state = self.state.into_inner();
        state.close(&self.facts);
        let sample = state.parts.take().map(|parts| parts.finish(&state.counts, clusters, cluster));
        let scale = sample.as_ref().map_or((1, 1), |sample| (sample.blocks, sample.ran));
        let mut profile = Profile { sample, ..Profile::default() };
        for (code, counts) in listing.code.iter().zip(&mut state.counts).filter(|(_, counts)| counts.instructions > 0) {
            count_flops(code, counts);
            let counts = counts.scaled(scale.0, scale.1);
            profile.totals.add(&counts);
            profile.instructions.push(Line {
                span: code.span,
                function: listing.function_name(code.function).unwrap_or_default(),
                name: code.name,
                family: facts::family(code),
                shape: facts::shape(code),
                counts,
            });
        }
        profile
    }

    fn note(&self, exec: &ExecState, touch: &Touch) {
        let is_own = touch.place.rank == exec.block.rank;
        if let Some(memory) = Memory::new(touch.place.space, is_own) {
            let Touch { place, lanes, size, writes, .. } = *touch;
            let access = Access { memory, writes, lanes, at: place.at, size, row: false };
            self.state.borrow_mut().add(&self.facts, access);
        }
    }

    fn note_row(&self, place: Place, size: u64, writes: bool) {
        if let Some(memory) = Memory::new(place.space, true) {
            let access = Access { memory, writes, lanes: u32::MAX, at: place.at, size, row: true };
            self.state.borrow_mut().add(&self.facts, access);
        }
    }
}

/// Adds the operations that follow from how often an instruction ran.
fn count_flops(code: &Code, counts: &mut Counts) {
    counts.flops_tensor += counts.instructions * facts::tensor_flops(code);
    if let Some((precision, operations)) = facts::thread_flops(code) {
        let flops = match precision {
            Precision::Double => &mut counts.flops_fp64,
            Precision::Single => &mut counts.flops_fp32,
            Precision::Half => &mut counts.flops_fp16,
        };
        *flops += counts.thread_instructions_pred_on * operations;
    }
}

impl Keeper for Profiler {
    fn follows(&self, _: [u32; 3]) -> bool {
        true
    }
}

impl Observer for Profiler {
    fn fork(&self) -> Box<dyn Observer> {
        // A profiled launch stays on one core.
        Box::new(Nobody)
    }

    fn check_guard(&self, exec: &ExecState, group: u32, _: u32) -> Result<(), Fault> {
        self.state.borrow_mut().begin(&self.facts, exec, group);
        Ok(())
    }

    fn before(&self, exec: &mut ExecState, active: u32) -> Result<(), Fault> {
        let Some(fact) = self.facts.get(exec.warp.at as usize) else { return Ok(()) };
        let mut state = self.state.borrow_mut();
        if !fact.guarded {
            state.begin(&self.facts, exec, active);
        }
        let (at, group) = (state.at, state.group);
        if let Some(counts) = state.counts.get_mut(at) {
            counts.thread_instructions_pred_on += u64::from(active.count_ones());
            counts.divergent_branches += u64::from(fact.control && active != group);
        }
        Ok(())
    }

    fn finish_cluster(&self, _: Map, _: &Cluster) -> Result<(), Fault> {
        self.state.borrow_mut().close(&self.facts);
        Ok(())
    }

    fn read(&self, exec: &ExecState, touch: &Touch) -> Result<(), Fault> {
        self.note(exec, touch);
        Ok(())
    }

    fn write(&self, exec: &mut ExecState, touch: &Touch) -> Result<(), Fault> {
        self.note(exec, touch);
        Ok(())
    }

    fn read_row(&self, _: &ExecState, place: Place, size: u64) -> bool {
        self.note_row(place, size, false);
        true
    }

    fn write_row(&self, _: &mut ExecState, place: Place, size: u64) -> bool {
        self.note_row(place, size, true);
        true
    }

    fn read_gaps(&self, exec: &ExecState, touch: &Touch) -> Result<u64, Fault> {
        self.note(exec, touch);
        Ok(0)
    }

    fn use_tensor(&self, _: &mut ExecState, _: usize, _: usize, cells: Cells, how: Use) -> Result<(), Fault> {
        let mut state = self.state.borrow_mut();
        let depth = self.facts.get(state.at).map_or(0, |fact| fact.depth);
        let at = state.at;
        if let (Use::Write | Use::Update, Some(counts)) = (how, state.counts.get_mut(at)) {
            /// Lanes of one bit of `Cells::groups`.
            const LANES: u64 = 16;
            counts.flops_tensor += u64::from(cells.groups.count_ones()) * LANES * u64::from(cells.count) * depth;
        }
        Ok(())
    }
}
