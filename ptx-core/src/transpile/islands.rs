//! Pass `islands`: one or two operators between long stretches of instructions go back into `ptx!`: a person who writes ten
//! instructions writes the addition among them as one, too.

use super::body::{Body, Expr, Inst, Node, Piece, each_block, is_ptx};
use crate::isa::{self, Type};
use crate::kernel::{cast, instruction, move_of};

/// More operators than these stay for themselves.
const MOST: usize = 2;

/// Returns how many operators went back.
pub(super) fn pass(body: &mut Body) -> usize {
    let mut returned = 0;
    let mut nodes = std::mem::take(&mut body.nodes);
    each_block(&mut nodes, &mut |block| {
        let mut at = 2;
        while at < block.len() {
            let length = block[at..].iter().take_while(|node| matches!(node, Node::Assign(..))).count();
            if length == 0 {
                at += 1;
                continue;
            }
            let before = block[at - 2..at].iter().all(is_ptx);
            let behind = block.get(at + length..at + length + 2).is_some_and(|next| next.iter().all(is_ptx));
            let insts: Option<Vec<Inst>> = (before && behind && length <= MOST)
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
    // What the result is viewed as says nothing of the instruction.
    let value = match value {
        Expr::View(_, inner) if !matches!(**inner, Expr::Leaf(Piece::Reg(_) | Piece::Element(..))) => inner,
        other => other,
    };
    let (name, operands) = match value {
        Expr::Leaf(piece @ Piece::Text(text)) if text.starts_with(|c: char| c.is_ascii_digit()) => {
            (move_of(type_of(body, &Expr::Leaf(dest.clone()))?)?, vec![vec![piece.clone()]])
        }
        Expr::Leaf(Piece::Text(special)) => {
            let name = format!("%{special}");
            let found = isa::table().specials.get(name.as_str());
            let found = found.or_else(|| isa::table().specials.get(name.split('.').next()?))?;
            (move_of(found.ty)?, vec![vec![Piece::Text(name)]])
        }
        Expr::Leaf(piece @ (Piece::Int(_) | Piece::Count(_))) => {
            (move_of(type_of(body, &Expr::Leaf(dest.clone()))?)?, vec![vec![piece.clone()]])
        }
        Expr::Leaf(_) | Expr::View(..) => (move_of(type_of(body, value)?)?, vec![leaf(value)?]),
        Expr::Unary(operator, a) => (instruction(operator, 1, type_of(body, a)?)?, vec![leaf(a)?]),
        Expr::Binary(operator, a, b) => {
            let (left, right) = (type_of(body, a), type_of(body, b));
            let untyped = left.is_none_or(|ty| ty.class() == isa::Class::Bits);
            let shift = matches!(*operator, "<<" | ">>");
            let ty = if untyped && !shift { right.or(left) } else { left };
            (instruction(operator, 2, ty?)?, vec![leaf(a)?, leaf(b)?])
        }
        Expr::Cast(a, to) => {
            let to = Type::find(&to.replace('i', "s"))?;
            (cast(type_of(body, a)?, to)?.strip_suffix(" {d}, {a}")?.to_owned(), vec![leaf(a)?])
        }
    };
    let operands = std::iter::once(vec![dest.clone()]).chain(operands).collect();
    Some(Inst { guard: None, name, operands })
}

/// An operand that is no expression.
fn leaf(expr: &Expr) -> Option<Vec<Piece>> {
    match expr {
        Expr::Leaf(Piece::Text(_)) => None,
        Expr::Leaf(piece) => Some(vec![piece.clone()]),
        Expr::View(_, inner) => leaf(inner),
        _ => None,
    }
}

/// The type of an operand in the kernel language; `None` for a literal.
fn type_of(body: &Body, expr: &Expr) -> Option<Type> {
    let of = |reg: usize| Type::find(&body.regs[reg].ty.replace('i', "s"));
    match expr {
        Expr::Leaf(Piece::Reg(reg)) => of(*reg),
        Expr::Leaf(Piece::Element(array, _)) => of(*body.arrays[*array].regs.first()?),
        Expr::View(view, inner) => {
            let letter = match *view {
                "signed" => 's',
                "unsigned" => 'u',
                _ => 'b',
            };
            Type::find(&format!("{letter}{}", type_of(body, inner)?.bits()))
        }
        _ => None,
    }
}
