//! Tensor maps of recent operands: to encode a map takes longer than to find it.

use ptx_launch::{Result, StreamRef, TensorMap};

/// Operands whose hashes are the same keep their maps beside each other, up to this number of them.
const WAYS: usize = 4;

/// The last maps of a thread, at most `KEPT`, each in one of the places that the hash of its operand names. The places are allocated with the first map: a
/// thread without one has no room for them, and neither has the file of the program.
pub(crate) struct Recent<K, const KEPT: usize>(Vec<[Option<(K, TensorMap)>; WAYS]>);

impl<K: Copy + PartialEq, const KEPT: usize> Recent<K, KEPT> {
    /// No maps.
    pub(crate) const fn new() -> Self {
        const { assert!(KEPT >= WAYS && KEPT.is_multiple_of(WAYS)) };
        Recent(Vec::new())
    }

    /// The map of an operand, whose `words` differ from those of most others. Maps of the CPU device name the device, and so are not kept.
    ///
    /// # Errors
    /// Those of `encode`.
    pub(crate) fn map(
        &mut self,
        stream: StreamRef<'_>,
        operand: &K,
        words: [u64; 4],
        encode: impl Fn() -> Result<TensorMap>,
    ) -> Result<TensorMap> {
        match stream.properties()?.capability {
            None => encode(),
            Some(_) => self.kept(operand, words, encode),
        }
    }

    /// The map that is kept, or that is kept from now on in the place of the oldest one there.
    fn kept(&mut self, operand: &K, words: [u64; 4], encode: impl Fn() -> Result<TensorMap>) -> Result<TensorMap> {
        if self.0.is_empty() {
            self.0.resize(KEPT / WAYS, [None; WAYS]);
        }
        let ways = &mut self.0[hash(words) as usize % (KEPT / WAYS)];
        if let Some((_, map)) = ways.iter().flatten().find(|(known, _)| known == operand) {
            return Ok(*map);
        }
        let map = encode()?;
        ways.rotate_right(1);
        ways[0] = Some((*operand, map));
        Ok(map)
    }
}

/// A hash of some words.
fn hash(words: [u64; 4]) -> u64 {
    words.into_iter().fold(0u64, |hash, word| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29))
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use ptx_launch::{AsStream, Device};
    use std::cell::Cell;

    /// Operands of which several have one hash, again and again, and one more than are kept.
    #[test]
    fn operands_with_one_hash_are_kept_beside_each_other() {
        let device = Device::cpu();
        let buffer = device.zeros::<u16>(1 << 12).unwrap();
        let made = Cell::new(0);
        let encode = || {
            made.set(made.get() + 1);
            TensorMap::of_address((&device).as_stream(), ptx_launch::ElementType::F16, buffer.address(), &[64, 64])
                .tile(&[8, 64])
                .build()
        };
        let mut recent = Recent::<usize, 16>::new();
        let mut take = |operands: std::ops::Range<usize>| {
            for operand in operands {
                recent.kept(&operand, [7; 4], encode).unwrap();
            }
            made.get()
        };
        (0..3).for_each(|_| assert_eq!(take(0..WAYS), WAYS));
        assert_eq!(take(WAYS..WAYS + 1), WAYS + 1);
        assert_eq!(take(1..WAYS + 1), WAYS + 1);
        assert_eq!(take(0..1), WAYS + 2);
    }
}
