//! Rows of matrices: where two places are sums of multiples of one stride, the multiples differ by at least one stride, or not at all. The facts are
//! products, which the solver does not find.

use crate::form::{Coef, Form, Mono, Sym};
use crate::query::{Atom, Clause, difference};
use crate::solver::gcd;
use ptx_target::sort::SortSmall;

/// The most clauses of a question.
const CLAUSES: usize = 8;

/// What holds of a place of the first view and one of the second, by strides. The rows may be numbers with strides again, as in `(plane · height + y) · width + x`.
pub(crate) fn clauses(a: &Form, b: &Form, is_stride: &dyn Fn(Sym) -> bool) -> Vec<Clause> {
    let mut found = Vec::new();
    let mut pending = std::collections::VecDeque::from([(a.clone(), b.clone())]);
    let mut seen = Vec::new();
    while let Some((a, b)) = pending.pop_front() {
        for stride in strides(&a, is_stride) {
            let (Some(left), Some(right)) = (part(&a, stride), part(&b, stride)) else { continue };
            let rows = (left.rows.clone(), right.rows.clone(), stride);
            if found.len() == CLAUSES || seen.contains(&rows) {
                continue;
            }
            seen.push(rows);
            found.push(clause(&left, &right, stride));
            if left.rows.degree() > 1 {
                pending.push_back((left.rows, right.rows));
            }
        }
    }
    found
}

/// The symbols of products, and those with factors of threads.
pub(crate) fn strides(of: &Form, is_stride: &dyn Fn(Sym) -> bool) -> Vec<Sym> {
    let products = of.terms.iter().filter(|(mono, coef)| mono.len() > 1 || matches!(coef, Coef::Each(_)));
    let mut found: Vec<Sym> =
        products.flat_map(|(mono, _)| mono.iter().copied()).filter(|symbol| is_stride(*symbol)).collect();
    found.sort_small();
    found.dedup();
    found
}

/// The part of a place that a stride multiplies.
pub(crate) struct Part {
    /// In bytes.
    pub(crate) bytes: Form,
    /// Divided by the stride.
    pub(crate) rows: Form,
}

pub(crate) fn part(of: &Form, stride: Sym) -> Option<Part> {
    let has = |mono: &Mono| mono.contains(&stride);
    let terms: Vec<_> = of.terms.iter().filter(|(mono, _)| has(mono)).cloned().collect();
    let mut rows = Form::number(0);
    for (mono, coef) in &terms {
        let mut rest = mono.clone();
        rest.remove(rest.iter().position(|symbol| *symbol == stride)?);
        let zero = Coef::One(0);
        let term = match rest.is_empty() {
            true => Form { terms: Vec::new(), constant: coef.clone() },
            false => Form { terms: vec![(rest, coef.clone())], constant: zero },
        };
        rows = rows.add(&term)?;
    }
    Some(Part { bytes: Form { terms, constant: Coef::One(0) }, rows })
}

/// The greatest number that divides the rows of both parts.
pub(crate) fn unit(left: &Part, right: &Part) -> i128 {
    let of = |part: &Part| if part.rows == Form::number(0) { 0 } else { part.rows.reduced().1 };
    gcd(of(left), of(right)).unwrap_or(1).max(1)
}

/// One of the rows is further, or they are the same.
fn clause(left: &Part, right: &Part, stride: Sym) -> Clause {
    let unit = unit(left, right);
    let stride = Form::symbol(stride);
    let more = |(v, further): (usize, &Part), (w, nearer): (usize, &Part)| {
        let rows = Atom { parts: vec![(v, further.rows.clone(), 1), (w, nearer.rows.clone(), -1)], constant: -unit };
        let parts = vec![(v, further.bytes.clone(), 1), (w, nearer.bytes.clone(), -1), (0, stride.clone(), -unit)];
        vec![rows, Atom { parts, constant: 0 }]
    };
    let same = vec![
        difference((0, &left.rows), (1, &right.rows), 0),
        difference((1, &right.rows), (0, &left.rows), 0),
        difference((0, &left.bytes), (1, &right.bytes), 0),
        difference((1, &right.bytes), (0, &left.bytes), 0),
    ];
    vec![more((0, left), (1, right)), more((1, right), (0, left)), same]
}
