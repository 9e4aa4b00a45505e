//! Pass `expressions`: values that are used once, right behind where they are made, move into what uses them. The
//! instructions stay where they are: an expression is evaluated from the left, its parts right before it.

use super::body::{Body, Expr, Node, Piece, each_block};
use super::infer::lower;
use super::operators::as_type;
use std::collections::HashMap;

/// A person reads no longer ones.
const MOST_OPERATORS: usize = 5;

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
            if let Some(value) = value_of(&mut node) {
                while lighten(body, value) {}
            }
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
        let simple = value.size() == 0;
        // `if !p` turns a guard, it is no `not.pred`.
        let turns = guard && matches!(value, Expr::Unary("!", _));
        // `a = b` is a `mov`, which `a = b + c` is not.
        let copies = !guard && expr.size() == 0;
        if !single || simple || copies || turns || expr.size() + value.size() > MOST_OPERATORS || !is_next(expr, *dest)
        {
            return taken;
        }
        let result = body.results.get(dest).map_or("", String::as_str);
        let Some(value) = as_type(value.clone(), result, &body.regs[*dest].ty) else { return taken };
        let dest = *dest;
        replace(expr, dest, &value);
        before.pop();
        taken += 1;
    }
}

/// Puts a value where the register stood; of views upon views the outer one counts.
fn replace(expr: &mut Expr, reg: usize, value: &Expr) {
    match expr {
        Expr::Leaf(_) if *expr == Expr::reg(reg) => *expr = value.clone(),
        Expr::Leaf(_) => {}
        Expr::View(_, a) => {
            replace(a, reg, value);
            if let Expr::View(_, inner) = &mut **a {
                let inner = std::mem::replace(&mut **inner, Expr::reg(reg));
                **a = inner;
            }
        }
        Expr::Unary(_, a) | Expr::Cast(a, _) => replace(a, reg, value),
        Expr::Binary(_, a, b) => {
            replace(a, reg, value);
            replace(b, reg, value);
        }
    }
}

/// Takes a view away without which the instructions and the type are the same; whether there was one.
fn lighten(body: &Body, expr: &mut Expr) -> bool {
    let meaning = |expr: &Expr| {
        let mut insts = Vec::new();
        lower(body, expr, &mut insts).map(|ty| (ty, insts))
    };
    if expr.size() == 0 {
        return false;
    }
    let known = meaning(expr);
    let lighter = (0..).map_while(|at| {
        let mut lighter = expr.clone();
        unview(&mut lighter, &mut { at }).then_some(lighter)
    });
    let found = lighter.into_iter().find(|lighter| known.is_some() && meaning(lighter) == known);
    let lighter = found.is_some();
    *expr = found.unwrap_or_else(|| expr.clone());
    lighter
}

/// Takes the view of this number away; whether there is one.
fn unview(expr: &mut Expr, at: &mut usize) -> bool {
    match expr {
        Expr::Leaf(_) => false,
        Expr::View(_, a) if *at == 0 => {
            let inner = std::mem::replace(&mut **a, Expr::Leaf(Piece::Int(0)));
            *expr = inner;
            true
        }
        Expr::View(_, a) => {
            *at -= 1;
            unview(a, at)
        }
        Expr::Unary(_, a) | Expr::Cast(a, _) => unview(a, at),
        Expr::Binary(_, a, b) => unview(a, at) || unview(b, at),
    }
}

fn value_of(node: &mut Node) -> Option<&mut Expr> {
    match node {
        Node::Assign(_, value, _) => Some(value),
        Node::If(condition, ..) | Node::Jump(Some((condition, _)), _) => Some(condition),
        _ => None,
    }
}

/// Returns true if everything that is made for an expression is made behind this register: nothing to the left of it
/// is more than a register, and nothing was moved to the left of it.
fn is_next(expr: &Expr, reg: usize) -> bool {
    match expr {
        Expr::Leaf(Piece::Reg(leaf)) => *leaf == reg,
        Expr::Leaf(_) => false,
        Expr::Unary(_, a) | Expr::Cast(a, _) | Expr::View(_, a) => is_next(a, reg),
        Expr::Binary(_, a, b) => is_next(a, reg) || (a.size() == 0 && is_next(b, reg)),
    }
}
