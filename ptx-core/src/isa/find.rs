//! Which rows a mnemonic can be: its modifiers against the slots.

use super::{Idle, Member, Row, Slot, Table, Version};
use crate::hash::Set;
use std::sync::Arc;

/// A row and what stands in its slots.
#[derive(Clone, Debug)]
pub struct Form {
    /// The row.
    pub row: &'static Row,
    /// One for each slot.
    pub slots: Arc<[Option<&'static Member>]>,
    /// True if the modifiers stand in another order than the manual's.
    pub reordered: bool,
    /// A modifier that means nothing here: written twice, or one that ptxas passes over wherever it stands.
    pub idle: Option<usize>,
}

/// Why a mnemonic is no form of its opcode: the nearest row, and where it stops to fit.
#[derive(Clone, Debug)]
pub struct Misfit {
    /// The row that came furthest.
    pub row: &'static Row,
    /// The index of the modifier that has no place in it.
    pub unplaced: Option<usize>,
    /// The slot that must be filled and is not.
    pub missing: Option<usize>,
    /// Number of matched modifiers, to compare misfits.
    placed: usize,
}

impl Table {
    /// The rows of the newest version that `opcode` with these modifiers (without their dots) fits, or the nearest misses.
    pub fn find(&'static self, opcode: &str, modifiers: &[&str]) -> Result<Vec<Form>, Vec<Misfit>> {
        self.find_in(Version::NEWEST, opcode, modifiers)
    }

    /// The same in a version, which may have rows that later ones do not.
    pub fn find_in(
        &'static self,
        version: Version,
        opcode: &str,
        modifiers: &[&str],
    ) -> Result<Vec<Form>, Vec<Misfit>> {
        let (mut forms, mut misfits) = (Vec::new(), Vec::new());
        for row in self.forms(opcode).iter().filter(|row| row.until.is_none_or(|end| version < end)) {
            match fit(row, modifiers) {
                Ok(form) => forms.push(form),
                Err(misfit) => misfits.push(misfit),
            }
        }
        if !forms.is_empty() {
            let exact = forms.iter().any(|f| f.idle.is_none());
            forms.retain(|f| !exact || f.idle.is_none());
            return Ok(forms);
        }
        let best = misfits.iter().map(Misfit::score).max();
        misfits.retain(|m| Some(m.score()) == best);
        Err(misfits)
    }

