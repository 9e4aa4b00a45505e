//! Instructions whose accesses are described, and whose order the exploration of the pipeline decides: barriers in memory, bulk copies, and matrices
//! that descriptors name.
//!
//! A copy by a tensor map is in bounds in global memory: the map has the extents, and what lies outside is filled or left out.

use crate::form::{Cond, Form};
use crate::machine::{Machine, State, Value};
use crate::memory::{Place, accessed, count};
use crate::site::Site;
use crate::trace::{Access, Base as Memory, Kind, MapUse, What};
use ptx_core::ir::{Operand, RegId, Space};
use ptx_target::descriptor::{Descriptor, Extents, Major, START};

/// The bytes at an operand, and the alignment that they need.
#[derive(Clone, Copy)]
enum Bytes {
    /// So many, of which the address is a multiple.
    Are(u64),
    /// The number in this operand, in pieces of 16.
    Of(&'static str),
    /// A box of the tensor map in this operand.
    Box(&'static str),
    /// The value in this operand.
    Value(&'static str),
}
use Bytes::{Are, Box as BoxOf, Of, Value as ValueOf};

/// The operands of an instruction that are addresses.
type Uses = &'static [(&'static str, Bytes)];

const BARRIER: Uses = &[("addr", Are(8))];
const BULK: Uses = &[("dst", Of("size")), ("src", Of("size")), ("mbar", Are(8))];
const TENSOR: Uses = &[("dst", BoxOf("map")), ("src", BoxOf("map")), ("mbar", Are(8))];
const SEND: Uses = &[("a", ValueOf("b")), ("mbar", Are(8))];

/// Instructions whose accesses are described. Tensor memory is in no buffer or variable: no property is about accesses of it.
#[rustfmt::skip]
const SIGNALS: &[(&str, Uses)] = &[
    ("mbarrier.init", BARRIER), ("mbarrier.inval", BARRIER), ("mbarrier.arrive", BARRIER), ("mbarrier.arrive.expect_tx", BARRIER),
    ("mbarrier.arrive_drop", BARRIER), ("mbarrier.arrive_drop.expect_tx", BARRIER), ("mbarrier.expect_tx", BARRIER),
    ("mbarrier.complete_tx", BARRIER), ("mbarrier.pending_count", &[]), ("mbarrier.test_wait", BARRIER), ("mbarrier.test_wait.parity", BARRIER),
    ("mbarrier.try_wait", BARRIER), ("mbarrier.try_wait.parity", BARRIER), ("cp.async.mbarrier.arrive", BARRIER),
    ("cp.async.bulk", BULK), ("cp.reduce.async.bulk", BULK), ("cp.async.bulk.tensor", TENSOR), ("cp.reduce.async.bulk.tensor", TENSOR),
    ("cp.async.bulk.prefetch.tensor", &[]), ("cp.async.bulk.commit_group", &[]), ("cp.async.bulk.wait_group", &[]),
    ("st.async", SEND), ("red.async", SEND),
    ("wgmma.fence", &[]), ("wgmma.commit_group", &[]), ("wgmma.wait_group", &[]),
    ("tcgen05.alloc", &[("dst", Are(4))]), ("tcgen05.dealloc", &[]), ("tcgen05.relinquish_alloc_permit", &[]), ("tcgen05.ld", &[]),
    ("tcgen05.st", &[]), ("tcgen05.wait::ld", &[]), ("tcgen05.wait::st", &[]), ("tcgen05.fence::before_thread_sync", &[]),
    ("tcgen05.fence::after_thread_sync", &[]), ("tcgen05.shift", &[]), ("tcgen05.commit", &[("mbar", Are(8))]),
];

/// Finds the matrices in shared memory that an instruction reads; the fact that is missing where they are not described.
type Matrices = fn(&mut Machine<'_>, &Site<'_>) -> Result<Vec<Matrix>, &'static str>;

/// Instructions that read matrices by descriptors.
const PRODUCTS: [(&str, Matrices); 3] =
    [("wgmma.mma_async", of_warp_group), ("tcgen05.mma", of_thread), ("tcgen05.cp", of_copy)];

/// A matrix in shared memory.
struct Matrix {
    /// The operand with its descriptor.
    name: &'static str,
    read: fn(u64) -> Result<Descriptor, String>,
    major: Major,
    /// Lines, and pieces of 16 bytes in each.
    size: [u64; 2],
}

/// Boxes of tensor maps are at multiples of this in shared memory.
const BOX_ALIGN: u64 = 128;
/// In modifiers of copies to other memory than that of the map.
const OVERRIDE: &str = "override";
/// The operand that a copy reads.
const SOURCE: &str = "src";
/// The bytes of which bulk copies move a multiple.
const PIECE: u64 = 16;

/// Bytes of an access, from a place on.
struct Part {
    place: Place,
    cond: Cond,
    size: u64,
    align: u64,
    /// True for the source of a copy.
    is_source: bool,
}

/// Returns true if the accesses of an instruction are described.
pub(crate) fn describes(site: &Site<'_>) -> bool {
    SIGNALS.iter().any(|(name, _)| *name == site.row.name)
}

/// An instruction of which only the accesses are described.
pub(crate) fn signal(
    machine: &mut Machine<'_>,
    at: usize,
    site: &Site<'_>,
    state: &mut State,
    guard: &Cond,
) -> Vec<(RegId, Value)> {
    let missing = format!("`{}` is not described here", site.row.name);
    let found = if let Some((_, uses)) = SIGNALS.iter().find(|(name, _)| *name == site.row.name) {
        uses.iter().map(|(name, bytes)| parts(machine, at, site, (name, *bytes))).collect()
    } else if let Some((_, matrices)) = PRODUCTS.iter().find(|(name, _)| *name == site.row.name) {
        matrices(machine, site)
            .map_err(str::to_owned)
            .and_then(|all| all.iter().map(|matrix| bytes_of(machine, at, site, matrix)).collect())
    } else {
        Err(missing.clone())
    };
    let found: Vec<Vec<Part>> = match found {
        Ok(found) => found,
        Err(missing) => {
            machine.gap(at, missing);
            return Vec::new();
        }
    };
    machine.gap_of_pipeline(at, missing);
    let first = machine.trace.accesses.len();
    for Part { place, cond, size, align, is_source } in found.into_iter().flatten() {
        let guard = Cond::all([guard.clone(), cond]);
        let is_global = machine.bases[place.base].space == Space::Global;
        let kind = if is_source && is_global { Kind::Take } else { Kind::Signal };
        let access = accessed(machine, state, &guard, site, &place, (at, size, kind));
        machine.record(site, state, &place, Access { align, ..access });
    }
    if let Some((_, uses)) = SIGNALS.iter().find(|(name, _)| *name == site.row.name) {
        uses.iter().for_each(|own| note_map(machine, at, site, (*own, first, state)));
    }
    Vec::new()
}

/// The operand of this name, if it is there.
fn operand<'m>(site: &Site<'m>, name: &str) -> Option<&'m Operand> {
    Some(site.operand(site.row.operand(name)?)).filter(|operand| **operand != Operand::Absent)
}

