//! A file of PTX, and where its bytes stand in lines and columns.

use crate::output::Failure;
use ptx_core::diag::Diagnostic;
use ptx_core::span::Span;
use ptx_core::syntax::Tree;
use ptx_jit::describe::Kernel;
use std::cell::OnceCell;
use std::io::Read;
use std::path::Path;

/// A file that was read.
pub(crate) struct Source {
    /// As given on the command line.
    pub(crate) name: String,
    /// Its contents.
    pub(crate) bytes: Vec<u8>,
    /// Lines of the Rust source that made lines of the PTX: (line of PTX, line, column), in order; of a PTX file none.
    pub(crate) rust: Vec<(u32, u32, u32)>,
    /// The Rust file that the PTX was compiled from, if it was.
    pub(crate) written: Option<Box<Source>>,
    /// The kernel of a Rust file that is launched.
    pub(crate) kernel: Option<Kernel>,
    /// Start of each line, computed at first use.
    lines: OnceCell<Vec<usize>>,
    /// The number of characters before each piece of `PIECE` bytes, computed at the first use.
    characters: OnceCell<Vec<usize>>,
}

/// The first bytes of files that people take for PTX, and the message for each.
const OTHERS: &[(&[u8], &str)] = &[
    (b"\x7fELF", "machine code, not PTX; `cuobjdump -xptx all` writes the PTX that is in a program or a cubin"),
    (b"MZ\x90", "a program, not PTX; `cuobjdump -xptx all` writes the PTX that is in it"),
    (b"!<arch>", "a library of object files, not PTX; `cuobjdump -xptx all` writes the PTX that is in it"),
    (b"\x50\xed\x55\xba", "a fatbin, not PTX; `cuobjdump -xptx all` writes the PTX that is in it"),
    (b"BC\xc0\xde", "LLVM bitcode, not PTX; `llc -march=nvptx64` makes PTX of it"),
    (b"; ModuleID", "LLVM IR, not PTX; `llc -march=nvptx64` makes PTX of it"),
    (b"\x1f\x8b", "a compressed file; `gunzip` writes what is in it"),
    (b"PK\x03\x04", "a compressed file; `unzip` writes what is in it"),
    (b"\xff\xfe", "text in UTF-16; save it as UTF-8"),
    (b"\xfe\xff", "text in UTF-16; save it as UTF-8"),
];

/// Words that stand near the beginning of other texts, where PTX has its `.version`, and the message for each.
const OTHER_TEXTS: &[(&str, &str)] = &[
    (
        "Fatbin ptx code:",
        "output of `cuobjdump -ptx`, with headers around the PTX; `cuobjdump -xptx all` writes the PTX alone",
    ),
    ("Fatbin elf code:", "output of `cuobjdump`, not PTX; `cuobjdump -xptx all` writes the PTX that is in a program"),
    ("\tcode for sm_", "a listing of machine code, not PTX; `cuobjdump -xptx all` writes the PTX that is in a program"),
    ("target triple =", "LLVM IR, not PTX; `llc -march=nvptx64` makes PTX of it"),
    ("__global__", "CUDA C++, not PTX; `nvcc -ptx` makes PTX of it"),
    ("#include", "C or CUDA C++, not PTX; `nvcc -ptx` makes PTX of it"),
];

/// The message for a file that is certainly not PTX.
fn other(bytes: &[u8]) -> Option<&'static str> {
    if let Some((_, what)) = OTHERS.iter().find(|(start, _)| bytes.starts_with(start)) {
        return Some(what);
    }
    let head = &bytes[..bytes.len().min(HEAD)];
    let text = String::from_utf8_lossy(head);
    if text.contains('\0') && !text.contains(".version") {
        let wide = head.iter().filter(|byte| **byte == 0).count() * 3 > head.len() && text.replace('\0', "").is_ascii();
        return Some(if wide { "text in UTF-16; save it as UTF-8" } else { "bytes and no text, so not PTX" });
    }
    // Comments may name anything.
    let code = text.split(".version").next().filter(|_| !text.trim_start().starts_with("//"))?;
    OTHER_TEXTS.iter().find(|(word, _)| code.contains(word)).map(|(_, what)| *what)
}

/// The bytes at the beginning that say which kind of file it is.
const HEAD: usize = 4096;

/// The most bytes of a file.
const MOST_BYTES: u64 = 1 << 30;

/// The bytes that the module of a byte of text takes: without them Rust would abort in the middle, and name no file.
const ROOM: usize = 24;

/// A column is found by counting at most so many bytes, however long the line is.
const PIECE: usize = 1024;

/// The bytes of a file, which may be anything; `too_long` has the reason of the limit.
pub(crate) fn read_bytes(path: &Path, too_long: &str) -> Result<Vec<u8>, Failure> {
    let named = |e: &dyn std::fmt::Display| Failure::usage(format!("{}: {e}", path.display()));
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|e| named(&e))?;
    if file.metadata().is_ok_and(|found| found.len() > MOST_BYTES) {
        return Err(named(&too_long));
    }
    // A device may have no end.
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(|e| named(&e))?;
    if bytes.len() as u64 > MOST_BYTES { Err(named(&too_long)) } else { Ok(bytes) }
}

