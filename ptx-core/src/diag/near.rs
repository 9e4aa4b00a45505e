//! Near misses: the known word that a wrong one was probably meant to be.

use std::cell::Cell;

/// So many names are compared with unknown ones; then no more near misses are looked for: who has a thousand names wrong
/// has another problem, and each would be compared with all others.
pub const MOST_COMPARED: usize = 1 << 20;

/// The near misses of one text, whose number of comparisons has a limit.
#[derive(Debug, Default)]
pub struct Misses {
    compared: Cell<usize>,
}

impl Misses {
    /// The nearest candidate, as long as the limit is not reached.
    pub fn nearest<'a>(&self, word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
        if self.compared.get() > MOST_COMPARED {
            return None;
        }
        let count = |_: &&str| self.compared.set(self.compared.get() + 1);
        nearest(word, candidates.into_iter().inspect(count))
    }
}

/// The candidate nearest to `word`, if it is near enough to be meant. To a single letter every other one is as near.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut candidates = candidates.into_iter();
    nearest_of(word, &mut || candidates.next())
}

/// The same for all kinds of iterators, so that each adds one small function.
fn nearest_of<'a>(word: &str, next: &mut dyn FnMut() -> Option<&'a str>) -> Option<&'a str> {
    if word.len() < 2 {
        return None;
    }
    let limit = (word.len() / 3).max(1);
    let mut best = None;
    while let Some(candidate) = next() {
        if candidate.len().abs_diff(word.len()) > limit || candidate == word {
            continue;
        }
        let found = (distance(word.as_bytes(), candidate.as_bytes()), candidate);
        if found.0 <= limit && best.is_none_or(|best| found < best) {
            best = Some(found);
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// No longer word is compared.
const LONGEST: usize = 64;

/// Edits (insert, delete, replace, swap of neighbors) between two words.
fn distance(a: &[u8], b: &[u8]) -> usize {
    if a.len() > LONGEST || b.len() > LONGEST {
        return usize::MAX;
    }
    // The row of the table before the last, the last, and the current one: no allocation, because bad input causes many.
    let (mut older, mut last, mut row) = ([0usize; LONGEST + 1], [0; LONGEST + 1], [0; LONGEST + 1]);
    (0..=b.len()).for_each(|j| last[j] = j);
    for i in 1..=a.len() {
        row[0] = i;
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            let best = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            row[j] = if swapped { best.min(older[j - 2] + 1) } else { best };
        }
        (older, last, row) = (last, row, older);
    }
    last[b.len()]
}
