//! The effects of instructions at barriers and in the memory of stages, with the checks that make one order of the events stand for all.
//!
//! Operations of different warps at a barrier commute, as long as every arrival belongs to one phase in every order, and every wait ends with one
//! phase in every order. These are the checks:
//!
//! - An arrival, an expectation or a copy is counted in phase n only if it is ordered behind the completion of phase n - 1.
//! - A wait that ends with phase n begins behind the completion of phase n - 1, and phase n + 1 completes behind the end of the wait.
//! - A copy writes a stage only behind all reads of it, and a read is behind the completion of the copy's phase.
//!
//! Copies complete at once here: another order is one in which they complete later, and all that must come behind their completion is ordered by the
//! phase that counts their bytes.

use super::code::Role;
use super::state::{Barrier, Clock, Named, Stage, State, Stop, Word};
use super::term::Poly;
use super::value::{Value, active};
use super::walk::{Done, Halt, Walk, gap, wrong};
use crate::site::Site;
use ptx_core::ir::{Base, Operand};
use std::collections::BTreeMap;

type Here<'s, 'm> = (usize, &'s Site<'m>);

pub(crate) fn act(
    walk: &mut Walk<'_, '_>,
    state: &mut State,
    w: usize,
    here: Here<'_, '_>,
    lanes: u32,
) -> Result<Done, Halt> {
    match walk.code.roles[here.0] {
        Role::Init => init(walk, state, w, here, lanes),
        Role::Arrive | Role::ArriveExpect | Role::Expect => arrive(walk, state, w, here, lanes),
        Role::Wait => wait(walk, state, w, here, lanes),
        Role::CopyTensor | Role::Copy => copy(walk, state, w, here, lanes),
        Role::SendAsync => send(walk, state, w, here, lanes),
        Role::StoreTensor => store_tensor(walk, state, w, here, lanes),
        Role::CommitBulk => commit_bulk(state, w),
        Role::WaitBulk => wait_bulk(walk, state, w, here),
        Role::Multiply => multiply(walk, state, w, here, lanes),
        Role::CommitGroup => commit_group(state, w),
        Role::WaitGroup => wait_group(walk, state, w, here),
        Role::Sync | Role::SyncArrive => sync(walk, state, w, here, lanes),
        Role::ClusterArrive => cluster_arrive(state, w, here.0, lanes),
        Role::ClusterWait => cluster_wait(state, w, here.0),
        Role::ReadShared | Role::WriteShared => access(walk, state, w, here, lanes),
        _ => gap(here.0, format!("`{}` is not described here", here.1.row.name)),
    }
}

/// The operand of this name, if it is there.
fn operand<'m>(site: &Site<'m>, name: &str) -> Option<&'m Operand> {
    Some(site.operand(site.row.operand(name)?)).filter(|operand| **operand != Operand::Absent)
}

/// Block and address of a shared address in a lane.
fn place(state: &State, w: usize, address: u64) -> (usize, u32) {
    match (address >> 24) as usize {
        0 => (state.warps[w].block, address as u32),
        rank => (rank - 1, address as u32 & 0xff_ffff),
    }
}

/// The place of a barrier: its block, and its address there.
type At = (usize, u32);

/// The addresses of a barrier in these lanes, each with the number of lanes.
fn barriers(
    walk: &mut Walk<'_, '_>,
    state: &State,
    w: usize,
    (at, site): Here<'_, '_>,
    name: &str,
    lanes: u32,
) -> Result<Vec<(At, u32)>, Halt> {
    let Some(operand) = operand(site, name) else { return gap(at, "the barrier is not described") };
    let address = walk.address(state, w, operand);
    let mut found: BTreeMap<(usize, u32), u32> = BTreeMap::new();
    for lane in active(lanes) {
        let Some(address) = address.at(lane) else {
            return gap(at, "the address of the barrier is not a number: it depends on sizes or on memory");
        };
        *found.entry(place(state, w, address)).or_insert(0) += 1;
    }
    Ok(found.into_iter().collect())
}

fn number(walk: &mut Walk<'_, '_>, state: &State, w: usize, site: &Site<'_>, name: &str, lanes: u32) -> Option<u64> {
    let value = walk.source(state, w, operand(site, name)?, 32);
    let first = value.at(lanes.trailing_zeros() as usize)?;
    active(lanes).all(|lane| value.at(lane) == Some(first)).then_some(first)
}

