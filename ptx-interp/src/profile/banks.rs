//! Wavefronts: how often the banks of shared memory work for one instruction of a warp. Only arithmetic.
//!
//! Shared memory has 32 banks, each one word of 32 bits wide. Lanes that want the same word of a bank share one access; different words of
//! a bank take turns. An instruction of 8 bytes in each lane works in two halves of the warp, one of 16 bytes in four quarters, because a
//! wavefront moves at most 128 bytes.

/// The banks.
const BANKS: u64 = 32;
/// Bytes of a word.
const WORD: u64 = 4;
/// Bytes that one wavefront moves at most.
const WAVEFRONT: u64 = BANKS * WORD;

/// The address of each lane that takes part.
pub(super) type Addresses = [Option<u64>; 32];

/// How an instruction uses the banks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// Each lane loads its own value. Two passes become one if lanes agree in pairs, because a pair then needs one value.
    Load,
    /// Each lane stores its own value, or gives the address of a row of a matrix.
    Plain,
    /// Each lane updates memory, also where others do.
    Update,
}

/// The wavefronts of an instruction that accesses `size` bytes in each lane.
pub(super) fn count_wavefronts(addresses: &Addresses, size: u64, pattern: Pattern) -> u64 {
    let lanes = (WAVEFRONT / size.max(1)).clamp(1, 32) as usize;
    let merged = lanes < 32 && pattern == Pattern::Load && agree_in_pairs(addresses);
    let lanes = if merged { 2 * lanes } else { lanes };
    addresses.chunks(lanes).map(|pass| count_turns(pass, size, pattern)).sum()
}

/// The wavefronts of a copy of `size` bytes in each lane: a pass reads the words of one side from the banks of L1, which are those of shared memory, and writes
/// the other. No lanes share a word on either side.
pub(super) fn count_copy_wavefronts(sources: &Addresses, targets: &Addresses, size: u64) -> u64 {
    let lanes = (WAVEFRONT / size.max(1)).clamp(1, 32) as usize;
    let turns = |pass: &[Option<u64>]| count_turns(pass, size, Pattern::Update);
    sources.chunks(lanes).zip(targets.chunks(lanes)).map(|(from, to)| turns(from).max(turns(to))).sum()
}

/// The fewest wavefronts that move so many bytes.
pub(super) fn ideal_wavefronts(bytes: u64) -> u64 {
    bytes.div_ceil(WAVEFRONT)
}

/// Returns true if every lane has the address of its neighbor, or of the lane two further, as far as they take part.
fn agree_in_pairs(addresses: &Addresses) -> bool {
    let agree = |lane: usize, step: usize| match (addresses[lane], addresses[lane ^ step]) {
        (Some(own), Some(other)) => own == other,
        _ => true,
    };
    [1, 2].into_iter().any(|step| (0..32).all(|lane| agree(lane, step)))
}