/// The accesses at an operand; none if it is not there.
fn parts(
    machine: &mut Machine<'_>,
    at: usize,
    site: &Site<'_>,
    (name, bytes): (&str, Bytes),
) -> Result<Vec<Part>, String> {
    let Some(address) = operand(site, name) else { return Ok(Vec::new()) };
    let (size, align) = match bytes {
        Are(bytes) => (bytes, bytes),
        Of(size) => return span(machine, at, site, (address, size, name == SOURCE)),
        BoxOf(map) => (box_of(machine, at, site, map)?, BOX_ALIGN),
        ValueOf(value) => {
            let value = operand(site, value).ok_or("the stored value is not described")?;
            let size = site.last_type().map_or(0, |ty| ty.bytes()) * count(site, value);
            (size, size)
        }
    };
    let places = machine.places(at, site, address);
    let is_source = name == SOURCE;
    Ok(places.into_iter().map(|(place, cond)| Part { place, cond, size, align, is_source }).collect())
}

/// The first and the last 16 of so many bytes.
fn span(
    machine: &mut Machine<'_>,
    at: usize,
    site: &Site<'_>,
    (address, size, is_source): (&Operand, &str, bool),
) -> Result<Vec<Part>, String> {
    let missing = "the number of bytes to copy is not described";
    let bytes = match operand(site, size).map(|size| machine.source(site, size, None)) {
        Some(Value::Bits(form)) => machine.world.number(&form, 32, false),
        _ => return Err(missing.to_owned()),
    };
    let some = bytes.plus(-1).map(Cond::at_least).ok_or(missing)?;
    let mut found = Vec::new();
    for (place, cond) in machine.places(at, site, address) {
        let further = bytes.plus(-i128::from(PIECE)).ok_or(missing)?;
        let Some(offset) = place.offset.add(&further) else { return Err(missing.to_owned()) };
        let last = place.at(offset);
        let cond = Cond::all([cond, some.clone()]);
        found.extend([place, last].map(|place| Part {
            place,
            cond: cond.clone(),
            size: PIECE,
            align: PIECE,
            is_source,
        }));
    }
    Ok(found)
}

