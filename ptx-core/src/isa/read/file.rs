//! The logical lines of a file, found by constants. `lines`, `form` and `sets` read them.

/// A logical line of a file: one that is no comment, with those that `\` makes a part of it. `File` has its text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    start: u16,
    end: u16,
    /// The length of its first word: a keyword, an opcode, `==`, or nothing in front of the dot of a set.
    word: u16,
    /// True where the line before begins with another word.
    pub(super) is_first: bool,
    /// Counted from 1.
    pub(super) number: u16,
}

/// A file of the table. Its lines are found while this crate is compiled: at run time that took a sixth of the first module's time.
#[derive(Debug)]
pub(super) struct File {
    pub(super) name: &'static str,
    pub(super) text: &'static str,
    pub(super) lines: &'static [Line],
}

impl File {
    /// A line as the file has it: `joined` reads one of several.
    pub(super) fn text(&self, line: &Line) -> &'static str {
        self.text.get(line.start.into()..line.end.into()).unwrap_or_default()
    }

    /// Returns true for a `==` line.
    pub(super) fn is_heading(&self, line: &Line) -> bool {
        self.text.as_bytes().get(usize::from(line.start)) == Some(&b'=')
    }

    /// The first word of a line.
    pub(super) fn word(&self, line: &Line) -> &'static str {
        self.text.get(line.start.into()..(line.start + line.word).into()).unwrap_or_default()
    }
}

/// The most lines of a file.
const MOST: usize = 512;

/// The lines of a file, and their number.
pub(super) struct Found {
    lines: [Line; MOST],
    pub(super) count: usize,
}

/// Finds all logical lines.
pub(super) const fn find(text: &str) -> Found {
    let none = Line { start: 0, end: 0, word: 0, is_first: true, number: 0 };
    let (mut lines, mut found) = (Lines::new(text), Found { lines: [none; MOST], count: 0 });
    while let Some(line) = lines.next() {
        let is_first = found.count == 0 || !lines.have_same_word(&found.lines[found.count - 1], &line);
        found.lines[found.count] = Line { is_first, ..line };
        found.count += 1;
    }
    found
}

impl Found {
    /// The lines alone: a program holds no more.
    pub(super) const fn lines<const N: usize>(&self) -> [Line; N] {
        let (mut lines, mut at) = ([self.lines[0]; N], 0);
        while at < N {
            lines[at] = self.lines[at];
            at += 1;
        }
        lines
    }
}

/// A walk over a file, for constants: iterators are none.
struct Lines<'a> {
    text: &'a [u8],
    at: usize,
    number: u16,
}

impl<'a> Lines<'a> {
    const fn new(text: &'a str) -> Lines<'a> {
        assert!(text.len() <= u16::MAX as usize, "places in a file have 16 bits");
        Lines { text: text.as_bytes(), at: 0, number: 0 }
    }

    const fn next(&mut self) -> Option<Line> {
        while self.at < self.text.len() {
            let (start, number) = (self.at, self.number + 1);
            let mut end = self.pass_line();
            if end == start || self.text[start] == b'#' {
                continue;
            }
            while self.text[end - 1] == b'\\' && self.at < self.text.len() {
                end = self.pass_line();
            }
            let word = self.word_at(start, end);
            return Some(Line { start: start as u16, end: end as u16, word, is_first: true, number });
        }
        None
    }

    /// Moves behind a line of the file, and returns its end.
    const fn pass_line(&mut self) -> usize {
        let (_, mut rest) = self.text.split_at(self.at);
        // A pattern is quicker than an index, here where the compiler interprets it.
        while let [b'\0'..=b'\t' | b'\x0b'..=b'\xff', more @ ..] = rest {
            rest = more;
        }
        let end = self.text.len() - rest.len();
        self.at = end + 1;
        self.number += 1;
        end
    }

    const fn word_at(&self, start: usize, end: usize) -> u16 {
        let mut at = start;
        while at < end && !matches!(self.text[at], b'.' | b' ') {
            at += 1;
        }
        (at - start) as u16
    }

    const fn have_same_word(&self, one: &Line, other: &Line) -> bool {
        let (mut at, length) = (0, one.word);
        while at < length && self.text[(one.start + at) as usize] == self.text[(other.start + at) as usize] {
            at += 1;
        }
        at == length && length == other.word
    }
}
