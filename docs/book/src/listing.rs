//! The code in the chapters: each block is a copy of parts of a file that the tests compile, so that a chapter is whole wherever it is read.
//!
//! A comment above the block names the file, below the book's folder, and its parts: `<!-- listings/saxpy.rs: kernel, main -->`. A part is the
//! text between `// ANCHOR: kernel` and `// ANCHOR_END: kernel`, or lines by their numbers (`1-40`); without parts the block is the whole file. The files of
//! `editors/` are shown the same way.

use std::path::Path;

/// The start and the end of the comment above a block.
const COMMENT: (&str, &str) = ("<!-- ", " -->");
const FENCE: &str = "```";
/// The ends of the names of files that chapters show.
const SHOWN: [&str; 5] = [".rs", ".toml", ".scm", ".lua", ".el"];

/// A chapter whose blocks are those of the files in the folder `book`.
///
/// # Errors
/// A file that cannot be read, a part that it does not have, and a comment without a block below it.
pub fn renew(chapter: &str, book: &Path) -> Result<String, String> {
    let (mut out, mut lines) = (String::with_capacity(chapter.len()), chapter.lines());
    while let Some(line) = lines.next() {
        out.extend([line, "\n"]);
        let Some((file, parts)) = source(line) else { continue };
        let fence = lines.next().filter(|fence| fence.starts_with(FENCE));
        out.extend([fence.ok_or(format!("`{line}` has no block below it"))?, "\n"]);
        out.extend([&*code(&book.join(file), parts)?, FENCE, "\n"]);
        lines.by_ref().find(|line| *line == FENCE).ok_or(format!("the block of `{line}` has no end"))?;
    }
    Ok(out)
}

/// The file and the parts that a comment names.
fn source(line: &str) -> Option<(&str, &str)> {
    let named = line.strip_prefix(COMMENT.0)?.strip_suffix(COMMENT.1)?;
    let (file, parts) = named.split_once(": ").unwrap_or((named, ""));
    SHOWN.iter().any(|end| file.ends_with(end)).then_some((file, parts))
}

/// The parts of a file, with a blank line between them.
fn code(path: &Path, parts: &str) -> Result<String, String> {
    let text = std::fs::read_to_string(path).map_err(|why| format!("{}: {why}", path.display()))?;
    let parts = parts
        .split(", ")
        .map(|name| part(&text, name).ok_or_else(|| format!("{} has no part `{name}`", path.display())));
    Ok(parts.collect::<Result<Vec<_>, _>>()?.join("\n"))
}

fn part(text: &str, name: &str) -> Option<String> {
    let (first, last) = match name.split_once('-').map(|(first, last)| (first.parse(), last.parse())) {
        Some((Ok(first), Ok(last))) => (first, last),
        _ if name.is_empty() => (1, usize::MAX),
        _ => (line_of(text, "ANCHOR", name)? + 1, line_of(text, "ANCHOR_END", name)? - 1),
    };
    let lines = text.lines().take(last).skip(usize::checked_sub(first, 1)?);
    let shown: Vec<&str> = lines.filter(|line| !line.trim_start().starts_with("// ANCHOR")).collect();
    let indent = shown.iter().filter(|line| !line.is_empty()).map(|line| line.len() - line.trim_start().len()).min()?;
    Some(shown.iter().map(|line| format!("{}\n", line.get(indent..).unwrap_or_default())).collect())
}

/// The number of the line that begins or ends a part.
fn line_of(text: &str, word: &str, name: &str) -> Option<usize> {
    let comment = format!("// {word}: {name}");
    text.lines().position(|line| line.trim() == comment).map(|at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_the_lines_between_their_comments() {
        let text = "//! A file.\n    // ANCHOR: a\n    one\n      two\n\n    // ANCHOR: b\n    three\n    // ANCHOR_END: b\n    // ANCHOR_END: a\nend\n";
        assert_eq!(part(text, "a").as_deref(), Some("one\n  two\n\nthree\n"));
        assert_eq!(part(text, "b").as_deref(), Some("three\n"));
        assert_eq!(part(text, "1-1").as_deref(), Some("//! A file.\n"));
        assert_eq!(part(text, "c"), None);
        assert_eq!(part(text, "0-1"), None);
    }

    #[test]
    fn comments_without_a_block_are_errors() {
        assert!(renew("<!-- a.rs: b -->\ntext\n", Path::new(".")).is_err_and(|why| why.contains("no block")));
        assert_eq!(renew("<!-- a remark -->\ntext\n", Path::new(".")).as_deref(), Ok("<!-- a remark -->\ntext\n"));
    }
}
