//! Bytes of shared memory that were written. Where no accesses race, a write that comes before a read in one order of the events does in every order.

use std::collections::BTreeMap;

/// By block, ranges that do not touch, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filled(BTreeMap<usize, Vec<(u32, u32)>>);

impl Filled {
    pub(crate) fn add(&mut self, block: usize, (from, to): (u32, u32)) {
        let all = self.0.entry(block).or_default();
        let first = all.partition_point(|(_, end)| *end < from);
        let end = all.partition_point(|(start, _)| *start <= to);
        let joined = all[first..end].iter().fold((from, to), |(from, to), own| (from.min(own.0), to.max(own.1)));
        if all.get(first) != Some(&joined) {
            all.splice(first..end, [joined]);
        }
    }

    pub(crate) fn has(&self, block: usize, (from, to): (u32, u32)) -> bool {
        let covers = |all: &Vec<(u32, u32)>| {
            all.get(all.partition_point(|(_, end)| *end < to)).is_some_and(|own| own.0 <= from && to <= own.1)
        };
        from >= to || self.0.get(&block).is_some_and(covers)
    }

    /// Returns true if one of the bytes was written.
    pub(crate) fn meets(&self, block: usize, (from, to): (u32, u32)) -> bool {
        self.0.get(&block).is_some_and(|all| all.iter().any(|own| own.0 < to && from < own.1))
    }

    pub(crate) fn key(&self, key: &mut Vec<u32>) {
        for (block, all) in &self.0 {
            key.extend([*block as u32, all.len() as u32]);
            key.extend(all.iter().flat_map(|(from, to)| [*from, *to]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Filled;

    #[test]
    fn ranges_are_joined() {
        let mut filled = Filled::default();
        for range in [(8, 12), (0, 4), (20, 24), (4, 8)] {
            filled.add(1, range);
        }
        assert!(filled.has(1, (0, 12)) && filled.has(1, (3, 9)) && filled.has(1, (20, 24)));
        assert!(filled.meets(1, (11, 13)) && !filled.meets(1, (12, 20)));
        assert!(!filled.has(1, (11, 13)) && !filled.has(1, (12, 20)) && !filled.has(0, (0, 4)));
        filled.add(1, (10, 30));
        let mut key = Vec::new();
        filled.key(&mut key);
        assert_eq!(key, [1, 1, 0, 30]);
    }
}
