//! Pass `islands`: one or two operators between long stretches of instructions go back into `ptx!`: a person who writes ten
//! instructions writes the addition among them as one, too.

use super::body::{Body, Expr, Inst, Node, Piece, each_block, is_ptx};
use super::infer::{lower, special};
use ptx_language::move_of;

/// More operators than these stay for themselves.
const MOST: usize = 2;
/// So many instructions on both sides together make a stretch.
const STRETCH: usize = 3;

/// Returns how many operators went back.
pub(super) fn pass(body: &mut Body) -> usize {
    let mut returned = 0;
    let mut nodes = std::mem::take(&mut body.nodes);
    each_block(&mut nodes, &mut |block| {
        let mut at = 1;
        while at < block.len() {
            let length = block[at..].iter().take_while(|node| matches!(node, Node::Assign(..))).count();
            if length == 0 {
                at += 1;
                continue;
            }
            let before = block[..at].iter().rev().take(STRETCH).take_while(|node| is_ptx(node)).count();
            let behind = block[at + length..].iter().take(STRETCH).take_while(|node| is_ptx(node)).count();
            let among = before > 0 && behind > 0 && before + behind >= STRETCH;
            let insts: Option<Vec<Inst>> = (among && length <= MOST)
                .then(|| block[at..at + length].iter().map(|node| of_assignment(body, node)).collect())
                .flatten();
            for (node, inst) in block[at..].iter_mut().zip(insts.into_iter().flatten()) {
                *node = Node::Inst(inst);
                returned += 1;
            }
            at += length;
        }
    });
    body.nodes = nodes;
    returned
}

/// The one instruction that an assignment is; `None` if it is several.
fn of_assignment(body: &Body, node: &Node) -> Option<Inst> {
    let Node::Assign(dest, value, _) = node else { return None };
    let operands = match viewless(value) {
        Expr::Leaf(Piece::Text(text)) if special(text).is_some() => vec![vec![Piece::Text(format!("%{text}"))]],
        Expr::Leaf(piece) => vec![vec![piece.clone()]],
        Expr::Unary(_, a) | Expr::Cast(a, _) => vec![leaf(a)?],
        Expr::Binary(_, a, b) => vec![leaf(a)?, leaf(b)?],
        Expr::View(..) => return None,
    };
    let mut insts = Vec::new();
    let ty = lower(body, value, &mut insts)?;
    if insts.is_empty() {
        // A register or a literal: it is the type of where it goes that `mov` has.
        let ty = ty.or_else(|| lower(body, &Expr::Leaf(dest.clone()), &mut insts).flatten())?;
        insts.push(move_of(ty)?);
    }
    let name = insts.pop().filter(|_| insts.is_empty())?;
    let operands = std::iter::once(vec![dest.clone()]).chain(operands).collect();
    Some(Inst { guard: None, name, operands })
}

/// The expression without the view of its result, which does not affect the instruction.
fn viewless(expr: &Expr) -> &Expr {
    if let Expr::View(_, inner) = expr { viewless(inner) } else { expr }
}

/// An operand that is no expression.
fn leaf(expr: &Expr) -> Option<Vec<Piece>> {
    match viewless(expr) {
        Expr::Leaf(Piece::Text(text)) if special(text).is_some() => None,
        Expr::Leaf(piece) => Some(vec![piece.clone()]),
        _ => None,
    }
}
