//! Values of all threads of a block at once: sums of products of symbols, with a coefficient for each thread.

use crate::solver::gcd;
use ptx_target::sort::SortSmall;
use std::rc::Rc;

/// A symbol: an index into the symbols of the proof.
pub(crate) type Sym = u32;
/// A product of symbols, in ascending order.
pub(crate) type Mono = Vec<Sym>;

/// The longest product.
const DEGREE: usize = 3;
/// The most products of a sum: products of sums have very many.
const TERMS: usize = 256;
/// Coefficients beyond this are given up, so that no sum of them leaves 128 bits.
const LARGEST: u128 = 1 << 100;

/// A number for each thread.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Coef {
    /// The same for all.
    One(i128),
    /// By thread.
    Each(Rc<[i128]>),
}

impl Coef {
    pub(crate) fn of(values: Vec<i128>) -> Coef {
        match values.first() {
            Some(first) if values.iter().all(|value| value == first) => Coef::One(*first),
            _ => Coef::Each(values.into()),
        }
    }

    pub(crate) fn at(&self, thread: usize) -> i128 {
        match self {
            Coef::One(value) => *value,
            Coef::Each(values) => values.get(thread).copied().unwrap_or(0),
        }
    }

    pub(crate) fn zip(&self, other: &Coef, f: impl Fn(i128, i128) -> Option<i128>) -> Option<Coef> {
        let value = |a, b| f(a, b).filter(|value| value.unsigned_abs() <= LARGEST);
        match (self, other) {
            (Coef::One(a), Coef::One(b)) => value(*a, *b).map(Coef::One),
            (Coef::Each(a), Coef::One(b)) => a.iter().map(|a| value(*a, *b)).collect::<Option<_>>().map(Coef::of),
            (Coef::One(a), Coef::Each(b)) => b.iter().map(|b| value(*a, *b)).collect::<Option<_>>().map(Coef::of),
            (Coef::Each(a), Coef::Each(b)) => {
                a.iter().zip(b.iter()).map(|(a, b)| value(*a, *b)).collect::<Option<_>>().map(Coef::of)
            }
        }
    }

    pub(crate) fn map(&self, f: impl Fn(i128) -> i128) -> Coef {
        match self {
            Coef::One(value) => Coef::One(f(*value)),
            Coef::Each(values) => Coef::of(values.iter().map(|value| f(*value)).collect()),
        }
    }

    pub(crate) fn values(&self) -> &[i128] {
        match self {
            Coef::One(value) => std::slice::from_ref(value),
            Coef::Each(values) => values,
        }
    }

    pub(crate) fn is_zero(&self) -> bool {
        *self == Coef::One(0)
    }

    pub(crate) fn least(&self) -> i128 {
        match self {
            Coef::One(value) => *value,
            Coef::Each(values) => values.iter().copied().min().unwrap_or(0),
        }
    }

    pub(crate) fn most(&self) -> i128 {
        match self {
            Coef::One(value) => *value,
            Coef::Each(values) => values.iter().copied().max().unwrap_or(0),
        }
    }

    pub(crate) fn all(&self, f: impl Fn(i128) -> bool) -> bool {
        match self {
            Coef::One(value) => f(*value),
            Coef::Each(values) => values.iter().all(|value| f(*value)),
        }
    }
}

/// `Σ coefficient · product + constant`, for each thread.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Form {
    /// In ascending order of the products; no coefficient is zero for all threads.
    pub(crate) terms: Vec<(Mono, Coef)>,
    pub(crate) constant: Coef,
}

impl Form {
    pub(crate) fn number(value: i128) -> Form {
        Form { terms: Vec::new(), constant: Coef::One(value) }
    }

    pub(crate) fn table(values: Vec<i128>) -> Form {
        Form { terms: Vec::new(), constant: Coef::of(values) }
    }

    pub(crate) fn symbol(symbol: Sym) -> Form {
        Form { terms: vec![(vec![symbol], Coef::One(1))], constant: Coef::One(0) }
    }

    /// Its numbers, if no symbol is in it.
    pub(crate) fn constant(&self) -> Option<&Coef> {
        self.terms.is_empty().then_some(&self.constant)
    }

    /// The number that it is for all threads.
    pub(crate) fn known(&self) -> Option<i128> {
        match self.constant()? {
            Coef::One(value) => Some(*value),
            Coef::Each(_) => None,
        }
    }

