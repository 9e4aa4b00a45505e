//! Words that mean something special in some type: what recordings of other seeds than the first are made from.

use crate::forms::random;

/// A float of `bits` with `fraction` of them: zeros, subnormals, infinities, NaNs with payloads, halves, the ends of ranges.
fn float(bits: u32, fraction: u32, state: &mut u64) -> u64 {
    let (r, pick) = (random(state), random(state) >> 12);
    let most = (1u64 << (bits - 1 - fraction)) - 1;
    let (mask, bias) = ((1u64 << fraction) - 1, most / 2);
    let exponent = match pick & 15 {
        0..3 => 0,
        3 => 1,
        4..6 => most,
        6 => most - 1,
        // Where conversions to narrower types round, and where integers end.
        7..10 => (bias + (pick >> 8) % 70).min(most),
        10..12 => bias.saturating_sub((pick >> 8) % 30),
        12 => bias,
        _ => (pick >> 8) % (most + 1),
    };
    let tail = (pick >> 20) as u32 % fraction;
    let low = match pick >> 4 & 7 {
        0 | 1 => 0,
        2 => mask,
        3 => 1,
        // Halfway between two values of a type with fewer bits, and right beside.
        4 => (r & mask) >> tail << tail | 1 << tail >> 1,
        5 => ((r & mask) >> tail << tail | 1 << tail >> 1).wrapping_add((pick >> 40 & 1) * 2).wrapping_sub(1) & mask,
        _ => r & mask,
    };
    (pick >> 50 & 1) << (bits - 1) | exponent << fraction | low
}

/// An integer near a power of two, or near 0.
fn integer(state: &mut u64) -> u64 {
    let pick = random(state) >> 20;
    let power = 1u64.checked_shl(pick as u32 & 127).unwrap_or(0);
    let near = power.wrapping_add(pick >> 8 & 7).wrapping_sub(4);
    if pick & 0x8000 == 0 { near } else { near.wrapping_neg() }
}

/// A word: which way it is made depends on `at`.
pub(crate) fn word(at: usize, state: &mut u64) -> u64 {
    let mut halves = |fraction| (0..4).fold(0, |word, _| word << 16 | float(16, fraction, state));
    match at % 11 {
        0 | 1 => float(32, 23, state) | float(32, 23, state) << 32,
        2 | 3 => float(64, 52, state),
        4 => halves(10),
        5 => halves(7),
        6 => integer(state),
        7 => integer(state) & 0xffff_ffff | integer(state) << 32,
        8 => (0..4).fold(0, |word, _| word << 16 | integer(state) & 0xffff),
        9 => {
            let bytes = |word: u64, _| {
                word << 8 | [0, 1, 0x7f, 0x80, 0xff, 0x7e, 0x7c, 0x81][(random(state) >> 30) as usize % 8]
            };
            (0..8).fold(0, bytes)
        }
        _ => random(state),
    }
}

/// `registers` rows of `threads` words; now and then one is that of the row before.
pub(crate) fn rows(registers: usize, threads: usize, state: &mut u64) -> Vec<u64> {
    let mut all: Vec<u64> = Vec::new();
    for i in 0..registers * threads {
        let pick = (random(state) >> 33) as usize;
        let same = i >= threads && pick.is_multiple_of(16);
        let next = if same { all[i - threads] } else { word(pick / 16, state) };
        all.push(next);
    }
    all
}
