//! PTX whose instructions name their own lines, so that machine code can be traced back to them.

use crate::source::Source;
use ptx_core::ir::Module;

/// The name under which the lines are known to the tools.
const FILE: &str = "module.ptx";

/// Directives that give the lines of another source. Ours take their place.
const LINES: [&str; 2] = [".loc", ".file"];

/// The text with a `.loc` in front of each instruction, and without other ones.
pub(super) fn with_lines(source: &Source, module: &Module) -> Vec<u8> {
    let mut starts: Vec<u32> = module.functions.iter().flat_map(|f| &f.insts).map(|inst| inst.span.lo).collect();
    starts.sort_unstable();
    let end = source.bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    let (mut text, mut from) = (Vec::with_capacity(2 * end), 0);
    for start in starts {
        let to = (start as usize).min(end).max(from);
        push_without_lines(&mut text, &source.bytes[from..to]);
        text.extend(format!("\n.loc 1 {} 0\n", source.line(start)).bytes());
        from = to;
    }
    push_without_lines(&mut text, &source.bytes[from..end]);
    text.extend(format!("\n.file 1 \"{FILE}\"\n").bytes());
    text
}

/// Appends a part of the text without its directives about lines.
fn push_without_lines(text: &mut Vec<u8>, part: &[u8]) {
    for line in part.split_inclusive(|byte| *byte == b'\n') {
        let trimmed = line.trim_ascii_start();
        let is = |name: &&str| {
            trimmed.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"\t") || rest.starts_with(b" "))
        };
        match LINES.iter().any(is) {
            true => text.push(b'\n'),
            false => text.extend(line),
        }
    }
}