fn init(walk: &mut Walk<'_, '_>, state: &mut State, w: usize, here: Here<'_, '_>, lanes: u32) -> Result<Done, Halt> {
    let (at, site) = here;
    let Some(count) = number(walk, state, w, site, "count", lanes) else {
        return gap(at, "the count of the barrier is not a number");
    };
    for (place, _) in barriers(walk, state, w, here, "addr", lanes)? {
        if state.barriers.contains_key(&place) {
            return gap(at, "a barrier is initialized twice");
        }
        let (component, event) = (state.new_component(), state.event(w));
        let count = count as u32;
        state.barriers.insert(
            place,
            Barrier {
                component,
                count,
                pending: count,
                bytes: Poly::number(0),
                phase: 0,
                init: (w, event),
                arrivals: Clock::default(),
                done: Clock::default(),
                passed: Vec::new(),
                copied: None,
            },
        );
    }
    Ok(Done::Next)
}

/// Checks that a barrier is ready for a warp, and that what it does is counted in the current phase in every order.
fn ready(state: &State, w: usize, at: usize, place: (usize, u32)) -> Result<(), Halt> {
    let Some(barrier) = state.barriers.get(&place) else { return wrong(at, "the barrier is not initialized") };
    let clock = &state.warps[w].clock;
    if clock.at(barrier.init.0) < barrier.init.1 {
        return wrong(at, format!("{} may come here before the barrier is initialized", who(state, w)));
    }
    if clock.at(barrier.component) < barrier.phase {
        return wrong(
            at,
            format!(
                "{} may come here before the phase before is complete, so that this is counted in it",
                who(state, w)
            ),
        );
    }
    Ok(())
}

/// `warp 3 of block 1 of the cluster`
pub(crate) fn who(state: &State, w: usize) -> String {
    let warp = &state.warps[w];
    format!("warp {} of block {} of the cluster", warp.index, warp.block)
}

/// Counts arrivals and bytes at a barrier.
fn count(
    walk: &Walk<'_, '_>,
    state: &mut State,
    w: usize,
    at: usize,
    place: (usize, u32),
    (arrivals, bytes): (u32, Option<(Poly, i128)>),
) -> Result<(), Halt> {
    ready(state, w, at, place)?;
    let event = state.event(w);
    let clock = state.warps[w].clock.clone();
    if place.0 != state.warps[w].block {
        state.remote.insert((place.0, w), event);
    }
    let Some(barrier) = state.barriers.get_mut(&place) else { return Ok(()) };
    if barrier.pending < arrivals {
        return wrong(at, format!("{} more arrivals than the barrier counts", arrivals - barrier.pending));
    }
    barrier.pending -= arrivals;
    barrier.arrivals.join(&clock);
    if let Some((bytes, sign)) = bytes {
        barrier.copied = Some(barrier.phase);
        match barrier.bytes.plus(&bytes, sign) {
            Some(sum) => barrier.bytes = sum,
            None => return gap(at, "the sum of bytes is too long a term"),
        }
    }
    if barrier.pending == 0 && barrier.bytes.known() == Some(0) {
        complete(walk, state, at, place)?;
    }
    Ok(())
}

/// The current phase of a barrier is complete.
fn complete(walk: &Walk<'_, '_>, state: &mut State, at: usize, place: (usize, u32)) -> Result<(), Halt> {
    let Some(barrier) = state.barriers.get_mut(&place) else { return Ok(()) };
    let early = barrier.passed.iter().find(|(warp, event)| barrier.arrivals.at(*warp) < *event).copied();
    barrier.phase += 1;
    barrier.pending = barrier.count;
    barrier.done = std::mem::take(&mut barrier.arrivals);
    barrier.done.raise(barrier.component, barrier.phase);
    barrier.passed.clear();
    let (component, phase) = (barrier.component, barrier.phase);
    state.events[component] = phase;
    if let Some((warp, _)) = early {
        return wrong(
            at,
            format!(
                "the phase behind completes here, perhaps before {} has seen the phase that it waits for",
                who(state, warp)
            ),
        );
    }
    // Who waits for the phase before would miss it.
    let parity = |phase: u32| phase.wrapping_add(1) & 1;
    for other in 0..state.warps.len() {
        let warp = &state.warps[other];
        if warp.stop != Stop::Waits || walk.code.roles.get(warp.at) != Some(&Role::Wait) || phase < 2 {
            continue;
        }
        if waits_at(walk, state, other) == Some((place, parity(phase - 1))) && warp.clock.at(component) < phase - 1 {
            return wrong(at, format!("{} misses the phase that it waits for", who(state, other)));
        }
    }
    Ok(())
}

