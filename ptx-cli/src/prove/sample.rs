//! Runs of a few launches on the CPU device, where a proof leaves something open: what goes wrong in a launch of the contract is a refutation,
//! whatever the prover does not describe.
//!
//! A contract does not say what buffers hold, so that a launch may choose it: an index from memory that a kernel takes without a check leaves its
//! buffer where all bytes are 0xff, and one that is not unique races where all are zero. A finding that two fillings have does not depend on them.

use super::{Proof, replay};
use ptx_interp::{Fault, FaultKind, Program};
use ptx_prove::{Counterexample, Finding, Place, Property, Report, Verdict};

/// Findings of the watcher, and the property that each violates.
const HARM: [(FaultKind, Property); 7] = [
    (FaultKind::OutOfBounds, Property::Bounds),
    (FaultKind::Misaligned, Property::Alignment),
    (FaultKind::Race, Property::Races),
    (FaultKind::Async, Property::Races),
    (FaultKind::Deadlock, Property::Barriers),
    (FaultKind::Sync, Property::Barriers),
    (FaultKind::Unwritten, Property::Initialization),
];

/// Two fillings of buffers, word by word: zeros, and different numbers other than zero.
const FILLINGS: [fn(u32) -> u32; 2] = [|_| 0, |at| at + 1];
/// Values of all bytes that are tried where a finding may depend on them: the index zero for all, and one that no buffer has.
const VALUES: [u8; 2] = [0, 0xff];
/// The most threads of a launch, and the most warp instructions.
const SIZE: (u64, u64) = (1 << 14, 300_000);

/// Runs the samples of a report, until one has a finding.
pub(super) fn explore(proof: &Proof<'_>, report: &mut Report) {
    if report.is_refuted() || report.samples.is_empty() {
        return;
    }
    let Ok(program) = Program::new(proof.checked) else { return };
    let samples = std::mem::take(&mut report.samples);
    for look in [find, find_filled] {
        let mut found = samples.iter().filter_map(|sample| look(proof, &program, sample));
        if let Some(finding) = found.find(|found| counts(report, found)) {
            let same = |old: &&mut Finding| old.span == finding.span && old.property == finding.property;
            match report.findings.iter_mut().find(same) {
                Some(old) => *old = finding,
                None => report.findings.push(finding),
            }
            return;
        }
    }
}

/// Returns true if a finding can only be a fault of the kernel: no order by atomics or fences prevents a race, and an address that leaves its buffer
/// does not come from memory.
fn counts(report: &Report, found: &Finding) -> bool {
    match found.property {
        Property::Races => !report.communicates,
        Property::Bounds | Property::Alignment => report
            .findings
            .iter()
            .any(|other| other.span == found.span && other.property == found.property && !other.memory.is_empty()),
        Property::Barriers | Property::Initialization => true,
    }
}

/// The finding that a launch has with every filling of its buffers.
fn find(proof: &Proof<'_>, program: &Program, sample: &Counterexample) -> Option<Finding> {
    let run = |fill: &dyn Fn(u32) -> u32| replay::launch(proof, program, sample, (fill, SIZE)).flatten();
    let fault = run(&FILLINGS[0])?;
    let same = FILLINGS[1..]
        .iter()
        .all(|fill| run(fill).is_some_and(|other| other.kind == fault.kind && other.span == fault.span));
    refutation(sample, &fault).filter(|_| same)
}

/// A finding that a launch has with one filling of its buffers. A barrier that waits for what others write is no fault of its kernel.
fn find_filled(proof: &Proof<'_>, program: &Program, sample: &Counterexample) -> Option<Finding> {
    VALUES.into_iter().find_map(|value| {
        let sample = Counterexample { filled: Some(value), ..sample.clone() };
        let fill = |_| u32::from_le_bytes([value; 4]);
        let fault = replay::launch(proof, program, &sample, (&fill, SIZE)).flatten()?;
        refutation(&sample, &fault)
            .filter(|found| matches!(found.property, Property::Bounds | Property::Alignment | Property::Races))
    })
}

fn refutation(sample: &Counterexample, fault: &Fault) -> Option<Finding> {
    let (_, property) = HARM.iter().find(|(kind, _)| *kind == fault.kind)?;
    let place = |(thread, block)| Place { thread, block };
    let example = Counterexample {
        places: fault.thread.zip(fault.block).map(place).into_iter().collect(),
        seen: Some(fault.message.clone()),
        ..sample.clone()
    };
    Some(Finding {
        property: *property,
        span: fault.span?,
        other: None,
        memory: String::new(),
        argument: None,
        verb: "",
        size: 0,
        verdict: Verdict::Refuted(Box::new(example)),
    })
}
