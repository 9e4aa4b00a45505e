//! A program that was compiled with its outline: whoever reads the outline of a text with one kernel and nothing to choose compiles it next.

use ptx_expand::program::Program;
use std::sync::{Mutex, PoisonError};

/// The latest one, with the choices of its source.
static LATEST: Mutex<Option<(Vec<String>, Program)>> = Mutex::new(None);

/// Keeps the program of a source with these choices.
pub(crate) fn keep(choices: &[&str], program: Program) {
    let choices = choices.iter().map(|choice| (*choice).to_owned()).collect();
    *LATEST.lock().unwrap_or_else(PoisonError::into_inner) = Some((choices, program));
}

/// Takes the program of a source with these choices, if it is there.
pub(crate) fn take(choices: &[&str]) -> Option<Program> {
    let mut latest = LATEST.lock().unwrap_or_else(PoisonError::into_inner);
    latest.take_if(|(kept, _)| kept == choices).map(|(_, program)| program)
}
