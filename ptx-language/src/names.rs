//! Names that are taken, and the next free one like a given one. Near misses are `diag::near`'s.

use ptx_core::hash::{Map, Set};
use std::rc::Rc;

/// The names of one kind (registers, labels or symbols) in one function or module. Each question takes the same time, however
/// many names there are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    /// Names of the module around, which are taken as well.
    outer: Option<Rc<Names>>,
    taken: Set<String>,
    /// Of taken names that end in a number: the least number, by what is before it.
    least: Map<String, u64>,
    /// The lengths of arrays, by their base.
    arrays: Map<String, u64>,
    /// The last number given to a base that was taken; arrays of each length apart, 0 for single names. Lower ones are taken for good.
    last: Map<(String, u64), u64>,
}

impl Names {
    /// No names but those of the module around.
    pub(crate) fn within(outer: &Rc<Names>) -> Names {
        Names { outer: Some(outer.clone()), ..Names::default() }
    }

    /// Takes `base`, or `base_1`, `base_2` … where it is taken.
    pub(crate) fn unique(&mut self, base: &str) -> String {
        let name = self.first(base, 0, |names, name| names.is_free(name));
        let (stem, number) = split(&name);
        if let Some(number) = number {
            let least = self.least.entry(stem.to_owned()).or_insert(number);
            *least = number.min(*least);
        }
        self.taken.insert(name.clone());
        name
    }

    /// The same for the names `base0` … of `len` registers. No such base ends in a digit: of `%v1` and 0, ptxas would
    /// make the tenth register of a range `%v`.
    pub(crate) fn unique_array(&mut self, base: &str, len: u64) -> String {
        let name = self.first(&undigited(base), len, |names, name| names.is_free_array(&undigited(name), len));
        let name = undigited(&name);
        self.arrays.insert(name.clone(), len);
        name
    }

    /// Returns true if nothing has this name.
    pub(crate) fn is_free(&self, name: &str) -> bool {
        let in_array = || match split(name) {
            (base, Some(number)) => self.arrays.get(base).is_some_and(|len| number < *len),
            _ => false,
        };
        !self.taken.contains(name) && !in_array() && self.outer.as_ref().is_none_or(|outer| outer.is_free(name))
    }

    fn is_free_array(&self, name: &str, len: u64) -> bool {
        let overlaps = self.arrays.contains_key(name) || self.least.get(name).is_some_and(|least| *least < len);
        !overlaps && self.outer.as_ref().is_none_or(|outer| outer.is_free_array(name, len))
    }

    fn is_array(&self, name: &str) -> bool {
        self.arrays.contains_key(name) || self.outer.as_ref().is_some_and(|outer| outer.is_array(name))
    }

    fn first(&mut self, base: &str, len: u64, free: impl Fn(&Names, &str) -> bool) -> String {
        if free(self, base) {
            return base.to_owned();
        }
        // Numbers behind the base of an array are its registers, of which there may be any number.
        let mut stem = format!("{base}_");
        while self.is_array(&stem) {
            stem.push('_');
        }
        let key = (base.to_owned(), len);
        let mut number = self.last.get(&key).copied().unwrap_or(0) + 1;
        loop {
            let name = format!("{stem}{number}");
            if free(self, &name) {
                self.last.insert(key, number);
                return name;
            }
            number += 1;
        }
    }
}

/// With an underscore behind a last digit.
fn undigited(name: &str) -> String {
    let digit = name.ends_with(|c: char| c.is_ascii_digit());
    if digit { format!("{name}_") } else { name.to_owned() }
}

/// A name without the number at its end, and that number as ranges of registers write it: `%acc` and 3 of `%acc3`.
fn split(name: &str) -> (&str, Option<u64>) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = &name[stem.len()..];
    let plain = digits == "0" || !digits.starts_with('0');
    (stem, digits.parse().ok().filter(|_| plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_and_scalars_do_not_meet() {
        let mut names = Names::default();
        assert_eq!(names.unique("%i"), "%i");
        assert_eq!(names.unique("%i"), "%i_1");
        assert_eq!(names.unique_array("%acc", 4), "%acc");
        assert_eq!(names.unique("%acc3"), "%acc3_1");
        assert_eq!(names.unique("%acc4"), "%acc4");
        assert_eq!(names.unique_array("%acc", 4), "%acc_1_");
        assert_eq!(names.unique_array("%i", 2), "%i");
    }

    /// The registers without a name are arrays without an end: `%pred_` has every `%pred_1`.
    #[test]
    fn names_of_endless_arrays_are_found_too() {
        let mut outer = Names::default();
        assert_eq!(outer.unique_array("%u32_", u64::MAX), "%u32_");
        let mut names = Names::within(&Rc::new(outer));
        assert_eq!(names.unique_array("%pred_", u64::MAX), "%pred_");
        for base in ["%pred", "%u32"] {
            let found = [(); 3].map(|()| names.unique(base));
            assert_eq!(found, [base.to_owned(), format!("{base}__1"), format!("{base}__2")]);
        }
    }

    #[test]
    fn names_outside_are_taken() {
        let mut outer = Names::default();
        assert_eq!(outer.unique("tile"), "tile");
        assert_eq!(outer.unique("%v2"), "%v2");
        let mut names = Names::within(&Rc::new(outer));
        assert_eq!(names.unique("tile"), "tile_1");
        assert_eq!(names.unique("tile"), "tile_2");
        assert_eq!(names.unique_array("%v", 2), "%v");
        assert_eq!(names.unique_array("%w", 4), "%w");
        assert_eq!(names.unique_array("%v", 4), "%v_1_");
    }

    /// Each name is found at once: a million of them would take hours if each tried all numbers before it.
    #[test]
    fn a_million_names_alike_take_no_time() {
        let mut names = Names::default();
        for _ in 0..1_000_000 {
            names.unique("%x");
        }
        assert_eq!(names.unique("%x"), "%x_1000000");
    }
}