/// The barrier and the parity that a warp waits for.
fn waits_at(walk: &Walk<'_, '_>, state: &State, w: usize) -> Option<(At, u32)> {
    let warp = &state.warps[w];
    let site = walk.code.site(warp.at)?;
    let lane = warp.mask.trailing_zeros() as usize;
    let Operand::Memory { base, offset, .. } = operand(&site, "addr")? else { return None };
    let base = match base {
        Base::Reg(register) => warp.registers[register.index()].at(lane)?,
        Base::Symbol(ptx_core::ir::Symbol::Var(id)) => walk.code.shared.iter().find(|(own, _)| own == id)?.1.into(),
        _ => return None,
    };
    let parity = match operand(&site, "phase_parity")? {
        Operand::Reg(register) => warp.registers[register.index()].at(lane)?,
        Operand::Int(value) => *value,
        _ => return None,
    };
    Some((place(state, w, base.wrapping_add(*offset as u64)), parity as u32 & 1))
}

/// The words for a warp that waits.
pub(crate) fn describe_wait(walk: &Walk<'_, '_>, state: &State, w: usize) -> String {
    let name = walk.name_of(state.warps[w].at);
    match waits_at(walk, state, w) {
        Some(((block, address), parity)) => {
            let done = state.barriers.get(&(block, address)).map_or(0, |barrier| barrier.phase);
            let open = state.barriers.get(&(block, address)).map_or(String::new(), |barrier| {
                let bytes = walk.atoms.show(&barrier.bytes);
                format!(", {} of {} arrivals and {bytes} bytes are missing", barrier.pending, barrier.count)
            });
            format!(
                "{} waits for parity {parity} of the barrier at byte {} of shared memory (phase {done}{open})",
                who(state, w),
                address - walk.code.first()
            )
        }
        None => format!("{} waits at `{name}`", who(state, w)),
    }
}

fn arrive(walk: &mut Walk<'_, '_>, state: &mut State, w: usize, here: Here<'_, '_>, lanes: u32) -> Result<Done, Halt> {
    let (at, site) = here;
    let role = walk.code.roles[at];
    let each = match (role, operand(site, "count")) {
        (Role::Arrive, Some(_)) => number(walk, state, w, site, "count", lanes).map(|count| count as u32),
        (Role::Expect, _) => Some(0),
        _ => Some(1),
    };
    let Some(each) = each else { return gap(at, "the number of arrivals is not a number") };
    let bytes = match operand(site, "tx_count") {
        Some(bytes) => match walk.source(state, w, bytes, 32).poly(lanes, 32) {
            Some(bytes) => Some(bytes),
            None => return gap(at, "the number of expected bytes is not known"),
        },
        None => None,
    };
    for (place, number) in barriers(walk, state, w, here, "addr", lanes)? {
        let bytes = match &bytes {
            Some(bytes) => match bytes.scale(number.into()) {
                Some(bytes) => Some((bytes, 1)),
                None => return gap(at, "the number of expected bytes is too long a term"),
            },
            None => None,
        };
        if role == Role::Expect && state.barriers.get(&place).is_some_and(|barrier| barrier.pending == 0) {
            return gap(at, "bytes are expected behind the last arrival, which is not described");
        }
        count(walk, state, w, at, place, (each * number, bytes))?;
    }
    Ok(Done::Next)
}

fn wait(walk: &mut Walk<'_, '_>, state: &mut State, w: usize, here: Here<'_, '_>, lanes: u32) -> Result<Done, Halt> {
    let (at, site) = here;
    if !walk.code.waits_in_loop(at) {
        return gap(at, "the result of this test is used for more than to wait");
    }
    let Some(parity) = number(walk, state, w, site, "phase_parity", lanes) else {
        return gap(at, "the parity of the phase is not a number");
    };
    let all = barriers(walk, state, w, here, "addr", lanes)?;
    for (place, _) in &all {
        let Some(barrier) = state.barriers.get(place) else { return wrong(at, "the barrier is not initialized") };
        if state.warps[w].clock.at(barrier.init.0) < barrier.init.1 {
            return wrong(at, format!("{} may come here before the barrier is initialized", who(state, w)));
        }
        if barrier.phase.wrapping_add(1) & 1 != parity as u32 & 1 {
            return Ok(Done::Waits);
        }
    }
    for (place, _) in all {
        let event = state.event(w);
        let Some(barrier) = state.barriers.get_mut(&place) else { continue };
        let warp = &mut state.warps[w];
        if warp.clock.at(barrier.component) + 1 < barrier.phase {
            let text =
                "may come here before the phase before the one it waits for is complete, so that it does not wait";
            return wrong(at, format!("{} {text}", who(state, w)));
        }
        warp.clock.join(&barrier.done);
        barrier.passed.push((w, event));
    }
    let mut written = Vec::new();
    ptx_core::check::access::writes(site.inst, &mut |register| written.push(register));
    let live = state.warps[w].live;
    for register in written {
        walk.set(state, w, register, Value::Number(1), (lanes, live));
    }
    Ok(Done::Next)
}

