//! Functions that CUDA's runtime on the device provides: `vprintf`, `malloc`, `free`, `__assertfail`.

use super::control::text;
use crate::ctx::Ctx;
use crate::fault::{Fault, FaultKind};
use crate::space::{Where, number};

/// Effect of a function on the values of its parameters, and its result.
pub(super) type Service = fn(&mut Ctx, usize, &[u64]) -> Result<u64, Fault>;

/// Maximum output of a launch, in bytes.
const PRINT_LIMIT: usize = 1 << 24;

/// The service of this name.
pub(super) fn service(name: &str) -> Option<Service> {
    const SERVICES: [(&str, Service); 4] =
        [("vprintf", vprintf), ("malloc", malloc), ("free", free), ("__assertfail", assert_fail)];
    SERVICES.iter().find(|(n, _)| *n == name).map(|(_, service)| *service)
}

fn value(values: &[u64], at: usize) -> u64 {
    values.get(at).copied().unwrap_or(0)
}

fn malloc(ctx: &mut Ctx, _: usize, values: &[u64]) -> Result<u64, Fault> {
    Ok(ctx.global.take_from_heap(value(values, 0)).unwrap_or(0))
}

fn free(ctx: &mut Ctx, _: usize, values: &[u64]) -> Result<u64, Fault> {
    ctx.global.give_to_heap(value(values, 0));
    Ok(0)
}

fn assert_fail(ctx: &mut Ctx, lane: usize, values: &[u64]) -> Result<u64, Fault> {
    let said = |at: usize| text(ctx, lane, value(values, at)).map(|t| String::from_utf8_lossy(&t).into_owned());
    let (what, file, function) = (said(0)?, said(1)?, said(3)?);
    let message = format!("assertion `{what}` failed at {file}:{} in {function}", value(values, 2) as u32);
    Err(Fault::new(FaultKind::Trap, message))
}

/// `vprintf(format, arguments)`: gives the number of arguments, as CUDA does.
fn vprintf(ctx: &mut Ctx, lane: usize, values: &[u64]) -> Result<u64, Fault> {
    let format = text(ctx, lane, value(values, 0))?;
    let mut arguments = Arguments { address: value(values, 1), count: 0 };
    let mut out = Vec::new();
    let mut rest = format.as_slice();
    while let [first, tail @ ..] = rest {
        rest = match first {
            b'%' => directive(ctx, lane, tail, &mut arguments, &mut out)?,
            _ => {
                out.push(*first);
                tail
            }
        };
    }
    if ctx.stats.printed.len() + out.len() <= PRINT_LIMIT {
        ctx.stats.printed.push_str(&String::from_utf8_lossy(&out));
    }
    Ok(arguments.count)
}

/// The buffer of arguments, each at a multiple of its size.
struct Arguments {
    address: u64,
    count: u64,
}

impl Arguments {
    fn take(&mut self, ctx: &Ctx, lane: usize, bytes: u64) -> Result<u64, Fault> {
        let at = self.address.checked_next_multiple_of(bytes).unwrap_or(u64::MAX);
        self.address = at.saturating_add(bytes);
        self.count += 1;
        ctx.bytes(Where::Generic, lane, at, bytes).map(number)
    }
}

/// The flags, width and precision of a conversion.
#[derive(Default)]
struct Style {
    left: bool,
    plus: bool,
    zero: bool,
    hash: bool,
    space: bool,
    width: usize,
    precision: Option<usize>,
}

/// One `%…`; gives what follows it.
fn directive<'f>(
    ctx: &Ctx,
    lane: usize,
    mut rest: &'f [u8],
    arguments: &mut Arguments,
    out: &mut Vec<u8>,
) -> Result<&'f [u8], Fault> {
    let mut style = Style::default();
    while let [flag @ (b'-' | b'+' | b'0' | b'#' | b' '), tail @ ..] = rest {
        style.left |= *flag == b'-';
        style.plus |= *flag == b'+';
        style.zero |= *flag == b'0';
        style.hash |= *flag == b'#';
        style.space |= *flag == b' ';
        rest = tail;
    }
    let width;
    (width, rest) = count(ctx, lane, rest, arguments)?;
    style.width = width.unwrap_or(0);
    if let [b'.', tail @ ..] = rest {
        let precision;
        (precision, rest) = count(ctx, lane, tail, arguments)?;
        style.precision = Some(precision.unwrap_or(0));
    }
    let mut bytes = 4;
    while let [size @ (b'l' | b'h' | b'z' | b'j' | b't' | b'L'), tail @ ..] = rest {
        bytes = if *size == b'h' { 4 } else { 8 };
        rest = tail;
    }
    let [conversion, tail @ ..] = rest else { return Ok(rest) };
    let shown = convert(ctx, lane, *conversion, bytes, &style, arguments)?;
    out.extend_from_slice(&pad(shown, &style, matches!(conversion, b's' | b'c')));
    Ok(tail)
}

