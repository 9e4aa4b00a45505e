//! With a ptxas of two lines of shell: what is asked of it, and what becomes of its answers.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "tests")]

use super::ptxas::{Failure, Ptxas, failures};
use super::{Wish, assemble, best_for, contract};
use crate::compile::{Compiled, Promised, Text};
use crate::kernel::Reader;
use crate::temp_dir::TempDir;
use proc_macro2::{Ident, Span};
use ptx_core::isa::Arch;
use ptx_target::Contract;
use std::process::Command;

/// A program that does this, in the folder that ptxas is run in, and the folder that holds it.
fn ptxas(does: &str) -> (Ptxas, TempDir) {
    let folder = TempDir::new("ptx-expand-test").unwrap();
    let file = folder.path().join("ptxas");
    // Another process writes it: a process that another test starts would inherit the open file, and nobody can run a program that is open
    // for writing.
    let write = r#"printf '#!/bin/sh\n%s\n' "$1" > "$0" && chmod 755 "$0""#;
    let written = Command::new("sh").arg("-c").arg(write).arg(&file).arg(does).status().unwrap();
    assert!(written.success());
    (Ptxas(file), folder)
}

fn compiled(reader: &mut Reader, ptx: &str) -> Compiled {
    let lines = vec![(1, reader.host.token(Span::call_site())), (5, reader.host.token(Span::call_site()))];
    let text = Text { arch: "sm_90a".parse().unwrap(), ptx: ptx.to_owned(), lines, cubins: Vec::new(), checked: None };
    Compiled { texts: vec![text], ..Compiled::default() }
}

fn run(ptxas: Option<Ptxas>, ptx: &str) -> (Compiled, Reader) {
    let mut reader = Reader::default();
    let mut compiled = compiled(&mut reader, ptx);
    let own = [(0, "sm_90a".parse().unwrap())];
    assemble(&mut reader, &mut compiled, ptxas, &own, &Ident::new("cubin", Span::call_site()));
    (compiled, reader)
}

#[test]
fn machine_code_and_log_are_kept() {
    let does = "cp kernel.ptx kernel.cubin; echo \"$*\"; echo 'ptxas info : Compile time = 1 ms'";
    let (ptxas, _folder) = ptxas(does);
    let (compiled, reader) = run(Some(ptxas), "text .loc 1 2 3");
    let cubin = compiled.texts[0].cubins.first().unwrap();
    assert_eq!(cubin.bytes, b"text .loc 1 2 3");
    assert_eq!(cubin.log, "-v -arch=sm_90a -lineinfo kernel.ptx -o kernel.cubin\n");
    assert!(reader.diagnostics.is_empty());
}

/// The log of a kernel that spills.
const SPILLS: &str = "cp kernel.ptx kernel.cubin; echo 'ptxas info    : Function properties for k'; \
                      echo '    64 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads'; echo 'ptxas info    : Used 40 registers'";

/// A kernel that promises not to.
fn promised(reader: &mut Reader) -> Compiled {
    let mut compiled = compiled(reader, ".visible .entry k()\n{\n\n\n    .local .b8 x[56];\n}\n");
    let options = vec![("no_spills".to_owned(), reader.host.token(Span::call_site()))];
    let contract = Contract { no_local: true, no_spills: true, max_registers: 40, ..Contract::NONE };
    compiled.contracts.insert("k".to_owned(), Promised { contract, kernel: "k".to_owned(), options });
    compiled
}

#[track_caller]
fn assert_spills(reader: &Reader) {
    let found: Vec<_> = reader.diagnostics.iter().map(|found| (found.message.as_str(), found.span.lo)).collect();
    let spills = "`k` spills registers: 8 bytes of stores and 8 of loads on sm_90a";
    assert_eq!(found, [("`k` takes 64 bytes of local memory a thread on sm_90a", 1), (spills, 2)]);
}

#[test]
fn promises_that_machine_code_breaks_are_errors() {
    let (ptxas, _folder) = ptxas(SPILLS);
    let mut reader = Reader::default();
    let mut compiled = promised(&mut reader);
    let own = [(0, "sm_90a".parse().unwrap())];
    assemble(&mut reader, &mut compiled, Some(ptxas), &own, &Ident::new("cubin", Span::call_site()));
    assert_spills(&reader);
}

