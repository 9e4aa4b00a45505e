//! Facts about each instruction that decide how it counts, found once before a launch.

use super::banks::Pattern;
use crate::listing::{Code, Listing};
use crate::role::{Act, Actor};
use std::collections::BTreeSet;

/// How the accesses of an instruction count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// As loads and stores of threads.
    Threads,
    /// As rows of matrices that a warp loads or stores together.
    Rows,
    /// As updates with a result, and without.
    Atomic,
    Reduction,
    /// As `cp.async`.
    Copy,
    /// As bulk and tensor copies.
    Bulk,
    /// As operands of tensor cores.
    Tensor,
    /// Not at all: parameters of functions, which are registers after inlining, and mbarriers.
    Nothing,
}

/// The facts about one instruction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fact {
    pub way: Way,
    /// The use of the banks by its loads or updates.
    pub pattern: Pattern,
    /// Wavefronts for each turn of an update.
    pub turns: u64,
    /// True if a predicate may turn it off.
    pub guarded: bool,
    /// True if it decides where threads go on.
    pub control: bool,
    /// True if what it loads may stay in L1.
    pub through_l1: bool,
    /// Tensor-core operations for each accumulator that it writes: `tcgen05.mma`, whose size is known when it runs.
    pub depth: u64,
}

/// Instructions that access memory in ways that their roles do not tell, by the start of their names.
const WAYS: &[(&str, Way)] = &[("ldmatrix", Way::Rows), ("stmatrix", Way::Rows), ("st.bulk", Way::Bulk)];

/// Modifiers of loads that pass L1 by.
const PAST_L1: &[&str] = &["cg", "cv", "volatile", "relaxed", "acquire", "mmio"];

/// The family whose instructions decide where threads go on.
const CONTROL: &str = "control";

/// The parts of the names of updates that take two wavefronts a turn: both values of a comparison are sent.
const TWO_VALUES: &[&str] = &["cas"];
/// The parts of the names of updates that chips count by lanes if the constant is 1 and nothing reads the result: lanes with one address share a wavefront.
const COUNTS: [&[&str]; 2] = [&["add"], &["u32", "s32"]];

impl Fact {
    /// `unread` is true if no instruction reads its result.
    pub(super) fn new(code: &Code, guarded: bool, unread: bool) -> Fact {
        let control = family(code) == CONTROL;
        let through_l1 = !code.modifiers.iter().any(|modifier| PAST_L1.contains(modifier));
        let way = find_way(code, unread);
        let turns = if has_part(code, TWO_VALUES) { 2 } else { 1 };
        Fact { way, pattern: find_pattern(code, way), turns, guarded, control, through_l1, depth: find_depth(code) }
    }
}

/// Returns true if one of the words is a part of the name or a modifier.
fn has_part(code: &Code, words: &[&str]) -> bool {
    code.name.split('.').chain(code.modifiers.iter().copied()).any(|part| words.contains(&part))
}

fn find_pattern(code: &Code, way: Way) -> Pattern {
    let counts = || code.constant == Some(1) && COUNTS.iter().all(|words| has_part(code, words));
    match way {
        Way::Reduction if counts() => Pattern::Plain,
        Way::Atomic | Way::Reduction => Pattern::Update,
        // A load by a generic address never finds lanes that agree in pairs.
        Way::Threads if code.modifiers.iter().any(|modifier| modifier.starts_with("shared")) => Pattern::Load,
        _ => Pattern::Plain,
    }
}

fn find_way(code: &Code, unread: bool) -> Way {
    if let Some((_, way)) = WAYS.iter().find(|(start, _)| code.name.starts_with(start)) {
        return *way;
    }
    if code.modifiers.iter().any(|modifier| modifier.starts_with("param")) {
        return Way::Nothing;
    }
    match code.role.act {
        Act::Begin | Act::Object => Way::Nothing,
        Act::Update if unread => Way::Reduction,
        Act::Update => Way::Atomic,
        Act::Async { reads: Actor::Copy, .. } => Way::Copy,
        Act::Async { reads: Actor::Matrix | Actor::Tensor, .. } => Way::Tensor,
        Act::Async { .. } => Way::Bulk,
        _ => Way::Threads,
    }
}

/// The family of an instruction: the file of the table that has its row.
pub(super) fn family(code: &Code) -> &'static str {
    code.row.map_or(CONTROL, |row| row.file.trim_end_matches(".isa"))
}

