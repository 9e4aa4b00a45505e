//! The effects of instructions beside registers: which instruction accesses memory, which is a barrier, and which only computes.

use crate::form::{Cond, Form};
use crate::machine::{Machine, PROBE, State, Value};
use crate::memory;
use crate::path::Path;
use crate::signals;
use crate::site::Site;
use crate::tensor;
use crate::trace::{Barrier, Collective, Group, Lanes, Source, Span};
use crate::world::{Scope, World};
use ptx_core::ir::{Function, Operand, RegId};
use ptx_core::isa::Class;
use ptx_target::sort::SortSmall;

/// The execution of an instruction that does more than compute.
pub(crate) type Action = for<'m> fn(&mut Machine<'m>, usize, &Site<'m>, &mut State, &Cond) -> Vec<(RegId, Value)>;

/// Instructions with their effects.
#[rustfmt::skip]
const ACTIONS: &[(&str, Action)] = &[
    ("ld", memory::load), ("ldu", memory::load), ("st", memory::store), ("atom", memory::atomic), ("red", memory::atomic),
    ("ldmatrix", memory::load_matrix), ("stmatrix", memory::store_matrix), ("cp", memory::copy),
    ("bar", barrier), ("barrier", barrier), ("trap", abort), ("fence", fence), ("membar", fence),
    ("prefetch", nothing), ("prefetchu", nothing), ("nanosleep", nothing), ("pmevent", nothing), ("createpolicy", nothing),
    ("setmaxnreg", nothing), ("brkpt", nothing), ("applypriority", nothing), ("griddepcontrol", dependency),
    ("tcgen05", tensor::execute), ("mbarrier", signals::signal), ("wgmma", signals::signal),
    ("mapa", signals::map),
];

/// Opcodes with forms that are among the signals.
const ASYNC: [&str; 3] = ["cp", "st", "red"];

/// Opcodes of pipelines and of other blocks' memory.
const SIGNALS: [&str; 4] = ["mbarrier", "wgmma", "tcgen05", "mapa"];

/// Instructions that only compute registers.
#[rustfmt::skip]
const COMPUTES: &[&str] = &[
    "add", "sub", "mul", "mad", "mul24", "mad24", "sad", "div", "rem", "abs", "neg", "min", "max", "popc", "clz", "bfind", "fns", "brev",
    "bfe", "bfi", "szext", "bmsk", "dp4a", "dp2a", "addc", "subc", "madc", "clmad", "testp", "copysign", "fma", "rcp", "sqrt", "rsqrt", "sin",
    "cos", "lg2", "ex2", "tanh", "set", "setp", "selp", "slct", "and", "or", "xor", "not", "cnot", "lop3", "shf", "shl", "shr", "prmt", "mov",
    "cvt", "cvta", "isspacep", "shfl", "vote", "match", "activemask", "redux", "elect", "mma", "movmatrix", "vadd", "vsub", "vabsdiff",
    "vmin", "vmax", "vshl", "vshr", "vmad", "vset", "vadd2", "vsub2", "vavrg2", "vabsdiff2", "vmin2", "vmax2", "vset2", "vadd4", "vsub4",
    "vavrg4", "vabsdiff4", "vmin4", "vmax4", "vset4", "tex", "tld4", "txq", "suq",
];

/// Those of which the result depends on other threads, the time or other memory, too.
const IMPURE: [&str; 9] = ["shfl", "vote", "match", "activemask", "redux", "elect", "mma", "movmatrix", "mov"];

/// Those that read the carry.
const CARRIES: [&str; 3] = ["addc", "subc", "madc"];

/// Instructions that lanes of a warp execute together; those with a mask name the lanes in their last operand.
#[rustfmt::skip]
const COLLECTIVES: [(&str, bool); 11] = [
    ("shfl", true), ("vote", true), ("match", true), ("redux", true), ("elect", true), ("mma", false), ("movmatrix", false),
    ("ldmatrix", false), ("stmatrix", false), ("wmma", false), ("tcgen05", false),
];
/// Of these opcodes only the instructions with `.sync`.
const SYNC_ONLY: [&str; 1] = ["tcgen05"];

/// Instructions that give all lanes that they name one value, some in this mode alone; a shuffle does so where all lanes read one.
const ONE_FOR_WARP: [(&str, Option<&str>); 4] =
    [("vote", None), ("redux", None), ("match", Some("all")), ("shfl", None)];