    pub(crate) fn symbols(&self) -> impl Iterator<Item = Sym> + '_ {
        self.terms.iter().flat_map(|(mono, _)| mono.iter().copied())
    }

    /// Returns true if no coefficient depends on the thread.
    pub(crate) fn is_even(&self) -> bool {
        let one = |coef: &Coef| matches!(coef, Coef::One(_));
        one(&self.constant) && self.terms.iter().all(|(_, coef)| one(coef))
    }

    fn merge(&self, other: &Form, f: impl Fn(i128, i128) -> Option<i128> + Copy) -> Option<Form> {
        let zero = Coef::One(0);
        let (mut terms, mut i, mut j) = (Vec::with_capacity(self.terms.len() + other.terms.len()), 0, 0);
        while i < self.terms.len() || j < other.terms.len() {
            let (a, b) = (self.terms.get(i), other.terms.get(j));
            let order = match (a, b) {
                (Some((x, _)), Some((y, _))) => x.cmp(y),
                (Some(_), None) => std::cmp::Ordering::Less,
                _ => std::cmp::Ordering::Greater,
            };
            let left = a.filter(|_| order.is_le());
            let right = b.filter(|_| order.is_ge());
            i += usize::from(left.is_some());
            j += usize::from(right.is_some());
            let coef = left.map_or(&zero, |(_, c)| c).zip(right.map_or(&zero, |(_, c)| c), f)?;
            let mono = left.or(right).map(|(mono, _)| mono.clone())?;
            if !coef.is_zero() {
                terms.push((mono, coef));
            }
        }
        if terms.len() > TERMS {
            return None;
        }
        Some(Form { terms, constant: self.constant.zip(&other.constant, f)? })
    }

    pub(crate) fn add(&self, other: &Form) -> Option<Form> {
        self.merge(other, i128::checked_add)
    }

    pub(crate) fn sub(&self, other: &Form) -> Option<Form> {
        self.merge(other, i128::checked_sub)
    }

    pub(crate) fn scale(&self, by: i128) -> Option<Form> {
        self.times(&Coef::One(by))
    }

    fn times(&self, by: &Coef) -> Option<Form> {
        let mut terms = Vec::with_capacity(self.terms.len());
        for (mono, coef) in &self.terms {
            let coef = coef.zip(by, i128::checked_mul)?;
            if !coef.is_zero() {
                terms.push((mono.clone(), coef));
            }
        }
        Some(Form { terms, constant: self.constant.zip(by, i128::checked_mul)? })
    }

    pub(crate) fn plus(&self, value: i128) -> Option<Form> {
        self.add(&Form::number(value))
    }

    pub(crate) fn mul(&self, other: &Form) -> Option<Form> {
        if let Some(by) = other.constant() {
            return self.times(by);
        }
        let mut sum = other.times(&self.constant)?;
        for (mono, coef) in &self.terms {
            for (others, factor) in &other.terms {
                let mut joined = [&mono[..], &others[..]].concat();
                if joined.len() > DEGREE {
                    return None;
                }
                joined.sort_small();
                let coef = coef.zip(factor, i128::checked_mul)?;
                sum = sum.add(&Form { terms: vec![(joined, coef)], constant: Coef::One(0) })?;
            }
            let alone = Form { terms: vec![(mono.clone(), coef.clone())], constant: Coef::One(0) };
            sum = sum.add(&alone.times(&other.constant)?)?;
        }
        Some(sum)
    }

    /// The factors of its longest product.
    pub(crate) fn degree(&self) -> usize {
        self.terms.iter().map(|(mono, _)| mono.len()).max().unwrap_or(0)
    }

    /// For each thread one of two forms.
    pub(crate) fn select(which: &[bool], yes: &Form, no: &Form) -> Option<Form> {
        let keep = Coef::of(which.iter().map(|yes| i128::from(*yes)).collect());
        let drop = Coef::of(which.iter().map(|yes| i128::from(!*yes)).collect());
        yes.times(&keep)?.add(&no.times(&drop)?)
    }

    /// With other forms in the place of its symbols; nothing if one has no replacement.
    pub(crate) fn replaced(&self, by: &dyn Fn(Sym) -> Option<Form>) -> Option<Form> {
        let mut sum = Form { terms: Vec::new(), constant: self.constant.clone() };
        for (mono, coef) in &self.terms {
            let product = Form { terms: Vec::new(), constant: coef.clone() };
            let product = mono.iter().try_fold(product, |product, symbol| product.mul(&by(*symbol)?))?;
            sum = sum.add(&product)?;
        }
        Some(sum)
    }

    /// For each thread the value of another one; zero where there is none.
    pub(crate) fn taken(&self, of: &[Option<usize>]) -> Form {
        let coef = |coef: &Coef| match coef {
            Coef::One(value) => Coef::One(*value),
            Coef::Each(_) => Coef::of(of.iter().map(|other| other.map_or(0, |other| coef.at(other))).collect()),
        };
        let terms = self.terms.iter().map(|(mono, own)| (mono.clone(), coef(own))).filter(|(_, own)| !own.is_zero());
        Form { terms: terms.collect(), constant: coef(&self.constant) }
    }

    /// Its value modulo a number, if that is one for all values of the symbols, and for all threads.
    pub(crate) fn modulo(&self, by: i128) -> Option<i128> {
        let rest = self.constant.least().checked_rem_euclid(by)?;
        let is_multiple = self.terms.iter().all(|(_, coef)| coef.all(|coef| coef % by == 0));
        (is_multiple && self.constant.all(|value| value.rem_euclid(by) == rest)).then_some(rest)
    }

    /// The form divided by the greatest number that divides every coefficient, and that number.
    pub(crate) fn reduced(&self) -> (Form, i128) {
        let coefs = || self.terms.iter().map(|(_, coef)| coef).chain([&self.constant]);
        let divisor =
            coefs().fold(0, |divisor, coef| coef.values().iter().fold(divisor, |a, b| gcd(a, *b).unwrap_or(1)));
        let by = |coef: &Coef| coef.map(|value| value / divisor.max(1));
        let terms = self.terms.iter().map(|(mono, coef)| (mono.clone(), by(coef)));
        (Form { terms: terms.collect(), constant: by(&self.constant) }, divisor.max(1))
    }

    /// Divided by a number, if every coefficient is a multiple of it.
    pub(crate) fn divided(&self, by: i128) -> Option<Form> {
        let part = |coef: &Coef| coef.map(|value| value / by);
        let terms = self.terms.iter().map(|(mono, coef)| (mono.clone(), part(coef)));
        (by > 0 && self.is_multiple_of(by)).then(|| Form { terms: terms.collect(), constant: part(&self.constant) })
    }

    /// Returns true if every coefficient is a multiple, so that the value is one.
    pub(crate) fn is_multiple_of(&self, of: i128) -> bool {
        let fits = |coef: &Coef| coef.all(|value| value % of == 0);
        fits(&self.constant) && self.terms.iter().all(|(_, coef)| fits(coef))
    }
}

