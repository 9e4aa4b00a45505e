//! A program that was compiled with its outline: whoever reads the outline of a text with one kernel and nothing to choose compiles it next.

use crate::program::Source;
use ptx_expand::program::Program;
use std::sync::{Mutex, PoisonError};

/// The latest one, with the choices of its source.
static LATEST: Mutex<Option<(Vec<String>, Program)>> = Mutex::new(None);

/// Keeps the program of a source.
pub(crate) fn keep(source: &Source, program: Program) {
    let kept = (source.choices().into_iter().map(str::to_owned).collect(), program);
    *LATEST.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept);
}

/// Takes the program of a source, if it is there.
pub(crate) fn take(source: &Source) -> Option<Program> {
    let mut latest = LATEST.lock().unwrap_or_else(PoisonError::into_inner);
    latest.take_if(|(choices, _)| *choices == source.choices()).map(|(_, program)| program)
}
