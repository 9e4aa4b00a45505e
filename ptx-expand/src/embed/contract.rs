//! The machine code of a text, compared with the contracts of its kernels.

use super::ptxas::Ptxas;
use super::{logs, origin};
use crate::compile::{Compiled, Cubin, Promised, Text};
use crate::kernel::Reader;
use ptx_core::diag::codes;
use ptx_core::hash::Map;
use ptx_core::span::Span;
use ptx_target::sort::SortSmall;
use ptx_target::{Breach, MachineCode};
use std::path::Path;

/// Compares the kernels with a contract where a ptxas is present, and embeds nothing. What it refuses is no error here: a build without ptxas accepts
/// that, and one with an older ptxas must, too.
pub fn compare_alone(reader: &mut Reader, compiled: &Compiled, ptxas: Option<Ptxas>, cache: Option<&Path>) {
    let Some(ptxas) = ptxas.filter(|_| !compiled.failed) else { return };
    let mut entries: Vec<&str> = compiled.contracts.keys().map(String::as_str).collect();
    entries.sort_small();
    for text in &compiled.texts {
        if let Some(log) = logs::log(&ptxas, text, &entries, cache) {
            let cubin = Cubin { arch: text.arch, bytes: Vec::new(), log };
            compare(reader, &compiled.contracts, text, &cubin);
        }
    }
}

/// Reports each promise that the machine code breaks: local memory where it is declared, everything else on the option of the attribute.
pub fn compare(reader: &mut Reader, contracts: &Map<String, Promised>, text: &Text, cubin: &Cubin) {
    let mut entries: Vec<&String> = contracts.keys().collect();
    entries.sort_small();
    for entry in entries {
        let promised = &contracts[entry];
        let Some(code) = MachineCode::from_log(&cubin.log, entry) else { continue };
        for breach in promised.contract.breaches(&code, promised.contract.resident_blocks(&code, cubin.arch)) {
            let message = format!("`{}` {} on {}", promised.kernel, breach.found, cubin.arch);
            let help = format!("{}, or leave out `{}`", breach.help, breach.option);
            if let Some(span) = place(promised, &breach, (text, entry.as_str())) {
                reader.error_at(&codes::P0915, span, message, &help);
            }
        }
    }
}

fn place(promised: &Promised, breach: &Breach, (text, entry): (&Text, &str)) -> Option<Span> {
    let declared = (breach.option == "no_local").then(|| ptx_target::local_array(&text.ptx, entry)).flatten();
    let option = promised.options.iter().find(|(option, _)| option == breach.option).map(|(_, span)| *span);
    declared.and_then(|line| origin(text, line)).or(option)
}