/// The blocks of a copy: those of its mask, or the own one.
fn destinations(
    walk: &mut Walk<'_, '_>,
    state: &State,
    w: usize,
    (at, site): Here<'_, '_>,
    lanes: u32,
) -> Result<Option<Vec<usize>>, Halt> {
    match (operand(site, "mask"), operand(site, "mask32")) {
        (None, None) => Ok(None),
        (None, Some(_)) => gap(at, "a multicast to more than 16 blocks is not described"),
        (Some(_), _) => match number(walk, state, w, site, "mask", lanes) {
            Some(mask) => {
                let blocks: Vec<usize> = (0..16).filter(|block| mask >> block & 1 == 1).collect();
                match blocks.iter().all(|block| *block < state.ended.len()) {
                    true => Ok(Some(blocks)),
                    false => wrong(at, "the mask names a block that the cluster does not have"),
                }
            }
            None => gap(at, "the mask of the multicast is not a number"),
        },
    }
}

/// Bytes of a box of the tensor map in these brackets.
fn box_of(
    walk: &mut Walk<'_, '_>,
    state: &State,
    w: usize,
    at: usize,
    operand: Option<&Operand>,
    lanes: u32,
) -> Result<u64, Halt> {
    let Some(operand) = operand else { return gap(at, "the tensor map is not described") };
    let address = walk.address(state, w, operand).poly(lanes, 64);
    let name = address.map(|address| walk.atoms.show(&address)).unwrap_or_default();
    let name = name.trim_start_matches('&').to_owned();
    match walk.boxes.get(&name) {
        Some(bytes) => Ok(*bytes),
        None if name.is_empty() => gap(at, "the tensor map is chosen at run time"),
        None => gap(
            at,
            format!(
                "the size of the boxes of the tensor map `{name}` is not known; help: say its bytes, such as `--box {name}=8192`"
            ),
        ),
    }
}

fn copy(walk: &mut Walk<'_, '_>, state: &mut State, w: usize, here: Here<'_, '_>, lanes: u32) -> Result<Done, Halt> {
    let (at, site) = here;
    let bytes = match walk.code.roles[at] {
        Role::CopyTensor => Poly::number(box_of(walk, state, w, at, operand(site, "map"), lanes)?.into()),
        _ => match operand(site, "size").map(|size| walk.source(state, w, size, 32).poly(lanes, 32)) {
            Some(Some(bytes)) => bytes,
            _ => return gap(at, "the number of copied bytes is not known"),
        },
    };
    let Some(size) = bytes.known() else {
        return gap(at, "the number of copied bytes depends on sizes, so that the bytes of a stage are not known");
    };
    let Some(to) = operand(site, "dst") else { return gap(at, "the copy is not described") };
    let to = walk.address(state, w, to);
    let Some(bar) = operand(site, "mbar") else { return gap(at, "the copy is not described") };
    let bar = walk.address(state, w, bar);
    let blocks = destinations(walk, state, w, here, lanes)?;
    for lane in active(lanes) {
        let (Some(to), Some(bar)) = (to.at(lane), bar.at(lane)) else {
            return gap(at, "the address of the stage is not a number: it depends on sizes or on memory");
        };
        let ((own, to), (signalled, bar)) = (place(state, w, to), place(state, w, bar));
        if blocks.is_none() && own != signalled {
            return gap(at, "a copy that signals another block than its destination is not described");
        }
        for block in blocks.clone().unwrap_or_else(|| vec![own]) {
            write_stage(walk, state, w, at, (block, to, size as u32), bar)?;
            count(walk, state, w, at, (block, bar), (0, Some((bytes.clone(), -1))))?;
        }
    }
    Ok(Done::Next)
}

