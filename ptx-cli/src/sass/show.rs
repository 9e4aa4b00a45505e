//! Machine code for the terminal: each line of Rust and PTX, and below it its instructions.

use super::Assembled;
use super::listing::{Function, Instruction};
use super::schedule::{Block, blocks};
use std::io::{self, Write};

pub(super) fn write(assembled: &Assembled, out: &mut dyn Write) -> io::Result<()> {
    for function in &assembled.functions {
        writeln!(out, "{} for {}: {}", function.name, assembled.target, summary(function))?;
        writeln!(out, "  wait:read:write:yield:stall   live  machine code")?;
        write_function(assembled, function, out)?;
        writeln!(out)?;
    }
    Ok(())
}

/// `57 instructions, 24 registers, no spills`
pub(super) fn summary(function: &Function) -> String {
    let count = function.instructions.len();
    let resources = function.resources.map_or_else(String::new, |found| {
        let spills = match found.spill_stores + found.spill_loads {
            0 => "no spills".to_owned(),
            _ => format!("spills: {} bytes stored, {} loaded", found.spill_stores, found.spill_loads),
        };
        format!(", {} registers, {spills}", found.registers)
    });
    format!("{count} instructions{resources}")
}

/// `block .L_x_0: 12 instructions, 45 cycles to issue, 310 with latencies`
pub(super) fn describe(block: &Block, first: &Instruction) -> String {
    let name = first.labels.last().map_or_else(|| format!("at {:#x}", first.address), String::clone);
    let count = block.end - block.first;
    format!("block {name}: {count} instructions, {} cycles to issue, {} with latencies", block.issue, block.latency)
}

fn write_function(assembled: &Assembled, function: &Function, out: &mut dyn Write) -> io::Result<()> {
    let (mut line, mut written) = (None, None);
    for block in blocks(function) {
        let Some(code) = function.instructions.get(block.first..block.end) else { continue };
        let Some(first) = code.first() else { continue };
        writeln!(out, "  -- {}", describe(&block, first))?;
        for instruction in code {
            if let Some(number) = instruction.line.filter(|_| instruction.line != line) {
                line = instruction.line;
                let (ptx, origin) = assembled.origin(number);
                if origin.is_some() && origin != written {
                    written = origin;
                    if let Some(from) = &written {
                        let file = from.file.as_deref().unwrap_or("rust");
                        writeln!(out, "{file} {}: {}", from.number, from.text.trim())?;
                    }
                }
                writeln!(out, "ptx {number}: {}", ptx.trim())?;
            }
            writeln!(out, "  {}", row(instruction))?;
        }
    }
    Ok(())
}

/// The schedule, the live registers and the code.
fn row(instruction: &Instruction) -> String {
    let live = instruction.registers.map_or_else(|| "   -".to_owned(), |live| format!("{live:4}"));
    let reuse = if instruction.control.reuse == 0 {
        String::new()
    } else {
        format!("  reuse {:04b}", instruction.control.reuse)
    };
    format!("{}  {live}  {:04x}  {}{reuse}", instruction.control.text(), instruction.address, instruction.text)
}
