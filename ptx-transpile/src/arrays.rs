//! Pass `arrays`: the registers of a wide list, such as the accumulators of `wgmma`, to an array: `{acc[..]}`.

use super::affine::Affine;
use super::body::{Array, Body, Node, Piece, each_block};
use ptx_core::sort::SortSmall;
use std::collections::HashSet;

/// A list of at least this many registers is an array.
const WIDE: usize = 8;

/// Returns how many arrays it made.
pub(super) fn pass(body: &mut Body) -> usize {
    let mut lists: Vec<Vec<usize>> = Vec::new();
    each_block(&mut body.nodes, &mut |block| {
        for node in block.iter() {
            if let Node::Inst(inst) = node {
                lists.extend(inst.operands.iter().filter_map(|operand| list(operand)));
            }
        }
    });
    lists.sort_small_by_key(|list| std::cmp::Reverse(list.len()));
    for list in lists {
        make(body, list);
    }
    let mut nodes = std::mem::take(&mut body.nodes);
    each_block(&mut nodes, &mut |block| {
        for node in block.iter_mut() {
            if let Node::Inst(inst) = node {
                inst.operands.iter_mut().for_each(|operand| shorten(body, operand));
            }
        }
    });
    body.nodes = nodes;
    body.arrays.len()
}

/// The registers of `{a, b, c}`, if it is a wide list of nothing else.
fn list(operand: &[Piece]) -> Option<Vec<usize>> {
    let is = |piece: Option<&Piece>, text: &str| matches!(piece, Some(Piece::Text(t)) if t == text);
    if !is(operand.first(), "{") || !is(operand.last(), "}") {
        return None;
    }
    let mut regs = Vec::new();
    for (at, piece) in operand[1..operand.len() - 1].iter().enumerate() {
        match piece {
            Piece::Reg(reg) if at % 2 == 0 => regs.push(*reg),
            Piece::Text(comma) if at % 2 == 1 && comma == ", " => {}
            _ => return None,
        }
    }
    (regs.len() >= WIDE).then_some(regs)
}

fn make(body: &mut Body, regs: Vec<usize>) {
    let distinct: HashSet<&usize> = regs.iter().collect();
    let free = |reg: &usize| body.regs[*reg].element.is_none();
    let alike = |reg: &usize| body.regs[*reg].declared == body.regs[regs[0]].declared;
    if distinct.len() != regs.len() || !regs.iter().all(free) || !regs.iter().all(alike) {
        return;
    }
    let stem = if body.regs[regs[0]].declared.contains('f') { "acc" } else { "list" };
    let name = body.free_name(stem);
    for (at, reg) in regs.iter().enumerate() {
        body.regs[*reg].element = Some((body.arrays.len(), at));
    }
    body.arrays.push(Array { name, regs });
}

/// `{acc[0], acc[1], …}` to `{acc[..]}`.
fn shorten(body: &Body, operand: &mut Vec<Piece>) {
    let Some(regs) = list(operand) else { return };
    let Some((array, first)) = body.regs[regs[0]].element else { return };
    let follows = |(at, reg): (usize, &usize)| body.regs[*reg].element == Some((array, first + at));
    if regs.iter().enumerate().all(follows) {
        let range = Piece::Range(array, Affine::from(first as i64), regs.len());
        *operand = vec![Piece::Text("{".to_owned()), range, Piece::Text("}".to_owned())];
    }
}