    /// The modifiers that can follow those written (without their dots), each once, in the order of the table.
    pub fn following(&'static self, version: Version, opcode: &str, modifiers: &[&str]) -> Vec<Next> {
        let mut found: Vec<Next> = Vec::new();
        let mut seen = Set::default();
        for row in self.forms(opcode).iter().filter(|row| row.until.is_none_or(|end| version < end)) {
            for next in follow(row, modifiers) {
                if seen.insert(next.text) {
                    found.push(next);
                }
            }
        }
        found
    }
}

/// A modifier that can be written next.
#[derive(Clone, Copy, Debug)]
pub struct Next {
    /// Without its dot.
    pub text: &'static str,
    /// The first row that takes it.
    pub row: &'static Row,
    /// The slot that it fills; `None` for a part of the instruction's name.
    pub slot: Option<&'static Slot>,
    /// Its entry in that slot.
    pub member: Option<&'static Member>,
}

fn follow(row: &'static Row, modifiers: &[&str]) -> Vec<Next> {
    let named = row.parts.iter().zip(modifiers).take_while(|(part, m)| part == m).count();
    if named < row.parts.len() {
        let part = Next { text: row.parts[named], row, slot: None, member: None };
        return if named == modifiers.len() { vec![part] } else { Vec::new() };
    }
    let mut filled = vec![None; row.slots.len()];
    for text in &modifiers[named..] {
        let Some((slot, member)) = place(row, &filled, text) else { return Vec::new() };
        filled[slot] = Some(member);
    }
    let members = free_slots(row, &filled).flat_map(|(_, slot)| slot.members.iter().map(move |member| (slot, member)));
    members.map(|(slot, member)| Next { text: member.text, row, slot: Some(slot), member: Some(member) }).collect()
}

impl Misfit {
    /// More modifiers placed is nearer; of those, one that only lacks something is nearer than a wrong one.
    fn score(&self) -> (usize, bool) {
        (self.placed, self.unplaced.is_none())
    }
}

/// Modifiers that ptxas takes twice.
const REPEATABLE: &[&str] = &["sync", "sat", "satfinite", "relu", "NaN", "approx", "cc", "shiftamt", "uni"];

/// Returns true if ptxas passes over the modifier: on the instructions that a line of the table names, or on every one
/// whose opcode does not know it.
fn is_ignored(row: &Row, text: &str) -> bool {
    let known =
        |row: &Row| row.parts.contains(&text) || row.slots.iter().any(|s| s.members.iter().any(|m| m.text == text));
    let table = super::table();
    let passed_over = |idle: &Idle| match idle.all {
        true => !idle.names.contains(&row.name) && !table.forms(row.opcode()).iter().any(known),
        false => idle.names.contains(&row.name),
    };
    table.idle.iter().any(|idle| idle.words.contains(&text) && passed_over(idle))
}

fn fit(row: &'static Row, modifiers: &[&str]) -> Result<Form, Misfit> {
    let named = row.parts.iter().zip(modifiers).take_while(|(part, m)| part == m).count();
    if named < row.parts.len() {
        return Err(Misfit { row, unplaced: (named < modifiers.len()).then_some(named), missing: None, placed: named });
    }
    let mut slots = vec![None; row.slots.len()];
    let (mut last, mut reordered, mut idle) = (0, false, None);
    for (at, text) in modifiers.iter().enumerate().skip(named) {
        match place(row, &slots, text) {
            Some((slot, member)) => {
                reordered |= slot < last;
                last = slot;
                slots[slot] = Some(member);
            }
            None if is_ignored(row, text) || REPEATABLE.contains(text) && modifiers[..at].contains(text) => {
                idle = Some(at);
            }
            None => return Err(Misfit { row, unplaced: Some(at), missing: None, placed: at }),
        }
    }
    match missing(row, &slots) {
        // What means nothing is the likelier mistake.
        Some(slot) => Err(Misfit { row, unplaced: idle, missing: Some(slot), placed: idle.unwrap_or(modifiers.len()) }),
        None => Ok(Form { row, slots: slots.into(), reordered, idle }),
    }
}

/// The first free slot that can hold the modifier.
fn place(row: &'static Row, filled: &[Option<&'static Member>], text: &str) -> Option<(usize, &'static Member)> {
    free_slots(row, filled).find_map(|(at, slot)| Some((at, member(slot, text)?)))
}

/// The slots that the next modifier can fill. An ordered slot is only reached when every ordered slot before
/// it that must be filled is filled, and none behind it is.
fn free_slots(row: &'static Row, filled: &[Option<&'static Member>]) -> impl Iterator<Item = (usize, &'static Slot)> {
    let last = |order: u8| (0..filled.len()).rev().find(|i| row.slots[*i].order == order && filled[*i].is_some());
    let mut open = [true; 3];
    row.slots.iter().enumerate().filter(move |(at, slot)| {
        let order = usize::from(slot.order);
        let reachable = slot.order == 0 || open[order] && last(slot.order).is_none_or(|l| l < *at);
        let free = filled[*at].is_none() && reachable;
        open[order] &= slot.optional || filled[*at].is_some();
        free
    })
}

fn member(slot: &'static Slot, text: &str) -> Option<&'static Member> {
    slot.members.iter().find(|m| m.text == text)
}

fn missing(row: &Row, filled: &[Option<&'static Member>]) -> Option<usize> {
    row.slots.iter().zip(filled).position(|(slot, member)| !slot.optional && member.is_none())
}
