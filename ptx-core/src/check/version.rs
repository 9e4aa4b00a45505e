//! The lowest PTX version that a module needs, so that older drivers load it.

use super::{access, features};
use crate::ir::{Inst, Module};
use crate::isa::find::Form;
use crate::isa::{Gate, Version, table};
use crate::lower::rule::Case;
use crate::syntax::Tree;

/// The lowest version with which the module's target, and every instruction, directive and feature of it exist.
pub fn minimum_version(tree: &Tree, module: &Module) -> Version {
    let arch = module.arch;
    let target = table().target(arch).map_or(module.version, |t| t.since);
    let insts = module.functions.iter().flat_map(|f| &f.insts);
    insts
        .map(|inst| of_instruction(inst, module))
        .fold(target, Version::max)
        .max(features::lowest_version(tree, module))
}

fn of_instruction(inst: &Inst, module: &Module) -> Version {
    let (arch, newest) = (module.arch, module.version);
    let Some(row) = inst.row else { return newest };
    let lowest = Version { major: 1, minor: 0 };
    let since = |gate: &Gate| gate.since(arch).unwrap_or(newest);
    let members = inst.slots.iter().flatten().filter_map(|m| m.gate.as_ref());
    let mut gates = members.map(since).fold(since(&row.gate), Version::max).max(lowest);
    for operand in &inst.operands {
        access::specials(operand, &mut |register| gates = gates.max(since(&register.gate)));
    }
    let form = Form { row, slots: inst.slots.clone(), reordered: false, idle: None };
    let holds = |version: Version| {
        let case = Case { form: &form, operands: &inst.operands, options: &module.options, arch, version };
        row.rules().iter().all(|rule| rule.check(&case).is_ok())
    };
    versions(gates, newest).find(|v| holds(*v)).unwrap_or(newest)
}

/// Every version from `lo` to `hi`; minors that never came out do no harm.
fn versions(lo: Version, hi: Version) -> impl Iterator<Item = Version> {
    let all = (lo.major..=hi.major).flat_map(|major| (0..=9).map(move |minor| Version { major, minor }));
    all.filter(move |v| (lo..=hi).contains(v))
}
