//! Any module that the checker takes runs on the CPU device in bounded time and memory, with a result or a fault: `cargo +nightly fuzz run run`.
//! The text also chooses the launch, so that an input repeats it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ptx_core::check::check;
use ptx_core::hash::Quick;
use ptx_core::lower::Options as Lowering;
use ptx_core::parse::parse_text;
use ptx_interp::{Fault, Launch, Machine, Options, Program};
use std::hash::Hasher;

/// Warp instructions of a launch, and bytes of all memory.
const STEPS: u64 = 10_000;
const MEMORY: u64 = 256 << 20;
/// Bytes behind each pointer.
const BUFFER: usize = 1 << 12;

/// Numbers that one number determines.
struct Choices(u64);

impl Choices {
    /// One of these numbers.
    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        all[(self.0 >> 33) as usize % all.len()]
    }
}

fuzz_target!(|text: &[u8]| {
    let (tree, earlier) = parse_text(text);
    let (Some(checked), _) = check(tree, earlier, &Lowering::default()) else { return };
    let Ok(program) = Program::new(&checked) else { return };
    let mut hash = Quick::default();
    hash.write(text);
    let mut choices = Choices(hash.finish());
    for entry in program.entries().take(2) {
        let _ = launch(&program, entry, &mut choices);
    }
});

/// Launches one entry with buffers, with addresses beside them, and with numbers that are no address.
fn launch(program: &Program, entry: &str, choices: &mut Choices) -> Result<(), Fault> {
    let mut machine = Machine::new();
    machine.limit_memory(MEMORY);
    machine.cores(1);
    let bytes = usize::try_from(program.param_bytes(entry).unwrap_or(0)).unwrap_or(0);
    let mut params = Vec::new();
    while params.len() < bytes {
        params.extend(argument(&mut machine, choices)?.to_le_bytes());
    }
    params.truncate(bytes);
    let cluster = choices.of(&[1, 1, 1, 2]);
    let launch = Launch {
        entry,
        grid: [choices.of(&[1, 2, 3]) * cluster, choices.of(&[1, 1, 2]), 1],
        block: [choices.of(&[1, 32, 96, 128, 256]), choices.of(&[1, 1, 1, 2]), 1],
        cluster: [cluster, 1, 1],
        dynamic_shared: choices.of(&[0, 0, 1024, 100_000]),
        cooperative: false,
        params: &params,
        options: Options { watch: choices.of(&[true, false]), seed: choices.of(&[0, 1]), step_limit: Some(STEPS) },
    };
    machine.launch(program, &launch).map(drop)
}

fn argument(machine: &mut Machine, choices: &mut Choices) -> Result<u64, Fault> {
    if choices.of(&[true, false, false, false]) {
        return Ok(choices.of(&[0, 1, 7, 300, 1 << 32 | 1, u64::MAX, 1 << 40]));
    }
    let address = machine.alloc(BUFFER as u64)?;
    machine.write(address, &[choices.of(&[0, 1, 0x3f, 0xff]); BUFFER])?;
    Ok(address + choices.of(&[0, 0, 0, 0, 4, 4090, 9000]))
}
