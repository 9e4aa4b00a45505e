//! The bits of registers that are read. A counter whose lowest bits choose a stage and a parity grows for ever, and its other bits decide nothing: they are
//! zero, so that it takes as many values as there are stages and parities.

use super::code::Role;
use super::value::OTHERS;
use crate::site::{Site, integer};
use ptx_core::check::access;
use ptx_core::ir::{Function, Operand, RegId};
use ptx_core::isa::Access;

/// The bits of a source that are read, if these bits of the result are: by the number in the place of the other source.
type Source = fn(u64, Option<u64>) -> u64;

/// Operations whose results depend on some bits of their sources. Any other reads all of them.
#[rustfmt::skip]
const SOURCES: [(&str, Source); 12] = [
    ("mov", |bits, _| bits), ("or", |bits, _| bits), ("xor", |bits, _| bits), ("not", |bits, _| bits),
    ("and", |bits, mask| bits & mask.unwrap_or(u64::MAX)),
    ("add", |bits, _| below(bits)), ("sub", |bits, _| below(bits)), ("neg", |bits, _| below(bits)),
    ("mul.lo", |bits, _| below(bits)), ("mad.lo", |bits, _| below(bits)),
    ("shl", |bits, by| by.map_or(u64::MAX, |by| bits.checked_shr(by as u32).unwrap_or(0))),
    ("shr", |bits, by| by.map_or(u64::MAX, |by| bits.checked_shl(by as u32).unwrap_or(0))),
];

/// Operations whose second source is a number of bits.
const SHIFTS: [&str; 2] = ["shl", "shr"];

/// A bit of a sum depends on it and on those below.
fn below(bits: u64) -> u64 {
    u64::MAX.checked_shr(bits.leading_zeros()).unwrap_or(0)
}

/// By register: the bits that instructions that count read.
pub(crate) fn read(function: &Function, roles: &[Role], counts: &[bool]) -> Vec<u64> {
    let mut bits = vec![0; function.registers.len()];
    loop {
        let mut changed = false;
        for at in (0..roles.len()).rev().filter(|at| counts[*at]) {
            let inst = &function.insts[at];
            access::registers(inst, &mut |register, access| {
                if access != Access::Write {
                    let own = of_register(function, (at, roles[at]), register, &bits);
                    changed |= own & !bits[register.index()] != 0;
                    bits[register.index()] |= own;
                }
            });
        }
        if !changed {
            return bits;
        }
    }
}

/// The bits of a register that an instruction reads.
fn of_register(function: &Function, (at, role): (usize, Role), register: RegId, bits: &[u64]) -> u64 {
    let inst = &function.insts[at];
    let Some(row) = inst.row.filter(|_| inst.guard.is_none_or(|guard| guard.register != register)) else {
        return u64::MAX;
    };
    let site = Site { function, inst, row };
    let mut found = None;
    for (at, (spec, operand)) in row.operands.iter().zip(&inst.operands).enumerate() {
        match operand {
            _ if spec.access == Access::Write => {}
            Operand::Reg(own) if *own == register => {
                found = Some(found.unwrap_or(0) | of_operand(&site, role, at, bits));
            }
            Operand::Memory { base, .. } if base.register() == Some(register) => return u64::MAX,
            _ => {}
        }
    }
    found.unwrap_or(u64::MAX)
}

/// The bits of a source that an instruction reads.
fn of_operand(site: &Site<'_>, role: Role, at: usize, bits: &[u64]) -> u64 {
    let result = match site.operand(0) {
        Operand::Reg(register) => bits[register.index()],
        _ => u64::MAX,
    };
    match role {
        Role::Wait if site.row.operand("phase_parity") == Some(at) => 1,
        Role::Select if at == 1 || at == 2 => result,
        Role::Compute if at > 0 => {
            let source = SOURCES.iter().find(|(name, _)| *name == site.row.name);
            let is_signed = site.last_type().and_then(integer).is_none_or(|(_, is_signed)| is_signed);
            let is_shift = SHIFTS.contains(&site.row.name);
            let other = match site.operand(if at == 1 { 2 } else { 1 }) {
                Operand::Int(number) => Some(*number),
                _ => None,
            };
            match source {
                Some((_, source))
                    if !(is_shift && (is_signed || at == 2)) && !OTHERS.iter().any(|own| site.is(own)) =>
                {
                    source(result, other)
                }
                _ => u64::MAX,
            }
        }
        _ => u64::MAX,
    }
}
