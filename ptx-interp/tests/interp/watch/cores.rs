//! Findings on several cores: word for word those of one. Blocks that only turn come first, so that those of the case run ahead.

use super::{
    Case, asynchronous, barriers, follow, idioms, memory, mistakes, pipelines, races, resources, tensor, written_out,
};
use crate::cores::told;
use crate::harness::{one_in, program};
use ptx_interp::{Launch, Machine, Options, Program};

/// Blocks that turn, a multiple of every cluster.
const IDLE: u32 = 24;

/// The kernel with idle blocks before those of the case.
fn padded(case: &Case, part: &str) -> String {
    // A block is worth so much work however many warps it has.
    let turns = 4000 / case.threads.div_ceil(32);
    let idle = format!(
        "mov.u32 %t, %tid.x;
         .reg .b32 %id, %turn; .reg .pred %idle; mov.u32 %id, %ctaid.x; setp.ge.u32 %idle, %id, {IDLE}; @%idle bra CASE; mov.u32 %turn, 0;
         IDLE: add.u32 %turn, %turn, 1; setp.lt.u32 %idle, %turn, {turns}; @%idle bra IDLE; ret;
         CASE: sub.u32 %id, %id, {IDLE};\n"
    );
    let text = written_out(case, part).replace("%ctaid.x", "%id");
    text.replacen("mov.u32 %t, %tid.x;", &idle, 1)
}

/// Outcome of a case on so many cores.
fn outcome(case: &Case, program: &Program, cores: usize) -> Result<Vec<u8>, String> {
    let mut machine = Machine::new();
    machine.cores(cores);
    let out = machine.alloc(4096).unwrap();
    machine.write(out, &[0; 4096]).unwrap();
    let launch = Launch {
        entry: "k",
        grid: [case.blocks + IDLE, 1, 1],
        block: [case.threads, 1, 1],
        cluster: [case.cluster, 1, 1],
        dynamic_shared: 0,
        cooperative: case.cooperative,
        params: &out.to_le_bytes(),
        options: Options { step_limit: Some(20_000_000), ..Options::default() },
    };
    let result = machine.launch(program, &launch);
    let mut bytes = vec![0; 4096];
    machine.read(out, &mut bytes).unwrap();
    result.map(|_| bytes).map_err(|fault| told(&fault))
}

#[test]
fn two_cores_find_what_one_finds() {
    let all = [
        asynchronous::CASES,
        barriers::CASES,
        follow::CASES,
        idioms::IDIOMS,
        memory::CASES,
        mistakes::CASES,
        pipelines::IDIOMS,
        races::CASES,
        resources::CASES,
        tensor::CASES,
    ];
    for case in all.concat().into_iter().step_by(one_in(12)) {
        for (part, wrong) in [(case.wrong, true), (case.right, false)].into_iter().filter(|(part, _)| !part.is_empty())
        {
            let program = program(&padded(&case, part));
            let [one, two] = [1, 2].map(|cores| outcome(&case, &program, cores));
            assert_eq!(one.is_err(), wrong, "{} {part}\n=> {one:?}", case.code);
            assert_eq!(one, two, "{} {part}", case.code);
        }
    }
}
