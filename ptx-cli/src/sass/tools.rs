//! ptxas and nvdisasm as processes.

use super::listing::{self, Function};
use crate::output::Failure;
use crate::ptxas::{find, find_tool, read_resources};
use ptx_core::isa::Arch;
use ptx_expand::temp_dir::TempDir;
use std::path::Path;
use std::process::Command;

/// Where nvdisasm comes from, for messages.
const HELP: &str = "help: `pip install nvidia-cuda-nvdisasm nvidia-cuda-nvcc` has both tools";

/// The machine code of every function of a text.
pub(super) fn machine_code(ptx: &[u8], target: Arch) -> Result<Vec<Function>, Failure> {
    let missing = |name: &str, variable: &str| {
        Failure::usage(format!("`ptx sass` needs {name}: put it on the PATH, or name it in {variable}\n{HELP}"))
    };
    let ptxas = find().ok_or_else(|| missing("ptxas", "PTXAS"))?;
    let nvdisasm = find_tool("NVDISASM", "nvdisasm").ok_or_else(|| missing("nvdisasm", "NVDISASM"))?;
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
