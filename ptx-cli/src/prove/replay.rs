//! Refutations as launches: the command line of `ptx run`, and a run on the CPU device where it is small enough.

use super::Proof;
use crate::kernels;
use ptx_core::ir::Variable;
use ptx_core::isa::Class;
use ptx_interp::{Fault, FaultKind, Launch, Machine, Options, Program};
use ptx_prove::{Counterexample, Finding, Property, Report, Verdict};

/// The most threads of a launch that is run.
const THREADS: u64 = 1 << 18;
/// The most bytes of its buffers.
const BYTES: u64 = 1 << 28;
/// The most warp instructions.
const STEPS: u64 = 50_000_000;

/// The outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    Confirmed,
    Denied,
    /// It has another finding first.
    Elsewhere,
    /// Too large, or its arguments cannot be given.
    Skipped,
}

/// Runs the launches of the refutations. One that a run does not show is unknown, and so is one that only a run could confirm. Returns the places in
/// the report of those that were not run.
pub(super) fn confirm(proof: &Proof<'_>, report: &mut Report) -> Vec<usize> {
    let Ok(program) = Program::new(proof.checked) else { return (0..report.findings.len()).collect() };
    let mut skipped = Vec::new();
    for (at, finding) in report.findings.iter_mut().enumerate() {
        let Verdict::Refuted(example) = &finding.verdict else { continue };
        let missing = match (run(proof, &program, finding, example), example.is_certain) {
            (Run::Confirmed, _) | (Run::Elsewhere, true) => continue,
            (Run::Skipped, true) => {
                skipped.push(at);
                continue;
            }
            (Run::Elsewhere, false) => "another finding comes first in the launch that seemed to violate it",
            (Run::Denied, _) if finding.property == Property::Barriers => {
                "some threads do not come to this barrier, and it goes on only when they have ended"
            }
            (Run::Denied, _) => "the CPU device runs the launch that seemed to violate it without a finding",
            (Run::Skipped, false) => {
                "it may be violated in a later turn of a loop, in a launch that is too large to run here"
            }
        };
        finding.verdict = Verdict::Unknown(missing.to_owned());
    }
    skipped
}

fn run(proof: &Proof<'_>, program: &Program, finding: &Finding, example: &Counterexample) -> Run {
    match launch(proof, program, example, (&|_| 0, (THREADS, STEPS))) {
        None => Run::Skipped,
        Some(None) => Run::Denied,
        Some(Some(fault)) => match fault.span {
            Some(span) if span == finding.span || finding.other == Some(span) => Run::Confirmed,
            _ => Run::Elsewhere,
        },
    }
}

/// The finding of a run, if it has one; nothing if the launch is too large, or cannot be made. Words of buffers are filled by their numbers.
pub(super) fn launch(
    proof: &Proof<'_>,
    program: &Program,
    example: &Counterexample,
    (fill, (most, steps)): (&dyn Fn(u32) -> u32, (u64, u64)),
) -> Option<Option<Box<Fault>>> {
    let blocks = example.grid.iter().map(|extent| u64::from(*extent)).product::<u64>();
    let threads = proof.contract.block.iter().map(|extent| u64::from(*extent)).product::<u64>();
    let bytes: u64 = (0..proof.params.len()).filter_map(|at| buffer(proof, example, at)).sum();
    // Nobody makes the memory at the addresses of a table.
    let has_tables = !proof.contract.tables.is_empty();
    if has_tables || blocks.saturating_mul(threads) > most || bytes > BYTES {
        return None;
    }
    let mut machine = Machine::new();
    let params = parameters(proof, &mut machine, example, fill)?;
    let launch = Launch {
        entry: &proof.entry.name,
        grid: example.grid,
        block: proof.contract.block,
        cluster: proof.contract.cluster,
        dynamic_shared: u32::try_from(proof.contract.shared).unwrap_or(u32::MAX),
        cooperative: proof.contract.cooperative,
        params: &params,
        options: Options { watch: true, seed: 0, step_limit: Some(steps) },
    };
    match machine.launch(program, &launch) {
        Ok(_) => Some(None),
        Err(fault) if fault.kind == FaultKind::Launch => None,
        Err(fault) => Some(Some(Box::new(fault))),
    }
}