/// Floating-point operations of one thread, by the first word of the name.
const OPERATIONS: &[(&str, u64)] = &[("add", 1), ("sub", 1), ("mul", 1), ("fma", 2), ("mad", 2)];
/// The families that have them.
const FLOATING: &[&str] = &["float", "half"];

/// A precision that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Precision {
    Double,
    Single,
    Half,
}

/// The types of operations, and the values in each.
const TYPES: &[(&str, Precision, u64)] = &[
    ("f64", Precision::Double, 1),
    ("f32x2", Precision::Single, 2),
    ("f32", Precision::Single, 1),
    ("f16x2", Precision::Half, 2),
    ("bf16x2", Precision::Half, 2),
    ("f16", Precision::Half, 1),
    ("bf16", Precision::Half, 1),
];

/// The floating-point operations of each thread of an instruction.
pub(super) fn thread_flops(code: &Code) -> Option<(Precision, u64)> {
    let row = code.row.filter(|_| FLOATING.contains(&family(code)))?;
    let (_, operations) = OPERATIONS.iter().find(|(opcode, _)| *opcode == row.opcode())?;
    let named = |modifier: &&str| TYPES.iter().find(|(name, ..)| name == modifier);
    let (_, precision, values) = code.modifiers.iter().find_map(named)?;
    Some((*precision, operations * values))
}

/// Instructions of tensor cores with their shape in a modifier, and the warps that share one product.
const PRODUCTS: &[(&str, u64)] = &[("mma", 1), ("wmma.mma", 1), ("wgmma.mma_async", 4)];

/// Tensor-core operations of one warp that executes an instruction.
pub(super) fn tensor_flops(code: &Code) -> u64 {
    let fits = |start: &str| code.name.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let Some((_, warps)) = PRODUCTS.iter().find(|(start, _)| fits(start)) else { return 0 };
    let Some([m, n, k]) = code.modifiers.iter().find_map(|modifier| read_shape(modifier)) else { return 0 };
    // The oldest shape is that of a quarter of a warp, but not for doubles.
    let products = if [m, n, k] == [8, 8, 4] && !code.modifiers.contains(&"f64") { 4 } else { 1 };
    2 * m * n * k * products / warps
}

/// `m16n8k16`
fn read_shape(text: &str) -> Option<[u64; 3]> {
    let (m, rest) = text.strip_prefix('m')?.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some([m.parse().ok()?, n.parse().ok()?, k.parse().ok()?])
}

/// The depth of one product of `tcgen05.mma`, by its kind.
const DEPTHS: &[(&str, u64)] = &[
    ("kind::f16", 16),
    ("kind::tf32", 8),
    ("kind::f8f6f4", 32),
    ("kind::i8", 32),
    ("kind::mxf8f6f4", 32),
    ("kind::mxf4", 64),
    ("kind::mxf4nvf4", 64),
];

fn find_depth(code: &Code) -> u64 {
    let named = |modifier: &&str| DEPTHS.iter().find(|(name, _)| name == modifier);
    let depth = code.modifiers.iter().find_map(named).map_or(0, |(_, depth)| *depth);
    let sparse = code.name.split('.').chain(code.modifiers.iter().copied()).any(|part| part == "sp");
    2 * depth * if sparse { 2 } else { 1 }
}

/// The shape and types of a product of tensor cores, for reports.
pub(super) fn shape(code: &Code) -> String {
    if tensor_flops(code) == 0 && find_depth(code) == 0 {
        return String::new();
    }
    let types =
        |modifier: &&&str| read_shape(modifier).is_some() || modifier.starts_with("kind::") || is_number(modifier);
    code.modifiers.iter().filter(types).copied().collect::<Vec<_>>().join(".")
}

fn is_number(modifier: &str) -> bool {
    ptx_core::isa::Type::find(modifier).is_some()
}

/// The facts about every instruction of a program.
pub(super) fn find_facts(listing: &Listing, guarded: impl Fn(usize) -> bool) -> Vec<Fact> {
    let registers = |code: &Code| code.reads.iter().map(|register| (code.function, *register)).collect::<Vec<_>>();
    let read: BTreeSet<(u32, u32)> = listing.code.iter().flat_map(registers).collect();
    let unread = |code: &Code| code.writes.iter().all(|register| !read.contains(&(code.function, *register)));
    listing.code.iter().enumerate().map(|(at, code)| Fact::new(code, guarded(at), unread(code))).collect()
}
