//! A document of the repository as a part of a chapter.

use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::path::{Component, Path, PathBuf};

/// The documents that are chapters, by their paths in the repository.
#[derive(Debug)]
pub struct Documents {
    root: PathBuf,
    chapters: BTreeMap<PathBuf, String>,
}

impl Documents {
    /// None yet, of the repository at `root`.
    pub fn new(root: &Path) -> Documents {
        Documents { root: root.to_owned(), chapters: BTreeMap::new() }
    }

    /// The chapter at `chapter` holds `document`.
    pub fn add(&mut self, document: &str, chapter: &str) {
        self.chapters.insert(PathBuf::from(document), chapter.to_owned());
    }

    /// The text of a document for the chapter at `chapter`: headings one level down if it has no title, and links for the book.
    ///
    /// # Errors
    /// A document or a picture that cannot be read.
    pub fn text(&self, document: &str, chapter: &str) -> Result<String, String> {
        let text = self.read(Path::new(document))?;
        let is_titled = text.starts_with("# ");
        by_line(&text, |line| {
            let linked = self.links(line, Path::new(document), chapter)?;
            Ok(if !is_titled && line.starts_with('#') { format!("#{linked}") } else { linked })
        })
    }

    /// A text of the file `document` with its pictures in it, and links for the chapter at `chapter`.
    ///
    /// # Errors
    /// A picture that cannot be read.
    pub fn linked(&self, text: &str, document: &str, chapter: &str) -> Result<String, String> {
        by_line(text, |line| self.links(line, Path::new(document), chapter))
    }

    fn read(&self, path: &Path) -> Result<String, String> {
        read_to_string(self.root.join(path)).map_err(|why| format!("{}: {why}", path.display()))
    }

    /// A line with its links rewritten.
    fn links(&self, line: &str, document: &Path, chapter: &str) -> Result<String, String> {
        let (mut out, mut rest) = (String::new(), line);
        while let Some((before, words, target, after)) = next_link(rest) {
            let (outer, picture) = before.strip_suffix('!').map_or((before, false), |outer| (outer, true));
            out += outer;
            out += &match picture {
                true => self.picture(words, target, document)?,
                false => self.link(words, target, document, chapter),
            };
            rest = after;
        }
        Ok(out + rest)
    }

    fn link(&self, words: &str, target: &str, document: &Path, chapter: &str) -> String {
        if target.starts_with("http") || target.starts_with('#') {
            return format!("[{words}]({target})");
        }
        let (path, fragment) = target.split_once('#').map_or((target, None), |(path, id)| (path, Some(id)));
        let folder = document.parent().unwrap_or(Path::new(""));
        let found = self.chapters.get(&normal(&folder.join(path))).filter(|_| !target.contains("::"));
        let Some(found) = found else { return words.to_owned() };
        let up = "../".repeat(chapter.matches('/').count());
        format!("[{words}]({up}{found}{})", fragment.map(|id| format!("#{id}")).unwrap_or_default())
    }

    /// An SVG as HTML, on one line: a blank line would end it. mdBook copies other pictures beside their chapter.
    fn picture(&self, words: &str, target: &str, document: &Path) -> Result<String, String> {
        if !target.ends_with(".svg") {
            return Ok(format!("![{words}]({target})"));
        }
        let svg = self.read(&normal(&document.parent().unwrap_or(Path::new("")).join(target)))?;
        let svg: String = svg.lines().map(str::trim).collect();
        Ok(format!("<div class=\"figure\" title=\"{}\">{svg}</div>", words.replace('"', "&quot;")))
    }
}

/// The text with `change` applied to each line outside of code.
fn by_line(text: &str, mut change: impl FnMut(&str) -> Result<String, String>) -> Result<String, String> {
    let (mut out, mut code) = (String::with_capacity(text.len()), false);
    for line in text.lines() {
        code ^= line.trim_start().starts_with("```");
        out += &if code { line.to_owned() } else { change(line)? };
        out.push('\n');
    }
    Ok(out)
}

/// The text before the next link, its words, its target, and the text behind it. Code between backticks has no links.
fn next_link(line: &str) -> Option<(&str, &str, &str, &str)> {
    for (at, _) in line.match_indices("](") {
        let Some(opened) = opening(&line[..at]) else { continue };
        if line[..opened].matches('`').count().is_multiple_of(2)
            && let Some(length) = line[at..].find(')')
        {
            return Some((
                &line[..opened],
                &line[opened + 1..at],
                &line[at + 2..at + length],
                &line[at + length + 1..],
            ));
        }
    }
    None
}

/// The bracket that a closing one behind `text` belongs to.
fn opening(text: &str) -> Option<usize> {
    let mut depth = 1;
    for (at, letter) in text.char_indices().rev() {
        depth += match letter {
            ']' => 1,
            '[' => -1,
            _ => 0,
        };
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// A path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_chapters_or_become_words() {
        let mut documents = Documents::new(Path::new("."));
        documents.add("docs/language/launching.md", "reference/launching.md");
        let rewrite = |line| documents.links(line, Path::new("docs/watcher.md"), "internals/watcher.md");
        let cases = [
            ("see [it](language/launching.md#cost), or", "see [it](../reference/launching.md#cost), or"),
            ("the file [`x`](../tests/x.rs) is", "the file `x` is"),
            ("put [`#[ptx_test]`](crate::ptx_test) on", "put `#[ptx_test]` on"),
            ("[web](https://a.b/c) [here](#x)", "[web](https://a.b/c) [here](#x)"),
            ("`a[i](b)` is code", "`a[i](b)` is code"),
        ];
        for (line, expected) in cases {
            assert_eq!(rewrite(line).as_deref(), Ok(expected));
        }
    }
}
