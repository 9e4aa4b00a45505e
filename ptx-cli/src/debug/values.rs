//! What the editor shows of a stopped block: threads, frames, registers, shared memory, waits. Each is a function of the stop.

mod memory;

use super::target::Types;
use ptx_core::isa::{Class, Type};
use ptx_expand::program::MemoryPlace;
use ptx_interp::debug::{Stop, lane_numbers};
use ptx_interp::decode_float;
use serde_json::{Value, json};

/// Something that can be expanded.
#[derive(Clone, Debug)]
pub(super) enum Scope {
    Registers {
        warp: u32,
        lane: usize,
    },
    /// A register in all lanes.
    Register {
        warp: u32,
        name: String,
    },
    Shared,
    /// The fields of a variable in shared memory, or its words.
    Variable {
        at: u64,
    },
    /// The elements of an array there.
    Place {
        at: u64,
        place: MemoryPlace,
    },
    Lanes {
        warp: u32,
    },
    Phases,
}

/// A line of a list.
pub(super) struct Item {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) inside: Option<Scope>,
}

/// Threads count from 1.
pub(super) fn thread_number(warp: u32) -> u32 {
    warp + 1
}

pub(super) fn warp_of(thread: &Value) -> u32 {
    thread.as_u64().and_then(|id| u32::try_from(id).ok()).map_or(0, |id| id.saturating_sub(1))
}

/// Frames of a warp begin at a multiple of this.
const FRAMES: u64 = 1 << 16;

pub(super) fn frame_number(warp: u32, depth: usize) -> u64 {
    u64::from(thread_number(warp)) * FRAMES + depth as u64
}

pub(super) fn warp_of_frame(frame: &Value) -> u32 {
    warp_of(&(frame.as_u64().unwrap_or(0) / FRAMES).into())
}

fn triple([x, y, z]: [u32; 3]) -> String {
    match (y, z) {
        (0, 0) => x.to_string(),
        _ => format!("{x},{y},{z}"),
    }
}

/// The warps of the block.
pub(super) fn threads(stop: &Stop<'_>) -> Vec<Value> {
    let name = |warp: u32| {
        format!("block {} warp {warp}{}", triple(stop.block()), if warp == stop.warp() { " ●" } else { "" })
    };
    stop.live_warps().into_iter().map(|warp| json!({"id": thread_number(warp), "name": name(warp)})).collect()
}

/// The lane to show of a warp: the chosen one, if it lives.
fn living(stop: &Stop<'_>, warp: u32, lane: usize) -> usize {
    let live = stop.live_lanes(warp);
    if live >> lane & 1 == 1 { lane } else { live.trailing_zeros() as usize % 32 }
}

/// The instructions of the calls that a lane is in, innermost first, with their functions.
pub(super) fn frames(stop: &Stop<'_>, warp: u32, lane: usize) -> Vec<(u32, String)> {
    let calls = stop.calls(warp, living(stop, warp, lane)).into_iter();
    calls.map(|at| (at, stop.place(at).map(|(_, function)| function).unwrap_or_default())).collect()
}

/// The lines of a scope.
pub(super) fn list(stop: &Stop<'_>, scope: &Scope, types: &Types) -> Vec<Item> {
    match scope {
        Scope::Registers { warp, lane } => {
            let item = |(name, bits): (String, u64)| Item {
                value: shown(&name, bits, types),
                inside: Some(Scope::Register { warp: *warp, name: name.clone() }),
                name,
            };
            stop.registers(*warp, living(stop, *warp, *lane)).into_iter().map(item).collect()
        }
        Scope::Register { warp, name } => lane_numbers(stop.live_lanes(*warp))
            .filter_map(|lane| {
                let (_, bits) = stop.registers(*warp, lane).into_iter().find(|(known, _)| known == name)?;
                Some(Item { name: format!("lane {lane}"), value: shown(name, bits, types), inside: None })
            })
            .collect(),
        Scope::Shared => {
            let item = |variable: ptx_interp::debug::Variable| Item {
                value: format!("{} bytes at {:#x}", variable.bytes.len(), variable.at),
                inside: Some(Scope::Variable { at: variable.at }),
                name: if variable.name.is_empty() { "dynamic".to_owned() } else { variable.name },
            };
            stop.shared().into_iter().map(item).collect()
        }
        Scope::Variable { at } => {
            let found = stop.shared().into_iter().find(|variable| variable.at == *at);
            found.map(|variable| memory::fields(&variable, types)).unwrap_or_default()
        }
        Scope::Place { at, place } => {
            let found = stop.shared().into_iter().find(|variable| variable.at == *at);
            found.map(|variable| memory::elements(&variable.bytes, place)).unwrap_or_default()
        }
        Scope::Lanes { warp } => lane_numbers(stop.live_lanes(*warp)).map(|lane| thread(stop, *warp, lane)).collect(),
        Scope::Phases => stop
            .phases()
            .into_iter()
            .map(|phase| Item {
                name: format!("{} at {:#x} of block {} of the cluster", phase.name, phase.place.1, phase.place.0),
                value: format!("phase {}: {}; {} threads wait", phase.parity, phase.missing, phase.waiting),
                inside: None,
            })
            .collect(),
    }
}