/// The turns of the busiest bank in one pass.
fn count_turns(pass: &[Option<u64>], size: u64, pattern: Pattern) -> u64 {
    let mut words = [0; 64];
    let mut count = 0;
    for address in pass.iter().flatten() {
        for word in address / WORD..=(address + size.max(1) - 1) / WORD {
            if let Some(next) = words.get_mut(count) {
                (*next, count) = (word, count + 1);
            }
        }
    }
    let words = &mut words[..count];
    words.sort_unstable();
    let mut turns = [0u64; BANKS as usize];
    for (at, word) in words.iter().enumerate() {
        let shared = pattern != Pattern::Update && at > 0 && words[at - 1] == *word;
        turns[(word % BANKS) as usize] += u64::from(!shared);
    }
    turns.into_iter().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{Addresses, Pattern, count_copy_wavefronts, count_wavefronts, ideal_wavefronts};

    /// A pattern of addresses by lane.
    type By = fn(u64) -> Option<u64>;

    fn addresses(by: By) -> Addresses {
        std::array::from_fn(|lane| by(lane as u64))
    }

    /// Name, bytes of a lane, addresses, wavefronts of a load, and of a store. Worked out by hand.
    const CASES: &[(&str, u64, By, u64, u64)] = &[
        ("bytes side by side", 1, Some, 1, 1),
        ("halves side by side", 2, |l| Some(2 * l), 1, 1),
        ("a byte of each word", 1, |l| Some(4 * l), 1, 1),
        ("words side by side", 4, |l| Some(4 * l), 1, 1),
        ("words side by side, from the middle of the banks", 4, |l| Some(64 + 4 * l), 1, 1),
        ("words in reverse", 4, |l| Some(124 - 4 * l), 1, 1),
        ("one word", 4, |_| Some(40), 1, 1),
        ("two words of a bank", 4, |l| Some(l % 2 * 128), 2, 2),
        ("two words of two banks", 4, |l| Some(l % 2 * 132), 1, 1),
        ("stride of 2 words", 4, |l| Some(8 * l), 2, 2),
        ("stride of 3 words", 4, |l| Some(12 * l), 1, 1),
        ("stride of 4 words", 4, |l| Some(16 * l), 4, 4),
        ("stride of 8 words", 4, |l| Some(32 * l), 8, 8),
        ("stride of 16 words", 4, |l| Some(64 * l), 16, 16),
        ("stride of 31 words", 4, |l| Some(124 * l), 1, 1),
        ("stride of 32 words", 4, |l| Some(128 * l), 32, 32),
        ("stride of 33 words", 4, |l| Some(132 * l), 1, 1),
        ("stride of 32 words, 5 lanes", 4, |l| (l < 5).then_some(128 * l), 5, 5),
        ("one lane", 4, |l| (l == 7).then_some(128), 1, 1),
        ("halves in a stride of 32 words", 2, |l| Some(128 * l), 32, 32),
        ("doubles side by side", 8, |l| Some(8 * l), 2, 2),
        ("one double", 8, |_| Some(8), 1, 2),
        ("doubles that agree in pairs", 8, |l| Some(l / 2 * 8), 1, 2),
        ("doubles that agree two lanes apart", 8, |l| Some((l / 4 * 2 + l % 2) * 8), 1, 2),
        ("doubles that agree four lanes apart", 8, |l| Some((l / 8 * 4 + l % 4) * 8), 2, 2),
        ("doubles, the lower half of the warp", 8, |l| (l < 16).then_some(8 * l), 1, 1),
        ("doubles in a stride of 2", 8, |l| Some(16 * l), 4, 4),
        ("doubles in a stride of 16", 8, |l| Some(128 * l), 32, 32),
        ("doubles in a stride of 17", 8, |l| Some(136 * l), 2, 2),
        ("16 bytes side by side", 16, |l| Some(16 * l), 4, 4),
        ("one vector of 16 bytes", 16, |_| Some(0), 2, 4),
        ("16 bytes that agree in pairs", 16, |l| Some(l / 2 * 16), 2, 4),
        ("16 bytes in rows of 128 bytes", 16, |l| Some(128 * l), 32, 32),
        ("16 bytes in rows of 144 bytes", 16, |l| Some(144 * l), 4, 4),
        ("16 bytes, the first quarter of the warp", 16, |l| (l < 8).then_some(16 * l), 1, 1),
        ("16 bytes in a stride of 32", 16, |l| Some(32 * l), 8, 8),
        ("rows of 128 bytes with a swizzle", 16, |l| Some(128 * l + 16 * (l % 8)), 4, 4),
    ];

    #[test]
    fn loads_and_stores_take_these_wavefronts() {
        for (name, size, by, load, store) in CASES {
            let addresses = addresses(*by);
            assert_eq!(count_wavefronts(&addresses, *size, Pattern::Load), *load, "a load of {name}");
            assert_eq!(count_wavefronts(&addresses, *size, Pattern::Plain), *store, "a store of {name}");
        }
    }

    #[test]
    fn copies_take_turns_on_both_sides() {
        let [dense, line, one] = [|l| Some(16 * l), |l| Some(128 * l), |_| Some(0)].map(|by: By| addresses(by));
        let count = |from, to| count_copy_wavefronts(from, to, 16);
        assert_eq!(
            [count(&dense, &dense), count(&line, &dense), count(&dense, &line), count(&one, &dense)],
            [4, 32, 32, 32]
        );
        assert_eq!(count(&[None; 32], &[None; 32]), 0);
    }

    /// Rows of matrices: eight addresses a matrix, each of 16 bytes.
    const MATRICES: &[(&str, By, u64)] = &[
        ("x1 of a dense tile", |l| (l < 8).then_some(16 * l), 1),
        ("x2 of a dense tile", |l| (l < 16).then_some(16 * l), 2),
        ("x4 of a dense tile", |l| Some(16 * l), 4),
        ("x1 in rows of 128 bytes", |l| (l < 8).then_some(128 * l), 8),
        ("x2 in rows of 128 bytes", |l| (l < 16).then_some(128 * l), 16),
        ("x4 in rows of 128 bytes", |l| Some(128 * (l % 16) + 16 * (l / 16)), 32),
        ("x4 in rows of 64 bytes", |l| Some(64 * (l % 16) + 16 * (l / 16)), 16),
        ("x4 in rows of 32 bytes", |l| Some(32 * (l % 16) + 16 * (l / 16)), 8),
        ("x4 in rows of 128 bytes, padded by 16", |l| Some(144 * (l % 16) + 16 * (l / 16)), 4),
        ("x4 with a swizzle of 128 bytes", |l| Some(128 * (l % 16) + 16 * ((l / 16) ^ (l % 8))), 4),
        ("x4 with a swizzle of 64 bytes", |l| Some(64 * (l % 16) + 16 * ((l / 16) ^ (l % 8 / 2))), 4),
        ("x4 with a swizzle of 32 bytes", |l| Some(32 * (l % 16) + 16 * ((l / 16) ^ (l % 8 / 4))), 4),
        ("x4 of one row in pairs", |l| Some(16 * (l / 2)), 4),
    ];

    #[test]
    fn matrices_take_these_wavefronts() {
        for (name, by, wavefronts) in MATRICES {
            assert_eq!(count_wavefronts(&addresses(*by), 16, Pattern::Plain), *wavefronts, "{name}");
        }
    }

    #[test]
    fn updates_of_one_address_take_turns() {
        assert_eq!(count_wavefronts(&addresses(|l| Some(4 * l)), 4, Pattern::Update), 1);
        assert_eq!(count_wavefronts(&addresses(|_| Some(0)), 4, Pattern::Update), 32);
        assert_eq!(count_wavefronts(&addresses(|l| Some(l / 4 * 4)), 4, Pattern::Update), 4);
    }

    #[test]
    fn the_ideal_moves_128_bytes_at_a_time() {
        assert_eq!([0, 1, 128, 129, 512].map(ideal_wavefronts), [0, 1, 1, 2, 4]);
    }
}
