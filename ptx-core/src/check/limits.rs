//! Performance and cluster directives: their numbers, and which exclude each other.

use crate::diag::{Diagnostic, codes};
use crate::ir::{Limit, Module};
use crate::isa::table;
use crate::syntax::Tree;

/// A directive with numbers: how many it takes, and whether zero is one of them.
struct Numbers {
    name: &'static str,
    least: usize,
    most: usize,
    zero: bool,
}

const NUMBERS: &[Numbers] = &[
    Numbers { name: "maxntid", least: 1, most: 3, zero: false },
    Numbers { name: "reqntid", least: 1, most: 3, zero: false },
    Numbers { name: "minnctapersm", least: 1, most: 1, zero: false },
    Numbers { name: "maxnreg", least: 1, most: 1, zero: false },
    Numbers { name: "reqnctapercluster", least: 1, most: 3, zero: true },
    Numbers { name: "maxclusterrank", least: 1, most: 1, zero: false },
];

/// Pairs that ptxas refuses on one kernel.
const EXCLUSIVE: &[(&str, &str)] =
    &[("maxntid", "reqntid"), ("reqnctapercluster", "maxclusterrank"), ("maxnctapersm", "minnctapersm")];

pub(super) fn check(_: &Tree, module: &Module, out: &mut Vec<Diagnostic>) {
    for function in &module.functions {
        for limit in &function.limits {
            numbers(limit, out);
            gate(limit, module, out);
        }
        for (a, b) in EXCLUSIVE {
            let find = |name: &str| function.limits.iter().find(|l| l.name == name);
            if let (Some(first), Some(second)) = (find(a), find(b)) {
                let text = format!("`.{a}` and `.{b}` exclude each other");
                out.push(Diagnostic::error(&codes::P0610, second.span, text).label(first.span, "the other stands here"));
            }
        }
    }
}

fn numbers(limit: &Limit, out: &mut Vec<Diagnostic>) {
    let Some(rule) = NUMBERS.iter().find(|n| n.name == limit.name) else { return };
    if !(rule.least..=rule.most).contains(&limit.values.len()) {
        let text = format!("`.{}` takes {} to {} numbers, not {}", limit.name, rule.least, rule.most, limit.values.len());
        out.push(Diagnostic::error(&codes::P0609, limit.span, text).section("11.4"));
    } else if !rule.zero && limit.values.contains(&0) {
        let text = format!("the numbers of `.{}` are greater than zero", limit.name);
        out.push(Diagnostic::error(&codes::P0609, limit.span, text).section("11.4"));
    }
}

fn gate(limit: &Limit, module: &Module, out: &mut Vec<Diagnostic>) {
    let Some(info) = table().directives.get(format!(".{}", limit.name).as_str()) else { return };
    if !info.gate.admits(module.arch, module.version) {
        let what = format!(".{}", limit.name);
        let d = crate::lower::gate(limit.span, &what, &info.gate, module.arch, module.version);
        out.push(d.section(info.section));
    }
}
