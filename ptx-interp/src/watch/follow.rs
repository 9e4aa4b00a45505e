//! Values from memory that nobody has written, from a load to where they matter.
//!
//! Correct kernels load more than they use: the last word of a padded vector, the rows of a tile that are not there. So vector
//! loads and `ldmatrix` give such registers no value, and what is computed from them has none either, lane by lane; a product
//! of matrices loses the rows and columns that they are in. Only a branch, an address, a write to global memory and the like
//! object. Other loads object themselves. None of this is done before the first such load.

use super::Watch;
use super::blank;
use super::findings;
use super::threads::Threads;
use crate::exec::{ExecState, Src};
use crate::fault::Fault;
use crate::observe::Touch;
use crate::site::Site;
use crate::warp::lanes;
use ptx_core::check::access;
use ptx_core::ir::{Inst, Operand};
use ptx_core::isa::Access;

/// Effect of an instruction on registers without a value.
#[derive(Clone, Debug)]
enum Kind {
    /// Its results have none where one of its sources has none.
    Computes,
    /// The same where none of its sources has one.
    Passes,
    /// It needs them all.
    Needs,
    /// It needs its addresses only.
    Stores,
    /// Lanes take them from each other.
    Shuffles,
    /// A product, by its fragments D, A, B and C.
    Multiplies([Box<[u32]>; 4]),
}

/// Instructions that need what they are given: others see it.
const NEEDS: &[&str] = &[
    "atom",
    "red",
    "multimem",
    "bar",
    "barrier",
    "vote",
    "match",
    "redux",
    "mbarrier",
    "brx",
    "nanosleep",
    "sust",
    "sured",
];

/// The registers of an instruction, by slot, and what becomes of those without a value.
#[derive(Clone, Debug)]
pub(crate) struct Follow {
    kind: Kind,
    reads: Box<[u32]>,
    addresses: Box<[u32]>,
    writes: Box<[u32]>,
    /// True if it has other sources, which always have a value.
    more: bool,
}

impl Follow {
    pub(crate) fn new(site: &Site, inst: &Inst) -> Follow {
        let (mut reads, mut writes, mut addresses) = (Vec::new(), Vec::new(), Vec::new());
        let plain = Inst { guard: None, ..inst.clone() };
        access::registers(&plain, &mut |register, how| {
            let Ok(slot) = site.slot(register) else { return };
            if how != Access::Write {
                reads.push(slot);
            }
            if how != Access::Read {
                writes.push(slot);
            }
        });
        for operand in &inst.operands {
            if let Operand::Memory { base, .. } = operand {
                addresses.extend(base.register().and_then(|register| site.slot(register).ok()));
            }
        }
        let immediate = |operand: &Operand| matches!(operand, Operand::Int(_) | Operand::Special(_));
        let more = inst.operands.iter().any(immediate);
        let kind = kind(site, inst);
        Follow { kind, reads: reads.into(), addresses: addresses.into(), writes: writes.into(), more }
    }
}

fn kind(site: &Site, inst: &Inst) -> Kind {
    let opcode = site.row.opcode();
    let global = || inst.slots.iter().flatten().all(|m| !m.text.starts_with("shared") && !m.text.starts_with("local"));
    if let Some(fragments) = fragments(site) {
        return Kind::Multiplies(fragments);
    }
    match () {
        () if opcode == "st" && global() || NEEDS.contains(&opcode) => Kind::Needs,
        () if opcode == "shfl" => Kind::Shuffles,
        () if blank::PASS.contains(&opcode) => Kind::Passes,
        () if inst.operands.iter().any(|operand| matches!(operand, Operand::Memory { .. })) => Kind::Stores,
        () => Kind::Computes,
    }
}

/// The fragments of a product of 16 rows and 8 columns; other shapes are taken to have values everywhere.
fn fragments(site: &Site) -> Option<[Box<[u32]>; 4]> {
    site.modifiers.iter().find(|m| m.starts_with("m16n8"))?;
    let of = |name: &str| {
        let slot = |operand: &Operand| match operand {
            Operand::Reg(register) => site.slot(*register).ok(),
            _ => None,
        };
        site.elements(site.named(name)?).iter().map(slot).collect::<Option<Box<[u32]>>>()
    };
    Some([of("d")?, of("a")?, of("b")?, of("c")?])
}

/// The registers of a warp that have no value, by their absolute number a bit for each lane; and the first load that gave one none.
#[derive(Debug)]
pub(crate) struct Gaps {
    empty: Vec<u32>,
    pc: u32,
    first: Fault,
}

impl Gaps {
    fn of(&self, slot: u32) -> u32 {
        self.empty.get(slot as usize).copied().unwrap_or(0)
    }

    fn set(&mut self, slot: u32, group: u32, empty: u32) {
        let slot = slot as usize;
        if self.empty.len() <= slot && empty & group != 0 {
            self.empty.resize(slot + 1, 0);
        }
        if let Some(lanes) = self.empty.get_mut(slot) {
            *lanes = *lanes & !group | empty & group;
        }
    }
}

/// The registers without a value of the running warp, if it has any.
fn gaps_of<'c>(exec: &'c mut ExecState) -> Option<&'c mut Gaps> {
    Threads::of_mut(&mut exec.warp.kept)?.gaps.as_deref_mut()
}

