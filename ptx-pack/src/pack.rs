//! The compressor.

use crate::places::{MARK, fold};
use crate::{CONTEXT, window};
use lzma_rust2::{LzmaOptions, LzmaWriter};
use std::collections::HashMap;
use std::io::Write;

/// Level of LZMA: higher ones take three times as long at least, and the highest saves 16 percent.
const LEVEL: u32 = 3;

/// Compresses a text.
pub fn pack(text: &str) -> Vec<u8> {
    let mark = char::from(MARK);
    let folded = (!text.contains(mark)).then(|| fold(text)).filter(|folded| folded.contains(mark));
    let steps = Steps::of(folded.as_deref().unwrap_or(text));
    let mut packed = Vec::new();
    [text.len(), folded.as_ref().map_or(0, String::len), steps.bytes.len(), steps.literals]
        .into_iter()
        .for_each(|n| push_number(&mut packed, n));
    packed.extend(lzma(&steps.bytes));
    packed
}

#[allow(clippy::expect_used, reason = "memory takes all bytes, and the options are constants")]
fn lzma(bytes: &[u8]) -> Vec<u8> {
    let [lc, lp, pb] = CONTEXT;
    let options = LzmaOptions { lc, lp, pb, dict_size: window(bytes.len()), ..LzmaOptions::with_preset(LEVEL) };
    let mut writer = LzmaWriter::new_no_header(Vec::new(), &options, false).expect("valid options");
    writer.write_all(bytes).expect("memory takes all");
    writer.finish().expect("memory takes all")
}

/// The text as steps.
struct Steps {
    bytes: Vec<u8>,
    /// Bytes of them that are text.
    literals: usize,
}

impl Steps {
    fn of(text: &str) -> Steps {
        let lines = Lines::of(text);
        let mut steps = Steps { bytes: Vec::new(), literals: 0 };
        let mut last = vec![None; lines.distinct];
        let (mut line, mut done, mut distance) = (0, 0, 0);
        while line < lines.ids.len() {
            // Where this line was last, and the distance of the last copy, which wins if both are as long.
            let near = line.checked_sub(distance).filter(|from| *from < line);
            let candidates = [last[lines.ids[line] as usize], near].into_iter().flatten();
            let best = candidates.map(|from| (lines.common(from, line), from)).max_by_key(|(count, _)| *count);
            let count = match best {
                Some((count, from)) if count > 0 => {
                    distance = line - from;
                    let [first, begin, end] = [from, line, line + count].map(|line| lines.starts[line]);
                    steps.push(&text[done..begin], end - begin, begin - first);
                    done = end;
                    count
                }
                _ => 1,
            };
            for line in line..line + count {
                last[lines.ids[line] as usize] = Some(line);
            }
            line += count;
        }
        steps.push_literal(&text[done..]);
        steps
    }

    fn push(&mut self, literal: &str, count: usize, distance: usize) {
        self.push_literal(literal);
        push_number(&mut self.bytes, count);
        push_number(&mut self.bytes, distance);
    }

    fn push_literal(&mut self, literal: &str) {
        push_number(&mut self.bytes, literal.len());
        self.bytes.extend_from_slice(literal.as_bytes());
        self.literals += literal.len();
    }
}

/// The lines of a text: a number for each, the same for equal lines.
struct Lines {
    ids: Vec<u32>,
    /// The offset of each line, and of the end.
    starts: Vec<usize>,
    distinct: usize,
}

impl Lines {
    fn of(text: &str) -> Lines {
        let (mut known, mut ids, mut starts, mut at) = (HashMap::new(), Vec::new(), vec![0], 0);
        for line in text.split_inclusive('\n') {
            let next = known.len() as u32;
            ids.push(*known.entry(line).or_insert(next));
            at += line.len();
            starts.push(at);
        }
        Lines { ids, starts, distinct: known.len() }
    }

    /// The number of lines from `from` on that are those from `line` on. A copy does not reach into itself.
    fn common(&self, from: usize, line: usize) -> usize {
        let (first, second) = (&self.ids[from..line], &self.ids[line..]);
        first.iter().zip(second).take_while(|(first, second)| first == second).count()
    }
}

fn push_number(bytes: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}