fn thread(stop: &Stop<'_>, warp: u32, lane: usize) -> Item {
    let tid = stop.thread(warp, lane).map(triple).unwrap_or_default();
    let runs = warp == stop.warp() && stop.lanes() >> lane & 1 == 1;
    let value = match stop.wait(warp, lane) {
        Some(wait) => wait,
        None if runs => "about to run this instruction".to_owned(),
        None => "ready".to_owned(),
    };
    Item { name: format!("lane {lane} (thread {tid})"), value, inside: Some(Scope::Registers { warp, lane }) }
}

/// A register's value by its type.
fn shown(name: &str, bits: u64, types: &Types) -> String {
    number(types.registers.get(name).and_then(|ty| Type::find(ty)), bits)
}

/// A number by its type.
pub(super) fn number(ty: Option<Type>, bits: u64) -> String {
    match ty.map(|ty| (ty.class(), ty.bits(), ty.name())) {
        Some((Class::Pred, ..)) => (bits != 0).to_string(),
        Some((Class::Float, 32, "f32")) => format!("{:?}", f32::from_bits(bits as u32)),
        Some((Class::Float, 16 | 64, name)) => format!("{:?}", decode_float(name, bits).unwrap_or(f64::NAN)),
        Some((Class::Signed, width @ 1..=64, _)) => {
            let unused = 64 - width;
            format!("{} = {bits:#x}", (bits << unused).cast_signed() >> unused)
        }
        _ => format!("{bits} = {bits:#x}"),
    }
}

/// The value of an expression of the console.
pub(super) fn evaluate(
    stop: &Stop<'_>,
    text: &str,
    (warp, lane): (u32, usize),
    types: &Types,
) -> Result<String, String> {
    if text == "why" {
        return Ok(why(stop, warp));
    }
    let (name, lane) = match text.split_once('@') {
        Some((name, lane)) => {
            (name, lane.parse().ok().filter(|lane| *lane < 32).ok_or("a warp has the lanes 0 to 31")?)
        }
        None => (text, living(stop, warp, lane)),
    };
    let found = stop
        .registers(warp, lane)
        .into_iter()
        .find(|(known, _)| known == name || known.trim_start_matches('%') == name);
    if let (None, Some(value)) = (&found, memory::evaluate(stop, name, types)) {
        return Ok(value);
    }
    let help = "write a register (`%r1`), one of a lane (`%r1@5`), shared memory (`tile[3]`, `stage.values`), `lane 5`, or `why`";
    let (name, bits) = found.ok_or_else(|| format!("there is no register `{name}` here; {help}"))?;
    Ok(shown(&name, bits, types))
}

/// The reasons for which the lanes of a warp do not run, each with its lanes.
fn why(stop: &Stop<'_>, warp: u32) -> String {
    let mut reasons: Vec<(String, Vec<usize>)> = Vec::new();
    for lane in lane_numbers(stop.live_lanes(warp)) {
        let reason = stop.wait(warp, lane).unwrap_or_else(|| "could run".to_owned());
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, lanes)) => lanes.push(lane),
            None => reasons.push((reason, vec![lane])),
        }
    }
    let line = |(reason, lanes): &(String, Vec<usize>)| match lanes.as_slice() {
        [only] => format!("lane {only} {reason}"),
        [first, .., last] => format!("{} lanes ({first} to {last}): {reason}", lanes.len()),
        [] => String::new(),
    };
    reasons.iter().map(line).collect::<Vec<_>>().join("\n")
}