/// The values that lanes read of each other, where these have one number for all symbols, and whole warps come here.
fn taken(machine: &mut Machine<'_>, site: &Site<'_>, lanes: &[usize], guard: &Cond) -> Option<Form> {
    let Value::Bits(form) = machine.source(site, site.operand(1), None) else { return None };
    let is_common = machine.world.is_of_launch(form.symbols().collect());
    let of: Vec<Option<usize>> = lanes.iter().enumerate().map(|(thread, lane)| Some(thread / 32 * 32 + lane)).collect();
    (is_common && come_whole(machine, guard)).then(|| form.taken(&of))
}

/// Returns true if numbers tell that whole warps come to the current instruction, whatever the values of memory are.
fn come_whole(machine: &Machine<'_>, guard: &Cond) -> bool {
    let world = &machine.world;
    let is_known = |cond: &Cond| {
        let mut symbols = Vec::new();
        cond.forms(&mut |form| symbols.extend(form.symbols()));
        world.cond_scope(cond) <= Scope::Block && world.is_of_launch(symbols)
    };
    come_by(world, guard, is_known)
}

/// Returns true if whole warps come to the current instruction: numbers decide it, or values that a warp has together.
fn come_together(machine: &Machine<'_>, guard: &Cond) -> bool {
    let world = &machine.world;
    if machine.headers.iter().any(|header| *header == PROBE || machine.apart.contains(header)) {
        return false;
    }
    come_by(world, guard, |cond| world.cond_scope(cond) <= Scope::Warp)
}

/// Returns true if whole warps come to the current instruction by conditions that numbers decide, or that are `shared`.
fn come_by(world: &World, guard: &Cond, shared: impl Fn(&Cond) -> bool) -> bool {
    let mut threads = vec![true; world.threads];
    let steps = world.here.steps().filter(|step| step.decides).map(|step| &step.cond);
    steps.chain([guard]).all(|cond| {
        cond.keep(&mut threads);
        cond.decided(world.threads).is_some() || shared(cond)
    }) && threads.chunks(32).all(|warp| warp.len() == 32 && warp.iter().all(|own| *own == warp[0]))
}

/// Returns true for an instruction that gives all lanes that it names one value, or each the value of a lane.
fn is_one_for_warp(site: &Site<'_>) -> bool {
    let is = |(opcode, mode): &(&str, Option<&str>)| {
        *opcode == site.row.opcode() && mode.is_none_or(|mode| site.is(mode)) && site.is("sync")
    };
    ONE_FOR_WARP.iter().any(is)
}

/// The threads that get one value of a shuffle from a computed lane: a warp that computes one, if no segment is a part of it.
fn scope_of_lane(machine: &mut Machine<'_>, site: &Site<'_>) -> Scope {
    let mut scope = |at: usize| match machine.source(site, site.operand(at), None) {
        Value::Bits(form) => Some((machine.world.scope(&form), form.known())),
        _ => None,
    };
    match (scope(2), scope(3)) {
        (Some((lane, _)), Some((_, Some(31)))) if site.is("idx") && lane <= Scope::Warp => Scope::Warp,
        _ => Scope::Thread,
    }
}

/// The lanes in the last operand of an instruction.
fn named_lanes(machine: &mut Machine<'_>, site: &Site<'_>) -> Lanes {
    let mask = site.inst.operands.iter().rev().find(|operand| **operand != Operand::Absent);
    match mask.map(|mask| machine.source(site, mask, None)) {
        Some(Value::Bits(form)) => match machine.world.number(&form, 32, false) {
            form if form.known() == Some(0xffff_ffff) => Lanes::All,
            form => Lanes::Mask(form),
        },
        _ => Lanes::Unknown,
    }
}

/// Opcodes that end threads anywhere in a block, and let others go on.
const ENDS: [&str; 2] = ["exit", "ret"];

/// Modes of a shuffle: the lane that a lane reads, by its number, the operand `b`, the least and the greatest lane of its segment, and the bits that
/// number a lane in it; nothing if there is none, and the lane keeps its own value.
type Shuffle = fn(i128, i128, [i128; 3]) -> Option<i128>;

const SHUFFLES: [(&str, Shuffle); 4] = [
    ("up", |lane, by, [_, most, _]| Some(lane - by).filter(|from| *from >= most)),
    ("down", |lane, by, [_, most, _]| Some(lane + by).filter(|from| *from <= most)),
    ("bfly", |lane, by, [_, most, _]| Some(lane ^ by).filter(|from| *from <= most)),
    ("idx", |_, by, [least, most, own]| Some(least | by & own).filter(|from| *from <= most)),
];

