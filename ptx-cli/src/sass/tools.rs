//! ptxas and nvdisasm as processes.

use super::listing::{self, Function};
use crate::output::Failure;
use crate::ptxas::read_resources;
use ptx_core::isa::Arch;
use ptx_expand::temp_dir::TempDir;
use ptx_expand::tool::{NVDISASM, PTXAS, Tool};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The machine code of every function of a text.
pub(super) fn machine_code(ptx: &[u8], target: Arch) -> Result<Vec<Function>, Failure> {
    let (ptxas, nvdisasm) = (find(PTXAS)?, find(NVDISASM)?);
    let folder = TempDir::new("ptx-sass").map_err(|e| Failure::usage(format!("no folder for ptxas: {e}")))?;
    let (input, cubin) = (folder.path().join("module.ptx"), folder.path().join("module.cubin"));
    std::fs::write(&input, ptx).map_err(|e| Failure::usage(format!("{}: {e}", input.display())))?;
    let mut command = Command::new(&ptxas);
    command.args(["-v", "-lineinfo", "-arch", &target.to_string()]).arg(&input).arg("-o").arg(&cubin);
    let said = output(command, &ptxas)?;
    let lines = disassemble(&nvdisasm, &["-g", "-hex", "-c"], &cubin)?;
    let registers = disassemble(&nvdisasm, &["-plr", "-c"], &cubin)?;
    let mut functions = listing::read(&lines, &registers);
    for function in &mut functions {
        function.resources = read_resources(&said, &function.name);
    }
    Ok(functions)
}

fn find(tool: Tool) -> Result<PathBuf, Failure> {
    tool.find().ok_or_else(|| {
        Failure::usage(format!("`ptx sass` needs {}, which is not on this machine\nhelp: {tool}", tool.name))
    })
}

fn disassemble(nvdisasm: &Path, options: &[&str], cubin: &Path) -> Result<String, Failure> {
    let mut command = Command::new(nvdisasm);
    command.args(options).arg(cubin);
    output(command, nvdisasm)
}

/// The output of a process that succeeds.
fn output(mut command: Command, tool: &Path) -> Result<String, Failure> {
    let output = command.output().map_err(|e| Failure::usage(format!("cannot run {}: {e}", tool.display())))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(said + &complaint),
        false => {
            let first =
                complaint.lines().chain(said.lines()).find(|line| !line.trim().is_empty()).unwrap_or("no message");
            Err(Failure::usage(format!("{}: {first}", tool.display())))
        }
    }
}
