//! Linear inequalities over the rational numbers: a lack of solutions there is one over the integers, too, and costs little to find.
//!
//! The general simplex: every sum has a variable with bounds, and Bland's rule chooses the pivots, so that none repeats. Inequalities can be added to
//! a tableau that is solved, which costs few pivots.

use super::Linear;
use super::gcd;
use ptx_core::hash::Map;

/// The most pivots of a search.
const PIVOTS: usize = 400;
/// The most different sums.
const ROWS: usize = 300;
/// Entries of the tableau that a pivot changes for one inequality's worth of work.
const ENTRIES: usize = 16;

/// A rational number with a positive denominator, in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ratio(i128, i128);

impl Ratio {
    /// The integer that it is.
    pub(super) fn integer(self) -> Option<i128> {
        (self.1 == 1).then_some(self.0)
    }

    /// The greatest integer that is not above it.
    pub(super) fn floor(self) -> i128 {
        self.0.div_euclid(self.1)
    }

    fn whole(value: i128) -> Ratio {
        Ratio(value, 1)
    }

    fn new(above: i128, below: i128) -> Option<Ratio> {
        if below == 1 {
            return Some(Ratio(above, 1));
        }
        let divisor = gcd(above, below)?.max(1);
        let sign = below.signum();
        Some(Ratio((above / divisor).checked_mul(sign)?, (below / divisor).checked_mul(sign)?))
    }

    fn add(self, other: Ratio) -> Option<Ratio> {
        if self.1 == 1 && other.1 == 1 {
            return Some(Ratio(self.0.checked_add(other.0)?, 1));
        }
        let (a, b) = (self.0.checked_mul(other.1)?, other.0.checked_mul(self.1)?);
        Ratio::new(a.checked_add(b)?, self.1.checked_mul(other.1)?)
    }

    fn mul(self, other: Ratio) -> Option<Ratio> {
        if self.1 == 1 && other.1 == 1 {
            return Some(Ratio(self.0.checked_mul(other.0)?, 1));
        }
        Ratio::new(self.0.checked_mul(other.0)?, self.1.checked_mul(other.1)?)
    }

    fn neg(self) -> Option<Ratio> {
        Some(Ratio(self.0.checked_neg()?, self.1))
    }

    fn inverse(self) -> Option<Ratio> {
        if self.0 == 0 { None } else { Ratio::new(self.1, self.0) }
    }

    fn sub(self, other: Ratio) -> Option<Ratio> {
        self.add(other.neg()?)
    }

    fn is_less(self, other: Ratio) -> Option<bool> {
        if self.1 == 1 && other.1 == 1 {
            return Some(self.0 < other.0);
        }
        Some(self.0.checked_mul(other.1)? < other.0.checked_mul(self.1)?)
    }
}

/// The result of a search.
pub(super) enum Found {
    /// No rational numbers satisfy all.
    Nothing,
    /// These do.
    Point(Vec<Ratio>),
    /// A number did not fit, or there was too much to do.
    Gave,
}

/// Returns true if a form is at least zero at a point.
pub(super) fn holds(form: &Linear, point: &[Ratio]) -> bool {
    let sum = form.terms.iter().try_fold(Ratio::whole(form.constant), |sum, (variable, factor)| {
        sum.add(point.get(*variable)?.mul(Ratio::whole(*factor))?)
    });
    sum.is_some_and(|sum| sum.0 >= 0)
}

/// The place of a variable: a column whose value is free, or a row that is a sum of them.
#[derive(Clone, Copy)]
enum Place {
    Free(usize),
    Basic(usize),
}

/// Sums of the free variables, and the bounds of all variables: first those of the question, then one for each sum.
#[derive(Clone)]
pub(super) struct Tableau {
    least: Vec<Option<i128>>,
    most: Vec<Option<i128>>,
    value: Vec<Ratio>,
    place: Vec<Place>,
    /// By row: its variable.
    basic: Vec<usize>,
    /// By column: its variable.
    free: Vec<usize>,
    rows: Vec<Vec<Ratio>>,
    /// The variable of each sum.
    sums: Map<Vec<(usize, i128)>, usize>,
    absurd: bool,
}

