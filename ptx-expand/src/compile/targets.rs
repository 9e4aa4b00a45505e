//! A kernel for the wrong target: one mistake, made in the attribute, that every instruction of a newer chip repeats.

use super::echoes::named;
use ptx_core::diag::{Code, Diagnostic, codes};
use ptx_core::isa::Arch;

/// Joins what lacks the same target: the first instruction that requires the target which has them all is reported for all.
/// What no one target has stays apart.
pub fn joined(mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let wanted: Vec<Option<Arch>> = diagnostics.iter().map(needed).collect();
    let all = || wanted.iter().copied().flatten();
    let Some(target) = all().find(|target| all().all(|other| target.provides(other))) else { return diagnostics };
    let others = all().count() - 1;
    let Some(first) = wanted.iter().position(|wanted| *wanted == Some(target)) else { return diagnostics };
    if others == 0 {
        return diagnostics;
    }
    let speaker = &mut diagnostics[first];
    let more = if others == 1 { "1 more place needs".to_owned() } else { format!("{others} more places need") };
    speaker.help.push(format!("{more} this target, or an older one that it includes"));
    let mut wanted = wanted.iter().enumerate();
    diagnostics.retain(|_| wanted.next().is_some_and(|(at, wanted)| at == first || wanted.is_none()));
    diagnostics
}

/// The target that a diagnostic requires.
fn needed(diagnostic: &Diagnostic) -> Option<Arch> {
    const TARGET: &Code = &codes::P0401;
    let asks = |help: &String| named(help, "write `.target ")?.parse().ok();
    diagnostic.help.iter().filter(|_| diagnostic.code == TARGET).find_map(asks)
}
