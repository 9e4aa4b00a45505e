//! The table holds together: every line is read, every spelling has its place.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use ptx_core::check::check;
use ptx_core::diag::Diagnostic;
use ptx_core::isa::{Arch, Version, show, table};
use ptx_core::lower::Options;
use ptx_core::parse::parse_text;

#[test]
fn every_line_is_read() {
    let mistakes = table().mistakes();
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

/// Helps quote rules and gates, so each of them is words, and no notation of the table.
#[test]
fn every_rule_is_said_in_words() {
    let table = table();
    let mut wrong = Vec::new();
    let rows = table.opcodes().into_iter().flat_map(|opcode| table.forms(opcode));
    for row in rows {
        let rules = row.rules().iter().map(|rule| show::rule(row, rule));
        for text in rules.chain([show::operands(row)]) {
            // What stands in backticks is PTX.
            let words: String = text.split('`').step_by(2).collect();
            let notation = words.contains(['=', '<', '>', '&', '@', '!', '?', '*', '+', '~', '$', '#', '|']);
            let empty =
                text.split(", ").any(|part| part.trim().is_empty() || part.trim() == "where") && !text.is_empty();
            if notation || empty || text.contains("``") || text.contains("`.`") || text.contains("  ") {
                wrong.push(format!("{}: {text}", row.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Instructions that some targets have.
const GATED: [&str; 8] = [
    "tensormap.replace.tile.global_address.shared::cta.b1024.b64 [d], d;",
    "setmaxnreg.inc.sync.aligned.u32 240;",
    "wgmma.fence.sync.aligned;",
    "tcgen05.fence::before_thread_sync;",
    "griddepcontrol.wait;",
    "cp.async.wait_all;",
    "barrier.cluster.arrive;",
    "fence.proxy.async;",
];

fn refusals(target: Arch, instruction: &str) -> Vec<Diagnostic> {
    let text = format!(
        ".version {}\n.target {target}\n.address_size 64\n.visible .entry k() {{ .reg .b64 d; mov.u64 d, 0; {instruction} ret; }}",
        Version::NEWEST
    );
    let (tree, earlier) = parse_text(text.as_bytes());
    let found = check(tree, earlier, &Options::default()).1;
    found.into_iter().filter(|diagnostic| diagnostic.code.id == "P0401").collect()
}

#[test]
fn a_help_names_targets_of_the_same_chip_that_have_the_instruction() {
    let targets = || table().targets.iter().map(|target| target.arch);
    for (target, instruction) in targets().flat_map(|target| GATED.map(|instruction| (target, instruction))) {
        for diagnostic in refusals(target, instruction) {
            let help = &diagnostic.help[0];
            let named: Vec<Arch> =
                help.split('`').filter_map(|code| code.strip_prefix(".target ")?.parse().ok()).collect();
            let having = |arch: &Arch| refusals(*arch, instruction).is_empty();
            assert!(named.iter().all(having), "{target} {instruction} {help}");
            if targets().any(|other| other.number == target.number && having(&other)) {
                assert!(
                    !named.is_empty() && named.iter().all(|other| other.number == target.number),
                    "{target} {instruction} {help}"
                );
            }
            assert!(named.iter().all(|other| other.number >= target.number), "{target} {instruction} {help}");
        }
    }
}