/// A position, both from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl Source {
    pub(crate) fn read(path: &Path) -> Result<Source, Failure> {
        let bytes = read_bytes(path, "this has more than 1 GiB, which no PTX has")?;
        if let Some(what) = other(&bytes) {
            return Err(Failure::usage(format!("{}: {what}", path.display())));
        }
        let (size, room) = (bytes.len(), bytes.len().saturating_mul(ROOM));
        if Vec::<u8>::new().try_reserve_exact(room).is_err() {
            let why = format!("out of memory: {size} bytes of text take about {room}, which this process cannot have");
            return Err(Failure::usage(format!("{}: {why}", path.display())));
        }
        Ok(Source::new(path.display().to_string(), bytes))
    }

    pub(crate) fn new(name: String, bytes: Vec<u8>) -> Source {
        let (lines, characters) = (OnceCell::new(), OnceCell::new());
        Source { name, bytes, rust: Vec::new(), written: None, kernel: None, lines, characters }
    }

    fn lines(&self) -> &[usize] {
        self.lines.get_or_init(|| {
            let ends = self.bytes.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(at, _)| at + 1);
            std::iter::once(0).chain(ends).collect()
        })
    }

    pub(crate) fn parse(&self) -> (Tree, Vec<Diagnostic>) {
        ptx_core::parse::parse_text(&self.bytes[..])
    }

    /// The number of characters before a byte.
    fn characters_before(&self, at: usize) -> usize {
        let counts = self.characters.get_or_init(|| {
            let pieces = self.bytes.chunks(PIECE).scan(0, |sum, piece| {
                *sum += characters(piece);
                Some(*sum)
            });
            std::iter::once(0).chain(pieces).collect()
        });
        counts.get(at / PIECE).copied().unwrap_or(0) + characters(&self.bytes[at - at % PIECE..at])
    }

    /// The line of a byte, from 1.
    pub(crate) fn line(&self, at: u32) -> usize {
        let at = (at as usize).min(self.bytes.len());
        self.lines().partition_point(|start| *start <= at)
    }

    pub(crate) fn position(&self, at: u32) -> Position {
        let line = self.line(at);
        let at = (at as usize).min(self.bytes.len());
        let start = self.lines().get(line.wrapping_sub(1)).copied().unwrap_or(0);
        Position { line, column: self.characters_before(at) - self.characters_before(start) + 1 }
    }

    pub(crate) fn range(&self, span: Span) -> (Position, Position) {
        (self.position(span.lo), self.position(span.hi.max(span.lo)))
    }

    /// The text of a line, from 1.
    pub(crate) fn line_text(&self, line: usize) -> String {
        let start = |line: usize| self.lines().get(line).copied().unwrap_or(self.bytes.len());
        let bytes = self.bytes.get(start(line.saturating_sub(1))..start(line)).unwrap_or_default();
        String::from_utf8_lossy(bytes).trim_end().to_owned()
    }

    /// The byte behind a line, from 1.
    pub(crate) fn line_end(&self, line: usize) -> u32 {
        let end = self.lines().get(line).map_or(self.bytes.len(), |next| next - 1);
        u32::try_from(end).unwrap_or(u32::MAX)
    }

    /// The line that the user wrote for a line of the PTX: of Rust where there is some.
    pub(crate) fn written_line(&self, line: usize) -> usize {
        let behind = self.rust.partition_point(|(ptx, ..)| *ptx as usize <= line);
        // The loads of parameters come before the first line of the body.
        let nearest = self.rust.get(behind.saturating_sub(1));
        nearest.map_or(line, |(_, rust, _)| *rust as usize)
    }

    /// The file that its user wrote, and the place there of a span: the statement of Rust that made a line of the PTX.
    pub(crate) fn place(&self, span: Span) -> (&Source, Span) {
        let behind = self.rust.partition_point(|(ptx, ..)| *ptx as usize <= self.line(span.lo));
        let (Some(written), Some((_, line, column))) = (&self.written, self.rust.get(behind.saturating_sub(1))) else {
            return (self, span);
        };
        let text = written.line_text(*line as usize);
        let before: usize = text.chars().take(*column as usize - 1).map(char::len_utf8).sum();
        let statement = &text[before..];
        let length = statement.find(';').map_or(statement.len(), |end| end + 1);
        let start = written.lines().get(*line as usize - 1).map_or(0, |start| start + before);
        (written, Span::new(start as u32, (start + length) as u32))
    }

    /// The text of a span, on one line.
    pub(crate) fn span_text(&self, span: Span) -> String {
        let bytes = self.bytes.get(span.lo as usize..span.hi as usize).unwrap_or_default();
        String::from_utf8_lossy(bytes).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// The lines that hold `span`, as text, and where their first byte stands.
    pub(crate) fn excerpt(&self, span: Span) -> (usize, &[u8]) {
        let first = self.line(span.lo) - 1;
        let last = self.line(span.hi.max(span.lo));
        let start = self.lines().get(first).copied().unwrap_or(0);
        let end = self.lines().get(last).copied().unwrap_or(self.bytes.len());
        (start, &self.bytes[start..end])
    }
}

/// The characters that begin in these bytes.
fn characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| !matches!(byte, 0x80..=0xbf)).count()
}

#[cfg(test)]
mod tests {
    use super::{PIECE, Position, Source};

    #[test]
    fn columns_count_characters_across_pieces() {
        let text = format!("a\n{}b", "é".repeat(PIECE));
        let source = Source::new("x".to_owned(), text.into_bytes());
        let end = 2 + 2 * PIECE as u32;
        assert_eq!(source.position(end), Position { line: 2, column: PIECE + 1 });
        assert_eq!(source.position(u32::MAX), Position { line: 2, column: PIECE + 2 });
        assert_eq!(source.position(2), Position { line: 2, column: 1 });
        assert_eq!(source.position(1), Position { line: 1, column: 2 });
    }
}
