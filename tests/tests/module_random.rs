//! The checker against ptxas on whole modules with a mistake: those of `corpus/`, of `shared/corpus` where it is, and of the
//! filetests, as far as both take them, and no larger than a page or two.
//!
//! Ignored: a figure, not a yes or no. `cargo test --release -p ptx-tests --test module_random -- --ignored --nocapture`, with
//! `PTX_RANDOM_SIZE` (modules, 1000 if not set), `PTX_RANDOM_SEED`, and `PTX_RANDOM_KEEP` (a folder for those on which we
//! and ptxas differ).
#![allow(clippy::print_stdout, clippy::expect_used, reason = "tests")]

use ptx_core::check::check;
use ptx_core::isa::table;
use ptx_core::lex::lex;
use ptx_core::parse::parse_text;
use ptx_tests::disturb::disturb;
use ptx_tests::judge::{Judge, Verdict};
use ptx_tests::modules::{keep, of_at_most};
use ptx_tests::ptxas::ENDLESS;
use ptx_tests::random::{Random, setting};
use std::collections::BTreeMap;

/// Bytes of a module that is mutated.
const LARGEST: u64 = 5000;

/// At most one disagreement in so many modules.
const ALLOWED: usize = 200;

#[test]
#[ignore = "long, and needs ptxas: see tests/README.md"]
fn random_modules_are_judged_alike() {
    let judge = Judge::find().expect("a ptxas");
    let mut random = Random::new(setting("PTX_RANDOM_SEED", 1) as u64);
    let size = setting("PTX_RANDOM_SIZE", 1000);
    let is_sound = |text: &String| ours(text).is_none() && difference(&judge, text).is_none();
    let sound: Vec<String> = of_at_most(LARGEST).expect("texts").into_iter().filter(is_sound).collect();
    println!("{} modules", sound.len());
    let (mut judged, mut wrong) = (0, BTreeMap::<&str, usize>::new());
    while judged < size {
        let text = random.pick(&sound).expect("a module");
        let Some((text, kind)) = disturb(text, &mut random) else { continue };
        judged += 1;
        if let Some(why) = difference(&judge, &text) {
            *wrong.entry(kind).or_default() += 1;
            println!("{judged}: {kind}: {why}");
            keep(&text, judged).expect("a folder");
        }
    }
    let total: usize = wrong.values().sum();
    println!("{total} of {size} verdicts differ: {wrong:?}");
    assert!(total * ALLOWED <= size, "more than one in {ALLOWED}");
}

/// The part of one verdict that the other lacks.
fn difference(judge: &Judge, text: &str) -> Option<String> {
    let (ours, arch) = (ours(text), arch(text));
    let theirs = judge.code_verdict("", &arch, text).expect("ptxas runs");
    match (ours, theirs) {
        (_, Verdict::Endless) => Some(ENDLESS.to_owned()),
        (Some(ours), Verdict::Taken) => Some(format!("we say: {ours}")),
        (None, Verdict::Refused(theirs)) => Some(format!("ptxas says: {theirs}")),
        _ => None,
    }
}

/// The first error, and its line.
fn ours(text: &str) -> Option<String> {
    let (tree, earlier) = parse_text(text.as_bytes());
    let (_, diagnostics) = check(tree, earlier, &Default::default());
    let first = diagnostics.iter().find(|d| d.is_error())?;
    let line = text[..first.span.lo as usize].lines().count();
    Some(format!("line {line}: {}: {}", first.code.id, first.message))
}

/// The target, or the oldest that ptxas has.
fn arch(text: &str) -> String {
    let (source, _) = lex(text.as_bytes());
    let mut tokens = 0..source.tokens.len() as u32;
    let named = tokens.find(|id| source.text(*id) == ".target").map(|id| source.text(id + 1));
    let mut known = table().targets.iter().filter(|t| t.assembled).map(|t| t.arch.to_string());
    known.find(|arch| Some(arch.as_str()) == named).unwrap_or_else(|| "sm_75".to_owned())
}