/// A copy begins to write bytes; they are there when the current phase of the barrier is complete.
fn write_stage(
    walk: &mut Walk<'_, '_>,
    state: &mut State,
    w: usize,
    at: usize,
    (block, from, size): (usize, u32, u32),
    bar: u32,
) -> Result<(), Halt> {
    let to = from + size;
    ready(state, w, at, (block, bar))?;
    let clock = state.warps[w].clock.clone();
    let mut stages = std::mem::take(&mut state.stages);
    for stage in stages.iter().filter(|stage| stage.block == block && stage.from < to && from < stage.to) {
        let bytes = format!(
            "bytes {}..{} of shared memory",
            stage.from.max(from) - walk.code.first(),
            stage.to.min(to) - walk.code.first()
        );
        if stage.reads.iter().any(|(component, event)| clock.at(*component) < *event) {
            return wrong(at, format!("the copy of {} may overwrite {bytes} before they are read", who(state, w)));
        }
        if clock.at(stage.full.0) < stage.full.1 {
            return wrong(
                at,
                format!("the copy of {} may overwrite {bytes} while another copy writes them", who(state, w)),
            );
        }
    }
    stages.retain(|stage| !(stage.block == block && from <= stage.from && stage.to <= to));
    let full = state.barriers.get(&(block, bar)).map_or((0, 0), |barrier| (barrier.component, barrier.phase + 1));
    walk.ranges.insert((block, from, to));
    stages.push(Stage { block, from, to, full, reads: BTreeMap::new() });
    state.stages = stages;
    Ok(())
}

/// A read, or another use, of bytes of the own block; an event of a component.
fn read_stage(
    walk: &Walk<'_, '_>,
    state: &mut State,
    w: usize,
    at: usize,
    (from, to): (u32, u32),
    event: (usize, u32),
) -> Result<(), Halt> {
    let block = state.warps[w].block;
    let clock = state.warps[w].clock.clone();
    let text = who(state, w);
    for stage in state.stages.iter_mut().filter(|stage| stage.block == block && stage.from < to && from < stage.to) {
        if clock.at(stage.full.0) < stage.full.1 {
            let bytes = format!(
                "bytes {}..{} of shared memory",
                stage.from.max(from) - walk.code.first(),
                stage.to.min(to) - walk.code.first()
            );
            return wrong(at, format!("{text} may access {bytes} before the copy to them is complete"));
        }
        let last = stage.reads.entry(event.0).or_insert(0);
        *last = event.1.max(*last);
    }
    Ok(())
}

fn access(walk: &mut Walk<'_, '_>, state: &mut State, w: usize, here: Here<'_, '_>, lanes: u32) -> Result<Done, Halt> {
    let (at, site) = here;
    let is_read = walk.code.roles[at] == Role::ReadShared;
    let memory = site.inst.operands.iter().find(|operand| matches!(operand, Operand::Memory { .. }));
    let Some(memory) = memory else { return gap(at, "the access is not described") };
    let address = walk.address(state, w, memory);
    let vector = [("v2", 2), ("v4", 4), ("v8", 8)];
    let size = match site.modifiers().any(|own| MATRICES.contains(&own)) {
        true => 16,
        false => site.last_type().map_or(16, |ty| ty.bytes() as u32) * site.one_of(&vector).unwrap_or(1),
    };
    let mut ranges = Vec::new();
    for lane in active(lanes) {
        match address.at(lane) {
            Some(own) if own >> 24 == 0 => ranges.push((own as u32, own as u32 + size)),
            Some(_) => return gap(at, "an access of another block's shared memory is not described"),
            None if state.stages.is_empty() => return gap(at, "the address in shared memory is not a number"),
            None => {
                return gap(at, "the address in shared memory is not a number, so that the access may be to a stage");
            }
        }
    }
    ranges.sort_unstable();
    ranges.dedup();
    let touches = |state: &State, (from, to): (u32, u32)| {
        let block = state.warps[w].block;
        state.stages.iter().any(|stage| stage.block == block && stage.from < to && from < stage.to)
    };
    if ranges.iter().any(|range| touches(state, *range)) {
        let event = (w, state.event(w));
        for range in ranges.clone() {
            read_stage(walk, state, w, at, range, event)?;
        }
    }
    let block = state.warps[w].block;
    if !is_read {
        // Words of which more than one store is known are not described.
        let words: Vec<(usize, u32)> = state
            .words
            .keys()
            .copied()
            .filter(|(own, word)| *own == block && ranges.iter().any(|(from, to)| *from < word + 4 && *word < *to))
            .collect();
        for key in words {
            if let Some(word) = state.words.get_mut(&key) {
                word.writes += 1;
            }
        }
        if let [(from, to)] = ranges[..]
            && to - from == 4
            && lanes.count_ones() == 1
            && let Some(value) = operand(site, "b")
            && !state.words.contains_key(&(block, from))
        {
            let value = walk.source(state, w, value, 32);
            let value = value.poly(lanes, 32).map_or(Value::Unknown, Value::term);
            let event = (w, state.event(w));
            state.words.insert((block, from), Word { value, event, writes: 1 });
        }
        return Ok(Done::Next);
    }
    let word = match ranges[..] {
        [(from, to)] if to - from == 4 => state.words.get(&(block, from)),
        _ => None,
    };
    let clock = &state.warps[w].clock;
    let value = word
        .filter(|word| word.writes == 1 && clock.at(word.event.0) >= word.event.1)
        .map_or(Value::Unknown, |word| word.value.clone());
    let mut written = Vec::new();
    ptx_core::check::access::writes(site.inst, &mut |register| written.push(register));
    let live = state.warps[w].live;
    for register in written {
        walk.set(state, w, register, value.clone(), (lanes, live));
    }
    Ok(Done::Next)
}