impl Tableau {
    pub(super) fn new(variables: usize) -> Tableau {
        Tableau {
            least: vec![None; variables],
            most: vec![None; variables],
            value: vec![Ratio::whole(0); variables],
            place: (0..variables).map(Place::Free).collect(),
            basic: Vec::new(),
            free: (0..variables).collect(),
            rows: Vec::new(),
            sums: Map::default(),
            absurd: false,
        }
    }

    /// `form >= 0`, or `form = 0`; nothing if it does not fit.
    pub(super) fn add(&mut self, form: &Linear, exact: bool) -> Option<()> {
        let divisor = form.terms.iter().try_fold(0, |found, (_, factor)| gcd(found, *factor))?;
        if divisor == 0 {
            self.absurd |= form.constant < 0 || exact && form.constant != 0;
            return Some(());
        }
        // The sum has a positive first factor, so that opposite inequalities have one variable.
        let sign = form.terms[0].1.signum();
        let scaled = form.constant.checked_mul(sign)?;
        let low = scaled.div_euclid(divisor).checked_neg()?;
        let high = scaled.checked_neg()?.div_euclid(divisor);
        let (low, high) = match (exact, sign > 0) {
            (true, _) => (Some(scaled.checked_neg()?.div_euclid(divisor)), Some(high)),
            (false, true) => (Some(low), None),
            (false, false) => (None, Some(high)),
        };
        if exact && scaled % divisor != 0 {
            self.absurd = true;
            return Some(());
        }
        let terms: Vec<(usize, i128)> = form.terms.iter().map(|(at, factor)| (*at, factor / divisor * sign)).collect();
        let variable = match terms.as_slice() {
            [(variable, 1)] => *variable,
            _ => self.sum(terms)?,
        };
        self.bound(variable, low, high)
    }

    /// The variable of a sum.
    fn sum(&mut self, terms: Vec<(usize, i128)>) -> Option<usize> {
        if let Some(variable) = self.sums.get(&terms) {
            return Some(*variable);
        }
        if self.rows.len() >= ROWS {
            return None;
        }
        let mut row = vec![Ratio::whole(0); self.free.len()];
        let mut value = Ratio::whole(0);
        for (at, factor) in &terms {
            let factor = Ratio::whole(*factor);
            value = value.add(self.value.get(*at)?.mul(factor)?)?;
            match self.place[*at] {
                Place::Free(column) => row[column] = row[column].add(factor)?,
                Place::Basic(other) => {
                    for (own, entry) in row.iter_mut().zip(&self.rows[other]).filter(|(_, entry)| entry.0 != 0) {
                        *own = own.add(entry.mul(factor)?)?;
                    }
                }
            }
        }
        let variable = self.value.len();
        self.least.push(None);
        self.most.push(None);
        self.value.push(value);
        self.place.push(Place::Basic(self.rows.len()));
        self.basic.push(variable);
        self.rows.push(row);
        self.sums.insert(terms, variable);
        Some(variable)
    }

    /// Tightens bounds; a free variable moves into them.
    fn bound(&mut self, variable: usize, low: Option<i128>, high: Option<i128>) -> Option<()> {
        let (least, most) = (&mut self.least[variable], &mut self.most[variable]);
        *least = (*least).max(low);
        *most = match (*most, high) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.absurd |= matches!((*least, *most), (Some(least), Some(most)) if least > most);
        let Place::Free(column) = self.place[variable] else { return Some(()) };
        let Some((bound, _)) = self.violated(variable)? else { return Some(()) };
        let change = Ratio::whole(bound).sub(self.value[variable])?;
        self.value[variable] = Ratio::whole(bound);
        for (row, basic) in self.rows.iter().zip(&self.basic).filter(|(row, _)| row[column].0 != 0) {
            self.value[*basic] = self.value[*basic].add(change.mul(row[column])?)?;
        }
        Some(())
    }

