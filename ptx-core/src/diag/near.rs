//! Near misses: the known word that a wrong one was probably meant to be.

/// The candidate nearest to `word`, if it is near enough to be meant. To a single letter every other one is as near.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() < 2 {
        return None;
    }
    let limit = (word.len() / 3).max(1);
    candidates
        .into_iter()
        .filter(|c| c.len().abs_diff(word.len()) <= limit && *c != word)
        .map(|c| (distance(word.as_bytes(), c.as_bytes()), c))
        .filter(|(d, _)| *d <= limit)
        .min()
        .map(|(_, c)| c)
}

/// Edits (insert, delete, replace, swap of neighbours) between two words.
fn distance(a: &[u8], b: &[u8]) -> usize {
    if a.len() > 64 || b.len() > 64 {
        return usize::MAX;
    }
    let mut rows = vec![vec![0usize; b.len() + 1]; a.len() + 1];
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        rows[i][0] = i;
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            let best = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            rows[i][j] = if swapped { best.min(rows[i - 2][j - 2] + 1) } else { best };
        }
    }
    rows[a.len()][b.len()]
}
