//! Groups of asynchronous operations: of bulk copies by a thread, and of products by a warp group.

use super::Here;
use crate::pipeline::code::Code;
use crate::pipeline::state::State;
use crate::pipeline::walk::{Done, Halt};
use ptx_target::descriptor::{Descriptor, Major};

/// The component of a warp's bulk groups.
pub(crate) fn bulk(state: &State, w: usize) -> usize {
    2 * state.warps.len() + w
}

/// The component of the `wgmma` groups of a warp group, with so many warps.
pub(crate) fn tensor_of(warps: usize, block: usize, group: usize) -> usize {
    4 * warps + block * GROUPS + group
}

/// Warp groups of a block of 1024 threads.
const GROUPS: usize = 8;

/// The number of components before those of barriers, with so many warps in so many blocks.
pub(crate) fn components(warps: usize, blocks: usize) -> usize {
    4 * warps + GROUPS * blocks
}

impl Here<'_, '_, '_> {
    /// The component of the `wgmma` groups of a warp's warp group.
    fn groups(&self) -> usize {
        let warp = &self.state.warps[self.w];
        tensor_of(self.state.warps.len(), warp.block, warp.index / 4)
    }

    pub(super) fn store_tensor(&mut self) -> Result<Done, Halt> {
        let Some(from) = self.address("src") else { return self.gap("the copy is not described") };
        let size = match self.operand("size") {
            Some(_) => self.number("size"),
            None => Some(self.box_of(if self.operand("map").is_some() { "map" } else { "dst" })?),
        };
        let Some(size) = size else { return self.gap("the number of copied bytes is not a number") };
        let warp = &mut self.state.warps[self.w];
        if warp.bulk_lanes != 0 && warp.bulk_lanes != self.lanes {
            return self.gap("bulk copies of different lanes of a warp are not described");
        }
        warp.bulk_lanes = self.lanes;
        warp.stored = warp.bulk + 1;
        let event = (bulk(self.state, self.w), self.state.warps[self.w].bulk + 1);
        let is_behind = self.is_behind_grid();
        let waits = self.walk.stores.entry(self.at).or_insert(true);
        *waits &= is_behind;
        for lane in crate::pipeline::value::active(self.lanes) {
            let Some(from) = from.at(lane) else { return self.gap("the address in shared memory is not a number") };
            let (block, from) = self.place(from);
            if block != self.block() {
                return self.gap("a copy from another block's shared memory is not described");
            }
            self.use_stage((from, from + size as u32), event)?;
        }
        Ok(Done::Next)
    }

    /// Returns false if the lanes have no bulk copies; some of those that have any are not described.
    fn has_bulk(&self) -> Result<bool, Halt> {
        let owners = self.state.warps[self.w].bulk_lanes;
        match owners & self.lanes {
            0 => Ok(owners == 0),
            both if both == owners => Ok(true),
            _ => self.gap("bulk groups of a part of the lanes with bulk copies are not described"),
        }
    }

    pub(super) fn commit_bulk(&mut self) -> Result<Done, Halt> {
        if self.has_bulk()? {
            let component = bulk(self.state, self.w);
            self.state.warps[self.w].bulk += 1;
            self.state.events[component] = self.state.warps[self.w].bulk;
        }
        Ok(Done::Next)
    }

    pub(super) fn wait_bulk(&mut self) -> Result<Done, Halt> {
        let Some(left) = self.immediate() else { return self.gap("the number of groups is not a number") };
        if self.has_bulk()? && self.state.warps[self.w].bulk_lanes != 0 {
            let component = bulk(self.state, self.w);
            let to = self.state.warps[self.w].bulk.saturating_sub(left);
            // All of its owners wait, and so all of their copies are complete for each of them.
            self.state.learn(self.w, self.lanes, |clock| clock.raise(component, to));
        }
        Ok(Done::Next)
    }

    pub(super) fn multiply(&mut self) -> Result<Done, Halt> {
        let size = |name: &str| {
            self.site.modifiers().find_map(|shape| {
                let (columns, depth) = shape.trim_start_matches('.').strip_prefix("m64n")?.split_once('k')?;
                (if name == "n" { columns } else { depth }).parse::<u64>().ok()
            })
        };
        let (Some(columns), Some(depth)) = (size("n"), size("k")) else {
            return self.gap("the shape of the product is not described");
        };
        if !self.is_whole() || self.lanes != u32::MAX {
            return self.wrong("a product that a part of a warp comes to");
        }
        // D, A and B.
        let types: Vec<u32> = self.site.modifiers().filter_map(ptx_core::isa::Type::find).map(|ty| ty.bits()).collect();
        let packed = if self.site.is("sp") { depth / 2 } else { depth };
        let event = (self.groups(), self.state.warps[self.w].groups + 1);
        for (name, transposed, number, lines, depth) in
            [("a_desc", "imm_trans_a", 1, 64, packed), ("b_desc", "imm_trans_b", 2, columns, depth)]
        {
            if self.operand(name).is_none() {
                continue;
            }
            let value = self.source(name, 64);
            let Some(descriptor) = value.and_then(|value| value.at(0)) else {
                return self.gap(
                    "the descriptor of a matrix in shared memory is not a number: it depends on sizes or on memory",
                );
            };
            let Some(bits) = types.get(number) else { return self.gap("the types of the product are not described") };
            let is_transposed = matches!(self.operand(transposed), Some(ptx_core::ir::Operand::Int(1)));
            match matrix(self.walk.code, descriptor, [lines, depth], (is_transposed, u64::from(*bits))) {
                Ok(range) => self.use_stage(range, event)?,
                Err(text) => return self.wrong(text),
            }
        }
        Ok(Done::Next)
    }

    pub(super) fn commit_group(&mut self) -> Result<Done, Halt> {
        let w = self.w;
        self.state.event(w);
        let component = self.groups();
        let (block, group) = (self.block(), self.state.warps[w].index / 4);
        self.state.warps[w].groups += 1;
        let number = self.state.warps[w].groups;
        self.state.events[component] = self.state.events[component].max(number);
        let clock = self.state.executed(w);
        let bit = 1 << (self.state.warps[w].index % 4);
        let all = self.state.groups.entry((block, group)).or_default();
        match all.iter_mut().find(|(own, ..)| *own == number) {
            Some((_, warps, joined)) => {
                *warps |= bit;
                joined.join(&clock);
            }
            None => all.push((number, bit, clock)),
        }
        // A group is complete only behind those before it.
        for at in 1..all.len() {
            let before = all[at - 1].2.clone();
            all[at].2.join(&before);
        }
        Ok(Done::Next)
    }

    pub(super) fn wait_group(&mut self) -> Result<Done, Halt> {
        let Some(left) = self.immediate() else { return self.gap("the number of groups is not a number") };
        let component = self.groups();
        let (block, group) = (self.block(), self.state.warps[self.w].index / 4);
        let number = self.state.warps[self.w].groups.saturating_sub(left);
        let Some(all) = self.state.groups.get(&(block, group)) else { return Ok(Done::Next) };
        let mut clock = crate::pipeline::state::Clock::default();
        if let Some((_, warps, own)) = all.iter().find(|(own, ..)| *own == number) {
            if *warps != 15 {
                return Ok(Done::Waits);
            }
            clock = own.clone();
        }
        clock.raise(component, number);
        self.state.learn(self.w, self.lanes, |own| own.join(&clock));
        // Groups that all warps have waited for.
        let first = self
            .state
            .warps
            .iter()
            .filter(|warp| warp.block == block && warp.index / 4 == group)
            .map(|warp| warp.clock.at(component))
            .min()
            .unwrap_or(0);
        if let Some(all) = self.state.groups.get_mut(&(block, group)) {
            all.retain(|(own, ..)| *own > first);
        }
        Ok(Done::Next)
    }
}