/// The lanes that a shuffle reads, if numbers tell them, and whether each is one of its segment.
fn shuffled(machine: &mut Machine<'_>, site: &Site<'_>) -> Option<Vec<Option<usize>>> {
    let shuffle = site.one_of(&SHUFFLES)?;
    let mut number = |at: usize| match machine.source(site, site.operand(at), None) {
        Value::Bits(form) => form.constant().cloned(),
        _ => None,
    };
    let (by, clamp) = (number(2)?, number(3)?);
    let lanes = (0..machine.world.threads).map(|thread| {
        let (lane, clamp) = ((thread % 32) as i128, clamp.at(thread));
        let segment = clamp >> 8 & 31;
        let least = lane & segment;
        let most = least | clamp & 31 & !segment;
        shuffle(lane, by.at(thread) & 31, [least, most, 31 & !segment]).map(|from| from as usize)
    });
    Some(lanes.collect())
}

/// The lanes that a shuffle reads; those that it names, for other instructions.
fn source(machine: &mut Machine<'_>, site: &Site<'_>) -> Source {
    if site.one_of(&SHUFFLES).is_none() {
        return Source::Named;
    }
    let own = |(thread, from): (usize, Option<usize>)| from.unwrap_or(thread % 32);
    shuffled(machine, site)
        .map_or(Source::Unknown, |lanes| Source::Lanes(lanes.into_iter().enumerate().map(own).collect()))
}

/// Opcodes of barriers of a block.
const BARRIERS: [&str; 2] = ["bar", "barrier"];

/// Modifiers of barriers that are not for the threads of a block together.
const OTHER_BARRIERS: [&str; 2] = ["arrive", "wait"];

/// The instructions of this module.
pub(crate) struct Event;

impl Event {
    pub(crate) fn action(site: &Site<'_>) -> Option<Action> {
        if is_async(site) {
            return Some(signals::signal);
        }
        ACTIONS.iter().find(|(opcode, _)| *opcode == site.row.opcode()).map(|(_, action)| *action)
    }

    /// Returns true if a pipeline gives the order of what an instruction of a function accesses, or another block may.
    pub(crate) fn has_signals(function: &Function) -> bool {
        let mut sites = function.insts.iter().filter_map(|inst| Some(Site { function, inst, row: inst.row? }));
        sites.any(|site| SIGNALS.contains(&site.row.opcode()) || is_async(&site))
    }

    /// Records an instruction that lanes execute together.
    pub(crate) fn meet(machine: &mut Machine<'_>, at: usize, site: &Site<'_>, state: &State, guard: &Cond) {
        let Some((_, has_mask)) = COLLECTIVES.iter().find(|(opcode, _)| *opcode == site.row.opcode()) else { return };
        if (*has_mask || SYNC_ONLY.contains(&site.row.opcode())) && !site.is("sync") {
            return;
        }
        let lanes = if *has_mask { named_lanes(machine, site) } else { Lanes::All };
        let (since, path) = (Path::default(), state.path.clone());
        let barrier = Barrier { inst: at, span: Span::Warp, since, path, guard: guard.clone() };
        let source = source(machine, site);
        machine.trace.collectives.push(Collective { barrier, lanes, source });
    }

    /// The result of an instruction that gives one value to all lanes of a warp, or to each the value of some lane.
    pub(crate) fn of_warp(machine: &mut Machine<'_>, site: &Site<'_>, guard: &Cond) -> Option<Value> {
        if !is_one_for_warp(site) || !matches!(named_lanes(machine, site), Lanes::All) {
            return None;
        }
        let scope = match source(machine, site) {
            Source::Named => Scope::Warp,
            Source::Unknown => scope_of_lane(machine, site),
            Source::Lanes(lanes) => {
                if let Some(form) = taken(machine, site, &lanes, guard) {
                    return Some(Value::Bits(form));
                }
                let is_one = lanes.chunks(32).all(|warp| warp.iter().all(|lane| *lane == warp[0]));
                if is_one { Scope::Warp } else { Scope::Thread }
            }
        };
        let ty = site.ty(0)?;
        if ty.class() == Class::Pred {
            return Some(Value::Truth(machine.world.any_truth(scope)));
        }
        let bits = ty.bits().min(64);
        if site.one_of(&SHUFFLES).is_some()
            && let Value::Bits(form) = machine.source(site, site.operand(1), None)
            && come_together(machine, guard)
        {
            let number = machine.world.number(&form, bits, false);
            machine.lent += 1;
            return Some(Value::Bits(machine.world.elsewhere(&number, bits, scope)));
        }
        Some(Value::Bits(machine.world.unknown((0, (1 << bits) - 1), scope)))
    }