/// The modifiers of accesses to rows of matrices, each of 16 bytes.
const MATRICES: [&str; 3] = ["m8n8", "m8n16", "m16n8"];

/// `st.async`: a word to a block, counted at a barrier there.
fn send(walk: &mut Walk<'_, '_>, state: &mut State, w: usize, here: Here<'_, '_>, lanes: u32) -> Result<Done, Halt> {
    let (at, site) = here;
    let (Some(to), Some(bar), Some(value)) = (operand(site, "a"), operand(site, "mbar"), operand(site, "b")) else {
        return gap(at, "the store is not described");
    };
    let (to, bar) = (walk.address(state, w, to), walk.address(state, w, bar));
    let vector = [("v2", 2), ("v4", 4)];
    let size = site.last_type().map_or(4, |ty| ty.bytes() as u32) * site.one_of(&vector).unwrap_or(1);
    let value = if matches!(value, Operand::Vector(_)) { Value::Unknown } else { walk.source(state, w, value, 32) };
    for lane in active(lanes) {
        let (Some(to), Some(bar)) = (to.at(lane), bar.at(lane)) else {
            return gap(at, "the address of the word is not a number");
        };
        let (to, bar) = (place(state, w, to), place(state, w, bar));
        if to.0 != bar.0 {
            return gap(at, "a store that signals another block than its destination is not described");
        }
        write_stage(walk, state, w, at, (to.0, to.1, size), bar.1)?;
        let event = state.barriers.get(&bar).map_or((0, 0), |barrier| (barrier.component, barrier.phase + 1));
        let own = value.poly(1 << lane, 32).map_or(Value::Unknown, Value::term);
        state.words.entry(to).and_modify(|word| word.writes += 1).or_insert(Word { value: own, event, writes: 1 });
        count(walk, state, w, at, bar, (0, Some((Poly::number(size.into()), -1))))?;
    }
    Ok(Done::Next)
}

/// The component of a warp's bulk groups.
fn bulk(state: &State, w: usize) -> usize {
    state.warps.len() + w
}

/// The component of the `wgmma` groups of a warp's warp group.
fn tensor(state: &State, w: usize) -> usize {
    2 * state.warps.len() + state.warps[w].block * 8 + state.warps[w].index / 4
}

/// The number of components before those of barriers, with so many warps in so many blocks.
pub(crate) fn components(warps: usize, blocks: usize) -> usize {
    2 * warps + 8 * blocks
}

fn store_tensor(
    walk: &mut Walk<'_, '_>,
    state: &mut State,
    w: usize,
    here: Here<'_, '_>,
    lanes: u32,
) -> Result<Done, Halt> {
    let (at, site) = here;
    let Some(from) = operand(site, "src") else { return gap(at, "the copy is not described") };
    let from = walk.address(state, w, from);
    let size = match operand(site, "size") {
        Some(size) => {
            walk.source(state, w, size, 32).poly(lanes, 32).and_then(|size| size.known()).map(|size| size as u64)
        }
        None => Some(box_of(walk, state, w, at, operand(site, "map").or_else(|| operand(site, "dst")), lanes)?),
    };
    let Some(size) = size else { return gap(at, "the number of copied bytes is not a number") };
    let event = (bulk(state, w), state.warps[w].bulk + 1);
    for lane in active(lanes) {
        let Some(from) = from.at(lane) else { return gap(at, "the address in shared memory is not a number") };
        read_stage(walk, state, w, at, (from as u32, from as u32 + size as u32), event)?;
    }
    Ok(Done::Next)
}