impl Watch {
    /// Lanes have loaded a register from bytes that nobody has written, from byte `byte` of the access on.
    #[cold]
    pub(super) fn begin_gap(&self, exec: &mut ExecState, (slot, group): (u32, u32), touch: &Touch, byte: u64) {
        if gaps_of(exec).is_none() {
            let first = findings::unwritten::found(exec, &self.notes, touch, byte);
            let pc = exec.warp.at;
            let Some(threads) = Threads::of_mut(&mut exec.warp.kept) else { return };
            threads.gaps = Some(Box::new(Gaps { empty: Vec::new(), pc, first }));
            exec.warp.reported = true;
        }
        let slot = exec.warp.origin + slot;
        if let Some(gaps) = gaps_of(exec) {
            gaps.set(slot, group, group);
        }
    }

    /// Follows the running instruction: its results have a value or not, and it may need one.
    pub(super) fn follow(&self, exec: &mut ExecState, active: u32) -> Result<(), Fault> {
        let (at, origin) = (exec.warp.at, exec.warp.origin);
        let Some(gaps) = gaps_of(exec) else { return Ok(()) };
        let Some(follow) = self.notes.at(at).and_then(|note| note.follow.as_ref()) else { return Ok(()) };
        let needed = if matches!(follow.kind, Kind::Needs) { &follow.reads } else { &follow.addresses };
        let missing = needed.iter().map(|slot| (*slot, gaps.of(origin + slot) & active)).find(|(_, empty)| *empty != 0);
        if let Some((slot, empty)) = missing {
            return Err(no_value(exec, slot, empty));
        }
        let of = |slot: &u32| gaps.of(origin + slot);
        let empty = match &follow.kind {
            Kind::Computes => follow.reads.iter().fold(0, |empty, slot| empty | of(slot)),
            Kind::Passes if !follow.more && !follow.reads.is_empty() => {
                follow.reads.iter().fold(u32::MAX, |empty, slot| empty & of(slot))
            }
            Kind::Multiplies(fragments) => {
                let empty = product(gaps, origin, fragments);
                for (slot, empty) in fragments[0].iter().zip(empty) {
                    gaps.set(origin + slot, active, empty);
                }
                return Ok(());
            }
            _ => 0,
        };
        if !matches!(follow.kind, Kind::Shuffles) {
            follow.writes.iter().for_each(|slot| gaps.set(origin + slot, active, empty));
        }
        Ok(())
    }
}

/// Lanes get what other lanes have, or have not.
pub(super) fn shuffle(exec: &mut ExecState, (to, from): (u32, Src), group: u32, source: &dyn Fn(usize) -> usize) {
    let origin = exec.warp.origin;
    let Some(gaps) = gaps_of(exec) else { return };
    let given = if let Src::Reg(from) = from { gaps.of(origin + from) } else { 0 };
    let empty = lanes(group).fold(0, |mask, lane| mask | (given >> source(lane) & 1) << lane);
    gaps.set(origin + to, group, empty);
}

/// Checks that a guard may decide about these lanes.
pub(super) fn check_guard(exec: &ExecState, group: u32, slot: u32) -> Result<(), Fault> {
    let Some(threads) = Threads::of(&exec.warp.kept) else { return Ok(()) };
    let empty = threads.borrow().gaps.as_ref().map_or(0, |gaps| gaps.of(exec.warp.origin + slot) & group);
    if empty == 0 { Ok(()) } else { Err(no_value(exec, slot, empty)) }
}

fn no_value(exec: &ExecState, slot: u32, empty: u32) -> Fault {
    let function = exec.listing.code.get(exec.warp.at as usize).map_or(0, |code| code.function);
    let name = exec.listing.register_name(function, slot);
    let lane = empty.trailing_zeros() as usize % 32;
    let gaps = Threads::of(&exec.warp.kept).map(|threads| threads.borrow());
    let first = gaps.as_ref().and_then(|threads| threads.gaps.as_ref()).map(|gaps| (gaps.pc, &gaps.first));
    findings::unwritten::mattered(exec.listing, (name, lane), first)
}

/// Sums of a product without a value: rows g and g + 8 of A are the registers with even and with odd numbers of the
/// lanes 4g to 4g + 3, column g of B is theirs, too; a lane's sums are the columns 2t and 2t + 1 of its rows.
fn product(gaps: &Gaps, origin: u32, [d, a, b, c]: &[Box<[u32]>; 4]) -> Vec<u32> {
    let any =
        |registers: &mut dyn Iterator<Item = &u32>| registers.fold(0, |empty, slot| empty | gaps.of(origin + slot));
    let quads = |lanes: u32| (0..8).fold(0u32, |mask, quad| mask | u32::from(lanes >> (4 * quad) & 15 != 0) << quad);
    let rows = [0, 1].map(|odd| quads(any(&mut a.iter().skip(odd).step_by(2))));
    let columns = quads(any(&mut b.iter()));
    let halves = d.len() / 2;
    (0..d.len())
        .map(|i| {
            let row = rows[usize::from(i >= halves)];
            let own = c.get(i).map_or(0, |slot| gaps.of(origin + slot));
            (0..32u32).fold(own, |mask, lane| {
                let (group, column) = (lane / 4, 2 * (lane % 4));
                // A register of two halves is two columns.
                let both = halves == 1 || i % 2 == 0;
                let hit = row >> group & 1 == 1
                    || both && columns >> column & 1 == 1
                    || (halves == 1 || i % 2 == 1) && columns >> (column + 1) & 1 == 1;
                mask | u32::from(hit) << lane
            })
        })
        .collect()
}
