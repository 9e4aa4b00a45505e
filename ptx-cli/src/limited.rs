//! Commands whose memory depends on more than the length of the input, in a process of limited memory (`ulimit -v`). Rust aborts where no memory
//! is left, so such a command runs in a process of its own there, and this one reports the end.

use super::output::{Failure, Outcome};
use std::io::Write;
use std::process::{Command, Output, Stdio};

/// Set in the process that does the work.
const CHILD: &str = "PTX_MEMORY_IS_LIMITED";

/// The outcome of the same command line in a process of its own; `None` where memory is not limited, or in that process.
pub(crate) fn run_in_child() -> Option<Outcome> {
    if std::env::var_os(CHILD).is_some() {
        return None;
    }
    let limit = limit_of(&std::fs::read_to_string("/proc/self/limits").ok()?)?;
    let mut command = Command::new(std::env::current_exe().ok()?);
    command.args(std::env::args_os().skip(1)).env(CHILD, "").stdin(Stdio::inherit()).stdout(Stdio::inherit());
    let Output { status, stderr, .. } = command.output().ok()?;
    let said = String::from_utf8_lossy(&stderr);
    Some(match status.code() {
        Some(code @ 0..=2) => {
            // Without standard error there is nobody to tell.
            let _ = std::io::stderr().write_all(&stderr);
            if code == 2 { Err(Failure::Undecided) } else { Ok(code == 0) }
        }
        _ if said.contains("memory allocation of") => {
            Err(Failure::usage(format!("out of memory: {} MiB is the limit of this process", limit >> 20)))
        }
        _ => {
            let _ = std::io::stderr().write_all(&stderr);
            Err(Failure::usage(format!("the process that did the work ended with {status}")))
        }
    })
}

/// The least limit of a process's memory, in bytes, of a text as `/proc/self/limits`.
fn limit_of(limits: &str) -> Option<u64> {
    let limit = |name: &str| {
        let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    ["Max address space", "Max data size"].into_iter().filter_map(limit).min()
}

#[cfg(test)]
mod tests {
    use super::limit_of;

    #[test]
    fn limits_are_read_in_bytes() {
        let text = "Limit   Soft Limit   Hard Limit   Units\nMax data size   unlimited   unlimited   bytes\n";
        assert_eq!(limit_of(text), None);
        assert_eq!(limit_of(&format!("{text}Max address space   1048576   unlimited   bytes\n")), Some(1 << 20));
    }
}
