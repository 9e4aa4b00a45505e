//! Conversions between integers, and addresses.

use super::{Args, bits_of};
use crate::machine::{Machine, Value};
use crate::site::integer;

pub(super) fn cvt(machine: &mut Machine<'_>, args: &Args<'_>) -> Option<Value> {
    let ((to, _), from) = (integer(args.site.ty(0)?)?, integer(args.site.ty(1)?)?);
    if args.values.len() > 1 {
        return None;
    }
    // A register that is wider than the type is extended as the destination's type is.
    let number = args.number_of(machine, 0, from)?;
    let width = args.site.width(args.site.operand(0));
    let (_, signed) = integer(args.site.ty(0)?)?;
    if width > to { Some(Value::Bits(machine.world.number(&number, to, signed))) } else { bits_of(Some(number)) }
}

pub(super) fn generic(machine: &mut Machine<'_>, args: &Args<'_>) -> Option<Value> {
    let window = machine.window(&args.site);
    bits_of(args.form(machine, 0)?.add(&window))
}

pub(super) fn in_space(machine: &mut Machine<'_>, args: &Args<'_>) -> Option<Value> {
    let window = machine.window(&args.site);
    bits_of(args.form(machine, 0)?.sub(&window))
}
