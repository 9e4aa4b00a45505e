//! Jumps, calls, returns, exits and traps (9.7.12, 9.7.19).

use super::host::{self, Service};
use super::{Op, op};
use crate::ctx::{Ctx, Flow};
use crate::exec::Src;
use crate::fault::{Fault, FaultKind};
use crate::layout::Slot;
use crate::listing::Entry;
use crate::site::{Decoded, Refusal, Site};
use crate::soft::mask;
use crate::space::{Where, function_at, number};
use crate::warp::{Frame, lanes};
use ptx_core::ir::{Operand, Symbol};
use std::sync::Arc;

pub(super) const OPS: &[Op] = &[
    op("bra", "", bra),
    op("brx.idx", "", brx),
    op("call", "", call),
    op("ret", "", |_| Ok(Box::new(ret))),
    op("exit", "", |_| Ok(Box::new(|ctx, group| Ok(exit(ctx, group))))),
    op("trap", "", |_| Ok(Box::new(|_, _| Err(Fault::new(FaultKind::Trap, "the kernel executed `trap`"))))),
    op("brkpt", "", |_| Ok(Box::new(|_, _| Err(Fault::new(FaultKind::Breakpoint, "the kernel executed `brkpt`"))))),
];

/// Maximum number of 64-bit registers of all frames of a warp.
const REGISTER_LIMIT: usize = 1 << 15;

fn bra(site: &Site) -> Decoded {
    let Operand::Label(label) = site.operand(0) else { return Err("`bra` without a label".into()) };
    let target = site.target(*label)?;
    Ok(Box::new(move |_, _| Ok(Flow::Jump(target))))
}

fn brx(site: &Site) -> Decoded {
    let Operand::Targets(list) = site.operand(1) else { return Err("`brx.idx` without a list".into()) };
    let labels = site.body().targets.get(list.index()).ok_or("a list of targets that is not declared")?;
    let mut targets = Vec::new();
    for label in labels {
        let Operand::Label(label) = label else { return Err("a target that is no label".into()) };
        targets.push(site.target(*label)?);
    }
    let index = site.src(0)?;
    Ok(Box::new(move |ctx, group| {
        let index = ctx.fetch(index);
        for lane in lanes(group) {
            let Some(target) = targets.get(index[lane] as usize & 0xffff_ffff) else {
                let message = format!("branch target {} of a list of {}", index[lane], targets.len());
                return Err(Fault::new(FaultKind::Undefined, message).lane(lane));
            };
            ctx.warp.pc[lane] = *target;
        }
        Ok(Flow::Apart)
    }))
}

fn exit(ctx: &mut Ctx, group: u32) -> Flow {
    ctx.exit(group);
    Flow::Apart
}

/// A value that a call passes or takes back, on the caller's side.
#[derive(Clone, Copy)]
pub(super) enum Passed {
    Value { src: Src, bits: u32 },
    At(Slot),
}

/// Who is called.
enum Callee {
    Function(usize),
    Service(Service),
    Address(Src),
}

/// The parts of a call: results, callee, arguments.
fn call(site: &Site) -> Decoded {
    let at = site.inst.operands.iter().position(|o| !matches!(o, Operand::List(_) | Operand::Absent));
    let at = at.ok_or("a call without a callee")?;
    let list = |range: std::ops::Range<usize>| {
        let lists = range.filter_map(|i| if let Operand::List(l) = site.operand(i) { Some(l) } else { None });
        lists.flatten().cloned().collect::<Vec<_>>()
    };
    let results = list(0..at).iter().map(|o| place(site, o)).collect::<Result<Vec<_>, _>>()?;
    let results: Arc<[Slot]> = results.into();
    let arguments = list(at + 1..site.inst.operands.len());
    let arguments = arguments.iter().map(|o| passed(site, o)).collect::<Result<Vec<_>, _>>()?;
    let callee = callee(site, site.operand(at))?;
    Ok(Box::new(move |ctx, group| match &callee {
        Callee::Service(service) => serve(ctx, group, *service, &arguments, &results),
        Callee::Function(index) => {
            for lane in lanes(group) {
                enter(ctx, lane, *index, &arguments, &results)?;
            }
            Ok(Flow::Apart)
        }
        Callee::Address(src) => {
            let addresses = ctx.fetch(*src);
            for lane in lanes(group) {
                let index = function_at(addresses[lane]).ok_or_else(|| no_function(addresses[lane], lane))?;
                enter(ctx, lane, index, &arguments, &results)?;
            }
            Ok(Flow::Apart)
        }
    }))
}

fn no_function(address: u64, lane: usize) -> Fault {
    Fault::new(FaultKind::BadAccess, "a call through an address that is no function's").at(address).lane(lane)
}

