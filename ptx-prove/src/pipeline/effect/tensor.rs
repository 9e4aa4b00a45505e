//! `tcgen05`: products, copies and shifts that a thread issues, and the loads and stores of warps, in the tensor memory of a block.
//!
//! What a thread issues is complete for those who have waited at a barrier that `tcgen05.commit` arrives at, and reads matrices in shared memory until
//! then. Loads and stores of warps are compared with instructions that are issued for the same columns here, and with each other in `crate::tensor`.

use super::{Here, groups};
use crate::memory::count;
use crate::pipeline::code::Role;
use crate::pipeline::state::{Columns, Issued, State, Taken, Word};
use crate::pipeline::value::Value;
use crate::pipeline::walk::{Done, Halt};
use crate::signals::{COPIES, KINDS, lines_of};
use crate::tensor::SHAPES;
use ptx_target::descriptor::{Descriptor, Extents, Major};

/// Issued instructions that are executed in their order where one thread issues them: the first and the second.
const PIPES: [(Pipe, Pipe); 5] = [
    (Pipe::Product, Pipe::Product),
    (Pipe::Copy, Pipe::Product),
    (Pipe::Shift, Pipe::Product),
    (Pipe::Shift, Pipe::Copy),
    (Pipe::Product, Pipe::Shift),
];

/// The kinds of issued instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pipe {
    Product,
    Copy,
    Shift,
}

const NAMES: [(&str, Pipe); 3] =
    [("tcgen05.mma", Pipe::Product), ("tcgen05.cp", Pipe::Copy), ("tcgen05.shift", Pipe::Shift)];

/// Lanes of tensor memory, and the quarters that warps reach.
const LANES: u64 = 128;
const QUARTERS: usize = 4;
const LANES_OF_QUARTER: i128 = 32;

/// Columns that a copy writes for each 128 bits of a row, and those of a shift.
const COLUMNS_OF_PIECE: u64 = 4;
const COLUMNS_OF_SHIFT: u64 = 8;

/// Modifiers of loads and stores with two numbers in a register, whose columns are not described.
const PACKED: [&str; 2] = ["pack::16b", "unpack::16b"];

/// The component of what a warp has issued.
fn issued(state: &State, w: usize) -> usize {
    3 * state.warps.len() + w
}

