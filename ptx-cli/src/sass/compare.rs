//! Two versions of machine code: the sums, and the instructions that only one has.

use super::Assembled;
use super::listing::Function;
use super::schedule::blocks;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Instructions of both sides together beyond which only the sums are compared.
const MOST: usize = 20_000;

pub(super) fn write(a: &Assembled, b: &Assembled, out: &mut dyn Write) -> io::Result<()> {
    // One kernel on each side is compared whatever its name.
    let alone = a.functions.len() == 1 && b.functions.len() == 1;
    for function in &a.functions {
        let other = b.functions.iter().find(|other| alone || other.name == function.name);
        match other {
            Some(other) => write_pair(function, other, out)?,
            None => writeln!(out, "{}: only in {}", function.name, a.source.name)?,
        }
    }
    let is_new = |function: &&Function| !alone && a.functions.iter().all(|other| other.name != function.name);
    for function in b.functions.iter().filter(is_new) {
        writeln!(out, "{}: only in {}", function.name, b.source.name)?;
    }
    Ok(())
}

/// The sums of a function: their names and values.
fn sums(function: &Function) -> [(&'static str, u64); 6] {
    let resources = function.resources.unwrap_or_default();
    let blocks = blocks(function);
    [
        ("instructions", function.instructions.len() as u64),
        ("registers", resources.registers),
        ("spilled bytes", resources.spill_stores + resources.spill_loads),
        ("blocks", blocks.len() as u64),
        ("cycles to issue", blocks.iter().map(|block| block.issue).sum()),
        ("with latencies", blocks.iter().map(|block| block.latency).sum()),
    ]
}

fn write_pair(a: &Function, b: &Function, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", if a.name == b.name { a.name.clone() } else { format!("{} -> {}", a.name, b.name) })?;
    for ((name, old), (_, new)) in sums(a).into_iter().zip(sums(b)) {
        let change = new as i64 - old as i64;
        writeln!(
            out,
            "  {name:<16} {old:>7} -> {new:<7} {}",
            if change == 0 { String::new() } else { format!("{change:+}") }
        )?;
    }
    let mut opcodes: BTreeMap<&str, i64> = BTreeMap::new();
    a.instructions.iter().for_each(|i| *opcodes.entry(i.opcode()).or_default() -= 1);
    b.instructions.iter().for_each(|i| *opcodes.entry(i.opcode()).or_default() += 1);
    let changed: Vec<String> = opcodes
        .iter()
        .filter(|(_, change)| **change != 0)
        .map(|(opcode, change)| format!("{opcode} {change:+}"))
        .collect();
    if !changed.is_empty() {
        writeln!(out, "  {}", changed.join(", "))?;
    }
    if a.instructions.len() + b.instructions.len() > MOST {
        return writeln!(out, "  too long to compare line by line");
    }
    let [old, new] = [a, b].map(|f| f.instructions.iter().map(|i| i.text.as_str()).collect::<Vec<_>>());
    for (sign, text) in changes(&old, &new) {
        writeln!(out, "{sign} {text}")?;
    }
    Ok(())
}

/// The lines that only one side has, with their sign; between two places a line of dots.
fn changes<'t>(old: &[&'t str], new: &[&'t str]) -> Vec<(char, &'t str)> {
    let start = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - start;
    let end = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let (a, b) = (&old[start..old.len() - end], &new[start..new.len() - end]);
    // The length of the longest common sequence of what is behind each pair of places.
    let width = b.len() + 1;
    let mut common = vec![0u32; (a.len() + 1) * width];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            let at = i * width + j;
            common[at] = match a[i] == b[j] {
                true => common[at + width + 1] + 1,
                false => common[at + width].max(common[at + 1]),
            };
        }
    }
    let (mut found, mut i, mut j, mut gap) = (Vec::new(), 0, 0, false);
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            (i, j, gap) = (i + 1, j + 1, !found.is_empty());
            continue;
        }
        if std::mem::take(&mut gap) {
            found.push((' ', "…"));
        }
        let removes = j == b.len() || i < a.len() && common[(i + 1) * width + j] >= common[i * width + j + 1];
        if removes {
            found.push(('-', a[i]));
            i += 1;
        } else {
            found.push(('+', b[j]));
            j += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::changes;

    #[test]
    fn changes_are_few() {
        let old = ["a", "b", "c", "d", "e"];
        assert_eq!(changes(&old, &old), []);
        assert_eq!(changes(&old, &["a", "x", "c", "d", "e"]), [('-', "b"), ('+', "x")]);
        assert_eq!(changes(&old, &["b", "c", "y", "d", "e"]), [('-', "a"), (' ', "…"), ('+', "y")]);
    }
}