fn callee(site: &Site, operand: &Operand) -> Result<Callee, Refusal> {
    if site.module.shares_locals {
        return Err("a call in a module whose functions share registers or `.local` variables".into());
    }
    let id = match operand {
        Operand::Func(id) | Operand::Symbol(Symbol::Func(id), _) => *id,
        Operand::Reg(register) => return Ok(Callee::Address(Src::Reg(site.slot(*register)?))),
        other => return Err(format!("a call of {other:?}")),
    };
    let function = site.module.functions.get(id.index()).ok_or("a function that is not declared")?;
    if function.defined {
        return Ok(Callee::Function(id.index()));
    }
    let defined = site.module.functions.iter().position(|f| f.defined && f.name == function.name);
    match (defined, host::service(&function.name)) {
        (Some(index), _) => Ok(Callee::Function(index)),
        (None, Some(service)) => Ok(Callee::Service(service)),
        _ => Err(format!("`{}` has no body", function.name)),
    }
}

/// A register or `.param` variable of the caller that takes a result.
fn place(site: &Site, operand: &Operand) -> Result<Slot, Refusal> {
    match operand {
        Operand::Reg(register) => {
            let (bits, count) = (site.width(*register), site.vector(*register));
            Ok(Slot::Register { slot: site.slot(*register)?, bits, count })
        }
        Operand::Symbol(Symbol::Var(id), 0) => {
            site.layout.frame_slot(site.module, *id).ok_or_else(|| "a variable that is no parameter".into())
        }
        other => Err(format!("a call with {other:?}")),
    }
}

fn passed(site: &Site, operand: &Operand) -> Result<Passed, Refusal> {
    match operand {
        Operand::Int(value) => Ok(Passed::Value { src: Src::Value(*value), bits: 64 }),
        Operand::F32(bits) => Ok(Passed::Value { src: Src::Value((*bits).into()), bits: 32 }),
        Operand::F64(bits) => Ok(Passed::Value { src: Src::Value(*bits), bits: 64 }),
        operand => place(site, operand).map(Passed::At),
    }
}

/// The bytes of a value on the caller's side.
fn argument(ctx: &Ctx, lane: usize, passed: Passed) -> Result<Vec<u8>, Fault> {
    match passed {
        Passed::Value { src, bits } => {
            Ok(ctx.fetch_lane(src, lane).to_le_bytes()[..bits.div_ceil(8).min(8) as usize].to_vec())
        }
        Passed::At(slot) => read(ctx, lane, slot, ctx.warp.origin, ctx.warp.frame[lane]),
    }
}

/// The bytes of a parameter in a frame.
fn read(ctx: &Ctx, lane: usize, slot: Slot, base: u32, frame: u32) -> Result<Vec<u8>, Fault> {
    match slot {
        Slot::Register { slot, bits, count } => {
            let (words, bytes) = (bits.div_ceil(64).max(1), bits.div_ceil(8).max(1) as usize);
            let register = |i: u32| ctx.warp.regs.get((base + slot + i) as usize).map_or(0, |r| r[lane]);
            let mut read = Vec::with_capacity(count as usize * bytes);
            for component in 0..count {
                let end = read.len() + bytes;
                for word in 0..words {
                    read.extend_from_slice(&register(component * words + word).to_le_bytes());
                }
                read.truncate(end);
            }
            Ok(read)
        }
        Slot::Frame { offset, size } => {
            let start = frame as usize + offset as usize;
            let bytes = ctx.warp.local[lane].get(start..start + size as usize);
            bytes.map(<[u8]>::to_vec).ok_or_else(|| Fault::new(FaultKind::OutOfBounds, "a parameter outside its frame"))
        }
    }
}

/// Writes bytes to a parameter in a frame; what is missing is zero.
fn write(ctx: &mut Ctx, lane: usize, slot: Slot, base: u32, frame: u32, bytes: &[u8]) {
    match slot {
        Slot::Register { slot, bits, count } => {
            let (words, size) = (bits.div_ceil(64).max(1) as usize, bits.div_ceil(8).max(1) as usize);
            for (c, component) in bytes.chunks(size).enumerate().take(count as usize) {
                for (i, word) in component.chunks(8).enumerate().take(words) {
                    if let Some(register) = ctx.warp.regs.get_mut((base + slot) as usize + c * words + i) {
                        register[lane] = number(word) & mask(bits.saturating_sub(64 * i as u32));
                    }
                }
            }
        }
        Slot::Frame { offset, size } => {
            let start = frame as usize + offset as usize;
            if let Some(to) = ctx.warp.local[lane].get_mut(start..start + size as usize) {
                for (to, from) in to.iter_mut().zip(bytes) {
                    *to = *from;
                }
            }
            if let Some(observer) = ctx.observer {
                let len = ctx.warp.local[lane].len() as u64;
                observer.write_local(&mut ctx.warp.kept, lane, start as u64..start as u64 + size, len);
            }
        }
    }
}

