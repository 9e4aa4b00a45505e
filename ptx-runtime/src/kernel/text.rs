//! A text of PTX with the places of Rust that its lines come from.

use ptx_target::Version;

/// The PTX of a variant.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Text<'a> {
    /// The PTX.
    pub(crate) ptx: &'a str,
    /// Origin of its lines.
    pub(crate) lines: LineMap<'a>,
}

/// Which line of Rust made which line of PTX.
#[derive(Clone, Copy, Debug, Default)]
pub struct LineMap<'a> {
    /// The Rust files, as rustc names them, one a line.
    pub files: &'a str,
    /// `5:0:10 7:1:3:9`: where the Rust changes, the line of the PTX, an index into `files` and the line of that file, and the column if
    /// the line of Rust has several instructions. All count from 1 but the index, and the first ascends. A line of PTX that is not listed
    /// belongs to the last one before it. A text, because the compiler reads one literal in no time, and long lists of numbers slowly.
    pub places: &'a str,
}

impl<'a> Text<'a> {
    /// The parts of an unpacked text with these ends; see `Stored::Packed`.
    pub(super) fn part(all: &'a str, ends: [u32; 4]) -> Option<Text<'a>> {
        let [begin, ptx, files, places] = ends.map(|end| end as usize);
        let lines = LineMap { files: all.get(ptx..files)?, places: all.get(files..places)? };
        Some(Text { ptx: all.get(begin..ptx)?, lines })
    }

    /// `.version`
    pub(super) fn version(&self) -> Option<Version> {
        self.ptx.lines().find_map(|line| line.trim().strip_prefix(".version"))?.trim().parse().ok()
    }

    /// A line of the PTX and where it comes from, as lines to put under a message.
    pub(crate) fn origin(&self, ptx_line: u32) -> String {
        let source = self.lines.place(ptx_line).map(|(file, line, column)| match column {
            Some(column) => format!("\n      --> {file}:{line}:{column}"),
            None => format!("\n      --> {file}:{line}"),
        });
        let ptx = ptx_line.checked_sub(1).and_then(|at| self.ptx.lines().nth(at as usize));
        source.unwrap_or_default() + &ptx.map(|ptx| format!("\n       | {}", ptx.trim())).unwrap_or_default()
    }
}

impl<'a> LineMap<'a> {
    /// A map; see the fields for the shape.
    pub const fn new(files: &'a str, places: &'a str) -> LineMap<'a> {
        LineMap { files, places }
    }

    /// The Rust file and line of a line of the PTX.
    pub fn source(&self, ptx_line: u32) -> Option<(&'a str, u32)> {
        self.place(ptx_line).map(|(file, line, _)| (file, line))
    }

    /// The Rust file and line of a line of the PTX, and the column if that line has several instructions.
    fn place(&self, ptx_line: u32) -> Option<(&'a str, u32, Option<u32>)> {
        let starts = |place: &&str| place.split(':').next().and_then(|line| line.parse().ok()) <= Some(ptx_line);
        let mut numbers = self.places.split(' ').take_while(starts).last()?.split(':').skip(1);
        let mut next = || numbers.next()?.parse::<u32>().ok();
        let (file, line) = (next()?, next()?);
        Some((self.files.lines().nth(file as usize)?, line, next()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_belong_to_the_last_one_before() {
        let map = LineMap::new("a.rs\nb.rs", "5:0:10 7:1:3");
        assert_eq!(map.source(4), None);
        assert_eq!(map.source(6), Some(("a.rs", 10)));
        assert_eq!(map.source(70), Some(("b.rs", 3)));
    }

    #[test]
    fn lines_with_several_instructions_have_columns() {
        let map = LineMap::new("a.rs", "5:0:10:9 6:0:10:30 8:0:11");
        let column = |line| map.place(line).and_then(|(_, _, column)| column);
        assert_eq!([4, 5, 6, 7, 8].map(column), [None, Some(9), Some(30), Some(30), None]);
        let text = Text { ptx: "\n\n\n\nadd.u32 a, b, c;\nsub.u32 d, e, f;\n", lines: map };
        assert_eq!(text.origin(6), "\n      --> a.rs:10:30\n       | sub.u32 d, e, f;");
    }
}
