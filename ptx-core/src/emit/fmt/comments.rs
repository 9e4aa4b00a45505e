//! Taking trivia apart.

/// A comment, or a line marker of the C preprocessor.
#[derive(Debug, PartialEq)]
pub(super) struct Comment<'s> {
    /// Its text, without blanks at the end.
    pub(super) text: &'s [u8],
    /// Number of line ends between it and the previous token.
    pub(super) lines_before: usize,
    /// True if it reaches to the end of its line.
    pub(super) ends_line: bool,
}

/// The comments of a token's trivia, in order.
pub(super) fn comments(trivia: &[u8]) -> impl Iterator<Item = Comment<'_>> {
    let mut rest = trivia;
    std::iter::from_fn(move || {
        let start = rest.iter().position(|b| matches!(b, b'/' | b'#'))?;
        let lines_before = line_ends(&rest[..start]);
        let comment = &rest[start..];
        let ends_line = !comment.starts_with(b"/*");
        let (text, behind) = comment.split_at(if ends_line { line(comment) } else { block(comment) });
        rest = behind;
        Some(Comment { text: text.trim_ascii_end(), lines_before, ends_line })
    })
}

/// Number of line ends after the last comment.
pub(super) fn lines_at_end(trivia: &[u8]) -> usize {
    let blanks = trivia.iter().rev().take_while(|b| matches!(b, b' ' | b'\t' | b'\r' | b'\n' | 0x0c | 0)).count();
    line_ends(&trivia[trivia.len() - blanks..])
}

fn line_ends(blanks: &[u8]) -> usize {
    blanks.iter().filter(|&&b| b == b'\n').count()
}

fn line(comment: &[u8]) -> usize {
    comment.iter().position(|&b| b == b'\n').unwrap_or(comment.len())
}

fn block(comment: &[u8]) -> usize {
    comment[2..].windows(2).position(|w| w == b"*/").map_or(comment.len(), |n| n + 4)
}