/// One lane enters a function.
fn enter(ctx: &mut Ctx, lane: usize, index: usize, arguments: &[Passed], results: &Arc<[Slot]>) -> Result<(), Fault> {
    let listing = ctx.listing;
    let Some(callee) = listing.functions.get(index).filter(|f| f.defined && !f.entry) else {
        return Err(Fault::new(FaultKind::BadAccess, "a call of something that is no function with a body").lane(lane));
    };
    let values = arguments.iter().map(|a| argument(ctx, lane, *a)).collect::<Result<Vec<_>, _>>()?;
    let caller = listing.code.get(ctx.warp.at as usize).and_then(|c| listing.functions.get(c.function as usize));
    let base = ctx.warp.origin + caller.map_or(0, |f| f.registers);
    open(ctx, lane, base, callee)?;
    let call =
        Frame { call: ctx.warp.at, base: ctx.warp.origin, frame: ctx.warp.frame[lane], results: results.clone() };
    ctx.warp.calls[lane].push(call);
    let frame = ctx.warp.local[lane].len() as u32;
    ctx.resize_local(lane, |warp| warp.reserve(lane, frame, callee.frame))?;
    for (slot, bytes) in callee.arguments.iter().zip(&values) {
        write(ctx, lane, *slot, base, frame, bytes);
    }
    ctx.warp.base[lane] = base;
    ctx.warp.pc[lane] = callee.start;
    Ok(())
}

/// Makes room for a frame's registers and clears them.
fn open(ctx: &mut Ctx, lane: usize, base: u32, callee: &Entry) -> Result<(), Fault> {
    let end = base as usize + callee.registers as usize;
    if end > REGISTER_LIMIT {
        let message =
            format!("calls nested so deeply that their frames need {end} registers; {REGISTER_LIMIT} are allowed");
        return Err(Fault::new(FaultKind::OutOfMemory, message).lane(lane));
    }
    if ctx.warp.regs.len() < end {
        ctx.warp.regs.resize(end, [0; 32]);
    }
    for register in ctx.warp.regs.iter_mut().take(end).skip(base as usize) {
        register[lane] = 0;
    }
    Ok(())
}

/// `ret`: back to the caller, or the end of the thread.
pub(crate) fn ret(ctx: &mut Ctx, group: u32) -> Result<Flow, Fault> {
    let mut ended = 0;
    for lane in lanes(group) {
        match ctx.warp.calls[lane].pop() {
            Some(frame) => leave(ctx, lane, &frame)?,
            None => ended |= 1 << lane,
        }
    }
    if ended != 0 {
        exit(ctx, ended);
    }
    Ok(Flow::Apart)
}

fn leave(ctx: &mut Ctx, lane: usize, frame: &Frame) -> Result<(), Fault> {
    let listing = ctx.listing;
    let function = listing.code.get(ctx.warp.at as usize).and_then(|c| listing.functions.get(c.function as usize));
    let (base, start) = (ctx.warp.origin, ctx.warp.frame[lane]);
    for (slot, to) in function.map_or(&[][..], |f| &f.results).iter().zip(frame.results.iter()) {
        let bytes = read(ctx, lane, *slot, base, start)?;
        write(ctx, lane, *to, frame.base, frame.frame, &bytes);
    }
    ctx.warp.local[lane].truncate(start as usize);
    ctx.warp.frame[lane] = frame.frame;
    ctx.warp.base[lane] = frame.base;
    ctx.warp.pc[lane] = frame.call + 1;
    Ok(())
}

/// A call that the machine itself answers.
fn serve(ctx: &mut Ctx, group: u32, service: Service, arguments: &[Passed], results: &[Slot]) -> Result<Flow, Fault> {
    for lane in lanes(group) {
        let values = arguments.iter().map(|a| argument(ctx, lane, *a)).collect::<Result<Vec<_>, _>>()?;
        let values: Vec<u64> = values.iter().map(|bytes| number(bytes)).collect();
        let result = service(ctx, lane, &values).map_err(|f| f.lane(lane))?;
        if let Some(slot) = results.first() {
            let (base, frame) = (ctx.warp.origin, ctx.warp.frame[lane]);
            write(ctx, lane, *slot, base, frame, &result.to_le_bytes());
        }
    }
    Ok(Flow::Next)
}

/// A zero-terminated string at a generic address.
pub(super) fn text(ctx: &Ctx, lane: usize, address: u64) -> Result<Vec<u8>, Fault> {
    let mut found = Vec::new();
    while found.len() < 1 << 16 {
        match ctx.bytes(Where::Generic, lane, address.wrapping_add(found.len() as u64), 1)? {
            [0] => break,
            bytes => found.extend_from_slice(bytes),
        }
    }
    Ok(found)
}
