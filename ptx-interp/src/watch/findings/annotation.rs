//! Annotations that do not hold: assumptions and invariants of the text, for the values of the threads that come to them.

use crate::exec::{ExecState, Src};
use crate::fault::{Fault, FaultKind};
use crate::site::Site;
use crate::warp::lanes;
use ptx_core::diag::codes;
use ptx_core::ir::annotation::{Annotation, KINDS, Number};
use ptx_core::ir::{Function, Operand};

/// The annotations between two instructions, as the one in front or behind notes them.
#[derive(Debug, Default)]
pub(in crate::watch) struct Annotations {
    /// Of all threads that come to the instruction.
    before: Box<[Noted]>,
    /// Of those that go on to the next one.
    behind: Box<[Noted]>,
    /// The guard of the instruction: true if it is negated.
    guard: Option<bool>,
}

struct Noted {
    one: Annotation,
    /// Those of its numbers.
    sources: Box<[Src]>,
}

impl std::fmt::Debug for Noted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Noted").field("one", &self.one).finish_non_exhaustive()
    }
}

impl Annotations {
    /// Those of an instruction; nothing where there are none.
    pub(in crate::watch) fn of(site: &Site, function: &Function, at: usize) -> Option<Box<Annotations>> {
        let near = |at: usize, is_before_label: bool| -> Box<[Noted]> {
            let all = function.annotations.iter();
            let here = all.filter(|one| one.at as usize == at && one.is_before_label == is_before_label);
            here.filter_map(|one| Noted::new(site, function, one)).collect()
        };
        let guard = site.inst.guard.map(|guard| guard.negated);
        let found = Annotations { before: near(at, false), behind: near(at + 1, true), guard };
        (!found.before.is_empty() || !found.behind.is_empty()).then(|| Box::new(found))
    }
}

impl Noted {
    fn new(site: &Site, function: &Function, one: &Annotation) -> Option<Noted> {
        let source = |number: &Number| {
            let ty = match number.operand {
                Operand::Reg(register) => function.registers.get(register.index())?.ty,
                Operand::Special(register) => register.ty,
                _ => return None,
            };
            site.source(&number.operand, ty).ok()
        };
        let sources = one.numbers.iter().map(source).collect::<Option<_>>()?;
        Some(Noted { one: one.clone(), sources })
    }

    /// Objects if the condition does not hold in one of the lanes.
    fn check(&self, exec: &ExecState, group: u32) -> Result<(), Fault> {
        for lane in lanes(group) {
            let sources = self.sources.iter().map(|source| exec.fetch_lane(*source, lane));
            let values: Vec<i128> =
                self.one.numbers.iter().zip(sources).map(|(number, bits)| number.of(bits)).collect();
            let value = |at: usize| values.get(at).copied().unwrap_or(0);
            if self.one.holds(&value) != Some(true) {
                return Err(self.found(lane, &values));
            }
        }
        Ok(())
    }

    fn found(&self, lane: usize, values: &[i128]) -> Fault {
        let named = self.one.numbers.iter().zip(values);
        let shown: Vec<String> = named.map(|(number, value)| format!("`{}` = {value}", number.name)).collect();
        let word = KINDS.iter().find(|(_, kind)| *kind == self.one.kind).map_or("", |(word, _)| word);
        let with = if shown.is_empty() { String::new() } else { format!(", with {}", shown.join(", ")) };
        let mut fault = Fault::new(FaultKind::Annotation, format!("`{word}` does not hold: `{}`{with}", self.one.text))
            .code(&codes::W0801)
            .lane(lane)
            .help(
                "exclude such values by a condition of the launch, check them in the kernel, or correct the condition",
            );
        fault.span = Some(self.one.span);
        fault
    }
}

/// A guard is about to decide which lanes run an instruction: all come to it, and the others go on.
pub(in crate::watch) fn check_guard(exec: &ExecState, group: u32, slot: u32, noted: &Annotations) -> Result<(), Fault> {
    check(exec, group, &noted.before)?;
    let negated = if noted.guard == Some(true) { u32::MAX } else { 0 };
    check(exec, group & !(exec.fetch_mask(Src::Reg(slot)) ^ negated), &noted.behind)
}

/// Lanes are about to run an instruction.
pub(in crate::watch) fn check_before(exec: &ExecState, active: u32, noted: &Annotations) -> Result<(), Fault> {
    if noted.guard.is_some() { Ok(()) } else { check(exec, active, &noted.before) }
}

/// Lanes have run it, and go on to the next one.
pub(in crate::watch) fn check_after(exec: &ExecState, active: u32, noted: &Annotations) -> Result<(), Fault> {
    check(exec, active, &noted.behind)
}

fn check(exec: &ExecState, group: u32, noted: &[Noted]) -> Result<(), Fault> {
    noted.iter().try_for_each(|noted| noted.check(exec, group))
}