/// A condition, for each thread. Conditions are built without negation: that of `a >= 0` is `-a - 1 >= 0`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Cond {
    Const(bool),
    /// By thread.
    Table(Rc<[bool]>),
    /// The form is at least zero.
    AtLeast(Form),
    All(Rc<[Cond]>),
    Any(Rc<[Cond]>),
}

impl Cond {
    pub(crate) fn table(values: Vec<bool>) -> Cond {
        match values.first() {
            Some(first) if values.iter().all(|value| value == first) => Cond::Const(*first),
            _ => Cond::Table(values.into()),
        }
    }

    /// `form >= 0`
    pub(crate) fn at_least(form: Form) -> Cond {
        match form.constant() {
            Some(Coef::One(value)) => Cond::Const(*value >= 0),
            Some(Coef::Each(values)) => Cond::table(values.iter().map(|value| *value >= 0).collect()),
            None => Cond::AtLeast(form),
        }
    }

    /// `a <= b`; `None` if it does not fit.
    pub(crate) fn le(a: &Form, b: &Form) -> Option<Cond> {
        b.sub(a).map(Cond::at_least)
    }

    pub(crate) fn lt(a: &Form, b: &Form) -> Option<Cond> {
        b.sub(a)?.plus(-1).map(Cond::at_least)
    }

    pub(crate) fn equal(a: &Form, b: &Form) -> Option<Cond> {
        Some(Cond::all([Cond::le(a, b)?, Cond::le(b, a)?]))
    }

    pub(crate) fn all(conds: impl IntoIterator<Item = Cond>) -> Cond {
        let mut found = Vec::new();
        let mut table: Option<Vec<bool>> = None;
        for cond in conds {
            match cond {
                Cond::Const(true) => {}
                Cond::Const(false) => return Cond::Const(false),
                Cond::Table(values) => match &mut table {
                    Some(old) => old.iter_mut().zip(values.iter()).for_each(|(old, new)| *old &= new),
                    none => *none = Some(values.to_vec()),
                },
                Cond::All(parts) => found.extend(parts.iter().cloned()),
                other => found.push(other),
            }
        }
        match table.map(Cond::table) {
            Some(Cond::Const(false)) => return Cond::Const(false),
            Some(Cond::Const(true)) | None => {}
            Some(cond) => found.insert(0, cond),
        }
        match found.len() {
            0 => Cond::Const(true),
            1 => found.swap_remove(0),
            _ => Cond::All(found.into()),
        }
    }

