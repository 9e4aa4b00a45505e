//! Pass `expressions`: values that are used once, right behind where they are made, move into what uses them. The
//! instructions stay where they are: an expression is evaluated from the left, its parts right before it.

use super::body::{Body, Expr, Node, Piece, each_block};
use std::collections::HashMap;

/// A person reads no longer ones.
const MOST_OPERATORS: usize = 4;

/// Returns how many values it moved.
pub(super) fn pass(body: &mut Body) -> usize {
    let mut mentions: HashMap<usize, usize> = HashMap::new();
    for node in &body.nodes {
        node.mentions(body, &mut |reg| *mentions.entry(reg).or_default() += 1);
    }
    let mut moved = 0;
    let mut nodes = std::mem::take(&mut body.nodes);
    each_block(&mut nodes, &mut |block| {
        let mut out: Vec<Node> = Vec::with_capacity(block.len());
        for mut node in block.drain(..) {
            moved += absorb(&mut node, &mut out, &mentions, body);
            out.push(node);
        }
        *block = out;
    });
    body.nodes = nodes;
    moved
}

/// Takes values from the statements in front, the last one first, into the leaves of a statement from the right.
fn absorb(node: &mut Node, before: &mut Vec<Node>, mentions: &HashMap<usize, usize>, body: &Body) -> usize {
    let mut taken = 0;
    loop {
        let Some(Node::Assign(Piece::Reg(dest), value, false)) = before.last() else { return taken };
        let single = mentions.get(dest) == Some(&2) && body.regs[*dest].element.is_none();
        let guard = !matches!(node, Node::Assign(..));
        let Some(expr) = value_of(node) else { return taken };
        // What is a lone register, literal or special register gets a name.
        let simple = matches!(value, Expr::Leaf(_));
        // `if !p` turns a guard, it is no `not.pred`.
        let turns = guard && matches!(value, Expr::Unary("!", _));
        let typed = body.results.get(dest) == Some(&body.regs[*dest].ty);
        if !single || simple || turns || !typed || expr.size() + value.size() > MOST_OPERATORS || !is_next(expr, *dest)
        {
            return taken;
        }
        let (dest, value) = (*dest, value.clone());
        expr.leaves_mut(&mut |leaf| {
            if *leaf == Expr::reg(dest) {
                *leaf = value.clone();
            }
        });
        before.pop();
        taken += 1;
    }
}

fn value_of(node: &mut Node) -> Option<&mut Expr> {
    match node {
        Node::Assign(_, value, _) => Some(value),
        Node::If(condition, ..) | Node::Jump(Some((condition, _)), _) => Some(condition),
        _ => None,
    }
}

/// Whether everything that is made for an expression is made behind this register: nothing to the left of it is more
/// than a register, and nothing was moved to the left of it.
fn is_next(expr: &Expr, reg: usize) -> bool {
    match expr {
        Expr::Leaf(Piece::Reg(leaf)) => *leaf == reg,
        Expr::Leaf(_) => false,
        Expr::Unary(_, a) | Expr::Cast(a, _) => is_next(a, reg),
        Expr::Binary(_, a, b) => is_next(a, reg) || (matches!(**a, Expr::Leaf(_)) && is_next(b, reg)),
    }
}
