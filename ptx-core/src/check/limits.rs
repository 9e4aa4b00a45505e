//! Performance and cluster directives: where they stand, what their numbers may be, which exclude or need each other.

use crate::diag::{Diagnostic, codes};
use crate::ir::{Function, Limit, Module};
use crate::isa::table;
use crate::syntax::Tree;

/// Directives whose numbers are greater than zero.
const POSITIVE: &[&str] = &["maxntid", "reqntid", "minnctapersm", "maxnreg", "local_maxnreg", "maxnctapersm"];

/// Pairs that ptxas refuses on one kernel.
const EXCLUSIVE: &[(&str, &str)] =
    &[("maxntid", "reqntid"), ("reqnctapercluster", "maxclusterrank"), ("maxnctapersm", "minnctapersm")];

/// A directive and those that must stand beside it.
const NEEDS: &[(&str, &[&str])] = &[("blocksareclusters", &["reqntid", "reqnctapercluster"])];

pub(super) fn check_limits(_: &Tree, module: &Module, out: &mut Vec<Diagnostic>) {
    for function in &module.functions {
        for limit in &function.limits {
            place(function, limit, out);
            numbers(limit, out);
            needs(function, limit, out);
        }
        for (a, b) in EXCLUSIVE {
            if let (Some(first), Some(second)) = (function.limit(a), function.limit(b)) {
                let text = format!("`.{a}` and `.{b}` exclude each other");
                out.push(
                    Diagnostic::error(&codes::P0610, second.span, text).label(first.span, "the other stands here"),
                );
            }
        }
    }
}

fn place(function: &Function, limit: &Limit, out: &mut Vec<Diagnostic>) {
    let Some(info) = table().directives.get(format!(".{}", limit.name).as_str()) else {
        if !out.iter().any(|d| d.span == limit.span) {
            let text = format!("there is no directive `.{}`", limit.name);
            out.push(Diagnostic::error(&codes::P0616, limit.span, text));
        }
        return;
    };
    let here = if function.entry { "entry" } else { "func" };
    if !info.place.split(' ').any(|place| place == here) {
        let text = format!("`.{}` has no place in an `.{here}`", limit.name);
        out.push(Diagnostic::error(&codes::P0616, limit.span, text).section(info.section));
    }
}

fn needs(function: &Function, limit: &Limit, out: &mut Vec<Diagnostic>) {
    let Some((name, needed)) = NEEDS.iter().find(|(name, _)| *name == limit.name) else { return };
    let missing = needed.iter().find(|n| function.limit(n).is_none());
    if let Some(missing) = missing {
        let text = format!("`.{name}` needs `.{missing}` beside it");
        out.push(Diagnostic::error(&codes::P0610, limit.span, text));
    }
}

fn numbers(limit: &Limit, out: &mut Vec<Diagnostic>) {
    if POSITIVE.contains(&limit.name.as_str()) && limit.values.contains(&0) {
        let text = format!("the numbers of `.{}` are greater than zero", limit.name);
        out.push(Diagnostic::error(&codes::P0609, limit.span, text).section("11.4"));
    }
}
