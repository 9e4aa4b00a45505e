//! `setmaxnreg` where ptxas cannot tell with how many registers a thread starts, and ignores it (its note C7508).

use super::Body;
use super::diverge::REGISTERS;
use crate::diag::{Diagnostic, codes};

/// Directives that together give the registers of a thread at its start.
const SUFFICIENT: &[&[&str]] = &[&["maxnreg"], &["minnctapersm", "maxntid"], &["minnctapersm", "reqntid"]];

pub(super) fn check_registers(body: &Body, out: &mut Vec<Diagnostic>) {
    let function = body.function;
    let has = |name: &&str| function.limit(name).is_some();
    if !function.entry || SUFFICIENT.iter().any(|names| names.iter().all(has)) {
        return;
    }
    let Some((_, inst)) = body.all(REGISTERS).next() else { return };
    let name = inst.row.map_or("", |row| row.name);
    let text =
        format!("ptxas ignores `{name}` here: nothing says with how many registers a thread of the kernel starts");
    out.push(
        Diagnostic::warning(&codes::P0725, inst.name_span, text)
            .help("write `.maxnreg` behind the kernel's parameters, or `.minnctapersm 1` beside its `.maxntid` or `.reqntid`")
            .section("9.7.19.5"),
    );
}
