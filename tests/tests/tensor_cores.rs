//! The CPU device decodes `tcgen05` in every spelling that the table has: every row with every member of its sets.
#![allow(clippy::panic, reason = "tests")]

use ptx_core::check::check;
use ptx_core::isa::table;
use ptx_core::lower::Options;
use ptx_core::parse::parse_text;
use ptx_interp::Program;
use ptx_tests::instance::{Instance, instances};

/// Forms without semantics: `.kind::ti16` exists on a chip of another family, and the manual has little about it.
const WITHOUT: &str = "kind::ti16";

/// Why the CPU device refuses an instruction on the first of these targets that has it; nothing if no target has it (some
/// members exclude each other).
fn verdict(instance: &Instance) -> Option<Result<(), String>> {
    const TARGETS: [&str; 4] = ["sm_100a", "sm_103a", "sm_107a", "sm_110a"];
    let checked = TARGETS.iter().find_map(|target| {
        let text =
            format!(".version 9.4\n.target {target}\n.visible .entry k() {{ {} ret; }}", instance.instruction.body());
        let (tree, errors) = parse_text(text.as_bytes());
        check(tree, errors, &Options::default()).0
    });
    let decoded = Program::new(&checked?).map(|_| ());
    Some(decoded.map_err(|errors| format!("{}: {errors:?}", instance.instruction.body())))
}

#[test]
fn every_spelling_is_decoded() {
    let rows = table().rows().filter(|row| row.file == "tcgen05.isa");
    let verdicts: Vec<_> = rows.flat_map(instances).filter_map(|instance| verdict(&instance)).collect();
    assert!(verdicts.len() > 450, "{} spellings", verdicts.len());
    let refused: Vec<String> =
        verdicts.into_iter().filter_map(Result::err).filter(|why| !why.contains(WITHOUT)).collect();
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}
