//! The CPU device on modules with mistakes and with arguments that nobody meant for them: each launch ends in bounded time and memory, with a result
//! or a fault, never with a panic.
//!
//! Ignored: it runs as long as one lets it. `cargo test --release -p ptx-tests --test module_hostile -- --ignored --nocapture`, with
//! `PTX_RANDOM_SIZE` (launches, 20,000 if not set), `PTX_RANDOM_SEED`, and `PTX_RANDOM_KEEP` (a folder for modules on which one of this fails).
#![allow(clippy::print_stdout, clippy::expect_used, reason = "tests")]

use ptx_core::check::check;
use ptx_core::parse::parse_text;
use ptx_interp::{Fault, Launch, Machine, Options, Program};
use ptx_tests::disturb::disturb;
use ptx_tests::modules::{keep, of_at_most};
use ptx_tests::random::{Random, setting};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Bytes of a module that is mutated.
const LARGEST: u64 = 40_000;
/// Warp instructions of a launch, and what it may take on a machine with other work.
const STEPS: u64 = 30_000;
const LONGEST: Duration = Duration::from_secs(20);
/// Bytes behind each pointer.
const BUFFER: usize = 1 << 14;

#[test]
#[ignore = "long: see tests/README.md"]
fn mutated_modules_end() {
    let mut random = Random::new(setting("PTX_RANDOM_SEED", 1) as u64);
    let (size, texts) = (setting("PTX_RANDOM_SIZE", 20_000), of_at_most(LARGEST).expect("texts"));
    let (mut launches, mut ends, mut longest, mut wrong) = (0, BTreeMap::<String, usize>::new(), Duration::ZERO, 0);
    while launches < size {
        let Some(text) = mutated(&texts, &mut random) else { continue };
        let start = Instant::now();
        let ended = catch_unwind(AssertUnwindSafe(|| launch_all(&text, &mut random)));
        longest = longest.max(start.elapsed());
        let Ok(ended) = ended else {
            wrong += 1;
            keep(&text, wrong).expect("a folder");
            continue;
        };
        if start.elapsed() > LONGEST {
            wrong += 1;
            println!("{:?}", start.elapsed());
            keep(&text, wrong).expect("a folder");
        }
        launches += ended.len();
        ended.into_iter().for_each(|end| *ends.entry(end).or_default() += 1);
    }
    println!("{launches} launches, the longest module {longest:?}, {ends:?}");
    assert_eq!(wrong, 0, "panics, and launches without end");
}

/// A module with up to three mistakes.
fn mutated(texts: &[String], random: &mut Random) -> Option<String> {
    let first = random.pick(texts)?.clone();
    let count = random.below(4);
    (0..count).try_fold(first, |text, _| Some(disturb(&text, random)?.0))
}

/// Launches every entry of a module that the checker takes; how each ended.
fn launch_all(text: &str, random: &mut Random) -> Vec<String> {
    let (tree, earlier) = parse_text(text.as_bytes());
    let (Some(checked), _) = check(tree, earlier, &Default::default()) else { return Vec::new() };
    let Ok(program) = Program::new(&checked) else { return Vec::new() };
    let entries: Vec<String> = program.entries().take(4).map(str::to_owned).collect();
    let end = |entry: &String| match launch(&program, entry, random) {
        Ok(()) => "no fault".to_owned(),
        Err(fault) => format!("{:?}", fault.kind),
    };
    entries.iter().map(end).collect()
}

fn launch(program: &Program, entry: &str, random: &mut Random) -> Result<(), Fault> {
    let mut machine = Machine::new();
    machine.cores(1 + random.below(2));
    let bytes = usize::try_from(program.param_bytes(entry).unwrap_or(0)).unwrap_or(0);
    let mut params = Vec::new();
    while params.len() < bytes {
        params.extend(argument(&mut machine, random)?.to_le_bytes());
    }
    params.truncate(bytes);
    let number = |random: &mut Random, all: &[u32]| random.pick(all).copied().unwrap_or(1);
    let cluster = number(random, &[1, 1, 1, 2]);
    let launch = Launch {
        entry,
        grid: [number(random, &[1, 2, 3, 40]) * cluster, number(random, &[1, 1, 1, 2]), 1],
        block: [number(random, &[1, 32, 96, 128, 256]), number(random, &[1, 1, 1, 2]), 1],
        cluster: [cluster, 1, 1],
        dynamic_shared: number(random, &[0, 0, 1024, 100_000]),
        cooperative: false,
        params: &params,
        options: Options { watch: !random.once_in(3), seed: random.below(3) as u64, step_limit: Some(STEPS) },
    };
    machine.launch(program, &launch).map(drop)
}

/// The address of a buffer, or of something in it or beyond; a small number; any.
fn argument(machine: &mut Machine, random: &mut Random) -> Result<u64, Fault> {
    if random.once_in(4) {
        let small = random.below(300) as u64;
        return Ok(random.pick(&[small, small | small << 32, 0, u64::MAX, small << 40]).copied().unwrap_or(0));
    }
    let address = machine.alloc(BUFFER as u64)?;
    let byte = random.below(256) as u8;
    machine.write(address, &[byte; BUFFER])?;
    Ok(address + if random.once_in(6) { random.below(2 * BUFFER) as u64 } else { 0 })
}
