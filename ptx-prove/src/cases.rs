//! Launches of a contract by cases: where formulas of its conditions differ by a number that is 0 or 1, such as whether sequences are packed, each case is a
//! proof of its own. In it the number is known, so that neither the formulas nor the kernel have a choice that both must agree on.

use crate::contract::{Contract, plain};
use crate::finding::worse;
use crate::report::{Finding, Property, Report, Verdict};
use ptx_core::host::{Expr, Field, Operator, Plain};

/// The most numbers that are known in a case.
const MOST: usize = 2;

/// The contract of each case; nothing if no formula differs by a number.
pub(crate) fn cases(contract: &Contract) -> Option<Vec<Contract>> {
    let mut flags: Vec<(usize, Field)> = Vec::new();
    contract.assume.iter().chain(&contract.grid).for_each(|expr| add_flags(expr, &mut flags));
    flags.retain(|flag| contract.assume.iter().any(|condition| is_flag(condition, *flag)));
    flags.truncate(MOST);
    let mut found = vec![contract.clone()];
    for (at, field) in &flags {
        let with = |contract: &Contract, value: i64| {
            let known =
                Expr::Binary(Operator::Eq, Box::new([Expr::Field(*at, *field), Expr::Int(value)]), String::new());
            let assume = [known].into_iter().chain(contract.assume.iter().cloned()).collect();
            Contract { assume, samples: false, ..contract.clone() }
        };
        found = found.iter().flat_map(|case| [with(case, 0), with(case, 1)]).collect();
    }
    (!flags.is_empty()).then_some(found)
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
        let of = |all: &[Finding]| all.iter().filter(|own| own.property == property).cloned().collect::<Vec<_>>();
        let open = |own: &[Finding]| own.iter().filter(|own| matches!(own.verdict, Verdict::Unknown(_))).count();
        let (whole, united) = (of(&whole.findings), of(&united));
        findings.extend(if open(&united) < open(&whole) { united } else { whole });
    }
    findings.sort_by_key(|finding| (finding.span.lo, finding.property));
    Report { findings, ..whole }
}

fn is_same(a: &Finding, b: &Finding) -> bool {
    (a.span, a.property, &a.memory, a.verb) == (b.span, b.property, &b.memory, b.verb)
}
