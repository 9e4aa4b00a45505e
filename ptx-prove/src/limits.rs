//! Numbers of a block that are no less than a sum in each thread, by the facts about its symbols alone: the number of another thread has them, too.

use crate::form::{Coef, Cond, Form, Sym};
use crate::world::{Scope, World};

/// The most limits of a sum, and the steps from fact to fact to them.
const LIMITS: usize = 4;
const STEPS: u32 = 4;

impl World {
    /// The number that some thread has where this one has a form. What limits that in all threads limits it.
    pub(crate) fn elsewhere(&mut self, form: &Form, bits: u32, scope: Scope) -> Form {
        let all = (0, (1 << bits) - 1);
        let (least, most) = self.range(form).unwrap_or(all);
        let symbol = self.loose((least.max(all.0), most.min(all.1)), scope);
        let found = Form::symbol(symbol);
        for limit in self.limits(form, STEPS) {
            let below = Cond::le(&found, &limit);
            below.into_iter().for_each(|below| self.assume(symbol, below));
        }
        found
    }

    /// The smaller one of two numbers gets each lower limit that both numbers have.
    pub(crate) fn limit_smaller(&mut self, smaller: Sym, a: &Form, b: &Form) {
        let of = |form: &Form| form.scale(-1).map(|form| self.limits(&form, STEPS)).unwrap_or_default();
        let (a, b) = (of(a), of(b));
        for limit in a.into_iter().filter(|limit| b.contains(limit)) {
            let above = limit.add(&Form::symbol(smaller)).map(Cond::at_least);
            above.into_iter().for_each(|above| self.assume(smaller, above));
        }
    }

    /// Numbers of the block that are no less than a form.
    fn limits(&self, form: &Form, steps: u32) -> Vec<Form> {
        if self.scope(form) <= Scope::Block {
            return vec![form.clone()];
        }
        let (Some(parts), Some(steps)) = (self.selected(form), steps.checked_sub(1)) else { return Vec::new() };
        let mut common: Option<Vec<Form>> = None;
        for (symbol, sign) in parts {
            let mut own = Vec::new();
            self.facts_of(symbol).iter().for_each(|fact| self.add_limits(fact, (symbol, sign, steps), &mut own));
            own.truncate(LIMITS);
            common = Some(match common {
                None => own,
                Some(common) => common.into_iter().filter(|limit| own.contains(limit)).collect(),
            });
        }
        common.unwrap_or_default()
    }

    /// Adds the limits of a symbol, or of the negated symbol, by a fact.
    fn add_limits(&self, fact: &Cond, (symbol, sign, steps): (Sym, i128, u32), found: &mut Vec<Form>) {
        match fact {
            Cond::All(parts) => parts.iter().for_each(|part| self.add_limits(part, (symbol, sign, steps), found)),
            Cond::AtLeast(form) => {
                let of = form.terms.iter().find(|(mono, _)| mono[..] == [symbol]).map(|(_, factor)| factor);
                // rest - sign · symbol >= 0
                let rest = of
                    .filter(|factor| **factor == Coef::One(-sign))
                    .and_then(|_| Form::symbol(symbol).scale(sign).and_then(|own| form.add(&own)));
                if let Some(rest) = rest.filter(|rest| rest.symbols().all(|other| other != symbol)) {
                    found.extend(self.limits(&rest, steps));
                }
            }
            _ => {}
        }
    }

    /// The symbols of a form of which each thread has one alone, and their signs, the same in all threads.
    fn selected(&self, form: &Form) -> Option<Vec<(Sym, i128)>> {
        let mut found = Vec::new();
        for (mono, factor) in &form.terms {
            let sign = if factor.most() > 0 { 1 } else { -1 };
            let [symbol] = mono[..] else { return None };
            found.push((symbol, sign));
            if !factor.all(|factor| factor == 0 || factor == sign) {
                return None;
            }
        }
        let has_one = |thread: usize| form.terms.iter().filter(|(_, factor)| factor.at(thread) != 0).count() == 1;
        (form.constant.is_zero() && (0..self.threads).all(has_one)).then_some(found)
    }
}
