//! Asynchronous copies of single threads (`cp.async`) that nothing waits for.

use super::{Body, Pattern};
use crate::diag::{Code, Diagnostic, codes};

const COPY: &[Pattern] = &[("cp.async", "")];
const WAIT: &[Pattern] = &[("cp.async.wait_group", ""), ("cp.async.wait_all", ""), ("cp.async.mbarrier.arrive", "")];
const COMMIT: &[Pattern] =
    &[("cp.async.commit_group", ""), ("cp.async.wait_all", ""), ("cp.async.mbarrier.arrive", "")];

/// Instructions that must follow a copy, with the message if they do not.
const STEPS: &[(&[Pattern], &Code, &str, &str)] = &[
    (
        WAIT,
        &codes::P0731,
        "nothing waits for this copy",
        "write `cp.async.wait_all` (or commit it and `cp.async.wait_group 0`), then a barrier, before the data are read",
    ),
    (
        COMMIT,
        &codes::P0732,
        "this copy is in no group, so that `cp.async.wait_group` does not wait for it",
        "write `cp.async.commit_group` behind the copies of a group",
    ),
];

pub(super) fn check_copies(body: &Body, out: &mut Vec<Diagnostic>) {
    if !body.has(COPY) || body.elsewhere(WAIT) || body.elsewhere(COMMIT) {
        return;
    }
    for (those, code, text, help) in STEPS {
        if let Some(inst) = body.without(COPY, those) {
            return out.push(Diagnostic::warning(code, inst.name_span, *text).help(*help).section("9.7.9.25.3"));
        }
    }
}
