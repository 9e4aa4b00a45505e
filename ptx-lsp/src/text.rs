//! A text with its lines, and positions in it as the Language Server Protocol counts them: lines from 0, characters in units of UTF-16.

use std::cell::Cell;
use std::ops::Range;

/// A position between two characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line, from 0.
    pub line: u32,
    /// The UTF-16 units before it on its line.
    pub character: u32,
}

/// A text that changes in place.
#[derive(Clone, Debug, Default)]
pub struct Text {
    text: String,
    /// Start of each line.
    starts: Vec<usize>,
    /// The last position that was computed: most calls ask for one behind it on the same line.
    last: Cell<(usize, Position)>,
}

impl Text {
    /// A text as it is.
    pub fn new(text: String) -> Text {
        let starts = std::iter::once(0).chain(line_starts(&text, 0..text.len())).collect();
        Text { text, starts, last: Cell::default() }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The number of lines; the one behind the last line end counts.
    pub fn lines(&self) -> usize {
        self.starts.len()
    }

    /// The bytes of a line with its line end; empty behind the last line.
    pub fn line(&self, line: usize) -> Range<usize> {
        let end = self.text.len();
        let start = |at: usize| self.starts.get(at).copied().unwrap_or(end);
        start(line)..start(line.saturating_add(1))
    }

    /// The line of a byte.
    pub fn line_of(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset).saturating_sub(1)
    }

    /// The byte of a position. A position behind the end of its line is that end, as the protocol requires.
    pub fn offset(&self, position: Position) -> usize {
        let line = self.line(position.line as usize);
        let content = self.text.get(line.clone()).unwrap_or_default().trim_end_matches(['\n', '\r']);
        let mut left = position.character as usize;
        for (at, c) in content.char_indices() {
            if left < c.len_utf16() {
                return line.start + at;
            }
            left -= c.len_utf16();
        }
        line.start + content.len()
    }

    /// The position of a byte. A byte inside a character is the position of the character.
    pub fn position(&self, offset: usize) -> Position {
        let offset = floor_char(&self.text, offset);
        let line = self.line_of(offset);
        let start = self.line(line).start;
        let (known, before) = self.last.get();
        let (from, units) = match before.line as usize == line && (start..=offset).contains(&known) {
            true => (known, before.character),
            false => (start, 0),
        };
        let units = units + units_of(self.text.get(from..offset).unwrap_or_default());
        let position = Position { line: u32::try_from(line).unwrap_or(u32::MAX), character: units };
        self.last.set((offset, position));
        position
    }

    /// The positions of both ends.
    pub fn range(&self, range: Range<usize>) -> Range<Position> {
        let start = self.position(range.start);
        start..self.position(range.end.max(range.start))
    }

    /// Replaces a part, whose ends are moved to characters' starts. Returns the bytes that went away.
    pub fn replace(&mut self, range: Range<usize>, new: &str) -> Range<usize> {
        let lo = floor_char(&self.text, range.start);
        let hi = floor_char(&self.text, range.end).max(lo);
        self.last.set(Default::default());
        // A line end of two bytes may come together, or be torn: lines are counted again from the one with the byte before.
        let first = self.line_of(lo.saturating_sub(1));
        let behind = self.starts.partition_point(|start| *start <= hi);
        let end = self.line(behind).start;
        self.text.replace_range(lo..hi, new);
        let moved = |at: usize| at + new.len() - (hi - lo);
        self.starts[behind..].iter_mut().for_each(|start| *start = moved(*start));
        let from = self.line(first).start;
        let counted: Vec<usize> = line_starts(&self.text, from..moved(end))
            .filter(|at| *at < moved(end) || behind == self.starts.len())
            .collect();
        self.starts.splice(first + 1..behind, counted);
        lo..hi
    }
}

/// The starts of the lines behind the line ends in a part of a text.
fn line_starts(text: &str, part: Range<usize>) -> impl Iterator<Item = usize> {
    let bytes = text.as_bytes();
    part.filter(move |at| match bytes.get(*at) {
        Some(b'\n') => true,
        Some(b'\r') => bytes.get(at + 1) != Some(&b'\n'),
        _ => false,
    })
    .map(|at| at + 1)
}

/// The UTF-16 units of a text.
pub fn units_of(text: &str) -> u32 {
    let units = match text.is_ascii() {
        true => text.len(),
        false => text.chars().map(char::len_utf16).sum(),
    };
    u32::try_from(units).unwrap_or(u32::MAX)
}

/// The start of the character that holds a byte; the end of the text for every byte behind it. (`str::floor_char_boundary`
/// needs Rust 1.91.)
pub(crate) fn floor_char(text: &str, offset: usize) -> usize {
    (0..=offset.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default()
}