    /// Both results of a shuffle: the value, and whether it is that of a lane of its segment.
    pub(crate) fn shuffled(
        machine: &mut Machine<'_>,
        site: &Site<'_>,
        (value, is_inside): (&Operand, &Operand),
        guard: &Cond,
    ) -> Vec<(RegId, Value)> {
        let mut found = Vec::new();
        if site.one_of(&SHUFFLES).is_none() {
            return found;
        }
        if let (Operand::Reg(register), Some(value)) = (value, Event::of_warp(machine, site, guard)) {
            found.push((*register, value));
        }
        if let (Operand::Reg(register), Some(lanes)) = (is_inside, shuffled(machine, site)) {
            let is_inside = Cond::table(lanes.iter().map(Option::is_some).collect());
            found.push((*register, Value::Truth(is_inside)));
        }
        found
    }

    /// Returns true if an instruction gives equal values to all lanes of a warp, or lanes whose sources are equal, whatever a wider scope has.
    pub(crate) fn is_one(inst: &ptx_core::ir::Inst, scope: Scope) -> bool {
        let gives = |opcode: &str| ONE_FOR_WARP.iter().any(|(own, _)| *own == opcode);
        scope == Scope::Warp && inst.row.is_some_and(|row| gives(row.opcode()))
    }

    pub(crate) fn only_computes(site: &Site<'_>) -> bool {
        COMPUTES.contains(&site.row.opcode())
    }

    /// Returns true if the result of an instruction is a function of the numbers in its operands.
    pub(crate) fn is_pure(site: &Site<'_>) -> bool {
        Event::only_computes(site)
            && !IMPURE.contains(&site.row.opcode())
            && !site.is("cc")
            && !CARRIES.contains(&site.row.opcode())
    }

    /// Returns true if lanes of a warp meet here.
    pub(crate) fn is_of_warp(inst: &ptx_core::ir::Inst) -> bool {
        inst.row.is_some_and(|row| {
            let is_collective = COLLECTIVES.iter().any(|(opcode, _)| *opcode == row.opcode());
            is_collective || BARRIERS.contains(&row.opcode()) && row.parts.contains(&"warp")
        })
    }

    /// Returns true if threads end here, and others go on.
    pub(crate) fn ends_threads(inst: &ptx_core::ir::Inst) -> bool {
        inst.row.is_some_and(|row| ENDS.contains(&row.opcode()))
    }

    /// Returns true if threads of a block meet here.
    pub(crate) fn is_barrier(inst: &ptx_core::ir::Inst) -> bool {
        inst.row.is_some_and(|row| BARRIERS.contains(&row.opcode()) && !row.parts.contains(&"warp"))
    }
}

fn is_async(site: &Site<'_>) -> bool {
    ASYNC.contains(&site.row.opcode()) && signals::describes(site)
}

fn nothing(_: &mut Machine<'_>, _: usize, _: &Site<'_>, _: &mut State, _: &Cond) -> Vec<(RegId, Value)> {
    Vec::new()
}

/// A wait for the launch before counts where no thread leaves it out; that the next launch may start is about that launch.
fn dependency(
    machine: &mut Machine<'_>,
    _: usize,
    site: &Site<'_>,
    state: &mut State,
    guard: &Cond,
) -> Vec<(RegId, Value)> {
    if site.is("wait") && *guard == Cond::Const(true) {
        state.from.iter().for_each(|node| machine.trace.waits(*node));
    }
    Vec::new()
}

/// A fence orders accesses of threads that communicate, which only the watcher describes.
fn fence(machine: &mut Machine<'_>, _: usize, _: &Site<'_>, _: &mut State, _: &Cond) -> Vec<(RegId, Value)> {
    machine.trace.has_other_order = true;
    Vec::new()
}

/// The launch ends here with an error. No order is promised of such a launch: threads that go on are those that do not come here.
fn abort(_: &mut Machine<'_>, _: usize, _: &Site<'_>, state: &mut State, guard: &Cond) -> Vec<(RegId, Value)> {
    state.path = state.path.fact(guard.negate());
    Vec::new()
}

