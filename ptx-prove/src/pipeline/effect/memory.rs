//! Accesses to shared memory, and copies to it: each stage is written behind all that uses it, and used behind what writes it.

use super::barrier::Change;
use super::{Here, Place, bulk};
use crate::pipeline::code::Role;
use crate::pipeline::needs::Of;
use crate::pipeline::state::{Clock, Stage, Word, Written};
use crate::pipeline::term::Poly;
use crate::pipeline::value::{LANES, Value, active};
use crate::pipeline::walk::{Done, Halt};
use ptx_core::ir::Operand;
use ptx_target::sort::SortSmall;

/// Bytes of a barrier, and of a word.
const BARRIER: u32 = 8;
const WORD: u32 = 4;

/// The modifiers of accesses to rows of matrices, each of 16 bytes.
const MATRICES: [&str; 3] = ["m8n8", "m8n16", "m16n8"];

impl Here<'_, '_, '_> {
    /// The blocks of a copy: those of its mask, or the own one.
    fn destinations(&mut self) -> Result<Option<Vec<usize>>, Halt> {
        match (self.operand("mask"), self.operand("mask32")) {
            (None, None) => Ok(None),
            (None, Some(_)) => self.gap("a multicast to more than 16 blocks is not described"),
            (Some(_), _) => match self.number("mask") {
                Some(mask) => {
                    let blocks: Vec<usize> = (0..16).filter(|block| mask >> block & 1 == 1).collect();
                    match blocks.iter().all(|block| *block < self.state.ended.len()) {
                        true => Ok(Some(blocks)),
                        false => self.wrong("the mask names a block that the cluster does not have"),
                    }
                }
                None => self.gap("the mask of the multicast is not a number"),
            },
        }
    }

    /// Bytes of a box of the tensor map in these brackets.
    pub(super) fn box_of(&mut self, name: &str) -> Result<u64, Halt> {
        let Some(address) = self.address(name) else { return self.gap("the tensor map is not described") };
        let address = address.poly(self.lanes, 64);
        let name = address.map(|address| self.walk.atoms.show(&address)).unwrap_or_default();
        let name = name.trim_start_matches('&').to_owned();
        match self.walk.boxes.get(&name) {
            Some(bytes) => Ok(*bytes),
            None if name.is_empty() => self.gap("the tensor map is chosen at run time"),
            None => self.gap(format!(
                "the size of the boxes of the tensor map `{name}` is not known; help: say its bytes, such as `--box {name}=8192`"
            )),
        }
    }

    pub(super) fn copy(&mut self) -> Result<Done, Halt> {
        let size = match self.role() {
            Role::CopyTensor => self.box_of("map")?,
            _ => match self.number("size") {
                Some(bytes) => bytes,
                None => {
                    return self.gap(
                        "the number of copied bytes depends on sizes, so that the bytes of a stage are not known",
                    );
                }
            },
        };
        let (Some(to), Some(bar)) = (self.address("dst"), self.address("mbar")) else {
            return self.gap("the copy is not described");
        };
        let blocks = self.destinations()?;
        for lane in active(self.lanes) {
            let (Some(to), Some(bar)) = (to.at(lane), bar.at(lane)) else {
                return self.gap("the address of the stage is not a number: it depends on sizes or on memory");
            };
            let ((own, to), (signalled, bar)) = (self.place(to), self.place(bar));
            if blocks.is_none() && own != signalled {
                return self.gap("a copy that signals another block than its destination is not described");
            }
            for block in blocks.clone().unwrap_or_else(|| vec![own]) {
                if self.state.barriers.get(&(block, bar)).is_some_and(|barrier| !barrier.is_fenced) {
                    return self.gap(
                        "no `fence.mbarrier_init.release.cluster` is behind the initialization of the barrier of the copy",
                    );
                }
                self.write_stage((block, to, to + size as u32), bar)?;
                let bytes = Some((Poly::number(size.into()), -1));
                self.count((block, bar), Change { bytes, ..Change::default() })?;
            }
        }
        Ok(Done::Next)
    }

    /// Checks that bytes are not those of a barrier, at any time.
    pub(super) fn spares_barriers(&self, block: usize, (from, to): (u32, u32)) -> Result<(), Halt> {
        let meets = |(own, at): &Place| *own == block && from < at + BARRIER && *at < to;
        match self.walk.marks.iter().any(meets) {
            true => self.wrong("an access of the bytes of a barrier"),
            false => Ok(()),
        }
    }

    /// The bytes as words.
    fn bytes(&self, stage: &Stage, (from, to): (u32, u32)) -> String {
        let first = self.walk.code.first();
        format!(
            "bytes {}..{} of shared memory",
            stage.from.max(from).saturating_sub(first),
            stage.to.min(to).saturating_sub(first)
        )
    }

    /// A copy begins to write bytes; they are there when the current phase of the barrier is complete.
    fn write_stage(&mut self, (block, from, to): (usize, u32, u32), bar: u32) -> Result<(), Halt> {
        self.ready((block, bar))?;
        self.spares_barriers(block, (from, to))?;
        let clock = self.state.known(self.w, self.lanes);
        let mut stages = std::mem::take(&mut self.state.stages);
        for stage in stages.iter().filter(|stage| stage.block == block && stage.from < to && from < stage.to) {
            let bytes = self.bytes(stage, (from, to));
            let who = self.who();
            if !self.is_read(stage, &clock, |_| true) {
                return self.wrong(format!("the copy of {who} may overwrite {bytes} before they are read"));
            }
            // A read is behind the copy, and so is what is behind a read.
            if stage.reads.is_empty() && !self.is_full(stage, &clock) {
                return self.wrong(format!("the copy of {who} may overwrite {bytes} while another copy writes them"));
            }
            if !self.sees_writes(stage, &clock) {
                return self.wrong(format!(
                    "the copy of {who} may come before stores to {bytes}: they are not behind it with a `fence.proxy.async`"
                ));
            }
        }
        stages.retain(|stage| !(stage.block == block && from <= stage.from && stage.to <= to));
        let full = self.state.barriers.get(&(block, bar)).map_or((0, 0), |own| (own.component + 1, own.phase + 1));
        self.walk.ranges.insert((block, from, to));
        self.state.filled.add(block, (from, to));
        stages.push(Stage::new((block, from, to), full));
        self.state.stages = stages;
        for (_, word) in self.state.words.iter_mut().filter(|(place, _)| overlaps(**place, (block, from, to))) {
            (word.value, word.is_torn) = (Value::Unknown, true);
        }
        Ok(())
    }

    /// Returns true if a clock is behind the copy to a stage.
    fn is_full(&self, stage: &Stage, clock: &Clock) -> bool {
        self.walk.is_behind(self.state, self.w, clock, ((stage.full.0, Of::Phase), stage.full.1))
    }

    /// Returns true if a clock is behind the reads of a stage in these components.
    fn is_read(&self, stage: &Stage, clock: &Clock, chosen: impl Fn(usize) -> bool) -> bool {
        let reads = stage.reads.iter().filter(|(component, _)| chosen(**component));
        self.is_behind_reads((stage.block, stage.from), reads, clock)
    }

    /// Returns true if a clock is behind the reads of a place. All are looked at, so that all events that are missed are found at once.
    fn is_behind_reads<'r>(
        &self,
        place: Place,
        reads: impl Iterator<Item = (&'r usize, &'r u32)>,
        clock: &Clock,
    ) -> bool {
        let is_open = |(component, event): &(&usize, &u32)| {
            !self.walk.is_behind(self.state, self.w, clock, ((**component, Of::Read(place)), **event))
        };
        reads.filter(is_open).count() == 0
    }

    /// Returns true if a clock is behind all writes of instructions to a stage, and behind fences that show them to copies and products.
    fn sees_writes(&self, stage: &Stage, clock: &Clock) -> bool {
        let place = (stage.block, stage.from);
        let is_behind = |component: usize, of: Of, event: u32| {
            self.walk.is_behind(self.state, self.w, clock, ((component, of), event))
        };
        let is_hidden = |(component, written): &(&usize, &Written)| {
            let write = (**component, Of::Written(place));
            let shows = |(component, event): (&usize, &u32)| is_behind(*component, Of::Shown(place), *event);
            let is_shown = match written.fences.is_empty() {
                false => written.fences.iter().any(shows),
                // The thread of a fence may not have been behind it.
                true => self.walk.may_come_behind(self.state, self.w, write),
            };
            !(is_behind(write.0, write.1, written.event) && is_shown)
        };
        stage.writes.iter().filter(is_hidden).count() == 0
    }

    /// A copy from bytes of the own block, or a product of them, begins: an event of the component of its group.
    pub(super) fn use_stage(&mut self, (from, to): (u32, u32), event: (usize, u32)) -> Result<(), Halt> {
        let (block, clock) = (self.block(), self.state.known(self.w, self.lanes));
        self.spares_barriers(block, (from, to))?;
        self.walk.ranges.insert((block, from, to));
        if !self.state.filled.has(block, (from, to)) {
            return self.gap("a copy or a product may read bytes of shared memory that nothing has written");
        }
        if !self.state.stages.iter().any(|stage| stage.block == block && stage.from <= from && to <= stage.to) {
            self.state.stages.push(Stage::new((block, from, to), (0, 0)));
        }
        for at in 0..self.state.stages.len() {
            let stage = &self.state.stages[at];
            if stage.block != block || stage.from >= to || from >= stage.to {
                continue;
            }
            if !self.is_full(stage, &clock) {
                let bytes = self.bytes(stage, (from, to));
                return self.wrong(format!("{} may use {bytes} before the copy to them is complete", self.who()));
            }
            if !self.sees_writes(stage, &clock) {
                let bytes = self.bytes(stage, (from, to));
                return self.wrong(format!(
                    "{} may use {bytes} before they are stored, or without a `fence.proxy.async` behind the stores",
                    self.who()
                ));
            }
            let last = self.state.stages[at].reads.entry(event.0).or_insert(0);
            *last = event.1.max(*last);
        }
        Ok(())
    }

    /// An access of instructions to bytes of the own block.
    fn access_stage(&mut self, (from, to): (u32, u32), is_read: bool, event: (usize, u32)) -> Result<(), Halt> {
        let (block, clock) = (self.block(), self.state.known(self.w, self.lanes));
        let groups = bulk(self.state, 0)..super::components(self.state.warps.len(), self.state.ended.len());
        for at in 0..self.state.stages.len() {
            let stage = &self.state.stages[at];
            if stage.block != block || stage.from >= to || from >= stage.to {
                continue;
            }
            if !self.is_full(stage, &clock) {
                let bytes = self.bytes(stage, (from, to));
                return self.wrong(format!("{} may access {bytes} before the copy to them is complete", self.who()));
            }
            if !is_read && !self.is_read(stage, &clock, |component| groups.contains(&component)) {
                let bytes = self.bytes(stage, (from, to));
                return self
                    .wrong(format!("{} may overwrite {bytes} while a copy or a product reads them", self.who()));
            }
            let stage = &mut self.state.stages[at];
            match is_read {
                true => drop(stage.reads.insert(event.0, event.1)),
                false => drop(stage.writes.insert(event.0, Written::new(event.1))),
            }
        }
        Ok(())
    }

    /// Bytes of an access by each lane, from the first to the last.
    fn accessed(&mut self) -> Result<Vec<(u32, u32)>, Halt> {
        let memory = self.site.inst.operands.iter().find(|operand| matches!(operand, Operand::Memory { .. }));
        let Some(memory) = memory else { return self.gap("the access is not described") };
        let address = self.walk.address(self.state, self.w, memory);
        let vector = [("v2", 2), ("v4", 4), ("v8", 8)];
        let size = match self.site.modifiers().any(|own| MATRICES.contains(&own)) {
            true => 16,
            false => self.site.last_type().map_or(16, |ty| ty.bytes() as u32) * self.site.one_of(&vector).unwrap_or(1),
        };
        // Of matrices the first lanes have the addresses of rows.
        let rows =
            [("x1", 8), ("x2", 16)].into_iter().find(|(count, _)| self.site.is(count)).map_or(LANES, |(_, rows)| rows);
        let rows = if self.site.modifiers().any(|own| MATRICES.contains(&own)) { rows } else { LANES };
        let mut ranges = Vec::new();
        for lane in active(self.lanes).filter(|lane| *lane < rows) {
            match address.at(lane) {
                Some(own) if own >> 24 == 0 => ranges.push((own as u32, own as u32 + size)),
                Some(_) => return self.gap("an access of another block's shared memory is not described"),
                None => {
                    return self
                        .gap("the address in shared memory is not a number, so that the access may be to a stage");
                }
            }
        }
        ranges.sort_small();
        ranges.dedup();
        Ok(ranges)
    }

    pub(super) fn access(&mut self) -> Result<Done, Halt> {
        let is_read = self.role() == Role::ReadShared;
        let ranges = self.accessed()?;
        let block = self.block();
        ranges.iter().try_for_each(|range| self.spares_barriers(block, *range))?;
        let stages = &self.state.stages;
        let touches = |(from, to): &(u32, u32)| {
            stages.iter().any(|stage| stage.block == block && stage.from < *to && *from < stage.to)
        };
        if ranges.iter().any(touches) {
            let event = self.state.access(self.w, self.lanes);
            for range in &ranges {
                self.access_stage(*range, is_read, event)?;
            }
        }
        if !is_read {
            self.store_words(&ranges)?;
            ranges.iter().for_each(|range| self.state.filled.add(block, *range));
            return Ok(Done::Next);
        }
        if !ranges.iter().all(|range| self.state.filled.has(block, *range)) {
            self.walk.unwritten.insert(self.at);
        }
        self.load_words(&ranges);
        Ok(Done::Next)
    }

    /// The values of a read, as far as they are those of stores that are known.
    fn load_words(&mut self, ranges: &[(u32, u32)]) {
        self.write(&Value::Unknown);
        let [(from, to)] = *ranges else { return };
        let clock = self.state.known(self.w, self.lanes);
        let block = self.block();
        let mut taken = Vec::new();
        let count = elements(self.site.operand(0)).len() as u32;
        for (place, register) in (from..to).step_by(WORD as usize).zip(elements(self.site.operand(0))) {
            let word = self.state.words.get(&(block, place));
            if let (Operand::Reg(register), Some(word)) = (register, word)
                && to - from == WORD * count
                && clock.at(word.event.0) >= word.event.1
                && word.value != Value::Unknown
            {
                taken.push((place, *register, word.value.clone()));
            }
        }
        if taken.is_empty() {
            return;
        }
        let (component, event) = self.state.access(self.w, self.lanes);
        let live = self.state.warps[self.w].live;
        for (place, register, value) in taken {
            self.walk.set(self.state, self.w, register, value, (self.lanes, live));
            if let Some(word) = self.state.words.get_mut(&(block, place)) {
                word.reads.insert(component, event);
            }
        }
    }

    /// A store to words: one of a thread gives them values.
    fn store_words(&mut self, ranges: &[(u32, u32)]) -> Result<(), Halt> {
        let block = self.block();
        let is_stored = |place: &Place| ranges.iter().any(|(from, to)| overlaps(*place, (block, *from, *to)));
        let old: Vec<Place> = self.state.words.keys().copied().filter(is_stored).collect();
        let of_thread = match *ranges {
            [(from, to)] if self.lanes.count_ones() == 1 => {
                let stored = self.operand("b").filter(|of| to - from == WORD * elements(of).len() as u32);
                stored.map(|of| (from, of))
            }
            _ => None,
        };
        if old.is_empty() && of_thread.is_none() {
            return Ok(());
        }
        let event = self.state.access(self.w, self.lanes);
        old.iter().try_for_each(|place| self.overwrite(*place, event))?;
        for (at, source) in
            of_thread.into_iter().flat_map(|(from, of)| (from..).step_by(WORD as usize).zip(elements(of)))
        {
            // A register that nothing reads behind a load has no value here.
            let value = match source {
                Operand::Reg(register) if !self.walk.code.live_at(self.at).contains(&register.0) => Value::Unknown,
                _ => self.walk.source(self.state, self.w, source, 32),
            };
            let value = value.poly(self.lanes, 32).map_or(Value::Unknown, Value::term);
            // Bytes without a word may have been written in another order.
            let is_torn = self.state.filled.meets(block, (at, at + WORD));
            let new = Word { is_torn, ..Word::new(Value::Unknown, event) };
            let word = self.state.words.entry((block, at)).or_insert(new);
            if !word.is_torn {
                word.value = value;
            }
        }
        Ok(())
    }

    /// The value of a word ends, behind all reads that have got it: no order of the events gives them another one.
    fn overwrite(&mut self, place: Place, event: (usize, u32)) -> Result<(), Halt> {
        let clock = self.state.known(self.w, self.lanes);
        let Some(word) = self.state.words.get(&place) else { return Ok(()) };
        if !self.is_behind_reads(place, word.reads.iter(), &clock) {
            let at = place.1.saturating_sub(self.walk.code.first());
            return self.wrong(format!(
                "{} may overwrite the word at byte {at} of shared memory before it is read",
                self.who()
            ));
        }
        let is_torn = word.is_torn || clock.at(word.event.0) < word.event.1;
        self.state.words.insert(place, Word { is_torn, ..Word::new(Value::Unknown, event) });
        Ok(())
    }

    /// `st.async`: a word to a block, counted at a barrier there.
    pub(super) fn send(&mut self) -> Result<Done, Halt> {
        let (Some(to), Some(bar)) = (self.address("a"), self.address("mbar")) else {
            return self.gap("the store is not described");
        };
        let vector = [("v2", 2), ("v4", 4)];
        let size = self.site.last_type().map_or(4, |ty| ty.bytes() as u32) * self.site.one_of(&vector).unwrap_or(1);
        let value = match self.operand("b") {
            Some(Operand::Vector(_)) | None => Value::Unknown,
            Some(_) => self.source("b", 32).unwrap_or(Value::Unknown),
        };
        for lane in active(self.lanes) {
            let (Some(to), Some(bar)) = (to.at(lane), bar.at(lane)) else {
                return self.gap("the address of the word is not a number");
            };
            let (to, bar) = (self.place(to), self.place(bar));
            if to.0 != bar.0 {
                return self.gap("a store that signals another block than its destination is not described");
            }
            self.write_stage((to.0, to.1, to.1 + size), bar.1)?;
            let event = self.state.barriers.get(&bar).map_or((0, 0), |own| (own.component + 1, own.phase + 1));
            let own = value.poly(1 << lane, 32).map_or(Value::Unknown, Value::term);
            // A copy is behind all that uses the bytes before.
            self.state.words.insert(to, Word::new(own, event));
            let bytes = Some((Poly::number(size.into()), -1));
            self.count(bar, Change { bytes, ..Change::default() })?;
        }
        Ok(Done::Next)
    }
}

/// Returns true if a word has one of the bytes.
fn overlaps((own, word): Place, (block, from, to): (usize, u32, u32)) -> bool {
    own == block && from < word + WORD && word < to
}

/// The parts of a vector, or the operand itself.
fn elements(operand: &Operand) -> &[Operand] {
    match operand {
        Operand::Vector(all) => all,
        other => std::slice::from_ref(other),
    }
}
