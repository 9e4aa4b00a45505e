//! Places in a line map: `12:0:34 15:0:35:5 `, a line of the PTX, a file, and a line and perhaps a column of it. They are a sixth of a text, and nearly all of
//! what is left of it once repeated lines are references, because no two are the same. Their differences are: each folded place is the
//! numbers less those of the place before, on a line of its own, so that instances share runs of them.

/// Begins a folded place. A text that has it is not folded.
pub(crate) const MARK: u8 = 1;

/// The numbers of a place.
type Place = [i64; 4];

/// The text with its places folded, except those that begin a list or end it.
#[cfg(feature = "pack")]
pub(crate) fn fold(text: &str) -> String {
    let (mut folded, mut done, mut last) = (String::with_capacity(text.len()), 0, Place::default());
    let mut at = text.find(' ').map_or(text.len(), |blank| blank + 1);
    while at < text.len() {
        if let Some((place, count, end)) = read_place(text.as_bytes(), at) {
            folded.push_str(&text[done..at]);
            let differences = (0..count).map(|number| (place[number] - last[number]).to_string());
            folded.push(char::from(MARK));
            folded.push_str(&differences.collect::<Vec<_>>().join(":"));
            folded.push('\n');
            last[..count].copy_from_slice(&place[..count]);
            (at, done) = (end, end);
        } else {
            at = text[at..].find(' ').map_or(text.len(), |blank| at + blank + 1);
        }
    }
    folded.push_str(&text[done..]);
    folded
}

/// The place that begins here, how many numbers it has, and the byte behind its blank.
#[cfg(feature = "pack")]
fn read_place(text: &[u8], mut at: usize) -> Option<(Place, usize, usize)> {
    let mut place = Place::default();
    for count in 1..=place.len() {
        let digits = text[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let first = *text.get(at)?;
        // More digits than a place has, and zeros that a number would not get back.
        if digits == 0 || digits > 9 || first == b'0' && digits > 1 {
            return None;
        }
        place[count - 1] = text[at..at + digits].iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'));
        at += digits;
        match text.get(at)? {
            b' ' if count >= 3 => return Some((place, count, at + 1)),
            b':' => at += 1,
            _ => return None,
        }
    }
    None
}

/// The text of `len` bytes that was folded; `None` if this is no such text.
pub(crate) fn unfold(folded: &str, len: usize) -> Option<String> {
    let (mut text, mut last) = (String::with_capacity(len), Place::default());
    let mut parts = folded.split(char::from(MARK));
    text.push_str(parts.next()?);
    for part in parts {
        let rest = unfold_place(part.as_bytes(), &mut last, &mut text)?;
        text.push_str(part.get(rest..)?);
    }
    (text.len() == len).then_some(text)
}

/// Writes the place whose differences stand at the beginning of a part, and the blank behind it. Returns the end of the differences.
fn unfold_place(part: &[u8], last: &mut Place, text: &mut String) -> Option<usize> {
    let (mut at, mut written) = (0, Written { digits: [b' '; 41], first: 41 });
    let mut count = 0;
    loop {
        let number = last.get_mut(count)?;
        *number =
            number.checked_add(read_difference(part, &mut at)?).filter(|number| (0..1_000_000_000).contains(number))?;
        count += 1;
        at += 1;
        match part.get(at - 1)? {
            b':' => {}
            b'\n' => break,
            _ => return None,
        }
    }
    // From the last digit to the first one.
    written.push(b' ');
    for (at, number) in last.iter().enumerate().take(count).rev() {
        let mut left = *number;
        loop {
            written.push(b'0' + (left % 10) as u8);
            left /= 10;
            if left == 0 {
                break;
            }
        }
        if at > 0 {
            written.push(b':');
        }
    }
    text.push_str(std::str::from_utf8(&written.digits[written.first..]).ok()?);
    Some(at)
}

/// Four numbers of nine digits with a sign behind each, written from their end.
struct Written {
    digits: [u8; 41],
    first: usize,
}

impl Written {
    fn push(&mut self, byte: u8) {
        self.first -= 1;
        self.digits[self.first] = byte;
    }
}

/// The number at a place, perhaps with a minus, which moves behind it.
fn read_difference(part: &[u8], at: &mut usize) -> Option<i64> {
    let is_negative = part.get(*at) == Some(&b'-');
    let (begin, mut number) = (*at + usize::from(is_negative), 0);
    *at = begin;
    while let Some(digit) = part.get(*at).filter(|byte| byte.is_ascii_digit()) {
        number = number * 10 + i64::from(digit - b'0');
        *at += 1;
        if *at - begin > 10 {
            return None;
        }
    }
    (*at > begin).then_some(if is_negative { -number } else { number })
}