fn commit_bulk(state: &mut State, w: usize) -> Result<Done, Halt> {
    let component = bulk(state, w);
    state.warps[w].bulk += 1;
    state.events[component] = state.warps[w].bulk;
    Ok(Done::Next)
}

fn immediate(site: &Site<'_>) -> Option<u32> {
    site.inst.operands.iter().find_map(|operand| match operand {
        Operand::Int(value) => u32::try_from(*value).ok(),
        _ => None,
    })
}

fn wait_bulk(_: &Walk<'_, '_>, state: &mut State, w: usize, (at, site): Here<'_, '_>) -> Result<Done, Halt> {
    let Some(left) = immediate(site) else { return gap(at, "the number of groups is not a number") };
    let component = bulk(state, w);
    let warp = &mut state.warps[w];
    let to = warp.bulk.saturating_sub(left);
    warp.clock.raise(component, to);
    Ok(Done::Next)
}

/// Bytes that a matrix in shared memory may take, from its descriptor.
fn matrix(descriptor: u64, rows: u64) -> (u32, u32) {
    let field = |at: u32| (descriptor >> at & 0x3fff) << 4;
    let (start, leading, stride) = (field(0), field(16), field(32));
    // Rows of 8 each, or of 64 where neighbors lie along M or N; both, so that the layout does not matter.
    let first = start & !127;
    let end = first + (rows / 8).max(1) * stride.max(128) + if leading > 16 { (rows / 64) * leading } else { 0 };
    (first as u32, end as u32)
}

fn multiply(
    walk: &mut Walk<'_, '_>,
    state: &mut State,
    w: usize,
    here: Here<'_, '_>,
    lanes: u32,
) -> Result<Done, Halt> {
    let (at, site) = here;
    let columns = site.modifiers().find_map(|shape| {
        shape.strip_prefix("m64n").or_else(|| shape.strip_prefix(".m64n"))?.split('k').next()?.parse::<u64>().ok()
    });
    let Some(columns) = columns else { return gap(at, "the shape of the product is not described") };
    let event = (tensor(state, w), state.warps[w].groups + 1);
    for (name, rows) in [("a_desc", 64), ("b_desc", columns)] {
        let Some(operand) = operand(site, name) else { continue };
        let Some(descriptor) = walk.source(state, w, operand, 64).at(lanes.trailing_zeros() as usize) else {
            return gap(
                at,
                "the descriptor of a matrix in shared memory is not a number: it depends on sizes or on memory",
            );
        };
        let range = matrix(descriptor, rows);
        read_stage(walk, state, w, at, range, event)?;
    }
    Ok(Done::Next)
}