/// A number or `*` in a directive.
fn count<'f>(
    ctx: &Ctx,
    lane: usize,
    rest: &'f [u8],
    arguments: &mut Arguments,
) -> Result<(Option<usize>, &'f [u8]), Fault> {
    if let [b'*', tail @ ..] = rest {
        let value = arguments.take(ctx, lane, 4)?;
        return Ok((Some(value.min(4096) as usize), tail));
    }
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let number = rest[..digits].iter().fold(0usize, |n, d| (n * 10 + usize::from(d - b'0')).min(4096));
    Ok(((digits > 0).then_some(number), &rest[digits..]))
}

fn convert(
    ctx: &Ctx,
    lane: usize,
    conversion: u8,
    bytes: u64,
    style: &Style,
    arguments: &mut Arguments,
) -> Result<Vec<u8>, Fault> {
    let mut take = |bytes: u64| arguments.take(ctx, lane, bytes);
    Ok(match conversion {
        b'%' => b"%".to_vec(),
        b'c' => vec![take(4)? as u8],
        b's' => {
            let address = take(8)?;
            let mut found = if address == 0 { b"(null)".to_vec() } else { text(ctx, lane, address)? };
            found.truncate(style.precision.unwrap_or(usize::MAX));
            found
        }
        b'd' | b'i' => {
            let raw = take(bytes)?;
            let value = if bytes == 4 { i64::from(raw as i32) } else { raw as i64 };
            signed(digits(value.unsigned_abs().to_string(), style), value < 0, style)
        }
        b'u' => digits(take(bytes)?.to_string(), style).into_bytes(),
        b'o' => digits(format!("{:o}", take(bytes)?), style).into_bytes(),
        b'x' | b'X' => hexadecimal(take(bytes)?, conversion == b'X', style),
        b'p' => format!("{:#x}", take(8)?).into_bytes(),
        b'f' | b'F' | b'e' | b'E' | b'g' | b'G' | b'a' | b'A' => {
            let value = f64::from_bits(take(8)?);
            let shown = float(value.abs(), conversion.to_ascii_lowercase(), style);
            let shown = if conversion.is_ascii_uppercase() { shown.to_ascii_uppercase() } else { shown };
            signed(shown, value.is_sign_negative(), style)
        }
        other => vec![b'%', other],
    })
}

/// An integer's digits, with leading zeros up to the precision.
fn digits(digits: String, style: &Style) -> String {
    format!("{digits:0>width$}", width = style.precision.unwrap_or(1))
}

fn hexadecimal(value: u64, upper: bool, style: &Style) -> Vec<u8> {
    let shown = digits(format!("{value:x}"), style);
    let shown = if style.hash && value != 0 { format!("0x{shown}") } else { shown };
    if upper { shown.to_ascii_uppercase().into_bytes() } else { shown.into_bytes() }
}

fn signed(shown: String, negative: bool, style: &Style) -> Vec<u8> {
    let sign = match () {
        () if negative => "-",
        () if style.plus => "+",
        () if style.space => " ",
        () => "",
    };
    format!("{sign}{shown}").into_bytes()
}

/// A magnitude as C prints it.
fn float(value: f64, conversion: u8, style: &Style) -> String {
    let precision = style.precision.unwrap_or(6);
    match conversion {
        _ if value.is_nan() => "nan".into(),
        _ if value.is_infinite() => "inf".into(),
        b'f' => format!("{value:.precision$}"),
        b'e' => scientific(value, precision),
        b'g' => general(value, precision.max(1), style.hash),
        _ => format!("{:#x}", value.to_bits()),
    }
}

/// `1.5e+00`: at least two digits of exponent.
fn scientific(value: f64, precision: usize) -> String {
    let shown = format!("{value:.precision$e}");
    let (mantissa, exponent) = shown.split_once('e').unwrap_or((&shown, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    format!("{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

/// `%g`: the shorter of the two notations, without trailing zeros.
fn general(value: f64, precision: usize, keep: bool) -> String {
    let shown = scientific(value, precision - 1);
    let exponent: i32 = shown.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
    let trim = |s: &str| match s.contains('.') && !keep {
        true => s.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => s.to_string(),
    };
    if exponent < -4 || exponent >= precision as i32 {
        let (mantissa, tail) = shown.split_once('e').unwrap_or((&shown, "+00"));
        return format!("{}e{tail}", trim(mantissa));
    }
    trim(&format!("{value:.decimals$}", decimals = (precision as i32 - 1 - exponent).max(0) as usize))
}

fn pad(shown: Vec<u8>, style: &Style, text: bool) -> Vec<u8> {
    let missing = style.width.saturating_sub(shown.len());
    if missing == 0 {
        return shown;
    }
    if style.left {
        return [shown, vec![b' '; missing]].concat();
    }
    if style.zero && !text && style.precision.is_none_or(|_| shown.contains(&b'.')) {
        let signs = shown.iter().take_while(|b| matches!(b, b'-' | b'+' | b' ')).count();
        let (sign, rest) = shown.split_at(signs);
        return [sign.to_vec(), vec![b'0'; missing], rest.to_vec()].concat();
    }
    [vec![b' '; missing], shown].concat()
}
