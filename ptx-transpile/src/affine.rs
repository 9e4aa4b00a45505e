//! Numbers that count with the variables of `for`s around: `2 * i + 8 * j + 1`.

/// A number, and how it grows with each variable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Affine {
    /// The variables and what each is multiplied by.
    pub(super) terms: Vec<(usize, i64)>,
    pub(super) plus: i64,
}

impl From<i64> for Affine {
    fn from(plus: i64) -> Affine {
        Affine { terms: Vec::new(), plus }
    }
}

impl Affine {
    /// The number that is `self`, and then grows by `step` with each turn.
    pub(super) fn with(&self, variable: usize, step: i64) -> Affine {
        let mut terms = self.terms.clone();
        terms.push((variable, step));
        Affine { terms, plus: self.plus }
    }

    /// By how much numbers that grow alike grow from turn to turn; `None` if they do not.
    pub(super) fn step(numbers: &[&Affine]) -> Option<i64> {
        let [first, second, ..] = numbers else { return None };
        let step = second.plus.checked_sub(first.plus)?;
        let regular =
            |pair: &[&Affine]| pair[1].plus.checked_sub(pair[0].plus) == Some(step) && pair[1].terms == pair[0].terms;
        numbers.windows(2).all(regular).then_some(step)
    }

    /// As a person writes it; `name` gives the variables' names.
    pub(super) fn text(&self, name: &dyn Fn(usize) -> String, number: &dyn Fn(i64) -> String) -> String {
        let mut out = String::new();
        for (variable, times) in &self.terms {
            let (sign, size) = if *times < 0 { ("-", times.unsigned_abs()) } else { ("+", times.unsigned_abs()) };
            let name = name(*variable);
            let term = if size == 1 { name } else { format!("{size} * {name}") };
            match (out.is_empty(), sign) {
                (true, "+") => out = term,
                (true, _) => out = format!("0 - {term}"),
                _ => out = format!("{out} {sign} {term}"),
            }
        }
        match (out.as_str(), self.plus) {
            ("", plus) => number(plus),
            (_, 0) => out,
            (_, plus) if plus < 0 => format!("{out} - {}", number(plus.saturating_neg())),
            (_, plus) => match self.terms.as_slice() {
                // `7 - i` rather than `0 - i + 7`.
                [(_, times)] if *times < 0 => out.replacen('0', &number(plus), 1),
                _ => format!("{out} + {}", number(plus)),
            },
        }
    }
}