/// The bytes of the buffer of a parameter, if it is one.
pub(super) fn buffer(proof: &Proof<'_>, example: &Counterexample, at: usize) -> Option<u64> {
    let is_address = proof.params[at].size == 8
        && proof.params[at].dims.is_empty()
        && example.params.get(at).copied().flatten().is_none();
    if is_address && proof.params[at].ty.class() != Class::Float {
        example.lens.get(at).copied().flatten()
    } else {
        None
    }
}

fn parameters(
    proof: &Proof<'_>,
    machine: &mut Machine,
    example: &Counterexample,
    fill: &dyn Fn(u32) -> u32,
) -> Option<Vec<u8>> {
    let mut params = Vec::new();
    for (at, variable) in proof.params.iter().enumerate() {
        let value = match (buffer(proof, example, at), number(variable, example, at)) {
            (Some(bytes), _) => {
                // Where buffers may be absent, those without bytes are.
                let is_absent = proof.contract.absent && bytes == 0;
                let address = if is_absent { 0 } else { machine.alloc(bytes).ok()? };
                let bytes = usize::try_from(bytes).ok()?;
                let words = (0..).flat_map(|at| fill(at).to_le_bytes());
                if bytes > 0 {
                    machine.write(address, &words.take(bytes).collect::<Vec<u8>>()).ok()?;
                }
                address
            }
            (None, Some(number)) => number as u64,
            (None, None) => return None,
        };
        let align = usize::try_from(variable.align.max(1)).ok()?;
        params.resize(params.len().next_multiple_of(align), 0);
        params.extend(value.to_le_bytes().get(..usize::try_from(variable.size).ok()?)?);
    }
    Some(params)
}

/// The value of a parameter that is a number; zero for a float, on which no refutation depends.
fn number(variable: &Variable, example: &Counterexample, at: usize) -> Option<i128> {
    match variable.ty.class() {
        _ if !variable.dims.is_empty() || variable.size > 8 => None,
        Class::Float => Some(0),
        _ => example.params.get(at).copied().flatten(),
    }
}

/// A number as its parameter's type writes it.
fn written(variable: &Variable, number: i128) -> i128 {
    match variable.ty.class() {
        Class::Unsigned | Class::Bits => number.rem_euclid(1 << variable.ty.bits().min(64)),
        _ => number,
    }
}

/// The command line that shows a refutation; nothing if an argument cannot be given there.
pub(super) fn command(proof: &Proof<'_>, example: &Counterexample) -> Option<String> {
    let extents = crate::launch::shown;
    let mut words = vec![
        proof.run.clone(),
        format!("--entry {}", kernels::shell_word(&proof.entry.name)),
        format!("--grid {}", extents(example.grid)),
        format!("--block {}", extents(proof.contract.block)),
    ];
    if proof.contract.cluster != [1; 3] {
        words.push(format!("--cluster {}", extents(proof.contract.cluster)));
    }
    if proof.contract.shared > 0 {
        words.push(format!("--shared {}", proof.contract.shared));
    }
    if proof.contract.cooperative {
        words.push("--cooperative".to_owned());
    }
    for (at, variable) in proof.params.iter().enumerate() {
        words.push(match (buffer(proof, example, at), number(variable, example, at)) {
            (Some(bytes), _) => {
                let value = example.filled.filter(|value| *value > 0).map(|value| format!(":{value:#04x}"));
                let file = kernels::shell_word(&format!("/tmp/{}.bin:{bytes}", variable.name));
                format!("--arg {file}{}", value.unwrap_or_default())
            }
            (None, Some(number)) => format!("--arg {}:{}", variable.ty.name(), written(variable, number)),
            (None, None) => return None,
        });
    }
    Some(words.join(" "))
}
