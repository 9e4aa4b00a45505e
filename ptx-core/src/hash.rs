//! Hash maps of names. The names come from the user's own source, so that a quick hash will do. It is quick in the macros as well, which
//! are built without optimizations.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// A map by names or numbers.
pub type Map<K, V> = HashMap<K, V, BuildHasherDefault<Quick>>;

/// A set of names, numbers or places in memory.
pub type Set<K> = HashSet<K, BuildHasherDefault<Quick>>;

/// Eight bytes at a time: turn, add, multiply.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quick(u64);

impl Quick {
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

impl Hasher for Quick {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        for word in words {
            self.add(u64::from_le_bytes(*word));
        }
        // Fewer than eight bytes, and their number in the last byte.
        let mut last = [0, 0, 0, 0, 0, 0, 0, rest.len() as u8];
        last[..rest.len()].copy_from_slice(rest);
        self.add(u64::from_le_bytes(last));
    }

    fn write_u8(&mut self, byte: u8) {
        self.add(u64::from(byte));
    }

    fn write_u32(&mut self, number: u32) {
        self.add(u64::from(number));
    }

    fn write_usize(&mut self, number: usize) {
        self.add(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}
