//! The bounds of an image that the driver is given without its length: of a text, a cubin or a fat binary.

use std::ops::Range;

/// The driver finds the end of the image inside these bytes: a text ends in a zero, the headers of an ELF file and of a fat
/// binary describe each part.
pub(super) fn is_bounded(image: &[u8]) -> bool {
    if image.starts_with(b"\x7fELF") {
        elf(image).is_some()
    } else if image.starts_with(&FAT_BINARY) {
        fat_binary(image).is_some()
    } else {
        image.contains(&0)
    }
}

/// The first bytes of a fat binary.
const FAT_BINARY: [u8; 4] = 0xba55_ed50_u32.to_le_bytes();

/// Bytes of the header of an ELF file, of a program header and of a section header, in the 64-bit format.
const HEADER: usize = 64;
const PROGRAM: usize = 56;
const SECTION: usize = 64;
/// `SHT_NULL` and `SHT_NOBITS`: sections without bytes in the file.
const WITHOUT_BYTES: [usize; 2] = [0, 8];

/// An ELF file whose headers, segments and sections lie inside.
fn elf(image: &[u8]) -> Option<()> {
    const CLASS_64: u8 = 2;
    const LITTLE_ENDIAN: u8 = 1;
    let fields = image.get(..HEADER)?;
    if fields.get(4..6)? != [CLASS_64, LITTLE_ENDIAN] {
        return None;
    }
    let programs = table(image, number(fields, 32..40)?, number(fields, 54..56)?, number(fields, 56..58)?, PROGRAM)?;
    for header in programs {
        part(image, number(header, 8..16)?, number(header, 32..40)?)?;
    }
    let sections = table(image, number(fields, 40..48)?, number(fields, 58..60)?, number(fields, 60..62)?, SECTION)?;
    for header in sections {
        if !WITHOUT_BYTES.contains(&number(header, 4..8)?) {
            part(image, number(header, 24..32)?, number(header, 32..40)?)?;
        }
    }
    Some(())
}

/// The entries of a table, if it lies inside and its entries are as large as they should be.
fn table(image: &[u8], at: usize, size: usize, count: usize, expected: usize) -> Option<impl Iterator<Item = &[u8]>> {
    let bytes = if count == 0 { &[] } else { part(image, at, size.checked_mul(count)?)? };
    (count == 0 || size == expected).then(|| bytes.chunks_exact(expected))
}

/// A header, which contains its own size and that of what follows.
fn fat_binary(image: &[u8]) -> Option<()> {
    let (header, rest) = (number(image, 6..8)?, number(image, 8..16)?);
    part(image, header, rest).map(drop)
}

fn part(image: &[u8], at: usize, size: usize) -> Option<&[u8]> {
    image.get(at..at.checked_add(size)?)
}

/// A number of up to eight bytes, the lowest first.
fn number(bytes: &[u8], at: Range<usize>) -> Option<usize> {
    let value = bytes.get(at)?.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    usize::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file with one program header and one section of four bytes at its end.
    fn file() -> Vec<u8> {
        let mut image = vec![0; HEADER + PROGRAM + SECTION];
        image[..6].copy_from_slice(b"\x7fELF\x02\x01");
        let mut put = |at: usize, value: usize, bytes: usize| {
            image[at..at + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
        };
        let (program, section, end) = (HEADER, HEADER + PROGRAM, HEADER + PROGRAM + SECTION);
        let header = [(32, program, 8), (54, PROGRAM, 2), (56, 1, 2), (40, section, 8), (58, SECTION, 2), (60, 1, 2)];
        let segment = [(program + 8, end, 8), (program + 32, 4, 8)];
        let bits = [(section + 4, 1, 4), (section + 24, end, 8), (section + 32, 4, 8)];
        header.into_iter().chain(segment).chain(bits).for_each(|(at, value, bytes)| put(at, value, bytes));
        image.extend(*b"code");
        image
    }

    #[test]
    fn an_image_ends_where_it_says() {
        let file = file();
        assert!(is_bounded(&file) && is_bounded(b".version 7.0\0"));
        for len in 0..file.len() {
            assert!(!is_bounded(&file[..len]), "{len} bytes of {}", file.len());
        }
        assert!(!is_bounded(b"") && !is_bounded(b".version 7.0"));
        assert!(!is_bounded(b"\x7fELF\x02\x01\0"), "a text does not begin like machine code");
        let fat = |rest: u64| [&FAT_BINARY[..], &[1, 0, 16, 0], &rest.to_le_bytes(), b"rest"].concat();
        assert!(is_bounded(&fat(4)) && !is_bounded(&fat(5)) && !is_bounded(&fat(u64::MAX)));
    }

    #[test]
    fn no_header_is_believed() {
        let file = file();
        for at in 0..file.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut wrong = file.clone();
                wrong[at] = value;
                // It answers, whatever the headers say.
                let _ = is_bounded(&wrong);
            }
        }
    }
}
