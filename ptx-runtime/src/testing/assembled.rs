//! `#[ptx_test(assembled)]`: the kernels that a test launches pass through ptxas, and their machine code is compared with their promises.

use super::{Verdict, each_seed};
use crate::device::Device;
use crate::kernel::{Module, Variant};
use crate::launch::{Launched, launched_by};
use crate::load::explain;
use ptx_target::{Arch, MachineCode, local_array};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs a test as [`each_seed`] does. If it succeeds, all kernels that it launched from its thread are assembled for their targets.
#[allow(clippy::panic, reason = "a broken contract fails the test")]
pub fn each_seed_assembled<V: Verdict>(asked: u64, run: fn(&Device) -> V, ptxas: &str) -> V {
    let (verdict, launched) = launched_by(|| each_seed(asked, run));
    if !verdict.failed() {
        let mut found = String::new();
        launched.iter().for_each(|kernel| check_kernel(Path::new(ptxas), kernel, &mut found));
        assert!(!launched.is_empty(), "`#[ptx_test(assembled)]`: the test launches no kernel from its thread");
        assert!(found.is_empty(), "{found}");
    }
    verdict
}

/// Writes what is wrong with the machine code of a kernel, for each of its targets.
fn check_kernel(ptxas: &Path, (module, entry, contract): &Launched, found: &mut String) {
    for variant in module.variants {
        // Writing to a string never fails.
        let _ = match assemble(ptxas, module, variant) {
            Err(message) => writeln!(found, "`{entry}` does not pass ptxas for {}:\n{message}", variant.arch),
            Ok(log) => {
                let code = MachineCode::from_log(&log, entry).unwrap_or_default();
                let chip = variant.arch.parse::<Arch>().ok();
                let blocks = chip.and_then(|chip| contract.resident_blocks(&code, chip));
                let breaches = contract.breaches(&code, blocks);
                breaches.iter().try_for_each(|breach| {
                    let line =
                        local_array(module.text_or_none(variant).ptx, entry).filter(|_| breach.option == "no_local");
                    let origin = line.map(|line| module.text_or_none(variant).origin(line)).unwrap_or_default();
                    writeln!(
                        found,
                        "`{entry}` {} on {}{origin}\n  its attribute promises `{}`\n  help: {}",
                        breach.found, variant.arch, breach.option, breach.help
                    )
                })
            }
        };
    }
}

/// The log of ptxas about a text, or its errors with the lines of Rust.
fn assemble(ptxas: &Path, module: &Module, variant: &Variant) -> Result<String, String> {
    let text = module.text(variant).map_err(|error| error.to_string())?;
    let output =
        run(ptxas, variant.arch, text.ptx).map_err(|error| format!("  `{}` does not run: {error}", ptxas.display()))?;
    let log = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    if output.status.success() { Ok(log) } else { Err(explain(&log, (module, variant), "    ")) }
}

/// ptxas reads the text from its input, and its machine code goes nowhere.
fn run(ptxas: &Path, arch: &str, ptx: &str) -> std::io::Result<std::process::Output> {
    let nowhere = if cfg!(windows) { "NUL" } else { "/dev/null" };
    let mut command = Command::new(ptxas);
    command.arg("-v").arg(format!("-arch={arch}")).args(["-", "-o", nowhere]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    // It reads all of it before it answers; dropped, the pipe is closed.
    let written = child.stdin.take().map_or(Ok(()), |mut input| input.write_all(ptx.as_bytes()));
    let output = child.wait_with_output()?;
    written.map(|()| output)
}
