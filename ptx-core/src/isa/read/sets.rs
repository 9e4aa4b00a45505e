//! Set lines: `.vec = .v2=2 .v4=4 .v8=8(8.8 sm_100)`.

use crate::hash::Map;
use crate::isa::gate::Gate;
use crate::isa::{Member, Table};

/// The sets of a section, by name without the dot.
pub(super) type Sets = Map<&'static str, Vec<Member>>;

/// Reads a section's set lines; `global` are the sets of `sets.isa`.
pub(super) fn read(
    table: &'static Table,
    lines: &[&'static str],
    global: Option<&'static Sets>,
    mistake: &mut dyn FnMut(String),
) -> Sets {
    let mut sets = Sets::default();
    for line in lines {
        let Some((name, words)) = split(line) else {
            mistake(format!("not a set: {line}"));
            continue;
        };
        let mut members = sets.remove(name).unwrap_or_default();
        for word in words {
            match member_words(table, &sets, global, word) {
                Some(more) => members.extend(more),
                None => mistake(format!("cannot read member {word}")),
            }
        }
        sets.insert(name, members);
    }
    sets
}

fn split(line: &'static str) -> Option<(&'static str, Vec<&'static str>)> {
    let (name, rest) = line.split_once(" =").or_else(|| line.split_once(" += "))?;
    let name = name.trim().trim_end_matches('+').trim().strip_prefix('.')?;
    Some((name, words(rest.trim())))
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

/// The members that a word stands for.
fn member_words(
    table: &'static Table,
    local: &Sets,
    global: Option<&'static Sets>,
    word: &'static str,
) -> Option<Vec<Member>> {
    let word = word.strip_prefix('.')?;
    let (word, gate) = match word.split_once('(') {
        Some((word, gate)) => (word, Some(gates(gate.strip_suffix(')')?)?)),
        None => (word, None),
    };
    if let Some(set) = local.get(word).or_else(|| global.and_then(|g| g.get(word))) {
        let copy = |m: &Member| Member { gate: m.gate.clone().or_else(|| gate.clone()), ..*m };
        return Some(set.iter().map(copy).collect());
    }
    let (word, number) = match word.split_once('=') {
        Some((word, number)) => (word, Some(number.parse().ok()?)),
        None => (word, None),
    };
    let make = |(text, n): (&'static str, Option<u32>)| Member {
        text,
        number: number.or(n).unwrap_or(1),
        ty: table.type_names.get(text).copied(),
        gate: gate.clone(),
    };
    Some(expand(word)?.into_iter().map(make).collect())
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