/// The parameter with the tensor map of a copy, if it is one; the map chosen at run time is no parameter.
fn map_of(machine: &mut Machine<'_>, at: usize, site: &Site<'_>, map: &str) -> Option<String> {
    let Operand::Memory { base, offset, .. } = operand(site, map).or_else(|| operand(site, "dst"))? else {
        return None;
    };
    let map = Operand::Memory { base: *base, offset: *offset, rest: Default::default() };
    match machine.places(at, site, &map).as_slice() {
        [(place, _)] if place.offset.known() == Some(0) => Some(machine.bases[place.base].name.clone()),
        _ => None,
    }
}

/// Records that an instruction copies by a tensor map, if it does, with its first access.
fn note_map(
    machine: &mut Machine<'_>,
    at: usize,
    site: &Site<'_>,
    ((name, bytes), first, state): ((&str, Bytes), usize, &State),
) {
    let (BoxOf(map), Some(_)) = (bytes, operand(site, name)) else { return };
    let is_own = !site.modifiers().any(|own| own.contains(OVERRIDE));
    let coords = coordinates(machine, site, map);
    let map = map_of(machine, at, site, map).filter(|_| is_own);
    let node = state.from.first().copied().unwrap_or(usize::MAX);
    // A copy to shared memory completes at a barrier.
    let writes = operand(site, "mbar").is_none();
    let access = Some(first).filter(|first| *first < machine.trace.accesses.len());
    machine.trace.map(node, MapUse { inst: at, map, writes, access, coords });
}

/// The coordinates beside the map in an operand, which have a sign.
fn coordinates(machine: &mut Machine<'_>, site: &Site<'_>, map: &str) -> Option<Vec<Form>> {
    let Operand::Memory { rest, .. } = operand(site, map)? else { return None };
    let all: Vec<&Operand> = rest
        .iter()
        .flat_map(|own| match own {
            Operand::Vector(all) => &all[..],
            other => std::slice::from_ref(other),
        })
        .collect();
    let mut number = |operand: &Operand| match machine.source(site, operand, None) {
        Value::Bits(form) => Some(machine.world.number(&form, 32, true)),
        _ => None,
    };
    all.into_iter().map(&mut number).collect()
}

/// Modes of copies that move more than a box, or another part of it.
const MODES: [&str; 3] = ["im2col", "gather4", "scatter4"];

/// Bytes of a box of the tensor map in an operand.
fn box_of(machine: &mut Machine<'_>, at: usize, site: &Site<'_>, map: &str) -> Result<u64, String> {
    if site.modifiers().any(|own| MODES.iter().any(|mode| own.contains(mode))) {
        return Err(format!("this mode of `{}` is not described here", site.row.name));
    }
    let map = operand(site, map).or_else(|| operand(site, "dst")).ok_or("the tensor map is not described")?;
    let map = match map {
        Operand::Memory { base, offset, .. } => {
            Operand::Memory { base: *base, offset: *offset, rest: Default::default() }
        }
        other => other.clone(),
    };
    let places = machine.places(at, site, &map);
    let sizes: Option<Vec<u64>> = places
        .iter()
        .map(|(place, _)| {
            let name = &machine.bases[place.base].name;
            machine.boxes.iter().find(|(own, _)| own == name).map(|(_, bytes)| *bytes)
        })
        .collect();
    match sizes.as_deref() {
        Some([first, rest @ ..]) => Ok(rest.iter().copied().fold(*first, u64::max)),
        Some([]) => Err("the tensor map is not described".to_owned()),
        None => Err(no_box(machine, &places)),
    }
}

