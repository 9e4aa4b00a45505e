//! Launches of a contract by cases, each of which is a proof of its own. They differ by what a person would look at first:
//!
//! - a number that is 0 or 1 and decides between formulas, such as whether sequences are packed;
//! - alternatives of a condition that are conjunctions, such as the orders in which the dimensions of a matrix lie;
//! - an extent that is 1, for which a condition of its stride does not hold.
//!
//! In a case, neither the formulas nor the kernel choose by a number that the case fixes.

use crate::contract::{Contract, plain};
use crate::finding::worse;
use crate::report::{Finding, Property, Report, Verdict};
use ptx_core::host::{Expr, Field, Operator, Plain};
use ptx_target::sort::SortSmall;

/// The most numbers that are 0 or 1 in a case.
const FLAGS: usize = 2;
/// The most cases.
const MOST: usize = 8;

/// The contract of each case; nothing if there is one alone.
pub(crate) fn cases(contract: &Contract) -> Option<Vec<Contract>> {
    let mut flags: Vec<(usize, Field)> = Vec::new();
    contract.assume.iter().chain(&contract.grid).for_each(|expr| add_flags(expr, &mut flags));
    flags.retain(|flag| contract.assume.iter().any(|condition| is_flag(condition, *flag)));
    flags.truncate(FLAGS);
    let mut found = vec![contract.clone()];
    for (at, field) in &flags {
        let is = |value| compared(Operator::Eq, &Expr::Field(*at, *field), value);
        found = split(&found, &[is(0), is(1)]);
    }
    for at in 0..contract.assume.len() {
        let alternatives = alternatives(&contract.assume[at]);
        if alternatives.len() > 1 && found.len() * alternatives.len() <= MOST {
            // In place of all of them.
            for case in &mut found {
                let own = case.assume.len() - contract.assume.len() + at;
                case.assume[own] = Expr::Bool(true);
            }
            found = split(&found, &alternatives);
        }
    }
    let mut ones = Vec::new();
    contract.assume.iter().for_each(|condition| add_ones(condition, &mut ones));
    for number in ones {
        if found.len() * 2 <= MOST {
            found = split(&found, &[compared(Operator::Eq, &number, 1), compared(Operator::Ne, &number, 1)]);
        }
    }
    (found.len() > 1).then_some(found)
}

/// Each case with each of the conditions, one of which holds in every launch.
fn split(cases: &[Contract], conditions: &[Expr]) -> Vec<Contract> {
    let with = |case: &Contract, known: &Expr| {
        let assume = [known].into_iter().chain(&case.assume).cloned().collect();
        Contract { assume, samples: false, ..case.clone() }
    };
    cases.iter().flat_map(|case| conditions.iter().map(|known| with(case, known))).collect()
}

fn compared(operator: Operator, number: &Expr, with: i64) -> Expr {
    Expr::Binary(operator, Box::new([number.clone(), Expr::Int(with)]), String::new())
}

/// The alternatives of a condition, if one of them is a conjunction.
fn alternatives(condition: &Expr) -> Vec<Expr> {
    let mut found = Vec::new();
    add_alternatives(condition, &mut found);
    let is_conjunction = |part: &Expr| matches!(part, Expr::Binary(Operator::And, ..));
    if found.iter().any(is_conjunction) { found } else { Vec::new() }
}

fn add_alternatives(condition: &Expr, found: &mut Vec<Expr>) {
    match condition {
        Expr::Binary(Operator::Or, both, _) => both.iter().for_each(|part| add_alternatives(part, found)),
        part => found.push(part.clone()),
    }
}

/// The numbers of which an alternative of a condition is that they are 1.
fn add_ones(condition: &Expr, found: &mut Vec<Expr>) {
    match condition {
        Expr::Binary(Operator::And, both, _) => both.iter().for_each(|part| add_ones(part, found)),
        Expr::Binary(Operator::Or, both, _) => {
            for part in both.iter() {
                match part {
                    Expr::Binary(Operator::Eq, both, _) if *plain(&both[1]) == Expr::Int(1) => {
                        let is_number = matches!(plain(&both[0]), Expr::Field(..) | Expr::Argument(_));
                        if is_number && !found.contains(&both[0]) {
                            found.push(both[0].clone());
                        }
                    }
                    other => add_ones(other, found),
                }
            }
        }
        _ => {}
    }
}

/// The properties of which a report has findings that are open, and their number.
pub(crate) fn open(report: &Report) -> [usize; Property::ALL.len()] {
    Property::ALL.map(|property| count_open(&report.findings, property))
}

fn count_open(findings: &[Finding], property: Property) -> usize {
    findings.iter().filter(|own| own.property == property && matches!(own.verdict, Verdict::Unknown(_))).count()
}

/// The fields on which a formula depends by `if`.
fn add_flags(expr: &Expr, found: &mut Vec<(usize, Field)>) {
    match expr {
        Expr::If(parts) => {
            if let Expr::Binary(_, both, _) = &parts[0] {
                add_flag(&both[0], found);
            }
            parts.iter().for_each(|part| add_flags(part, found));
        }
        Expr::Unary(_, of) => add_flags(of, found),
        Expr::Binary(_, both, _) => both.iter().for_each(|part| add_flags(part, found)),
        Expr::List(parts) => parts.iter().for_each(|part| add_flags(part, found)),
        _ => {}
    }
}

fn add_flag(expr: &Expr, found: &mut Vec<(usize, Field)>) {
    if let Expr::Field(at, field) = plain(expr)
        && !found.contains(&(*at, *field))
    {
        found.push((*at, *field));
    }
}

/// Returns true if a condition keeps a field without a sign at most 1.
fn is_flag(condition: &Expr, (at, field): (usize, Field)) -> bool {
    match condition {
        Expr::Binary(Operator::And, both, _) => both.iter().any(|part| is_flag(part, (at, field))),
        Expr::Binary(operator, both, _) => {
            let is_own = *plain(&both[0]) == Expr::Field(at, field) && matches!(field.ty, Plain::Unsigned(_));
            is_own && matches!((operator, plain(&both[1])), (Operator::Le, Expr::Int(1)) | (Operator::Lt, Expr::Int(2)))
        }
        _ => false,
    }
}

/// The report on all cases. A property has the findings of the cases if fewer of these are open than of those about all launches at once.
pub(crate) fn joined(whole: Report, cases: Vec<Report>) -> Report {
    let mut united: Vec<Finding> = Vec::new();
    for finding in cases.into_iter().flat_map(|case| case.findings) {
        match united.iter_mut().find(|own| is_same(own, &finding)) {
            Some(own) => worse(own, finding),
            None => united.push(finding),
        }
    }
    let mut findings = Vec::new();
    for property in Property::ALL {
        let is_better = count_open(&united, property) < count_open(&whole.findings, property);
        let best = if is_better { &united } else { &whole.findings };
        findings.extend(best.iter().filter(|own| own.property == property).cloned());
    }
    findings.sort_small_by_key(|finding| (finding.span.lo, finding.property));
    Report { findings, ..whole }
}

fn is_same(a: &Finding, b: &Finding) -> bool {
    (a.span, a.property, &a.memory, a.verb) == (b.span, b.property, &b.memory, b.verb)
}