fn barrier(
    machine: &mut Machine<'_>,
    at: usize,
    site: &Site<'_>,
    state: &mut State,
    guard: &Cond,
) -> Vec<(RegId, Value)> {
    let (since, path) = (Path::default(), state.path.clone());
    let barrier = |span| Barrier { inst: at, span, since: since.clone(), path: path.clone(), guard: guard.clone() };
    let node = state.from.first().copied().unwrap_or(usize::MAX);
    if site.is("warp") {
        match named_lanes(machine, site) {
            Lanes::All => machine.trace.barrier(node, barrier(Span::Warp), machine.world.threads),
            lanes => {
                let barrier = barrier(Span::Warp);
                machine.trace.collectives.push(Collective { barrier, lanes, source: Source::Named });
                machine.trace.has_other_order = true;
            }
        }
        return Vec::new();
    }
    if site.is("cluster") {
        machine.gap_of_pipeline(at, format!("`{}` is not described here", site.row.name));
        return Vec::new();
    }
    if OTHER_BARRIERS.iter().any(|modifier| site.is(modifier)) {
        machine.gap_of_order(at, format!("`{}` is not described here", site.row.name));
        return Vec::new();
    }
    let count = site.row.operand("b").map(|at| site.operand(at)).filter(|count| **count != Operand::Absent);
    let count = count.map(|count| known(machine, site, count));
    let number = match site.row.operand("a").map(|at| machine.source(site, site.operand(at), None)) {
        None => Some(Form::number(0)),
        Some(Value::Bits(form)) => Some(machine.world.number(&form, 32, false)),
        Some(_) => None,
    };
    let threads = machine.world.threads as i128;
    let spans = match (count, number) {
        (None, Some(number)) => whole(machine, &number),
        (Some(Some(count)), Some(number)) if count == threads => whole(machine, &number),
        (Some(Some(count)), Some(number)) => groups(machine, (&number, count), &path, guard),
        _ => None,
    };
    match spans {
        Some(spans) => {
            spans.into_iter().for_each(|span| machine.trace.barrier(node, barrier(span), machine.world.threads));
        }
        None => machine.gap_of_order(
            at,
            "barriers of threads that come to different instructions, or with a computed number, are not described",
        ),
    }
    Vec::new()
}

/// The number that an operand is for all threads.
fn known(machine: &mut Machine<'_>, site: &Site<'_>, operand: &Operand) -> Option<i128> {
    match machine.source(site, operand, None) {
        Value::Bits(form) => form.known(),
        _ => None,
    }
}

/// A barrier for the whole block, with one number for all threads: no part of it has one with this number.
fn whole(machine: &mut Machine<'_>, number: &Form) -> Option<Vec<Span>> {
    let known = number.known();
    let is_used = machine.trace.groups.iter().any(|group| known.is_none_or(|known| known == group.number));
    if is_used || machine.world.scope(number) > Scope::Block {
        return None;
    }
    if !machine.trace.numbers.contains(&known) {
        machine.trace.numbers.push(known);
    }
    Some(vec![Span::Block])
}

/// Barriers for so many threads each: those of one number that come here are a group, whole warps as well.
fn groups(machine: &mut Machine<'_>, (number, count): (&Form, i128), path: &Path, guard: &Cond) -> Option<Vec<Span>> {
    let number = number.constant()?;
    let mut threads = vec![true; machine.world.threads];
    for cond in path.steps().map(|step| &step.cond).chain([guard]) {
        cond.keep(&mut threads);
    }
    let of = |thread: usize| Some(number.at(thread)).filter(|_| threads[thread]);
    let mut all: Vec<i128> = (0..threads.len()).filter_map(of).collect();
    all.sort_small();
    all.dedup();
    let own = |number: i128| (0..threads.len()).map(|thread| of(thread) == Some(number)).collect();
    all.into_iter().map(|number| group(machine, (number, count), own(number))).collect()
}

/// A barrier for so many threads: whole warps, always the same, and in no other group.
fn group(machine: &mut Machine<'_>, (number, count): (i128, i128), threads: Vec<bool>) -> Option<Span> {
    let has_whole_warps = threads.chunks(32).all(|warp| warp.len() == 32 && warp.iter().all(|own| *own == warp[0]));
    let own = threads.iter().filter(|own| **own).count() as i128;
    let trace = &mut machine.trace;
    if own != count || !has_whole_warps || trace.numbers.iter().any(|other| other.is_none_or(|other| other == number)) {
        return None;
    }
    for (at, group) in trace.groups.iter().enumerate() {
        let is_same = *group.threads == *threads;
        if is_same && group.number == number {
            return Some(Span::Group(at));
        }
        let meets = group.threads.iter().zip(&threads).any(|(a, b)| *a && *b);
        if group.number == number || meets {
            return None;
        }
    }
    trace.groups.push(Group { number, threads: threads.into() });
    Some(Span::Group(trace.groups.len() - 1))
}
