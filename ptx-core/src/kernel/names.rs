//! Names that are taken, and the next free one like a given one. Near misses are `diag::near`'s.

use std::collections::HashSet;

/// The names of one kind (registers, labels or symbols) in one function or module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    taken: HashSet<String>,
    arrays: Vec<(String, u64)>,
}

impl Names {
    /// Takes `base`, or `base_1`, `base_2` … where it is taken.
    pub(crate) fn unique(&mut self, base: &str) -> String {
        let name = self.first(base, |names, name| names.is_free(name));
        self.taken.insert(name.clone());
        name
    }

    /// The same for the names `base0` … of `len` registers. No such base ends in a digit: of `%v1` and 0, ptxas would
    /// make the tenth register of a range `%v`.
    pub(crate) fn unique_array(&mut self, base: &str, len: u64) -> String {
        let name = self.first(&undigited(base), |names, name| names.is_free_array(&undigited(name), len));
        let name = undigited(&name);
        self.arrays.push((name.clone(), len));
        name
    }

    /// Whether nothing has this name.
    pub(crate) fn is_free(&self, name: &str) -> bool {
        !self.taken.contains(name) && !self.arrays.iter().any(|(base, len)| numbered(name, base, *len))
    }

    fn is_free_array(&self, name: &str, len: u64) -> bool {
        let overlaps = |(base, other): &(String, u64)| {
            base == name || numbered(&format!("{name}0"), base, *other) || numbered(&format!("{base}0"), name, len)
        };
        !self.taken.iter().any(|taken| numbered(taken, name, len)) && !self.arrays.iter().any(overlaps)
    }

    fn first(&self, base: &str, free: impl Fn(&Names, &str) -> bool) -> String {
        if free(self, base) {
            return base.to_owned();
        }
        let mut number = 1u64;
        loop {
            let name = format!("{base}_{number}");
            if free(self, &name) {
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

/// Whether `name` is `base` and a number below `len`.
fn numbered(name: &str, base: &str, len: u64) -> bool {
    let Some(digits) = name.strip_prefix(base) else { return false };
    let plain = !digits.is_empty() && (digits == "0" || !digits.starts_with('0'));
    plain && digits.bytes().all(|b| b.is_ascii_digit()) && digits.parse().is_ok_and(|n: u64| n < len)
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
}