    /// The bound that a variable violates, and the direction in which it has to go.
    fn violated(&self, variable: usize) -> Option<Option<(i128, bool)>> {
        let value = self.value[variable];
        if let Some(least) = self.least[variable]
            && value.is_less(Ratio::whole(least))?
        {
            return Some(Some((least, true)));
        }
        if let Some(most) = self.most[variable]
            && Ratio::whole(most).is_less(value)?
        {
            return Some(Some((most, false)));
        }
        Some(None)
    }

    /// Looks for rational numbers that satisfy all.
    pub(super) fn search(&mut self, budget: &mut u32) -> Found {
        if self.absurd {
            return Found::Nothing;
        }
        self.run(budget).unwrap_or(Found::Gave)
    }

    fn run(&mut self, budget: &mut u32) -> Option<Found> {
        let cost = u32::try_from(self.rows.len() * self.free.len() / ENTRIES + 1).ok()?;
        for _ in 0..PIVOTS {
            let mut chosen: Option<(usize, i128, bool)> = None;
            for (row, variable) in self.basic.iter().enumerate() {
                if chosen.is_none_or(|(other, ..)| *variable < self.basic[other])
                    && let Some((bound, up)) = self.violated(*variable)?
                {
                    chosen = Some((row, bound, up));
                }
            }
            *budget = budget.checked_sub(cost)?;
            let Some((row, bound, up)) = chosen else {
                return Some(Found::Point(self.value.clone()));
            };
            let Some(column) = self.entering(row, up)? else { return Some(Found::Nothing) };
            self.pivot(row, column, Ratio::whole(bound))?;
        }
        Some(Found::Gave)
    }

    /// The column of the first free variable that can move the row in the direction.
    fn entering(&self, row: usize, up: bool) -> Option<Option<usize>> {
        let mut best: Option<usize> = None;
        for (column, factor) in self.rows[row].iter().enumerate().filter(|(_, factor)| factor.0 != 0) {
            let variable = self.free[column];
            let rises = (factor.0 > 0) == up;
            let value = self.value[variable];
            let can = match rises {
                true => match self.most[variable] {
                    Some(most) => value.is_less(Ratio::whole(most))?,
                    None => true,
                },
                false => match self.least[variable] {
                    Some(least) => Ratio::whole(least).is_less(value)?,
                    None => true,
                },
            };
            if can && best.is_none_or(|best| variable < self.free[best]) {
                best = Some(column);
            }
        }
        Some(best)
    }

    /// Gives the row's variable the value, and exchanges it with the column's.
    fn pivot(&mut self, row: usize, column: usize, value: Ratio) -> Option<()> {
        let factor = self.rows[row][column];
        let (leaving, entering) = (self.basic[row], self.free[column]);
        let change = value.sub(self.value[leaving])?.mul(factor.inverse()?)?;
        self.value[leaving] = value;
        self.value[entering] = self.value[entering].add(change)?;
        for (other, basic) in self.basic.iter().enumerate() {
            let factor = self.rows[other][column];
            if other != row && factor.0 != 0 {
                self.value[*basic] = self.value[*basic].add(change.mul(factor)?)?;
            }
        }
        // entering = leaving / factor - Σ others / factor
        let inverse = factor.inverse()?;
        let mut new = self.rows[row].clone();
        for (at, entry) in new.iter_mut().enumerate().filter(|(_, entry)| entry.0 != 0) {
            *entry = if at == column { inverse } else { entry.mul(inverse)?.neg()? };
        }
        for (at, own) in self.rows.iter_mut().enumerate() {
            let factor = own[column];
            if at == row || factor.0 == 0 {
                continue;
            }
            for (place, entry) in own.iter_mut().enumerate().filter(|(place, _)| new[*place].0 != 0) {
                let more = factor.mul(new[place])?;
                *entry = if place == column { more } else { entry.add(more)? };
            }
        }
        self.rows[row] = new;
        (self.basic[row], self.free[column]) = (entering, leaving);
        (self.place[entering], self.place[leaving]) = (Place::Basic(row), Place::Free(column));
        Some(())
    }
}
