//! Trivia around an edited statement: which part belongs to which line.

/// The line end and indentation at the end of the trivia in front of a statement; what else may separate two
/// statements where there is none.
pub(super) fn separator(lead: &[u8]) -> Vec<u8> {
    match last_line_end(lead) {
        Some(at) => lead[at..].to_vec(),
        None if lead.is_empty() || !is_blank(lead) => b" ".to_vec(),
        None => lead.to_vec(),
    }
}

/// Cuts trivia into what is on the line of the statement before, and the rest. Without a line end all is the rest.
pub(super) fn split_line(trivia: &[u8]) -> (&[u8], &[u8]) {
    trivia.split_at(first_line_end(trivia).unwrap_or(0))
}

/// The trivia that is left when the statement between two pieces of it goes.
pub(super) fn join(lead: &[u8], behind: &[u8]) -> Vec<u8> {
    match (first_line_end(behind), last_line_end(lead)) {
        (Some(_), Some(at)) => [&lead[..at], behind].concat(),
        (Some(_), None) if is_blank(lead) => behind.to_vec(),
        (Some(_), None) => [lead, behind].concat(),
        (None, _) => [lead, behind.trim_ascii_start()].concat(),
    }
}

/// The trivia behind inserted text: the comment that ends it, then what was there. A `//` needs a line end.
pub(super) fn behind(comment: &[u8], rest: &[u8]) -> Vec<u8> {
    let line_end: &[u8] = if comment.is_empty() || first_line_end(rest) == Some(0) { b"" } else { b"\n" };
    [comment, line_end, if line_end.is_empty() { rest } else { rest.trim_ascii_start() }].concat()
}

fn is_blank(trivia: &[u8]) -> bool {
    trivia.iter().all(|b| matches!(b, b' ' | b'\t' | b'\r' | b'\n' | 0x0c | 0))
}

/// Start of the last line end, if only blanks follow: its `\n`, or the `\r` before it.
fn last_line_end(trivia: &[u8]) -> Option<usize> {
    let at = trivia.iter().rposition(|&b| b == b'\n').filter(|&at| is_blank(&trivia[at..]))?;
    Some(with_return(trivia, at))
}

/// End of the first line, outside of block comments.
fn first_line_end(trivia: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at < trivia.len() {
        if trivia[at] == b'\n' {
            return Some(with_return(trivia, at));
        }
        at = match &trivia[at..] {
            [b'/', b'*', body @ ..] => body.windows(2).position(|w| w == b"*/").map(|n| at + n + 4)?,
            [b'/' | b'#', ..] => at + trivia[at..].iter().position(|&b| b == b'\n')?,
            _ => at + 1,
        };
    }
    None
}

fn with_return(trivia: &[u8], at: usize) -> usize {
    at - usize::from(at > 0 && trivia[at - 1] == b'\r')
}