/// Where a ptxas is present, it runs once for a kernel with a contract, on that kernel alone, and embeds nothing.
#[test]
fn a_build_that_does_not_ask_compares_where_it_can() {
    let cache = TempDir::new("ptx-expand-cache").unwrap();
    let (ptxas, folder) = ptxas(&format!("{SPILLS}; echo \"$*\" >> \"${{0%/*}}/calls\""));
    for _ in 0..2 {
        let mut reader = Reader::default();
        let compiled = promised(&mut reader);
        contract::compare_alone(&mut reader, &compiled, Some(Ptxas(ptxas.0.clone())), Some(cache.path()));
        assert_spills(&reader);
        assert!(compiled.texts[0].cubins.is_empty());
    }
    let calls = std::fs::read_to_string(folder.path().join("calls")).unwrap();
    assert_eq!(calls, "-v -arch=sm_90a kernel.ptx -o kernel.cubin -e k\n");
}

/// As without a ptxas: what an old one refuses is no error of a build that does not ask.
#[test]
fn a_build_that_does_not_ask_accepts_what_ptxas_refuses() {
    let (old, _folder) = ptxas("echo 'ptxas fatal   : Unsupported .version 9.0'; exit 1");
    for ptxas in [None, Some(old), Some(Ptxas("/nowhere/ptxas".into()))] {
        let mut reader = Reader::default();
        let compiled = promised(&mut reader);
        contract::compare_alone(&mut reader, &compiled, ptxas, None);
        assert!(reader.diagnostics.is_empty());
    }
}

#[test]
fn errors_stand_on_what_made_the_line() {
    let does =
        "echo 'ptxas kernel.ptx, line 6; error   : Unknown modifier' >&2; echo 'ptxas fatal   : aborted'; exit 1";
    let (ptxas, _folder) = ptxas(does);
    let (compiled, reader) = run(Some(ptxas), "");
    assert!(compiled.texts[0].cubins.is_empty());
    let error = &reader.diagnostics[0];
    assert_eq!((error.message.as_str(), error.span.lo), ("ptxas, for sm_90a: Unknown modifier", 1));
    assert_eq!(reader.diagnostics.len(), 1);
}

#[test]
fn a_ptxas_that_is_not_there_is_an_error() {
    for missing in [None, Some(Ptxas("/nowhere/ptxas".into()))] {
        let (compiled, reader) = run(missing, "");
        assert!(compiled.texts[0].cubins.is_empty());
        assert_eq!((reader.diagnostics.len(), reader.diagnostics[0].code.id), (1, "P0913"));
    }
}

#[test]
fn what_is_said_without_a_line() {
    let one = |message: &str| vec![Failure { line: None, message: message.to_owned() }];
    assert_eq!(failures("ptxas fatal   : Unknown option"), one("Unknown option"));
    assert_eq!(failures("killed\n"), one("killed"));
}

/// The text of a chip is the one that the loader takes there.
#[test]
fn each_chip_has_the_text_that_its_devices_take() {
    let arches = |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect::<Vec<Arch>>();
    let best = |targets: &[&str], chip: &str| {
        best_for(&arches(targets), chip.parse().unwrap()).map(|(text, chip)| (text, chip.to_string()))
    };
    let two = ["sm_80", "sm_90a"];
    assert_eq!(best(&two, "sm_86"), Some((0, "sm_86".to_owned())));
    assert_eq!(best(&two, "sm_90"), Some((1, "sm_90a".to_owned())));
    assert_eq!(best(&two, "sm_100"), Some((0, "sm_100".to_owned())));
    assert_eq!(best(&["sm_100f"], "sm_103"), Some((0, "sm_103".to_owned())));
    assert_eq!(best(&two, "sm_75"), None);
}

#[test]
fn the_environment_is_read_strictly() {
    let of = |value| Wish::of(Some(value));
    assert_eq!((of(""), of("never"), of("always")), (Some(Wish::AsAsked), Some(Wish::Never), Some(Wish::Always)));
    assert_eq!((Wish::of(None), of("yes")), (Some(Wish::AsAsked), None));
    let chips = ["sm_80", "sm_90a"].map(|chip| chip.parse().unwrap());
    assert_eq!((of("sm_80, sm_90a"), of("sm_80,90")), (Some(Wish::For(chips.to_vec())), None));
}
