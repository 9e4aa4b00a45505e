//! Set lines: `.vec = .v2=2 .v4=4 .v8=8(8.8 sm_100)`.

use super::lines::joined;
use crate::isa::gate::Gate;
use crate::isa::{Member, Table};
use std::fmt;
use std::sync::OnceLock;

/// The sets of a section. One is read when it is first asked for.
pub(super) struct Sets {
    pub(super) table: &'static Table,
    file: &'static str,
    lines: Vec<Line>,
    /// Those of `sets.isa`; `None` in these themselves.
    global: Option<&'static Sets>,
}

/// A line of a set, which may have several.
#[derive(Debug)]
struct Line {
    /// The name without its dot.
    name: &'static str,
    members: &'static str,
    /// The members of the whole set, in its first line.
    whole: OnceLock<Vec<Member>>,
}

impl Sets {
    pub(super) fn new(
        table: &'static Table,
        file: &'static str,
        lines: impl Iterator<Item = &'static str>,
        global: Option<&'static Sets>,
    ) -> Sets {
        let line = |text: &'static str| {
            let line = split(joined(text));
            if line.is_none() {
                table.index.mistake(format!("{file}: not a set: {text}"));
            }
            line
        };
        Sets { table, file, lines: lines.filter_map(line).collect(), global }
    }

    /// The members of a set, by name without its dot: the section's own set first.
    pub(super) fn set(&'static self, name: &str) -> Option<&'static [Member]> {
        let own = self.lines.iter().find(|line| line.name == name);
        match own {
            Some(first) => Some(first.whole.get_or_init(|| self.members(name, self.lines.len()))),
            None => self.global?.set(name),
        }
    }

    /// Notes something that cannot be read in the file of this section.
    pub(super) fn mistake(&self, text: &str) {
        self.table.index.mistake(format!("{}: {text}", self.file));
    }

    /// Reads every set.
    pub(super) fn read_all(&'static self) {
        for line in &self.lines {
            self.set(line.name);
        }
    }

    /// The members that the first lines give a set.
    fn members(&'static self, name: &str, lines: usize) -> Vec<Member> {
        let mut members = Vec::new();
        for (at, line) in self.lines.iter().enumerate().take(lines).filter(|(_, line)| line.name == name) {
            for word in words(line.members) {
                if self.add_members(&mut members, word, at).is_none() {
                    self.mistake(&format!("cannot read member {word}"));
                }
            }
        }
        members
    }

    /// Adds the members that a word stands for: those of a set that has a line before this one, or others.
    fn add_members(&'static self, members: &mut Vec<Member>, word: &'static str, line: usize) -> Option<()> {
        let word = word.strip_prefix('.')?;
        let (word, gate) = match word.split_once('(') {
            Some((word, gate)) => (word, Some(gates(gate.strip_suffix(')')?)?)),
            None => (word, None),
        };
        let first = members.len();
        if self.lines.iter().take(line).any(|earlier| earlier.name == word) {
            members.extend(self.members(word, line));
        } else if let Some(global) = self.global.and_then(|global| global.set(word)) {
            members.extend(global.iter().map(|member| Member { gate: member.gate.clone(), ..*member }));
        } else {
            return self.add_plain(members, word, gate.as_ref());
        }
        let own = members.iter_mut().skip(first);
        own.filter(|member| member.gate.is_none()).for_each(|member| member.gate.clone_from(&gate));
        Some(())
    }

    /// Adds members by their own names, with their numbers: `v4=4`, `m64n[8..256:8]k16`.
    fn add_plain(&self, members: &mut Vec<Member>, word: &'static str, gate: Option<&Gate>) -> Option<()> {
        let (word, number) = match word.split_once('=') {
            Some((word, number)) => (word, Some(number.parse().ok()?)),
            None => (word, None),
        };
        let make = |(text, n): (&'static str, Option<u32>)| Member {
            text,
            number: number.or(n).unwrap_or(1),
            ty: self.table.type_names.get(text).copied(),
            gate: gate.cloned(),
        };
        members.extend(expand(word)?.into_iter().map(make));
        Some(())
    }
}

impl fmt::Debug for Sets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.lines).finish()
    }
}

fn split(line: &'static str) -> Option<Line> {
    let (name, members) = line.split_once('=')?;
    let name = name.trim_ascii().trim_end_matches('+').trim_ascii().strip_prefix('.')?;
    Some(Line { name, members: members.trim_ascii(), whole: OnceLock::new() })
}

/// Words at blanks outside parentheses and brackets.
fn words(text: &'static str) -> Vec<&'static str> {
    let (mut out, mut depth, mut start) = (Vec::new(), 0i32, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ' ' if depth == 0 => {
                out.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    out.push(&text[start..]);
    out.retain(|w| !w.is_empty());
    out
}

/// `8.6 sm_100a, 8.8 sm_100f`: since and targets, alternatives separated by commas.
fn gates(text: &str) -> Option<Gate> {
    let mut anyof = Vec::new();
    for part in text.split(',') {
        let (since, targets) = part.trim().split_once(' ').unwrap_or((part.trim(), "all"));
        anyof.extend(Gate::read(since, targets)?.anyof);
    }
    Some(Gate { anyof })
}

/// `m64n[8..256:8]k16` to every name and its number (the first bracket's); `[0,2..7]` leaves some out. A name without
/// brackets is itself. `const[[0..10]]` has brackets in its names.
pub(super) fn expand(word: &'static str) -> Option<Vec<(&'static str, Option<u32>)>> {
    let Some((head, rest)) = word.split_once('[') else { return Some(vec![(word, None)]) };
    let (inside, tail) = rest.split_once(']')?;
    let (inside, open, close) = inside.strip_prefix('[').map_or((inside, "", ""), |inside| (inside, "[", "]"));
    let tail = tail.strip_prefix(close)?;
    let numbers = inside.split(',').map(|part| span(part.trim())).collect::<Option<Vec<_>>>()?.concat();
    let tails = expand(tail)?;
    // One text has all names: there are thousands of them.
    let (mut text, mut ends) = (String::new(), Vec::with_capacity(numbers.len() * tails.len()));
    for number in &numbers {
        for (tail, _) in &tails {
            [head, open].iter().for_each(|part| text.push_str(part));
            push_number(&mut text, *number);
            [close, tail].iter().for_each(|part| text.push_str(part));
            ends.push((text.len(), *number));
        }
    }
    let (text, mut start): (&'static str, usize) = (String::leak(text), 0);
    let name = |(end, number): (usize, u32)| {
        let name = text.get(start..end)?;
        start = end;
        Some((name, Some(number)))
    };
    ends.into_iter().map(name).collect()
}

/// Appends a number in decimal digits.
fn push_number(text: &mut String, number: u32) {
    if number >= 10 {
        push_number(text, number / 10);
    }
    text.push(char::from(b'0' + (number % 10) as u8));
}

/// `8`, `0..7` or `8..256:8`: the numbers.
fn span(text: &str) -> Option<Vec<u32>> {
    let Some((lo, rest)) = text.split_once("..") else { return Some(vec![text.parse().ok()?]) };
    let (hi, step) = rest.split_once(':').unwrap_or((rest, "1"));
    let step = step.parse().ok().filter(|s| *s > 0)?;
    Some((lo.parse().ok()?..=hi.parse().ok()?).step_by(step).collect())
}
