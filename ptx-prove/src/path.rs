//! The conditions under which threads reach a place.

use crate::form::Cond;
use std::rc::Rc;

/// One condition on the way, with those before it.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) cond: Cond,
    /// True if it decides who comes here. Else it is a fact about all who come.
    pub(crate) decides: bool,
    /// True if threads for which it does not hold reach no barrier anymore.
    pub(crate) excused: bool,
    /// The branch, so that its sides find each other.
    branch: u32,
    before: Path,
    depth: usize,
}

/// Conditions, the last one first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Path(Option<Rc<Step>>);

impl Path {
    /// With one more condition of a branch.
    pub(crate) fn branch(&self, cond: Cond, branch: u32, excused: bool) -> Path {
        self.push(cond, true, branch, excused)
    }

    /// With one more fact.
    pub(crate) fn fact(&self, cond: Cond) -> Path {
        self.push(cond, false, u32::MAX, true)
    }

    fn push(&self, cond: Cond, decides: bool, branch: u32, excused: bool) -> Path {
        if cond == Cond::Const(true) {
            return self.clone();
        }
        let depth = self.depth() + 1;
        Path(Some(Rc::new(Step { cond, decides, excused, branch, before: self.clone(), depth })))
    }

    fn depth(&self) -> usize {
        self.0.as_ref().map_or(0, |step| step.depth)
    }

    /// Returns true if this is the other one, or a longer one that begins with it.
    pub(crate) fn starts_with(&self, other: &Path) -> bool {
        let mut at = self;
        while at.depth() > other.depth() {
            let Some(step) = &at.0 else { return false };
            at = &step.before;
        }
        at.is(other)
    }

    pub(crate) fn is(&self, other: &Path) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(a), Some(b)) => Rc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// All conditions, the last one first.
    pub(crate) fn steps(&self) -> impl Iterator<Item = &Step> {
        std::iter::successors(self.0.as_deref(), |step| step.before.0.as_deref())
    }

    /// The conditions behind an earlier part, in order.
    pub(crate) fn since(&self, start: &Path) -> Vec<&Step> {
        let mut found: Vec<&Step> = self.steps().take(self.depth().saturating_sub(start.depth())).collect();
        found.reverse();
        found
    }

    /// All as one condition.
    pub(crate) fn cond(&self) -> Cond {
        Cond::all(self.steps().map(|step| step.cond.clone()))
    }

    /// The part that two paths share.
    fn shared(&self, other: &Path) -> Path {
        let (mut a, mut b) = (self.clone(), other.clone());
        while !a.is(&b) {
            let longer = if a.depth() >= b.depth() { &mut a } else { &mut b };
            let before = longer.0.as_ref().map(|step| step.before.clone());
            *longer = before.unwrap_or_default();
        }
        a
    }

    /// The number of conditions that two paths share.
    pub(crate) fn common(&self, other: &Path) -> usize {
        self.shared(other).depth()
    }

    /// The conditions behind the start as facts.
    pub(crate) fn as_facts(&self, start: &Path) -> Path {
        let facts = self.since(start).into_iter().map(|step| step.cond.clone());
        start.fact(Cond::all(facts))
    }
}

/// Two paths that meet.
pub(crate) struct Meeting {
    pub(crate) path: Path,
    /// Holds for those who come on the first path, and for none of the second; `None` if nothing separates them.
    pub(crate) first: Option<Cond>,
}

/// Joins two paths that exclude each other; `bounded` shortens a condition.
pub(crate) fn meet(a: &Path, b: &Path, bounded: impl FnOnce(Cond) -> Cond) -> Meeting {
    let shared = a.shared(b);
    let (left, right) = (a.since(&shared), b.since(&shared));
    let all = |steps: &[&Step]| Cond::all(steps.iter().map(|step| step.cond.clone()));
    let either = || bounded(Cond::any([all(&left), all(&right)]));
    let sides = match (left.split_first(), right.split_first()) {
        (Some((a, left)), Some((b, right))) if a.branch == b.branch && a.branch != u32::MAX => {
            Some((a.cond.clone(), [left, right].concat()))
        }
        _ => None,
    };
    let Some((first, rest)) = sides else {
        let excused = left.iter().chain(&right).all(|step| step.excused);
        // Numbers may tell the threads apart.
        let first = apart(&all(&left), &all(&right));
        return Meeting { path: shared.push(either(), true, u32::MAX, excused), first };
    };
    let decides = rest.iter().any(|step| step.decides);
    let excused = rest.iter().all(|step| step.excused || !step.decides);
    let path = if rest.is_empty() { shared } else { shared.push(either(), decides, u32::MAX, excused) };
    Meeting { path, first: Some(first) }
}

/// The threads of the first condition, if tables say that no thread fulfills both.
fn apart(a: &Cond, b: &Cond) -> Option<Cond> {
    let (Some(left), Some(right)) = (table(a), table(b)) else { return None };
    let apart = left.iter().zip(right.iter()).all(|(left, right)| !(left & right));
    apart.then(|| Cond::Table(left.clone()))
}

/// A table that every thread of a condition is in.
fn table(cond: &Cond) -> Option<&Rc<[bool]>> {
    match cond {
        Cond::Table(table) => Some(table),
        Cond::All(parts) => parts.iter().find_map(table),
        _ => None,
    }
}
