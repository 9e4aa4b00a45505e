//! Pass `operators`: single instructions to the operator that is that very instruction: `a + b`, `x as u64`, `tid.x`.
//!
//! A register has one type in the kernel language, while PTX's `.b32` takes any. It gets the one that lets the most
//! instructions be written as operators; the others stay in `ptx!`. An untyped register stands on one side of an
//! operator whose other side says the type.

use super::body::{Body, Expr, Inst, Node, Piece, Reg, each_block};
use crate::isa::{self, Class, Type};
use crate::kernel::{cast, language_type, written};
use std::collections::{HashMap, HashSet};

/// Returns how many instructions it raised.
pub(super) fn pass(body: &mut Body) -> usize {
    choose_types(body);
    let mut raised = 0;
    let mut nodes = std::mem::take(&mut body.nodes);
    each_block(&mut nodes, &mut |block| {
        for node in block.iter_mut() {
            if let Node::Inst(inst) = node
                && let Some((dest, value, ty)) = raise(&body.regs, inst)
            {
                *node = Node::Assign(Piece::Reg(dest), value, false);
                body.results.insert(dest, ty);
                raised += 1;
            }
        }
    });
    body.nodes = nodes;
    raised
}

/// How often types are chosen again with what the others have become.
const ROUNDS: usize = 3;

/// Each untyped register gets the type with which the most instructions can be raised.
fn choose_types(body: &mut Body) {
    let mut insts: Vec<Inst> = Vec::new();
    let mut nodes = std::mem::take(&mut body.nodes);
    each_block(&mut nodes, &mut |block| {
        insts.extend(block.iter().filter_map(|n| if let Node::Inst(i) = n { Some(i.clone()) } else { None }));
    });
    let mut fixed = HashSet::new();
    prelude(&nodes, &mut fixed);
    fixed.iter().for_each(|reg: &usize| body.regs[*reg].ty = "u32".to_owned());
    body.nodes = nodes;
    let mut by_reg: HashMap<usize, Vec<usize>> = HashMap::new();
    for (at, inst) in insts.iter().enumerate() {
        for piece in inst.operands.iter().flatten() {
            if let Piece::Reg(reg) = piece {
                by_reg.entry(*reg).or_default().push(at);
            }
        }
    }
    for _ in 0..ROUNDS {
        for reg in 0..body.regs.len() {
            let (Some(ty), Some(at)) = (Type::find(&body.regs[reg].declared), by_reg.get(&reg)) else { continue };
            if ty.class() != Class::Bits
                || !matches!(ty.bits(), 16 | 32 | 64)
                || body.regs[reg].param
                || fixed.contains(&reg)
            {
                continue;
            }
            // What a float instruction names must stay untyped.
            if at.iter().any(|at| names_float(&insts[*at].name, ty.bits())) {
                continue;
            }
            let best = CLASSES.map(|class| {
                body.regs[reg].ty = format!("{class}{}", ty.bits());
                at.iter().filter(|at| raise(&body.regs, &insts[**at]).is_some()).count()
            });
            let most = best.iter().max().copied().unwrap_or(0);
            let class = CLASSES.iter().zip(best).find(|(_, n)| *n == most && most > 0).map_or("b", |(class, _)| class);
            body.regs[reg].ty = format!("{class}{}", ty.bits());
        }
    }
}

/// Unsigned, signed, untyped.
const CLASSES: [&str; 3] = ["u", "i", "b"];

/// Whether an instruction has a type of floats or of packed numbers of this width among its modifiers.
fn names_float(inst: &str, bits: u32) -> bool {
    if inst.starts_with("tcgen05.") {
        // Addresses of tensor memory are not signed.
        return true;
    }
    let float = |ty: Type| matches!(ty.class(), Class::Float | Class::Packed) && ty.bits() == bits;
    inst.split('.').skip(1).any(|modifier| Type::find(modifier).is_some_and(float))
}

/// The registers that the library takes: they are `u32`.
fn prelude(nodes: &[Node], fixed: &mut HashSet<usize>) {
    for node in nodes {
        if let Node::Call(name, args) = node
            && name.contains("::")
        {
            for arg in args {
                if let Piece::Reg(reg) = arg {
                    fixed.insert(*reg);
                }
            }
        }
        node.blocks().into_iter().for_each(|block| prelude(block, fixed));
    }
}

/// The type of this name in the kernel language.
fn find(name: &str) -> Option<Type> {
    Type::find(&name.replace('i', "s"))
}

/// Whether a register of one type may be used as the other.
fn meet(a: Type, b: Type) -> bool {
    a == b || (a.bits() == b.bits() && (a.class() == Class::Bits || b.class() == Class::Bits))
}