fn commit_group(state: &mut State, w: usize) -> Result<Done, Halt> {
    state.event(w);
    let component = tensor(state, w);
    let (block, group) = (state.warps[w].block, state.warps[w].index / 4);
    state.warps[w].groups += 1;
    let number = state.warps[w].groups;
    state.events[component] = state.events[component].max(number);
    let clock = state.warps[w].clock.clone();
    let bit = 1 << (state.warps[w].index % 4);
    let all = state.groups.entry((block, group)).or_default();
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

fn wait_group(_: &Walk<'_, '_>, state: &mut State, w: usize, (at, site): Here<'_, '_>) -> Result<Done, Halt> {
    let Some(left) = immediate(site) else { return gap(at, "the number of groups is not a number") };
    let component = tensor(state, w);
    let (block, group) = (state.warps[w].block, state.warps[w].index / 4);
    let number = state.warps[w].groups.saturating_sub(left);
    let Some(all) = state.groups.get_mut(&(block, group)) else { return Ok(Done::Next) };
    if let Some((_, warps, clock)) = all.iter().find(|(own, ..)| *own == number) {
        if *warps != 15 {
            return Ok(Done::Waits);
        }
        let clock = clock.clone();
        state.warps[w].clock.join(&clock);
    }
    state.warps[w].clock.raise(component, number);
    // Groups that all warps have waited for.
    let first = state
        .warps
        .iter()
        .filter(|warp| warp.block == block && warp.index / 4 == group)
        .map(|warp| warp.clock.at(component))
        .min()
        .unwrap_or(0);
    if let Some(all) = state.groups.get_mut(&(block, group)) {
        all.retain(|(own, ..)| *own > first);
    }
    Ok(Done::Next)
}

fn sync(walk: &mut Walk<'_, '_>, state: &mut State, w: usize, here: Here<'_, '_>, lanes: u32) -> Result<Done, Halt> {
    let (at, site) = here;
    let Some(id) = number(walk, state, w, site, "a", lanes) else {
        return gap(at, "the number of the barrier is not a number");
    };
    let threads: u64 = walk.block.iter().map(|extent| u64::from(*extent)).product();
    let count = match operand(site, "b") {
        Some(_) => number(walk, state, w, site, "b", lanes),
        None => Some(threads.next_multiple_of(32)),
    };
    let Some(count) = count else { return gap(at, "the number of threads of the barrier is not a number") };
    if lanes != state.warps[w].live {
        return gap(at, "a barrier that a part of a warp comes to is not described");
    }
    let key = (state.warps[w].block, id as u32);
    if !state.named.contains_key(&key) {
        let component = state.new_component();
        state.named.insert(key, Named { component, count: count as u32, ..Named::default() });
    }
    let is_arrival = walk.code.roles[at] == Role::SyncArrive;
    if !state.warps[w].arrived {
        state.event(w);
        let clock = state.warps[w].clock.clone();
        let Some(named) = state.named.get_mut(&key) else { return Ok(Done::Next) };
        if named.count != count as u32 && named.arrived == 0 {
            named.count = count as u32;
        }
        if named.count != count as u32 {
            return wrong(at, format!("threads at barrier {id} expect different numbers of threads"));
        }
        if clock.at(named.component) < named.phase {
            return wrong(
                at,
                format!("{} may come to barrier {id} before the threads before have left it", who(state, w)),
            );
        }
        named.arrived += 32;
        named.arrivals.join(&clock);
        let named = named.clone();
        if named.arrived > named.count {
            return wrong(at, format!("more threads come to barrier {id} than it counts"));
        }
        state.warps[w].arrived = !is_arrival;
        // The phase that it waits for is this one.
        if named.arrived == named.count {
            let Some(own) = state.named.get_mut(&key) else { return Ok(Done::Next) };
            own.phase += 1;
            own.arrived = 0;
            own.done = std::mem::take(&mut own.arrivals);
            own.done.raise(own.component, own.phase);
            let (component, phase) = (own.component, own.phase);
            state.events[component] = phase;
        }
        if is_arrival {
            return Ok(Done::Next);
        }
    }
    let Some(named) = state.named.get(&key) else { return Ok(Done::Next) };
    // It is complete if the warp is among those whose arrivals were counted.
    let own = state.warps[w].clock.at(w);
    if named.done.at(w) >= own {
        let done = named.done.clone();
        state.warps[w].clock.join(&done);
        state.warps[w].arrived = false;
        return Ok(Done::Next);
    }
    Ok(Done::Waits)
}

fn cluster_arrive(state: &mut State, w: usize, at: usize, lanes: u32) -> Result<Done, Halt> {
    if lanes != state.warps[w].live {
        return gap(at, "a barrier that a part of a warp comes to is not described");
    }
    state.event(w);
    let clock = state.warps[w].clock.clone();
    let total = state.warps.len() as u32;
    if state.cluster.component == 0 {
        state.cluster.component = state.new_component();
        state.cluster.count = total;
    }
    if state.warps[w].cluster != state.cluster.phase {
        return wrong(at, format!("{} arrives twice at the barrier of the cluster", who(state, w)));
    }
    state.warps[w].cluster += 1;
    state.cluster.arrived += 1;
    state.cluster.arrivals.join(&clock);
    complete_cluster(state);
    Ok(Done::Next)
}

/// Completes the cluster's barrier if all warps that have not ended have arrived.
pub(crate) fn complete_cluster(state: &mut State) {
    let phase = state.cluster.phase;
    let all = state.warps.iter().all(|warp| warp.cluster > phase || warp.stop == Stop::Ended && warp.live == 0);
    if state.cluster.component == 0 || !all || state.cluster.arrived == 0 {
        return;
    }
    let own = &mut state.cluster;
    own.phase += 1;
    own.arrived = 0;
    own.done = std::mem::take(&mut own.arrivals);
    own.done.raise(own.component, own.phase);
    let (component, phase) = (own.component, own.phase);
    state.events[component] = phase;
}

fn cluster_wait(state: &mut State, w: usize, at: usize) -> Result<Done, Halt> {
    if state.warps[w].cluster == 0 {
        return wrong(at, "a wait for the barrier of the cluster without an arrival");
    }
    if state.cluster.phase < state.warps[w].cluster {
        return Ok(Done::Waits);
    }
    let done = state.cluster.done.clone();
    state.warps[w].clock.join(&done);
    Ok(Done::Next)
}
