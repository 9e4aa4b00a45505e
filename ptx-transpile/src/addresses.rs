//! Pass `addresses`: what is read and written through a slice parameter gets its address by an index, `x.at(i)`, which has its
//! state space and element. Addresses that are anything more stay numbers.

use super::body::{Body, Expr, Inst, Node, Piece, each_block, is_memory};
use super::infer::named;
use super::params::Param;
use ptx_core::isa::Class;
use std::collections::{BTreeMap, BTreeSet};

/// Instructions with an address of memory in brackets, whose state space is a modifier.
const ACCESSES: [&str; 4] = ["ld", "st", "atom", "red"];

/// A parameter that is an address with a type: `GlobalMut<f32>`, the bytes of an element.
type Typed = (String, i64);

/// Returns how many addresses it typed.
pub(super) fn pass(body: &mut Body, params: &[Param]) -> usize {
    let mut typed: BTreeMap<usize, Typed> = BTreeMap::new();
    for (at, reg) in body.regs.iter().enumerate().filter(|(_, reg)| reg.param) {
        if let Some(found) = params.iter().find(|param| param.name == reg.name).and_then(Param::address) {
            typed.insert(at, found);
        }
    }
    if typed.is_empty() || !body.prologue {
        return 0;
    }
    let (writes, others) = (body.writes(), used_otherwise(body));
    let mut nodes = std::mem::take(&mut body.nodes);
    let mut made = 0;
    each_block(&mut nodes, &mut |block| {
        for node in block.iter_mut() {
            let Node::Assign(Piece::Reg(dest), value, _) = node else { continue };
            let plain = body.regs[*dest].element.is_none() && !body.regs[*dest].param && body.regs[*dest].ty == "u64";
            if !plain || writes.get(dest) != Some(&1) || others.contains(dest) {
                continue;
            }
            if let Some((indexed, ty)) = indexed(body, value, &typed) {
                *value = indexed;
                body.regs[*dest].ty = ty;
                made += 1;
            }
        }
    });
    body.nodes = nodes;
    made
}

/// `x + wide(i) * 4` as `x.at(i)`, where `x` has elements of four bytes, and its type.
fn indexed(body: &Body, value: &Expr, typed: &BTreeMap<usize, Typed>) -> Option<(Expr, String)> {
    let Expr::Binary("+", base, offset) = value else { return None };
    let (Expr::Leaf(Piece::Reg(base)), Expr::Binary("wide", index, size)) = (&**base, &**offset) else { return None };
    let (ty, bytes) = typed.get(base)?;
    let Expr::Leaf(Piece::Reg(reg)) = &**index else { return None };
    let of = named(&body.regs[*reg].ty)?;
    let fits = of.bits() == 32 && matches!(of.class(), Class::Unsigned | Class::Signed);
    (fits && **size == Expr::Leaf(Piece::Int(*bytes)))
        .then(|| (Expr::Binary("at", Box::new(Expr::reg(*base)), index.clone()), ty.clone()))
}

/// The registers that something names outside of the brackets of an access of global memory, but for their own assignment.
fn used_otherwise(body: &Body) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    body.nodes.iter().for_each(|node| note_uses(body, node, &mut found));
    found
}

fn note_uses(body: &Body, node: &Node, found: &mut BTreeSet<usize>) {
    let mut note = |piece: &Piece| {
        body.registers(piece, &mut |reg| {
            found.insert(reg);
        });
    };
    match node {
        Node::Inst(inst) => {
            let other = inst.operands.iter().filter(|operand| !is_global_address(inst, operand));
            other.flatten().for_each(&mut note);
            inst.guard.iter().for_each(|(reg, _)| note(&Piece::Reg(*reg)));
        }
        Node::Assign(_, value, _) => value.pieces(&mut note),
        other => other.pieces(&mut note),
    }
    node.blocks().into_iter().flatten().for_each(|inner| note_uses(body, inner, found));
}

/// Returns true if an operand is the address of a load or store of global memory.
fn is_global_address(inst: &Inst, operand: &[Piece]) -> bool {
    let mut words = inst.name.split('.');
    let opcode = words.next().is_some_and(|word| ACCESSES.contains(&word));
    opcode && is_memory(operand) && words.any(|word| word == "global")
}
