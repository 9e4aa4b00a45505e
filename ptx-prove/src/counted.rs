//! Registers that a loop changes by the same amount in some turns, such as an address that goes on as long as there is a next tile. Where the turn before
//! changed it, under a condition that holds in no later turn once it fails, all turns before did.

use crate::form::{Cond, Form};
use crate::machine::{Machine, State, Value};
use crate::world::Scope;
use ptx_core::ir::RegId;

/// A register that turns change under a condition.
#[derive(Clone)]
pub(crate) struct Counted {
    register: RegId,
    step: Form,
    /// Of the turn that changes it.
    cond: Cond,
    turn: u32,
}

impl Counted {
    pub(crate) fn register(&self) -> RegId {
        self.register
    }

    /// Returns true if another execution found the same.
    pub(crate) fn is(&self, other: &Counted) -> bool {
        let own = |symbol: u32| Some(Form::symbol(if symbol == self.turn { other.turn } else { symbol }));
        let same = self.cond.replaced(&own).is_some_and(|cond| cond == other.cond);
        same && self.register == other.register && self.step == other.step
    }
}

impl Machine<'_> {
    /// The value at the start of a turn: it was changed in at most all turns before.
    pub(crate) fn counted_value(
        &mut self,
        counted: &Counted,
        first: &Form,
        (turn, scope): (u32, Scope),
    ) -> Option<Form> {
        let number = Form::symbol(turn);
        let most = self.world.symbol(turn).most;
        let last = number.plus(-1)?;
        let last = |symbol: u32| Some(if symbol == counted.turn { last.clone() } else { Form::symbol(symbol) });
        let led = counted.cond.replaced(&last)?;
        let scope = scope.max(self.world.cond_scope(&led));
        let count = self.world.unknown((0, most), scope);
        let all = Cond::any([led.negate(), Cond::equal(&count, &number)?]);
        let symbol = count.symbols().next()?;
        self.world.assume(symbol, Cond::le(&count, &number)?);
        self.world.assume(symbol, all);
        first.add(&counted.step.mul(&count)?)
    }

    /// The registers that one execution of a turn changes under such a condition. Symbols from `made` on are those of the turn.
    pub(crate) fn counted(
        &self,
        (start, next): (&State, &State),
        written: &[RegId],
        (turn, made): (u32, u32),
    ) -> Vec<Counted> {
        let of = |register: &RegId| {
            let (Value::Bits(old), Value::Bits(new)) = (start.get(*register), next.get(*register)) else { return None };
            let (cond, step) = self.world.conditional(&new.sub(&old)?)?;
            let mut is_common = step.symbols().all(|symbol| symbol < made);
            cond.forms(&mut |form| is_common &= form.symbols().all(|symbol| symbol < made || symbol == turn));
            (is_common && cond.falls(turn)).then_some(Counted { register: *register, step, cond, turn })
        };
        written.iter().filter_map(of).collect()
    }
}
