//! Exit codes of a command: 0 success, 1 a fault in the input, 2 a fault in the call, or a question that is not decided.

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

/// The verdict on the input, or the reason for an internal failure.
pub(crate) type Outcome = Result<bool, Failure>;

/// Why a command could not do its work.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Bad usage, or a file that cannot be read.
    Usage(String),
    /// Something is not decided. The output names it: there is no message.
    Undecided,
    /// Its output could not be written.
    Output(std::io::Error),
}

impl Failure {
    /// Bad usage, with what to write instead.
    pub(crate) fn usage(message: impl Into<String>) -> Failure {
        Failure::Usage(message.into())
    }
}

/// A thread that the system does not give.
pub(crate) fn no_thread(error: std::io::Error) -> Failure {
    Failure::usage(format!("cannot start a thread: {error}"))
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure::Output(error)
    }
}

/// `1 file`, `2 files`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// The exit code; failures go to standard error. A reader that has seen enough (`ptx isa | head`) is no failure.
pub(crate) fn exit_code(outcome: Outcome) -> ExitCode {
    let message = match outcome {
        Ok(sound) => return ExitCode::from(u8::from(!sound)),
        Err(Failure::Output(error)) if error.kind() == ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
        Err(Failure::Output(error)) => format!("cannot write the output: {error}"),
        Err(Failure::Undecided) => return ExitCode::from(2),
        Err(Failure::Usage(message)) => message,
    };
    // Without standard error there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "error: {message}");
    ExitCode::from(2)
}
