//! ptxas as a source of facts about machine code: registers, spills, static shared memory.

use ptx_core::isa::Arch;
use ptx_expand::temp_dir::TempDir;
use ptx_expand::tool::PTXAS;
use std::process::Command;

/// The resources of an entry's machine code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resources {
    /// Registers of a thread.
    pub(crate) registers: u64,
    /// Bytes that a thread stores because registers are short.
    pub(crate) spill_stores: u64,
    /// Bytes that it loads for the same reason.
    pub(crate) spill_loads: u64,
}

/// The resources of an entry, or the reason why they are unknown.
pub(crate) fn resources(ptx: &[u8], arch: Arch, entry: &str) -> Result<Resources, String> {
    let ptxas = PTXAS.find().ok_or("no ptxas: set PTXAS or put it on the PATH")?;
    let folder = TempDir::new("ptx-profile").map_err(|e| format!("no folder for ptxas: {e}"))?;
    let input = folder.path().join("module.ptx");
    std::fs::write(&input, ptx).map_err(|e| format!("{}: {e}", input.display()))?;
    let mut command = Command::new(ptxas);
    command.arg("-v").arg("-arch").arg(arch.to_string()).arg(&input).arg("-o").arg(folder.path().join("module.cubin"));
    let output = command.output().map_err(|e| format!("cannot run ptxas: {e}"))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(format!("ptxas: {}", said.lines().next().unwrap_or("no message")));
    }
    read_resources(&said, entry).ok_or_else(|| format!("ptxas does not tell the registers of `{entry}`"))
}

/// Reads what `ptxas -v` prints about an entry.
pub(crate) fn read_resources(said: &str, entry: &str) -> Option<Resources> {
    let head = format!("'{entry}'");
    let mut lines = said.lines().skip_while(|line| !(line.contains("Compiling entry") && line.contains(&head))).skip(1);
    let before = |line: &str, noun: &str| -> Option<u64> {
        let (before, _) = line.split_once(noun)?;
        before.split_whitespace().next_back()?.parse().ok()
    };
    let mut found = Resources::default();
    for line in lines.by_ref().take_while(|line| !line.contains("Compiling entry")) {
        found.spill_stores = before(line, " bytes spill stores").unwrap_or(found.spill_stores);
        found.spill_loads = before(line, " bytes spill loads").unwrap_or(found.spill_loads);
        if let Some(registers) = before(line, " registers") {
            return Some(Resources { registers, ..found });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{Resources, read_resources};

    #[test]
    fn resources_are_those_of_the_entry() {
        let said = "ptxas info    : 0 bytes gmem\n\
            ptxas info    : Compiling entry function 'a' for 'sm_80'\n\
            ptxas info    : Function properties for a\n    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n\
            ptxas info    : Used 8 registers, used 0 barriers, 360 bytes cmem[0]\n\
            ptxas info    : Compiling entry function 'b' for 'sm_80'\n\
            ptxas info    : Function properties for b\n    16 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads\n\
            ptxas info    : Used 255 registers, used 1 barriers, 4096 bytes smem\n";
        assert_eq!(read_resources(said, "a"), Some(Resources { registers: 8, ..Resources::default() }));
        assert_eq!(read_resources(said, "b"), Some(Resources { registers: 255, spill_stores: 12, spill_loads: 20 }));
        assert_eq!(read_resources(said, "c"), None);
    }
}
