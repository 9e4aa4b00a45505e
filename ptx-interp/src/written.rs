//! Which bytes somebody has written.

/// A bit for each byte, where one word is not enough.
#[derive(Clone, Debug, Default)]
pub(super) enum Written {
    #[default]
    Nothing,
    All,
    Some(Vec<u64>),
}

impl Written {
    /// Bytes `at .. at + size` are written, of `len` in all.
    pub(super) fn mark(&mut self, at: u64, size: u64, len: u64) {
        if size >= len {
            *self = Written::All;
        }
        if let Written::Nothing = self {
            *self = Written::Some(Vec::new());
        }
        let Written::Some(bits) = self else { return };
        let words = len.div_ceil(64) as usize;
        if bits.len() < words {
            bits.resize(words, 0);
        }
        for (word, mask) in words_of(at, size) {
            if let Some(word) = bits.get_mut(word) {
                *word |= mask;
            }
        }
    }

    /// These bytes hold nothing any more.
    pub(super) fn clear(&mut self, at: u64, size: u64, len: u64) {
        if let Written::All = self {
            *self = Written::Some(vec![u64::MAX; len.div_ceil(64) as usize]);
        }
        let Written::Some(bits) = self else { return };
        for (word, mask) in words_of(at, size) {
            if let Some(word) = bits.get_mut(word) {
                *word &= !mask;
            }
        }
    }

    /// Returns true if both hold a byte.
    pub(super) fn overlaps(&self, other: &Written) -> bool {
        match (self, other) {
            (Written::Nothing, _) | (_, Written::Nothing) => false,
            (Written::All, Written::All) => true,
            (Written::All, Written::Some(bits)) | (Written::Some(bits), Written::All) => bits.iter().any(|w| *w != 0),
            (Written::Some(a), Written::Some(b)) => a.iter().zip(b).any(|(a, b)| a & b != 0),
        }
    }

    /// Adds the bytes of the other.
    pub(super) fn join(&mut self, other: Written) {
        match (&mut *self, other) {
            (Written::All, _) | (_, Written::Nothing) => {}
            (Written::Some(mine), Written::Some(theirs)) if mine.len() >= theirs.len() => {
                mine.iter_mut().zip(theirs).for_each(|(a, b)| *a |= b);
            }
            (Written::Some(mine), Written::Some(mut theirs)) => {
                theirs.iter_mut().zip(mine).for_each(|(a, b)| *a |= *b);
                *self = Written::Some(theirs);
            }
            (_, other) => *self = other,
        }
    }

    /// Copies the bytes that it holds.
    pub(super) fn copy(&self, from: &[u8], to: &mut [u8]) {
        let word = |at: usize| match self {
            Written::Nothing => 0,
            Written::All => u64::MAX,
            Written::Some(bits) => bits.get(at).copied().unwrap_or(0),
        };
        for (at, (from, to)) in from.chunks(64).zip(to.chunks_mut(64)).enumerate() {
            let word = word(at);
            match (word, to.len() == from.len()) {
                (0, _) => {}
                (u64::MAX, true) => to.copy_from_slice(from),
                _ => {
                    let pairs = to.iter_mut().zip(from).enumerate().filter(|(bit, _)| word >> bit & 1 == 1);
                    pairs.for_each(|(_, (to, from))| *to = *from);
                }
            }
        }
    }

    /// The first byte of `at .. at + size` that nobody has written.
    pub(super) fn missing(&self, at: u64, size: u64) -> Option<u64> {
        match self {
            Written::All => None,
            Written::Nothing => (size > 0).then_some(at),
            Written::Some(bits) => words_of(at, size).find_map(|(word, mask)| {
                let missing = mask & !bits.get(word).copied().unwrap_or(0);
                (missing != 0).then(|| 64 * word as u64 + u64::from(missing.trailing_zeros()))
            }),
        }
    }
}

/// The words of a range, with the bits in each.
fn words_of(at: u64, size: u64) -> impl Iterator<Item = (usize, u64)> {
    let end = at.saturating_add(size);
    let words = if size == 0 { 0..0 } else { at / 64..(end - 1) / 64 + 1 };
    words.map(move |word| {
        let (first, last) = (at.max(64 * word) % 64, (end - 64 * word).min(64));
        (word as usize, u64::MAX << first & u64::MAX >> (64 - last))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_exact() {
        let mut written = Written::default();
        written.mark(60, 70, 1000);
        assert_eq!(written.missing(60, 70), None);
        assert_eq!(written.missing(59, 2), Some(59));
        assert_eq!(written.missing(100, 40), Some(130));
        written.clear(64, 1, 1000);
        assert_eq!(written.missing(60, 70), Some(64));
        written.mark(0, 1000, 1000);
        written.clear(999, 1, 1000);
        assert_eq!(written.missing(0, 999), None);
        assert_eq!(written.missing(0, 1000), Some(999));
    }

    #[test]
    fn sets_join_and_overlap() {
        let set = |ranges: &[(u64, u64)]| {
            let mut set = Written::default();
            ranges.iter().for_each(|(at, size)| set.mark(*at, *size, 1000));
            set
        };
        let copied = |set: &Written| {
            let mut to = vec![0; 1000];
            set.copy(&[1; 1000], &mut to);
            (0..1000).filter(|at| to[*at] == 1).collect::<Vec<usize>>()
        };
        let (mut some, other) = (set(&[(3, 2), (60, 200), (999, 1)]), set(&[(5, 55)]));
        assert_eq!(copied(&some), (3..5).chain(60..260).chain([999]).collect::<Vec<_>>());
        assert!(!some.overlaps(&other) && !other.overlaps(&Written::Nothing) && other.overlaps(&Written::All));
        some.join(other);
        assert_eq!(copied(&some), (3..260).chain([999]).collect::<Vec<_>>());
        assert_eq!((copied(&Written::All).len(), copied(&Written::Nothing).len()), (1000, 0));
    }
}