impl Here<'_, '_, '_> {
    pub(super) fn tensor(&mut self) -> Result<Done, Halt> {
        match self.role() {
            Role::TensorAllocate => self.allocate(),
            Role::TensorFree => self.free(),
            Role::TensorLoad | Role::TensorStore => self.use_tensor(),
            Role::TensorWaitLoad | Role::TensorWaitStore => self.wait_tensor(),
            Role::TensorBefore => self.before_sync(),
            Role::TensorAfter => self.after_sync(),
            Role::TensorCommit => self.commit_issued(),
            _ => self.issue(),
        }
    }

    /// The slot in shared memory gets a name for the address of the columns.
    fn allocate(&mut self) -> Result<Done, Halt> {
        let (Some(to), Some(columns)) = (self.address("dst"), self.number("ncols")) else {
            return self.gap("the allocation of tensor memory is not described");
        };
        let lane = self.lanes.trailing_zeros() as usize;
        let Some(to) = to.at(lane).filter(|_| self.is_whole()) else {
            return self.gap("the allocation of tensor memory is not described");
        };
        let (block, to) = self.place(to);
        self.spares_barriers(block, (to, to + 4))?;
        let stages = &self.state.stages;
        if stages.iter().any(|stage| stage.block == block && stage.from < to + 4 && to < stage.to) {
            return self.gap("the address of tensor memory is stored where copies or products access memory");
        }
        let slots = &mut self.state.tensor.entry(block).or_default().slots;
        if slots.insert(to, columns as u32).is_some() {
            return self.gap("tensor memory that is allocated to one slot twice is not described");
        }
        let value = Value::term(self.walk.atoms.name(name_of(block, to)));
        let event = self.state.access(self.w, self.lanes);
        self.state.filled.add(block, (to, to + 4));
        self.state.words.insert((block, to), Word::new(value, event));
        Ok(Done::Next)
    }

    /// The slot of an address of columns, and what is added to it.
    fn slot(&mut self, name: &str) -> Option<(u32, i128)> {
        let value = match self.address(name) {
            Some(Value::Unknown) | None => self.source(name, 32)?,
            Some(address) => address,
        };
        let of = value.poly(self.lanes, 32)?;
        let slots: Vec<u32> = self.state.tensor.get(&self.block())?.slots.keys().copied().collect();
        slots.into_iter().find_map(|slot| {
            let own = self.walk.atoms.name(name_of(self.block(), slot));
            Some((slot, of.plus(&own, -1)?.known()?))
        })
    }

    /// Tensor memory is given back behind all that is issued and done there.
    fn free(&mut self) -> Result<Done, Halt> {
        let Some((slot, 0)) = self.slot("taddr") else {
            return self.gap("the address of tensor memory that is given back is not described");
        };
        let (block, clock) = (self.block(), self.state.known(self.w, self.lanes));
        let Some(tensor) = self.state.tensor.get_mut(&block) else { return Ok(Done::Next) };
        // Zero columns: the slot is not allocated a second time.
        tensor.slots.insert(slot, 0);
        let is_over = |taken: &Taken| taken.end().is_some_and(|(component, event)| clock.at(component) >= event);
        if tensor.issued.iter().any(|(own, event)| clock.at(own.component) < *event)
            || !tensor.taken.values().all(is_over)
        {
            return self.wrong(format!("{} may give tensor memory back while it is used", self.who()));
        }
        Ok(Done::Next)
    }

    /// A load or a store of a warp.
    fn use_tensor(&mut self) -> Result<Done, Halt> {
        let (block, w) = (self.block(), self.w);
        let (used, live) = (self.used_columns(), self.state.warps[w].live);
        let (lanes, fenced) = &self.state.warps[w].fenced;
        let is_behind = |own: &Issued, event: u32| live & !lanes == 0 && fenced.at(own.component) >= event;
        let meets = |own: &Issued| used.iter().any(|columns| columns.meet(&own.columns));
        let tensor = self.state.tensor.get(&block);
        if tensor.is_some_and(|tensor| tensor.issued.iter().any(|(own, event)| meets(own) && !is_behind(own, *event))) {
            return self.wrong(format!(
                "{} may use tensor memory before what was issued there is complete, or without a `tcgen05.fence::after_thread_sync`",
                self.who()
            ));
        }
        let is_load = self.role() == Role::TensorLoad;
        let taken = &mut self.state.tensor.entry(block).or_default().taken;
        for columns in used {
            let own = taken.entry((w, columns)).or_insert(Taken::Open([false; 2]));
            let mut open = own.open();
            open[usize::from(is_load)] = true;
            *own = Taken::Open(open);
        }
        match is_load {
            true => self.write(&Value::Unknown),
            false => self.fill_quarter(),
        }
        Ok(Done::Next)
    }

    /// The columns of a load or a store, with the lanes of its shape and the first one of them.
    fn columns(&mut self) -> Option<(Columns, [i128; 2])> {
        let registers = count(&self.site, self.operand("r")?);
        let [lanes, each] = self.site.one_of(&SHAPES).filter(|_| !PACKED.iter().any(|own| self.site.is(own)))?;
        let (slot, at) = self.slot("taddr")?;
        let from = (at & 0xffff) as u32;
        Some((Columns { slot, from, to: from + each as u32 * registers as u32 }, [lanes, at >> 16]))
    }

    /// The columns that a load or a store may use: all, where they are not described.
    fn used_columns(&mut self) -> Vec<Columns> {
        if let Some((columns, _)) = self.columns() {
            return vec![columns];
        }
        let slots = self.state.tensor.get(&self.block()).map(|tensor| tensor.slots.keys()).into_iter().flatten();
        slots.map(|slot| Columns { slot: *slot, from: 0, to: u32::MAX }).collect()
    }

    /// A store writes columns of its warp's quarter, if its shape has all lanes.
    fn fill_quarter(&mut self) {
        let Some((Columns { slot, from, to }, [lanes, lane])) = self.columns() else { return };
        let quarter = self.state.warps[self.w].index % QUARTERS;
        if lanes == LANES_OF_QUARTER && lane == quarter as i128 * LANES_OF_QUARTER {
            let block = self.block();
            self.state.tensor.entry(block).or_default().filled.add(quarter_of(slot, quarter), (from, to));
        }
    }

    /// A product or a copy writes columns. A product that adds to them needs sums there.
    fn fill(&mut self, new: &Issued, is_whole: bool) -> Result<(), Halt> {
        let lane = self.lanes.trailing_zeros() as usize;
        let adds = match self.source("enable_input_d", 1) {
            Some(value) => value.at(lane) != Some(0),
            None => false,
        };
        let Columns { slot, from, to } = new.columns;
        let columns = (from, to);
        let block = self.block();
        let filled = &mut self.state.tensor.entry(block).or_default().filled;
        let all = || (0..QUARTERS).map(|quarter| quarter_of(slot, quarter));
        if adds && !all().all(|quarter| filled.has(quarter, columns)) {
            return self.gap("a product may be added to tensor memory that nothing has written");
        }
        if is_whole && new.pipe != Pipe::Shift {
            all().for_each(|quarter| filled.add(quarter, columns));
        }
        Ok(())
    }

    fn wait_tensor(&mut self) -> Result<Done, Halt> {
        let (block, w) = (self.block(), self.w);
        let is_load = self.role() == Role::TensorWaitLoad;
        let event = self.state.access(w, self.lanes);
        let taken = self.state.tensor.get_mut(&block).map(|tensor| tensor.taken.iter_mut()).into_iter().flatten();
        for (_, own) in taken.filter(|((warp, _), _)| *warp == w) {
            if let Taken::Open(open) = own {
                open[usize::from(is_load)] = false;
                if *open == [false; 2] {
                    *own = Taken::Complete(event);
                }
            }
        }
        Ok(Done::Next)
    }

    /// Loads and stores that are complete come before what others issue behind this.
    fn before_sync(&mut self) -> Result<Done, Halt> {
        let (block, w) = (self.block(), self.w);
        if !self.is_whole() {
            return Ok(Done::Next);
        }
        let event = self.state.access(w, self.lanes);
        let taken = self.state.tensor.get_mut(&block).map(|tensor| tensor.taken.iter_mut()).into_iter().flatten();
        for (_, own) in taken.filter(|((warp, _), own)| *warp == w && matches!(own, Taken::Complete(_))) {
            *own = Taken::Fenced(event);
        }
        Ok(Done::Next)
    }

    fn after_sync(&mut self) -> Result<Done, Halt> {
        self.state.warps[self.w].fenced = (self.lanes, self.state.known(self.w, self.lanes));
        Ok(Done::Next)
    }

    /// Arrives when all that the thread has issued is complete.
    fn commit_issued(&mut self) -> Result<Done, Halt> {
        let component = issued(self.state, self.w);
        let owners = self.state.warps[self.w].tensor_lanes;
        if self.lanes.count_ones() != 1 {
            return self.gap("a `tcgen05.commit` of several lanes is not described");
        }
        let after = (owners == self.lanes).then(|| (component, self.state.events[component]));
        self.arrive_behind("mbar", after)?;
        Ok(Done::Next)
    }

    /// A product, a copy or a shift.
    fn issue(&mut self) -> Result<Done, Halt> {
        let Some((_, pipe)) = NAMES.iter().find(|(name, _)| *name == self.site.row.name) else {
            return self.gap(format!("`{}` is not described here", self.site.row.name));
        };
        let owners = self.state.warps[self.w].tensor_lanes;
        if self.lanes.count_ones() != 1 || owners != 0 && owners != self.lanes {
            return self.gap("`tcgen05` instructions of several lanes of a warp are not described");
        }
        self.state.warps[self.w].tensor_lanes = self.lanes;
        let component = issued(self.state, self.w);
        self.state.events[component] += 1;
        let event = (component, self.state.events[component]);
        let (rows, columns) = match pipe {
            Pipe::Product => self.factors(event)?,
            Pipe::Copy => self.copied(event)?,
            Pipe::Shift => (0, COLUMNS_OF_SHIFT),
        };
        let Some((slot, at)) = self.slot(if *pipe == Pipe::Product { "d" } else { "taddr" }) else {
            return self.gap("the address in tensor memory is not that of an allocation, plus a number");
        };
        let block = self.block();
        let room = self.state.tensor.get(&block).and_then(|tensor| tensor.slots.get(&slot)).copied().unwrap_or(0);
        if at < 0 || at + i128::from(columns) > room.into() {
            return self.gap("columns that are not allocated, or lanes behind the first one");
        }
        let columns = Columns { slot, from: at as u32, to: at as u32 + columns as u32 };
        let new = Issued { component, pipe: *pipe, columns };
        self.in_order(&new)?;
        self.fill(&new, rows == LANES)?;
        self.state.tensor.entry(block).or_default().issued.insert(new, event.1);
        Ok(Done::Next)
    }

    /// Checks that what is issued comes behind all that uses tensor memory before.
    fn in_order(&self, new: &Issued) -> Result<(), Halt> {
        let (lanes, fenced) = &self.state.warps[self.w].fenced;
        let known = |component: usize, event: u32| self.lanes & !lanes == 0 && fenced.at(component) >= event;
        let Some(tensor) = self.state.tensor.get(&self.block()) else { return Ok(()) };
        for ((warp, _), taken) in tensor.taken.iter().filter(|((_, columns), _)| columns.meet(&new.columns)) {
            let is_behind = match taken {
                Taken::Fenced((component, event)) => known(*component, *event),
                Taken::Complete(_) | Taken::Open(_) => false,
            };
            if !is_behind {
                let other = super::who(self.state, *warp);
                return self.wrong(format!("{} may use tensor memory while {other} loads or stores there: `tcgen05.wait`, `tcgen05.fence::before_thread_sync`, a barrier and `tcgen05.fence::after_thread_sync` have to be between them", self.who()));
            }
        }
        for (old, event) in &tensor.issued {
            let is_piped = old.component == new.component && PIPES.contains(&(old.pipe, new.pipe));
            let is_same = old.columns == new.columns;
            let is_apart = !old.columns.meet(&new.columns);
            let are_products = (old.pipe, new.pipe) == (Pipe::Product, Pipe::Product);
            if is_piped && (!are_products || is_same) || is_apart || known(old.component, *event) {
                continue;
            }
            return self.wrong(format!(
                "{} issues this perhaps before what was issued for the same columns is complete",
                self.who()
            ));
        }
        Ok(())
    }

    /// The matrices of a product in shared memory; its rows and columns.
    fn factors(&mut self, event: (usize, u32)) -> Result<(u64, u64), Halt> {
        let word = self.number("idesc").and_then(|word| u32::try_from(word).ok());
        let (Some(bits), Some(word)) = (self.site.one_of(&KINDS), word) else {
            return self.gap("this form of `tcgen05.mma` is not described here");
        };
        if self.operand("a_desc").is_none() {
            return self.gap("a product with a factor in tensor memory is not described");
        }
        let Extents { m, n, majors } = Extents::of(word);
        for (name, major, lines) in [("a_desc", majors[0], m), ("b_desc", majors[1], n)] {
            self.use_matrix(name, (major, lines_of(major, lines, bits)), event)?;
        }
        Ok((m, n))
    }

    /// The rows of a copy in shared memory; their number, and its columns.
    fn copied(&mut self, event: (usize, u32)) -> Result<(u64, u64), Halt> {
        let Some([rows, pieces]) = self.site.one_of(&COPIES) else {
            return self.gap("this shape of `tcgen05.cp` is not described here");
        };
        self.use_matrix("s_desc", (Major::K, [rows, pieces]), event)?;
        Ok((rows, pieces * COLUMNS_OF_PIECE))
    }

    fn use_matrix(&mut self, name: &str, (major, size): (Major, [u64; 2]), event: (usize, u32)) -> Result<(), Halt> {
        let lane = self.lanes.trailing_zeros() as usize;
        let Some(bits) = self.source(name, 64).and_then(|value| value.at(lane)) else {
            return self
                .gap("the descriptor of a matrix in shared memory is not a number: it depends on sizes or on memory");
        };
        match Descriptor::tcgen05(bits) {
            Ok(descriptor) => {
                let range = groups::bytes_of(self.walk.code, &descriptor, major, size);
                self.use_stage(range, event)
            }
            Err(text) => self.wrong(text),
        }
    }
}

/// The number of a slot's columns in a quarter of the lanes.
fn quarter_of(slot: u32, quarter: usize) -> usize {
    slot as usize * QUARTERS + quarter
}

/// The name of the address that a slot gets.
fn name_of(block: usize, slot: u32) -> String {
    format!("%tensor.{block}.{slot}")
}
