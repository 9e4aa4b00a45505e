//! Errors of commands that need a GPU. The runtime's advice is for programs, which have a `Device`; a command's names commands.

use ptx_runtime::{Error, ErrorKind};

/// The same error; where there is no GPU, with what the command's user can do instead.
pub(crate) fn without(error: Error, instead: &str) -> Error {
    match error.kind() {
        ErrorKind::NoDriver => error.possible(instead),
        ErrorKind::NoDevice => error.help(format!("check CUDA_VISIBLE_DEVICES; possible without a GPU: {instead}")),
        _ => error,
    }
}
