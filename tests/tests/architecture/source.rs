//! Rust source as text: files, without comments and tests, and the module paths in them. A plain scanner is enough for this
//! repository's style.

use std::path::{Path, PathBuf};

/// A source file that is not a test.
pub(crate) struct File {
    pub(crate) path: PathBuf,
    /// `["lower", "bind"]` for `src/lower/bind.rs`; empty for `lib.rs` and `main.rs`.
    pub(crate) module: Vec<String>,
    /// The text, with blanks in place of comments and of test modules.
    pub(crate) code: String,
    /// The same, with blanks in place of strings too.
    pub(crate) names: String,
    pub(crate) lines: usize,
}

pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The files of a crate's `src`, in the order of their paths.
pub(crate) fn files(name: &str) -> Vec<File> {
    let base = root().join(name).join("src");
    paths_below(&base).into_iter().filter_map(|path| read(&base, path)).collect()
}

/// The Rust files of a folder and of those in it, sorted.
pub(crate) fn paths_below(folder: &Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    collect(folder, &mut paths);
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    paths.sort();
    paths
}

fn collect(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => collect(&path, out),
            false => out.push(path),
        }
    }
}

fn read(base: &Path, path: PathBuf) -> Option<File> {
    let relative = path.strip_prefix(base).unwrap().with_extension("");
    let module: Vec<String> = relative.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
    if module.iter().any(|part| part == "tests") {
        return None;
    }
    let module = if matches!(module[..], [ref one] if one == "lib" || one == "main") { Vec::new() } else { module };
    let text = std::fs::read_to_string(&path).unwrap();
    let mut code = blank(&text, false);
    let mut names = blank(&text, true);
    for range in test_modules(&names) {
        let blanks = " ".repeat(range.len());
        code.replace_range(range.clone(), &blanks);
        names.replace_range(range, &blanks);
    }
    Some(File { path, module, code, names, lines: text.lines().count() })
}

/// The text with blanks in place of comments and strings.
pub(crate) fn names(text: &str) -> String {
    blank(text, true)
}

/// The text with blanks in place of comments, and of strings if `strings` is true. Lines and offsets stay.
fn blank(text: &str, strings: bool) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let (end, clear) = match &bytes[at..] {
            [b'/', b'/', ..] => (at + text[at..].find('\n').unwrap_or(text.len() - at), true),
            [b'/', b'*', ..] => (at + text[at..].find("*/").map_or(text.len() - at, |n| n + 2), true),
            [b'"', ..] => (string_end(bytes, at), strings),
            [b'r', b'#', b'"', ..] => (at + text[at..].find("\"#").map_or(text.len() - at, |n| n + 2), strings),
            [b'\'', b'\\', ..] => (at + 2 + text[at + 2..].find('\'').map_or(0, |n| n + 1), false),
            [b'\'', _, b'\'', ..] => (at + 3, false),
            _ => (at + 1, false),
        };
        if clear {
            out[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        }
        at = end.max(at + 1);
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// The modules behind `#[cfg(test)]` and `#[cfg(all(test, …))]`.
fn test_modules(names: &str) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    for (start, _) in names
        .match_indices("#[cfg(")
        .filter(|(at, _)| names[at + 6..].starts_with("test)") || names[at + 6..].starts_with("all(test"))
    {
        let rest = &names[start..];
        let (Some(open), semicolon) = (rest.find('{'), rest.find(';').unwrap_or(usize::MAX)) else { continue };
        let item = rest[..open.min(semicolon)].trim_end();
        if open < semicolon && item.split_whitespace().rev().nth(1) == Some("mod") {
            found.push(start..start + block_end(rest, open));
        }
    }
    found
}

fn block_end(text: &str, open: usize) -> usize {
    let mut depth = 0;
    for (at, byte) in text.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return at + 1,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

/// Calls `visit` with the offset, the number of `super`s (`None` for `crate`) and the next name of every path that starts so.
/// A group in braces counts once for each of its members.
pub(crate) fn paths(names: &str, mut visit: impl FnMut(usize, Option<usize>, &str)) {
    for start in ["crate::", "super::"] {
        for (at, _) in names.match_indices(start) {
            let before = names[..at].chars().next_back().unwrap_or(' ');
            if before.is_alphanumeric() || matches!(before, '_' | ':') {
                continue;
            }
            let mut rest = &names[at..];
            let mut supers = 0;
            while let Some(more) = rest.strip_prefix("super::") {
                (rest, supers) = (more, supers + 1);
            }
            let up = rest.len() == names[at..].len();
            let rest = rest.strip_prefix("crate::").unwrap_or(rest);
            let up = if up { None } else { Some(supers) };
            match rest.strip_prefix('{') {
                Some(_) => members(rest, |name| visit(at, up, name)),
                None => visit(at, up, word(rest)),
            }
        }
    }
}

/// The first names of the members of a group.
fn members(group: &str, mut visit: impl FnMut(&str)) {
    let mut depth = 0;
    for (at, byte) in group.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return;
        }
        if depth == 1 && matches!(byte, b'{' | b',') {
            visit(word(group[at + 1..].trim_start()));
        }
    }
}

fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// The line of an offset, from 1.
pub(crate) fn line(text: &str, at: usize) -> usize {
    1 + text[..at].matches('\n').count()
}
