//! ptxas: a module's machine code, without what only names and debuggers are about.

use crate::output::Failure;
use ptx_core::isa::Arch;
use ptx_expand::temp_dir::TempDir;
use ptx_expand::tool::PTXAS;
use std::process::Command;

/// The sections of a cubin that the GPU reads, in the order of the file: kind and bytes.
pub(super) type Code = Vec<(String, Vec<u8>)>;

/// The machine code by ptxas for a module's target; the inner error is its output.
pub(super) fn code(ptx: &[u8], arch: Arch) -> Result<Result<Code, String>, Failure> {
    let folder = TempDir::new("ptx-transpile").map_err(|e| Failure::usage(format!("no folder for ptxas: {e}")))?;
    let (input, output) = (folder.path().join("module.ptx"), folder.path().join("module.cubin"));
    let failed = |e: std::io::Error| Failure::usage(format!("{}: {e}", input.display()));
    let end = ptx.iter().rposition(|b| *b != 0).map_or(0, |at| at + 1);
    std::fs::write(&input, &ptx[..end]).map_err(failed)?;
    let missing = || Failure::usage(format!("machine code is compared, and there is no ptxas\nhelp: {PTXAS}"));
    let ptxas = PTXAS.find().ok_or_else(missing)?;
    let run = Command::new(&ptxas).arg("-arch").arg(arch.to_string()).arg(&input).arg("-o").arg(&output).output();
    let run = run.map_err(|e| Failure::usage(format!("cannot run {}: {e}", ptxas.display())))?;
    Ok(match run.status.success() {
        true => Ok(sections(&std::fs::read(&output).map_err(failed)?)),
        false => Err(String::from_utf8_lossy(&run.stderr).trim().to_owned()),
    })
}

/// Sections of an ELF file that the GPU executes or reads.
const READ: [&str; 4] = [".text", ".nv.constant", ".nv.global", ".nv.shared"];

/// The code and data sections of an ELF file of 64 bits, by kind. What is no such file has none.
fn sections(elf: &[u8]) -> Code {
    let word = |at: usize, width: usize| -> Option<usize> {
        let bytes = elf.get(at..at + width)?;
        Some(bytes.iter().rev().fold(0usize, |value, b| value << 8 | usize::from(*b)))
    };
    let parse = || -> Option<Code> {
        let (table, size, count, names) = (word(0x28, 8)?, word(0x3a, 2)?, word(0x3c, 2)?, word(0x3e, 2)?);
        let header = |n: usize, field: usize, width: usize| word(table + n * size + field, width);
        let strings = header(names, 0x18, 8)?;
        let mut found = Code::new();
        for n in 0..count {
            let name = elf.get(strings + header(n, 0, 4)?..)?.split(|b| *b == 0).next()?;
            let name = String::from_utf8_lossy(name);
            let Some(kind) = READ.iter().find(|kind| name.starts_with(**kind)) else { continue };
            let (at, length) = (header(n, 0x18, 8)?, header(n, 0x20, 8)?);
            // Of memory without contents only the size is known.
            const NOBITS: usize = 8;
            let empty = header(n, 4, 4)? == NOBITS;
            let bytes = if empty { length.to_le_bytes().to_vec() } else { elf.get(at..at + length)?.to_vec() };
            found.push(((*kind).to_owned(), bytes));
        }
        found.sort();
        Some(found)
    };
    parse().unwrap_or_default()
}
