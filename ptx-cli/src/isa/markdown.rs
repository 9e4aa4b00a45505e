//! The table as one document, with the toolkits that read each version of PTX.

use super::{row, specials};
use ptx_core::isa::{TOOLKITS, show, table};
use std::io::{self, Write};

/// Instructions by opcode, then special registers, directives and targets.
pub(super) fn write(out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "# Instructions\n\nMade by `ptx isa --markdown` from `ptx-core/isa/`; `ptx isa NAME` shows one.")?;
    for opcode in table().opcodes() {
        section(out, opcode, table().forms(opcode).iter().map(row))?;
    }
    writeln!(out, "\n# Special registers")?;
    block(out, specials().into_iter().map(show::special))?;
    writeln!(out, "\n# Directives")?;
    let mut directives: Vec<_> = table().directives.values().collect();
    directives.sort_by_key(|d| d.name);
    block(out, directives.into_iter().map(show::directive))?;
    writeln!(out, "\n# Targets")?;
    targets(out)?;
    writeln!(out, "\n# Toolkits and drivers\n\nThe first release that reads each version of PTX.")?;
    toolkits(out)
}

fn section(out: &mut dyn Write, title: &str, entries: impl Iterator<Item = String>) -> io::Result<()> {
    writeln!(out, "\n## {title}")?;
    block(out, entries)
}

fn block(out: &mut dyn Write, entries: impl Iterator<Item = String>) -> io::Result<()> {
    let entries: Vec<String> = entries.collect();
    writeln!(out, "\n```text\n{}\n```", entries.join("\n\n"))
}

fn targets(out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n| target | since PTX | limits |\n|---|---|---|")?;
    for target in &table().targets {
        let limits: Vec<String> = target.limits.iter().map(|(name, value)| format!("{value} {name}")).collect();
        let limits = if target.assembled { limits.join(", ") } else { "ptxas 13 assembles it no more".to_owned() };
        writeln!(out, "| {} | {} | {limits} |", target.arch, target.since)?;
    }
    Ok(())
}

fn toolkits(out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n| PTX | CUDA | Linux driver |\n|---|---|---|")?;
    TOOLKITS.iter().try_for_each(|toolkit| {
        let ((major, minor), driver) = (toolkit.cuda, if toolkit.driver.is_empty() { "–" } else { toolkit.driver });
        writeln!(out, "| {} | {major}.{minor} | {driver} |", toolkit.ptx)
    })
}
