//! Compressed texts. Instances of a kernel share most of their lines, often megabytes apart, which costs LZMA a search of the whole
//! text. So runs of lines that the text has already become references first, over any distance; LZMA compresses the lines that are
//! left. Before that, the places of line maps become their differences (`places`).
//!
//! The steps are: a number of bytes, those bytes, and then a number of bytes to copy with the distance to their first occurrence.
//! All numbers are LEB128. In front of the compressed steps stand the sizes of the text, of the text with folded places (0 if none is), of the steps, and of
//! the bytes that are no copies.
//!
//! ```
//! # #[cfg(feature = "pack")] {
//! let text = "add.u32 %a, %b, %c;\nret;\n".repeat(1000);
//! let packed = ptx_pack::pack(&text);
//! assert!(packed.len() < text.len() / 100);
//! assert_eq!(ptx_pack::unpack(&packed), Some(text));
//! # }
//! ```

#![forbid(unsafe_code)]

#[cfg(feature = "pack")]
mod pack;
mod places;

use lzma_rust2::LzmaReader;
use std::io::Read;

#[cfg(feature = "pack")]
pub use pack::pack;

/// Bits of LZMA: of the byte before that are the context of one, and of the places of bytes and matches in it. A text has no
/// columns.
const CONTEXT: [u32; 3] = [4, 0, 0];

/// Bytes that LZMA looks back, for steps of this size.
fn window(steps: usize) -> u32 {
    (steps as u32).next_power_of_two().clamp(1 << 12, 1 << 22)
}

/// More bytes than any text has, so that damaged sizes ask for no memory that a machine lacks.
const MAX_LEN: usize = 1 << 30;

/// The text of `pack`'s result, in one allocation beside LZMA's window, and another one where places were folded. `None` for bytes
/// that are no such result.
pub fn unpack(packed: &[u8]) -> Option<String> {
    let mut read = 0;
    let [text, folded, steps, literals] = [(); 4].map(|()| number(packed, &mut read));
    let (text, folded, steps, literals) = (text?, folded?, steps?, literals?);
    if text.max(folded).max(steps) > MAX_LEN {
        return None;
    }
    let len = if folded > 0 { folded } else { text };
    // The steps lie at the end, and the text grows from the beginning. It never reaches a step that is not done: the bytes behind
    // its end are at least as many as those of the steps that are left.
    let mut bytes = vec![0; len.checked_add(steps.checked_sub(literals)?)?];
    let mut from = bytes.len().checked_sub(steps)?;
    let [context, literal, place] = CONTEXT;
    let body = packed.get(read..)?;
    let reader = LzmaReader::new(body, steps as u64, context, literal, place, window(steps), None);
    reader.ok()?.read_exact(bytes.get_mut(from..)?).ok()?;
    let mut to = 0;
    while to < len {
        let count = number(&bytes, &mut from)?;
        let end = from.checked_add(count).filter(|end| *end <= bytes.len())?;
        bytes.copy_within(from..end, to);
        (from, to) = (end, to + count);
        if to < len {
            let (count, distance) = (number(&bytes, &mut from)?, number(&bytes, &mut from)?);
            let first = to.checked_sub(distance)?;
            let end = first.checked_add(count).filter(|end| *end <= to)?;
            to.checked_add(count).filter(|to| *to <= from)?;
            bytes.copy_within(first..end, to);
            to += count;
        }
    }
    bytes.truncate(len);
    let unpacked = String::from_utf8(bytes).ok()?;
    if folded > 0 { places::unfold(&unpacked, text) } else { Some(unpacked) }
}

/// The number at a place, which moves behind it.
fn number(bytes: &[u8], at: &mut usize) -> Option<usize> {
    let mut value = 0_u64;
    for shift in (0..u64::BITS).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return usize::try_from(value).ok();
        }
    }
    None
}
