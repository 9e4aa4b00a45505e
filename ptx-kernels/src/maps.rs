//! Tensor maps of recent operands: to encode a map takes longer than to find it.

use ptx_launch::{Result, StreamRef, TensorMap};

/// The last maps of a thread, at most `KEPT`, each in the place that the hash of its operand names. The places are allocated with the first map: a thread
/// without one has no room for them, and neither has the file of the program.
pub(crate) struct Recent<K, const KEPT: usize>(Vec<Option<(K, TensorMap)>>);

impl<K: Copy + PartialEq, const KEPT: usize> Recent<K, KEPT> {
    /// No maps.
    pub(crate) const fn new() -> Self {
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
        if stream.properties()?.capability.is_none() {
            return encode();
        }
        if self.0.is_empty() {
            self.0.resize(KEPT, None);
        }
        let slot = &mut self.0[hash(words) as usize % KEPT];
        match slot {
            Some((known, map)) if known == operand => Ok(*map),
            _ => encode().map(|map| slot.insert((*operand, map)).1),
        }
    }
}

/// A hash of some words.
fn hash(words: [u64; 4]) -> u64 {
    words.into_iter().fold(0u64, |hash, word| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29))
}