/// The assignment that is this instruction: its register, its value, the value's type.
fn raise(regs: &[Reg], inst: &Inst) -> Option<(usize, Expr, String)> {
    if inst.guard.is_some() {
        return None;
    }
    let [Piece::Reg(dest)] = inst.operands.first()?.as_slice() else { return None };
    let ty = find(&regs[*dest].ty)?;
    let (value, result) = special(inst, ty)
        .or_else(|| moved(inst, ty, regs))
        .or_else(|| converted(inst, ty, regs))
        .or_else(|| operator(inst, ty, regs))?;
    Some((*dest, value, language_type(result.name())?))
}

/// `mov.u32 d, %tid.x`
fn special(inst: &Inst, dest: Type) -> Option<(Expr, Type)> {
    let [_, source] = inst.operands.as_slice() else { return None };
    let mut text = String::new();
    for piece in source {
        let Piece::Text(part) = piece else { return None };
        text.push_str(part);
    }
    let (name, component) = text.split_once('.').unwrap_or((&text, ""));
    let special = isa::table().specials.get(text.as_str()).or_else(|| isa::table().specials.get(name))?;
    let plain = text.strip_prefix('%')?;
    let fits = dest == special.ty && inst.name == format!("mov.{}", special.ty.name());
    let known = matches!(component, "" | "x" | "y" | "z" | "w");
    (fits && known).then(|| (Expr::Leaf(Piece::Text(plain.to_owned())), special.ty))
}

/// `mov.u32 d, a` and `mov.u32 d, 1`
fn moved(inst: &Inst, dest: Type, regs: &[Reg]) -> Option<(Expr, Type)> {
    let ty = Type::find(inst.name.strip_prefix("mov.")?)?;
    let [_, source] = inst.operands.as_slice() else { return None };
    if ty != dest || ty.class() == Class::Pred {
        return None;
    }
    // Between two registers it is the source that says the type.
    let exact = |reg: &usize| find(&regs[*reg].ty) == Some(ty);
    let typed = if let [Piece::Reg(reg)] = source.as_slice() { exact(reg) } else { true };
    Some((leaf(source, ty, regs).filter(|_| typed)?, ty))
}

fn converted(inst: &Inst, dest: Type, regs: &[Reg]) -> Option<(Expr, Type)> {
    let [_, source] = inst.operands.as_slice() else { return None };
    let [Piece::Reg(reg)] = source.as_slice() else { return None };
    let from = find(&regs[*reg].ty)?;
    let pieces: Vec<&str> = inst.name.split('.').collect();
    let to = Type::find(pieces.get(pieces.len().checked_sub(2)?)?)?;
    let same = cast(from, to)?.strip_suffix(" {d}, {a}") == Some(&inst.name);
    let to_name = language_type(to.name())?;
    (same && from != to && meet(dest, to)).then(|| (Expr::Cast(Box::new(Expr::reg(*reg)), to_name), to))
}

fn operator(inst: &Inst, dest: Type, regs: &[Reg]) -> Option<(Expr, Type)> {
    let ty = |operand: &[Piece]| if let [Piece::Reg(reg)] = operand { find(&regs[*reg].ty) } else { None };
    written(&inst.name).into_iter().find_map(|(operator, operand, result)| {
        if !meet(dest, result) {
            return None;
        }
        let shift = matches!(operator, "<<" | ">>");
        // Where one side is untyped the operator is the typed side's.
        let typed = |a: &[Piece], b: &[Piece]| match (ty(a), ty(b)) {
            (Some(a), Some(b)) if !shift && a.class() == Class::Bits => b == operand,
            (Some(a), _) => a == operand,
            (None, _) => false,
        };
        match inst.operands.as_slice() {
            [_, a] if matches!(operator, "!" | "-") && typed(a, &[]) => {
                Some((Expr::Unary(operator, Box::new(leaf(a, operand, regs)?)), result))
            }
            [_, a, b] if typed(a, b) => {
                let a = leaf(a, operand, regs).filter(is_register)?;
                let b = leaf(b, if shift { Type::find("u32")? } else { operand }, regs)?;
                Some((Expr::Binary(operator, Box::new(a), Box::new(b)), result))
            }
            _ => None,
        }
    })
}

fn is_register(expr: &Expr) -> bool {
    matches!(expr, Expr::Leaf(Piece::Reg(_)))
}

/// A register or a literal that may stand where this type does.
fn leaf(operand: &[Piece], ty: Type, regs: &[Reg]) -> Option<Expr> {
    match operand {
        [Piece::Reg(reg)] if find(&regs[*reg].ty).is_some_and(|own| meet(own, ty)) => Some(Expr::reg(*reg)),
        [Piece::Int(value)] if in_range(*value, ty) => Some(Expr::Leaf(Piece::Int(*value))),
        _ => None,
    }
}

/// Whether a type of integers holds a value. Floats are written as their bits, which stays in `ptx!`.
fn in_range(value: i64, ty: Type) -> bool {
    let bits = ty.bits();
    match ty.class() {
        Class::Unsigned | Class::Bits => value >= 0 && (bits >= 64 || value < 1 << bits),
        Class::Signed => bits >= 64 || (-(1 << (bits - 1))..1 << (bits - 1)).contains(&value),
        _ => false,
    }
}
