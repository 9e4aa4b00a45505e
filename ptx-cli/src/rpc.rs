//! Messages of the Language Server and the Debug Adapter Protocol: JSON behind a header with its length.

use serde_json::Value;
use std::io::{self, BufRead, Read, Write};

/// What was read.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// A message.
    Message(Value),
    /// Bytes that are no message, and the reason. The next message can be read.
    Malformed(String),
}

/// No message is longer.
const LONGEST: u64 = 1 << 30;

/// No header has longer lines.
const LONGEST_LINE: u64 = 1 << 13;

/// Reads a message; `None` at the end of the input.
pub(crate) fn read(input: &mut dyn BufRead) -> io::Result<Option<Incoming>> {
    let malformed = |why: String| Ok(Some(Incoming::Malformed(why)));
    let (mut length, mut lines) = (None, 0);
    loop {
        let mut line = Vec::new();
        if input.take(LONGEST_LINE).read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        lines += 1;
        if let Some((name, value)) = line.split_once(':')
            && name.trim().eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse::<u64>().ok();
        }
    }
    let Some(length) = length else {
        return if lines == 0 {
            malformed("an empty header".to_owned())
        } else {
            malformed("a header without `Content-Length`".to_owned())
        };
    };
    if length > LONGEST {
        io::copy(&mut input.take(length), &mut io::sink())?;
        return malformed(format!("a message of {length} bytes; the longest has {LONGEST}"));
    }
    let mut body = Vec::new();
    if input.take(length).read_to_end(&mut body)? as u64 != length {
        return Ok(None);
    }
    match serde_json::from_slice(&body) {
        Ok(message) => Ok(Some(Incoming::Message(message))),
        Err(why) => malformed(format!("not JSON: {why}")),
    }
}

/// Writes a message.
pub(crate) fn write(out: &mut dyn Write, message: &Value) -> io::Result<()> {
    let text = message.to_string();
    write!(out, "Content-Length: {}\r\n\r\n{text}", text.len())?;
    out.flush()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::{Incoming, read, write};

    #[test]
    fn what_is_malformed_does_not_end_the_stream() {
        let mut bytes = Vec::new();
        write(&mut bytes, &serde_json::json!({"a": "é"})).unwrap();
        bytes.extend(b"Content-Length: 3\r\nContent-Type: x\r\n\r\n{,}");
        bytes.extend(b"Length: 3\r\n\r\n");
        bytes.extend(b"content-length:2\n\n[]");
        bytes.extend(b"Content-Length: 10\r\n\r\n{}");
        let mut input = bytes.as_slice();
        let mut kinds = String::new();
        while let Some(found) = read(&mut input).unwrap() {
            kinds.push(if matches!(found, Incoming::Message(_)) { 'm' } else { '!' });
        }
        assert_eq!(kinds, "m!!m");
    }
}