fn no_box(machine: &Machine<'_>, places: &[(Place, Cond)]) -> String {
    let name = places.first().map_or("", |(place, _)| machine.bases[place.base].name.as_str());
    format!(
        "the size of the boxes of the tensor map `{name}` is not known; help: say its bytes, such as `--box {name}=8192`"
    )
}

/// The bytes of a matrix: all that may be between its first and its last one.
fn bytes_of(machine: &mut Machine<'_>, at: usize, site: &Site<'_>, matrix: &Matrix) -> Result<Vec<Part>, String> {
    let missing = "the descriptor of a matrix in shared memory is not an address with constants";
    let value = operand(site, matrix.name).map(|descriptor| machine.source(site, descriptor, None));
    let Some(Value::Bits(form)) = value else { return Err(missing.to_owned()) };
    let (_, start) = machine.world.floor(&form, 1 << START).ok_or(missing)?;
    let fixed = form.sub(&start).and_then(|fixed| fixed.known()).ok_or(missing)?;
    let fixed = u64::try_from(fixed.rem_euclid(1 << 64)).map_err(|_| missing)?;
    let descriptor = (matrix.read)(fixed)?;
    let address = start.scale(PIECE.into()).ok_or(missing)?;
    let mut found = Vec::new();
    for (place, cond) in machine.places_of(at, address, 64) {
        let span = descriptor.swizzle.span();
        let is_aligned = machine.bases[place.base].align.is_multiple_of(span);
        let rest = place.offset.modulo(span.into()).filter(|_| is_aligned).and_then(|rest| u64::try_from(rest).ok());
        let (first, end) = descriptor.extent(matrix.major, matrix.size, rest);
        let place = place.plus(first).ok_or(missing)?;
        let size = u64::try_from(end - first).map_err(|_| missing)?;
        found.push(Part { place, cond, size, align: 1, is_source: true });
    }
    Ok(found)
}

/// The number that an operand is.
fn number(machine: &mut Machine<'_>, site: &Site<'_>, name: &str) -> Option<u64> {
    match machine.source(site, operand(site, name)?, None) {
        Value::Bits(form) => form.known().and_then(|number| u64::try_from(number).ok()),
        _ => None,
    }
}

/// Bits of 16 bytes, and of a row of a product along K, where A is not sparse.
const PIECE_BITS: u64 = 128;
const ROW_BITS: u64 = 256;

/// Lines and pieces of a factor whose elements have so many bits.
pub(crate) fn lines_of(major: Major, lines: u64, bits: u64) -> [u64; 2] {
    match major {
        Major::K => [lines, ROW_BITS / PIECE_BITS],
        Major::Mn => [ROW_BITS / bits, (lines * bits).div_ceil(PIECE_BITS)],
    }
}

/// The factors of `wgmma`: 64 rows of A, and as many columns of B as its shape has.
fn of_warp_group(machine: &mut Machine<'_>, site: &Site<'_>) -> Result<Vec<Matrix>, &'static str> {
    let missing = "this shape of `wgmma.mma_async` is not described here";
    let columns = |shape: &str| shape.trim_start_matches('.').strip_prefix("m64n")?.split('k').next()?.parse().ok();
    let columns: u64 = site.modifiers().find_map(columns).ok_or(missing)?;
    let bits = site.last_type().map_or(0, |ty| u64::from(ty.bits()));
    if site.is("sp") || site.is("popc") || ROW_BITS.checked_rem(bits) != Some(0) {
        return Err(missing);
    }
    let factors = [("a_desc", "imm_trans_a", 64), ("b_desc", "imm_trans_b", columns)];
    let mut found = Vec::new();
    for (name, transposed, lines) in factors {
        if operand(site, name).is_none() {
            continue;
        }
        let major = if number(machine, site, transposed) == Some(1) { Major::Mn } else { Major::K };
        found.push(Matrix { name, read: Descriptor::wgmma, major, size: lines_of(major, lines, bits) });
    }
    Ok(found)
}