    pub(crate) fn any(conds: impl IntoIterator<Item = Cond>) -> Cond {
        Cond::all(conds.into_iter().map(|cond| cond.negate())).negate()
    }

    pub(crate) fn negate(&self) -> Cond {
        match self {
            Cond::Const(value) => Cond::Const(!value),
            Cond::Table(values) => Cond::table(values.iter().map(|value| !value).collect()),
            // The coefficients are far from the limits of 128 bits.
            Cond::AtLeast(form) => Cond::at_least(Form {
                terms: form.terms.iter().map(|(mono, coef)| (mono.clone(), coef.map(|value| -value))).collect(),
                constant: form.constant.map(|value| -value - 1),
            }),
            Cond::All(parts) => Cond::Any(parts.iter().map(Cond::negate).collect()),
            Cond::Any(parts) => Cond::All(parts.iter().map(Cond::negate).collect()),
        }
    }

    /// With other forms in the place of its symbols; nothing if one has no replacement.
    pub(crate) fn replaced(&self, by: &dyn Fn(Sym) -> Option<Form>) -> Option<Cond> {
        let all = |parts: &[Cond]| parts.iter().map(|part| part.replaced(by)).collect::<Option<Vec<_>>>();
        Some(match self {
            Cond::AtLeast(form) => Cond::at_least(form.replaced(by)?),
            Cond::All(parts) => Cond::all(all(parts)?),
            Cond::Any(parts) => Cond::any(all(parts)?),
            decided => decided.clone(),
        })
    }

    /// For each thread the condition of another one; anything where there is none.
    pub(crate) fn taken(&self, of: &[Option<usize>]) -> Cond {
        match self {
            Cond::Const(value) => Cond::Const(*value),
            Cond::Table(values) => {
                let value = |other: &Option<usize>| other.is_none_or(|other| values.get(other) == Some(&true));
                Cond::table(of.iter().map(value).collect())
            }
            Cond::AtLeast(form) => Cond::at_least(form.taken(of)),
            Cond::All(parts) => Cond::all(parts.iter().map(|part| part.taken(of))),
            Cond::Any(parts) => Cond::any(parts.iter().map(|part| part.taken(of))),
        }
    }

    /// `if self { yes } else { no }`
    pub(crate) fn choose(&self, yes: Cond, no: Cond) -> Cond {
        Cond::any([Cond::all([self.clone(), yes]), Cond::all([self.negate(), no])])
    }

    /// Calls `visit` with every form in it.
    pub(crate) fn forms(&self, visit: &mut dyn FnMut(&Form)) {
        match self {
            Cond::Const(_) | Cond::Table(_) => {}
            Cond::AtLeast(form) => visit(form),
            Cond::All(parts) | Cond::Any(parts) => parts.iter().for_each(|part| part.forms(visit)),
        }
    }

    /// Returns true if, where it holds for a number of the turn, it holds for all smaller ones.
    pub(crate) fn falls(&self, turn: Sym) -> bool {
        match self {
            Cond::Const(_) | Cond::Table(_) => true,
            Cond::AtLeast(form) => form
                .terms
                .iter()
                .filter(|(mono, _)| mono.contains(&turn))
                .all(|(mono, coef)| mono.len() == 1 && coef.all(|value| value <= 0)),
            Cond::All(parts) | Cond::Any(parts) => parts.iter().all(|part| part.falls(turn)),
        }
    }

    /// Returns true if more forms are in it.
    pub(crate) fn is_longer_than(&self, most: usize) -> bool {
        fn spend(cond: &Cond, left: &mut usize) -> bool {
            match cond {
                Cond::Const(_) | Cond::Table(_) | Cond::AtLeast(_) => match left.checked_sub(1) {
                    Some(less) => {
                        *left = less;
                        true
                    }
                    None => false,
                },
                Cond::All(parts) | Cond::Any(parts) => parts.iter().all(|part| spend(part, left)),
            }
        }
        let mut left = most;
        !spend(self, &mut left)
    }

    /// Leaves out the threads that its tables exclude.
    pub(crate) fn keep(&self, threads: &mut [bool]) {
        match self {
            Cond::Const(false) => threads.fill(false),
            Cond::Table(table) => threads.iter_mut().zip(table.iter()).for_each(|(own, new)| *own &= new),
            Cond::All(parts) => parts.iter().for_each(|part| part.keep(threads)),
            _ => {}
        }
    }

    /// The values, if no symbol is in it.
    pub(crate) fn decided(&self, threads: usize) -> Option<Vec<bool>> {
        match self {
            Cond::Const(value) => Some(vec![*value; threads]),
            Cond::Table(values) => Some(values.to_vec()),
            _ => None,
        }
    }
}
