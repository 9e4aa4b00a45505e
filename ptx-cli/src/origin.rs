//! The source behind PTX: the lines that its `.loc` and `.file` name, as nvcc with `-lineinfo`, Triton and Numba write them.

use ptx_core::parse::parse_text;
use ptx_core::syntax::StmtKind;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A line of a file, by the file's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    pub(crate) file: u64,
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// A file that `.file` names.
#[derive(Debug, Default)]
pub(crate) struct File {
    /// The path as written.
    pub(crate) path: String,
    /// Its lines; none if it cannot be read.
    pub(crate) lines: Vec<String>,
}

impl File {
    /// The last part of the path, for messages.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit(['/', '\\']).next().unwrap_or(&self.path)
    }

    /// A line's text, from 1; empty if the file cannot be read.
    pub(crate) fn text(&self, line: usize) -> &str {
        self.lines.get(line.wrapping_sub(1)).map_or("", String::as_str)
    }
}

/// The places from which the instructions of a file come.
#[derive(Debug, Default)]
pub(crate) struct Origins {
    /// By their numbers.
    pub(crate) files: BTreeMap<u64, File>,
    /// From which byte on which place holds. A function begins without one.
    starts: Vec<(u32, Option<Place>)>,
    /// The place into which the code of a place was inlined.
    inlined: BTreeMap<Place, Place>,
}

/// Files without this word have no lines of another source.
const LOC: &[u8] = b".loc";
/// A chain of inlined calls has at most so many places, should its lines form a circle.
const DEEPEST: usize = 32;
/// A source file has at most this many bytes.
const MOST_BYTES: u64 = 64 << 20;

impl Origins {
    /// Reads the directives of a file, and the sources that they name.
    pub(crate) fn read(ptx: &Path, bytes: &[u8]) -> Origins {
        let mut origins = Origins::default();
        if !bytes.windows(LOC.len()).any(|word| word == LOC) {
            return origins;
        }
        let (tree, _) = parse_text(bytes);
        for stmt in &tree.stmts {
            let span = tree.span(&stmt.head);
            match &stmt.kind {
                StmtKind::Func(_) => origins.starts.push((span.lo, None)),
                StmtKind::Directive(directive) => {
                    let text = bytes.get(span.lo as usize..span.hi as usize).unwrap_or_default();
                    let text = String::from_utf8_lossy(text);
                    match tree.source.text(directive.name) {
                        ".loc" => origins.add_place(span.lo, &text),
                        ".file" => origins.add_file(&text, ptx),
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        origins.starts.sort_by_key(|(at, _)| *at);
        origins
    }

    /// `.loc 2 155 14, function_name $name, inlined_at 1 32 12`: line 0 is code without a line.
    fn add_place(&mut self, at: u32, text: &str) {
        let mut parts = text.split(',');
        let Some(place) = parts.next().and_then(|part| read_place(part.trim_start().strip_prefix(".loc")?)) else {
            return;
        };
        if let Some(outer) = parts.find_map(|part| read_place(part.trim_start().strip_prefix("inlined_at")?)) {
            self.inlined.insert(place, outer);
        }
        self.starts.push((at, Some(place).filter(|place| place.line > 0)));
    }

    /// `.file 1 "a.cu"`, `.file 1 "folder" "a.cu"`, or with a time and a size behind it.
    fn add_file(&mut self, text: &str, ptx: &Path) {
        let Some((head, _)) = text.split_once('"') else { return };
        let Some(number) = head.split_whitespace().nth(1).and_then(|number| number.parse().ok()) else { return };
        let path = text.split('"').skip(1).step_by(2).collect::<Vec<_>>().join("/");
        let lines = find_lines(&path, ptx);
        self.files.insert(number, File { path, lines });
    }

    /// The place that a byte of the PTX comes from.
    pub(crate) fn place(&self, at: u32) -> Option<Place> {
        let behind = self.starts.partition_point(|(start, _)| *start <= at);
        self.starts.get(behind.checked_sub(1)?)?.1
    }

    /// The places into which a place's code was inlined, from the inside to the outside.
    pub(crate) fn outer(&self, place: Place) -> Vec<Place> {
        std::iter::successors(self.inlined.get(&place), |place| self.inlined.get(place))
            .take(DEEPEST)
            .copied()
            .collect()
    }

    /// The file of a place; one without a name if no `.file` names it.
    pub(crate) fn file(&self, place: Place) -> &File {
        static UNNAMED: File = File { path: String::new(), lines: Vec::new() };
        self.files.get(&place.file).unwrap_or(&UNNAMED)
    }
}

/// `1 32 12`
fn read_place(text: &str) -> Option<Place> {
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    let mut next = || numbers.next()?.ok();
    let (file, line) = (next()?, next()?);
    Some(Place {
        file,
        line: usize::try_from(line).ok()?,
        column: next().and_then(|n| usize::try_from(n).ok()).unwrap_or(0),
    })
}

/// The lines of a source, whose path starts at the folder of the PTX; or else of a file of its name beside the PTX.
fn find_lines(path: &str, ptx: &Path) -> Vec<String> {
    let folder = ptx.parent().unwrap_or(Path::new(""));
    let mut candidates: Vec<PathBuf> = vec![folder.join(path)];
    candidates.extend(Path::new(path).file_name().map(|name| folder.join(name)));
    let is_source =
        |path: &&PathBuf| std::fs::metadata(path).is_ok_and(|data| data.is_file() && data.len() <= MOST_BYTES);
    let text = candidates.iter().find(is_source).and_then(|path| std::fs::read_to_string(path).ok());
    text.map(|text| text.lines().map(str::to_owned).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{Origins, Place};
    use std::path::Path;

    #[test]
    fn places_are_those_of_the_last_loc() {
        let text = ".version 8.0\n.target sm_80\n.address_size 64\n\
            .file 1 \"/none/a.cu\"\n.file 2 \"/none\" \"b.h\"\n.entry k() {\n.reg .b32 %r<9>;\nmov.b32 %r1, 1;\n\
            .loc 1 3 5\nmov.b32 %r2, 2;\nmov.b32 %r3, 3;\n.loc 2 7 1, function_name $L, inlined_at 1 3 5 // b.h\nmov.b32 %r4, 4;\n\
            .loc 1 0 0\nmov.b32 %r5, 5;\n}\n.entry l() {\nret;\n}\n";
        let origins = Origins::read(Path::new("a.ptx"), text.as_bytes());
        let at = |needle: &str| origins.place(text.find(needle).map_or(0, |at| at as u32));
        let (a, b) = (Place { file: 1, line: 3, column: 5 }, Place { file: 2, line: 7, column: 1 });
        assert_eq!([at("mov.b32 %r1"), at("mov.b32 %r5"), at("ret")], [None; 3]);
        assert_eq!([at("mov.b32 %r2"), at("mov.b32 %r3"), at("mov.b32 %r4")], [Some(a), Some(a), Some(b)]);
        assert_eq!((origins.outer(b), origins.outer(a)), (vec![a], vec![]));
        assert_eq!(
            (origins.file(a).name(), &origins.file(b).path[..], origins.file(b).text(7)),
            ("a.cu", "/none/b.h", "")
        );
    }
}