/// Bits of an element in memory, of the kinds of `tcgen05.mma` that are described.
pub(crate) const KINDS: [(&str, u64); 4] =
    [("kind::f16", 16), ("kind::tf32", 32), ("kind::f8f6f4", 8), ("kind::i8", 8)];

/// Forms of `tcgen05.mma` that are not described.
const OTHERS: [&str; 4] = ["sp", "ws", "cta_group::2", "block_scale"];

/// The factors of `tcgen05.mma`.
fn of_thread(machine: &mut Machine<'_>, site: &Site<'_>) -> Result<Vec<Matrix>, &'static str> {
    let missing = "this form of `tcgen05.mma` is not described here";
    let bits = site.one_of(&KINDS).filter(|_| !OTHERS.iter().any(|other| site.is(other))).ok_or(missing)?;
    let word = number(machine, site, "idesc").and_then(|word| u32::try_from(word).ok());
    let Extents { m, n, majors } = Extents::of(word.ok_or("the instruction descriptor is not a number")?);
    let factors = [("a_desc", majors[0], m), ("b_desc", majors[1], n)];
    let factors = factors.into_iter().filter(|(name, ..)| operand(site, name).is_some());
    Ok(factors
        .map(|(name, major, lines)| Matrix {
            name,
            read: Descriptor::tcgen05,
            major,
            size: lines_of(major, lines, bits),
        })
        .collect())
}

/// Rows of the shapes of `tcgen05.cp`, and pieces of 16 bytes in each.
pub(crate) const COPIES: [(&str, [u64; 2]); 5] =
    [("128x256b", [128, 2]), ("4x256b", [4, 2]), ("128x128b", [128, 1]), ("64x128b", [64, 1]), ("32x128b", [32, 1])];

/// The source of `tcgen05.cp`.
fn of_copy(_: &mut Machine<'_>, site: &Site<'_>) -> Result<Vec<Matrix>, &'static str> {
    let size = site.one_of(&COPIES).filter(|_| !site.is("cta_group::2"));
    let size = size.ok_or("this shape of `tcgen05.cp` is not described here")?;
    Ok(vec![Matrix { name: "s_desc", read: Descriptor::tcgen05, major: Major::K, size }])
}

/// `mapa`: the same place in another block's variable. Its order is not described.
pub(crate) fn map(
    machine: &mut Machine<'_>,
    at: usize,
    site: &Site<'_>,
    _: &mut State,
    _: &Cond,
) -> Vec<(RegId, Value)> {
    machine.gap_of_pipeline(at, format!("`{}` is not described here", site.row.name));
    let Value::Bits(address) = machine.source(site, site.operand(1), None) else { return Vec::new() };
    let Operand::Reg(register) = site.operand(0) else { return Vec::new() };
    let is_own = |base: &usize| address.sub(&Form::symbol(machine.base_symbols[*base]));
    let offset = (0..machine.bases.len()).find_map(|base| {
        let offset = is_own(&base)?;
        let is_plain =
            offset.terms.len() < address.terms.len() && offset.terms.iter().all(|(mono, _)| !mono.is_empty());
        is_plain.then_some((base, offset))
    });
    let Some((base, offset)) = offset else { return Vec::new() };
    let Memory { what: What::Var(id), space: Space::Shared, .. } = machine.bases[base] else { return Vec::new() };
    let own = machine.bases[base].clone();
    let what = What::Peer(id, machine.bases.len());
    let peer = machine.add_base(Memory { what, ..own }, 1 << 32);
    let address = peer.add(&offset);
    address.map(|address| vec![(*register, Value::Bits(address))]).unwrap_or_default()
}