/// Bytes from the first to the last of a matrix in shared memory: lines along M or N of so many elements along K, or, if it is transposed, the other way
/// around.
fn matrix(
    code: &Code<'_>,
    bits: u64,
    [lines, depth]: [u64; 2],
    (is_transposed, element): (bool, u64),
) -> Result<(u32, u32), String> {
    let descriptor = Descriptor::wgmma(bits)?;
    let (major, along, across) = if is_transposed { (Major::Mn, lines, depth) } else { (Major::K, depth, lines) };
    let pieces = (along * element).div_ceil(128).max(1);
    Ok(bytes_of(code, &descriptor, major, [across, pieces]))
}

/// Bytes from the first to the last of a matrix of so many lines and pieces.
pub(super) fn bytes_of(code: &Code<'_>, descriptor: &Descriptor, major: Major, size: [u64; 2]) -> (u32, u32) {
    let span = descriptor.swizzle.span();
    // Where the variable lies is known modulo its alignment alone.
    let rest = code.align_at(descriptor.start).is_multiple_of(span).then(|| descriptor.start % span);
    let (first, end) = descriptor.extent(major, size, rest);
    let place = |at: i128| i128::from(descriptor.start).saturating_add(at).clamp(0, u32::MAX.into()) as u32;
    (place(first), place(end))
}
