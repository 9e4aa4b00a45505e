//! A row line: name, slots, gate. The operands and the rules are texts here, which are read when they are needed.

use super::operands::Operands;
use super::rules::Rules;
use super::sets::Sets;
use crate::isa::gate::Gate;
use crate::isa::{Member, Row, Slot};

type Result<T> = std::result::Result<T, String>;

/// Parses a row; the section's number and the place in the file are the caller's.
pub(super) fn row(sets: &'static Sets, text: &'static str) -> Result<Row> {
    let mut columns = columns(text);
    let form = columns.next().unwrap_or("");
    let (name, rest) = form.split_once(' ').unwrap_or((form, ""));
    let rest = rest.trim_ascii_start();
    let has_slots = rest.starts_with(['.', '^']) || rest.starts_with("{.") || rest.starts_with("{^");
    let (mods, operands) = if has_slots { rest.split_once(' ').unwrap_or((rest, "")) } else { ("", rest) };
    let slots: &'static [Slot] = Vec::leak(slots(sets, mods)?);
    let operands = Operands::new(sets, slots, operands.trim_ascii());
    let since = columns.next().ok_or("no version column")?;
    let targets = columns.next().ok_or("no target column")?;
    let (since, until) = match since.split_once("..") {
        Some((since, until)) => (since, Some(until.trim().parse().map_err(|()| "cannot read the last version")?)),
        None => (since, None),
    };
    let gate = Gate::read(since, targets).ok_or("cannot read version and targets")?;
    let rules = Rules::new(sets, columns.next());
    let mut pieces = name.split('.');
    let (opcode, parts) = (pieces.next().unwrap_or(name), pieces.collect());
    let (section, file, line) = Default::default();
    Ok(Row { name, opcode, parts, slots, operands, gate, until, rules, section, text: form, file, line })
}

/// The columns of a line, at `|` between blanks: operands have others.
fn columns(text: &'static str) -> impl Iterator<Item = &'static str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let whole = rest?;
        let is_end = |at: &usize| *at > 0 && whole.as_bytes().get(at - 1..at + 2) == Some(b" | ");
        let end = whole.match_indices('|').map(|(at, _)| at).find(is_end);
        rest = end.and_then(|end| whole.get(end + 1..));
        whole.get(..end.unwrap_or(whole.len())).map(str::trim_ascii)
    })
}

/// `{.sat}.rnd^.global.f32`
fn slots(sets: &'static Sets, mut text: &'static str) -> Result<Vec<Slot>> {
    let mut slots = Vec::new();
    while !text.is_empty() {
        let (piece, rest, optional) = match text.strip_prefix('{') {
            Some(inside) => {
                let (piece, rest) = inside.split_once('}').ok_or("no } after a modifier")?;
                (piece, rest, true)
            }
            None => {
                let lead = text.len() - text.trim_start_matches(['^', '.']).len();
                let end = text[lead..].find(['.', '{', '^']).map_or(text.len(), |i| i + lead);
                (&text[..end], &text[end..], false)
            }
        };
        slots.push(slot(sets, piece, optional)?);
        text = rest;
    }
    Ok(slots)
}

fn slot(sets: &'static Sets, piece: &'static str, optional: bool) -> Result<Slot> {
    let (piece, carets) = (piece.trim_start_matches('^'), piece.len() - piece.trim_start_matches('^').len());
    let piece = piece.strip_prefix('.').ok_or_else(|| format!("not a modifier: {piece}"))?;
    let (name, members) = match piece.strip_suffix(')').and_then(|p| p.split_once('(')) {
        Some((name, values)) => (name, plain_members(sets, values)),
        None => (piece, sets.set(piece).unwrap_or_else(|| plain_members(sets, piece))),
    };
    let order = match carets {
        0 => u8::from(members.iter().all(|m| m.ty.is_some())),
        carets => carets.min(2) as u8,
    };
    Ok(Slot { name, members, optional, order })
}

/// `f16/bf16`: these modifiers, without gates.
fn plain_members(sets: &'static Sets, values: &'static str) -> &'static [Member] {
    let one = |text| Member { text, number: 1, ty: sets.table.type_names.get(text).copied(), gate: None };
    Vec::leak(values.split('/').map(one).collect())
}
