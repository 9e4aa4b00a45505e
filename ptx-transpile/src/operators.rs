//! Pass `operators`: single instructions to the operator that is that very instruction: `a + b`, `x as u64`, `tid.x`.
//!
//! A register has one type in the kernel language, while PTX's `.b32` takes any. It gets the one that lets the most
//! instructions be written as operators, with the fewest views (`signed(a)`), which say where an instruction takes it for
//! another; the others stay in `ptx!`. An untyped register stands on one side of an operator whose other side has the
//! type.

use super::body::{Body, Expr, Inst, Node, Piece, Reg, each_block};
use super::infer::{self, in_range, named as find};
use ptx_core::isa::{Class, Type};
use ptx_language::{cast, is_by_power_of_two, language_type, meet, written};
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

/// Number of rounds that choose types again from the types of the others.
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
            // What a float instruction names is a float or stays untyped.
            let (classes, otherwise) = match at.iter().any(|at| names_float(&insts[*at].name, ty.bits())) {
                true if body.regs[reg].element.is_some() => continue,
                true if at.iter().all(|at| takes_float(&insts[*at], reg, ty.bits())) => (FLOAT, "f"),
                true => continue,
                false => (INTEGER, "b"),
            };
            let mut worth = |class: &str| -> usize {
                body.regs[reg].ty = format!("{class}{}", ty.bits());
                let raised = at.iter().filter_map(|at| raise(&body.regs, &insts[*at]));
                raised.map(|(_, value, _)| RAISED - views(&value)).sum()
            };
            let worth: Vec<usize> = classes.iter().map(|class| worth(class)).collect();
            let most = worth.iter().max().copied().unwrap_or(0);
            let class =
                classes.iter().zip(worth).find(|(_, n)| *n == most && most > 0).map_or(otherwise, |(class, _)| class);
            body.regs[reg].ty = format!("{class}{}", ty.bits());
        }
    }
}

/// Cost of an operator in views.
const RAISED: usize = 8;

/// Number of views in an expression.
fn views(expr: &Expr) -> usize {
    match expr {
        Expr::Leaf(_) => 0,
        Expr::View(_, a) => 1 + views(a),
        Expr::Unary(_, a) | Expr::Cast(a, _) => views(a),
        Expr::Binary(_, a, b) => views(a) + views(b),
    }
}

/// Types of an integer register: unsigned, signed, untyped.
const INTEGER: &[&str] = &["u", "i", "b"];
/// Types of a float register.
const FLOAT: &[&str] = &["f", "b"];

/// Returns true if an instruction has a type of floats or of packed numbers of this width among its modifiers.
fn names_float(inst: &str, bits: u32) -> bool {
    if inst.starts_with("tcgen05.") {
        // Addresses of tensor memory are not signed.
        return true;
    }
    let float = |ty: Type| matches!(ty.class(), Class::Float | Class::Packed) && ty.bits() == bits;
    inst.split('.').skip(1).any(|modifier| Type::find(modifier).is_some_and(float))
}

/// Instructions that take a register of floats wherever their type is one of floats or untyped.
const FLOATS: &[&str] = &[
    "abs", "add", "copysign", "cos", "cvt", "div", "ex2", "fma", "ld", "lg2", "max", "min", "mov", "mul", "neg", "rcp",
    "rsqrt", "selp", "setp", "sin", "sqrt", "st", "sub", "tanh", "testp",
];

/// Returns true if an instruction takes an `f32` or `f64` where it names this register. Of other floats there are
/// several of one width, `f16` and `bf16`.
fn takes_float(inst: &Inst, reg: usize, bits: u32) -> bool {
    let (opcode, modifiers) = inst.name.split_once('.').unwrap_or_default();
    let here = |operand: &&Vec<Piece>| operand.contains(&Piece::Reg(reg));
    let types: Vec<Type> = modifiers.split('.').filter_map(Type::find).collect();
    let types = match (opcode, types.as_slice(), inst.operands.first().filter(here)) {
        ("cvt", [to, _], Some(_)) => vec![*to],
        ("cvt", [_, from], None) => vec![*from],
        _ => types,
    };
    let alone = |operand: &Vec<Piece>| match operand.as_slice() {
        [Piece::Reg(_)] => true,
        [Piece::Text(open), ..] => matches!(opcode, "ld" | "st" | "mov") && open.starts_with('{'),
        _ => false,
    };
    bits > 16
        && FLOATS.contains(&opcode)
        && types.iter().all(|ty| ty.bits() != bits || ty.class() == Class::Bits || matches!(ty.name(), "f32" | "f64"))
        && inst.operands.iter().filter(here).all(alone)
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

/// The assignment that is this instruction: its register, its value, the value's type.
fn raise(regs: &[Reg], inst: &Inst) -> Option<(usize, Expr, String)> {
    if inst.guard.is_some() {
        return None;
    }
    let [Piece::Reg(dest)] = inst.operands.first()?.as_slice() else { return None };
    let ty = find(&regs[*dest].ty)?;
    let (value, result) = special(inst)
        .or_else(|| moved(inst, regs))
        .or_else(|| converted(inst, regs))
        .or_else(|| operator(inst, ty, regs))?;
    // `mov` takes its type from where it writes to, but for special registers.
    let fits = if value.size() == 0 { ty == result } else { meet(ty, result) };
    if is_register(&value) && !fits {
        return None;
    }
    let (value, result) = if fits { (value, result) } else { (viewed(value, result, ty)?, ty) };
    Some((*dest, value, language_type(result.name())?))
}

/// An integer under another type of its width.
fn viewed(value: Expr, from: Type, to: Type) -> Option<Expr> {
    let integer = |ty: Type| matches!(ty.class(), Class::Unsigned | Class::Signed | Class::Bits);
    let fits = from.bits() == to.bits() && matches!(from.bits(), 16 | 32 | 64) && integer(from) && integer(to);
    let view = match to.class() {
        Class::Signed => "signed",
        Class::Unsigned => "unsigned",
        _ => "untyped",
    };
    match value {
        _ if !fits => None,
        // A literal has the type of where it goes.
        Expr::Leaf(Piece::Int(_)) => None,
        value => Some(Expr::View(view, Box::new(value))),
    }
}

/// A value of one type of the language as one of another, of the same width.
pub(super) fn as_type(value: Expr, from: &str, to: &str) -> Option<Expr> {
    if from == to { Some(value) } else { viewed(value, find(from)?, find(to)?) }
}

/// `mov.u32 d, %tid.x`
fn special(inst: &Inst) -> Option<(Expr, Type)> {
    let [_, source] = inst.operands.as_slice() else { return None };
    let mut text = String::new();
    for piece in source {
        let Piece::Text(part) = piece else { return None };
        text.push_str(part);
    }
    let component = text.split_once('.').map_or("", |(_, component)| component);
    let plain = text.strip_prefix('%')?;
    let ty = infer::special(plain)?;
    let fits = inst.name == format!("mov.{}", ty.name());
    let known = matches!(component, "" | "x" | "y" | "z" | "w");
    (fits && known).then(|| (Expr::Leaf(Piece::Text(plain.to_owned())), ty))
}

/// `mov.u32 d, a` and `mov.u32 d, 1`
fn moved(inst: &Inst, regs: &[Reg]) -> Option<(Expr, Type)> {
    let ty = Type::find(inst.name.strip_prefix("mov.")?)?;
    let [_, source] = inst.operands.as_slice() else { return None };
    if ty.class() == Class::Pred {
        return None;
    }
    match source.as_slice() {
        [Piece::Int(value)] => Some((Expr::Leaf(literal(*value, ty)?), ty)),
        [Piece::Text(text)] => is_number(text, ty).then(|| (Expr::Leaf(Piece::Text(text.clone())), ty)),
        // The source has the type.
        [Piece::Reg(reg)] => {
            let from = find(&regs[*reg].ty)?;
            let value = if from == ty { Some(Expr::reg(*reg)) } else { viewed(Expr::reg(*reg), from, ty) };
            Some((value?, ty))
        }
        _ => None,
    }
}

/// `cvt.u64.u32 d, a`
fn converted(inst: &Inst, regs: &[Reg]) -> Option<(Expr, Type)> {
    let [_, source] = inst.operands.as_slice() else { return None };
    let [Piece::Reg(reg)] = source.as_slice() else { return None };
    let own = find(&regs[*reg].ty)?;
    let pieces: Vec<&str> = inst.name.split('.').collect();
    let to = Type::find(pieces.get(pieces.len().checked_sub(2)?)?)?;
    let to_name = language_type(to.name())?;
    let source = Type::find(pieces.last()?).filter(|source| source.bits() == own.bits());
    [Some(own), source].into_iter().flatten().find_map(|from| {
        let same = cast(from, to)?.strip_suffix(" {d}, {a}") == Some(&inst.name) && from != to;
        let a = if from == own { Some(Expr::reg(*reg)) } else { viewed(Expr::reg(*reg), own, from) };
        a.filter(|_| same).map(|a| (Expr::Cast(Box::new(a), to_name.clone()), to))
    })
}

/// An operator: with the fewest views, of those that it could be.
fn operator(inst: &Inst, dest: Type, regs: &[Reg]) -> Option<(Expr, Type)> {
    let all = written(&inst.name).iter().filter_map(|&(operator, operand, result)| {
        let shift = matches!(operator, "<<" | ">>");
        let value = match inst.operands.as_slice() {
            [_, a] if matches!(operator, "!" | "-") => Expr::Unary(operator, Box::new(side(a, operand, true, regs)?)),
            [_, a, b] => {
                let right = if shift { Type::find("u32")? } else { operand };
                // One side that has the type is enough, the other one may be untyped; a shift has the type of its left.
                let exact = |side: &[Piece]| matches!(side, [Piece::Reg(r)] if find(&regs[*r].ty) == Some(operand));
                let a = side(a, operand, shift || !exact(b), regs).filter(is_register)?;
                if shift && matches!(b.as_slice(), [Piece::Int(..0)]) {
                    return None;
                }
                let b = side(b, right, false, regs)?;
                // That would be another instruction, or an error.
                let is_refused = |n| n == 0 || is_by_power_of_two(operator, operand, n);
                if matches!(operator, "/" | "%") && matches!(b, Expr::Leaf(Piece::Int(n)) if is_refused(n)) {
                    return None;
                }
                Expr::Binary(operator, Box::new(a), Box::new(b))
            }
            _ => return None,
        };
        let more = usize::from(!meet(dest, result));
        Some((views(&value) + more, value, result))
    });
    all.min_by_key(|(views, ..)| *views).map(|(_, value, result)| (value, result))
}

fn is_register(expr: &Expr) -> bool {
    match expr {
        Expr::Leaf(Piece::Reg(_)) => true,
        Expr::View(_, a) => is_register(a),
        _ => false,
    }
}

/// One side of an operator on this type; `exact` if an untyped register does not do.
fn side(operand: &[Piece], ty: Type, exact: bool, regs: &[Reg]) -> Option<Expr> {
    match operand {
        [Piece::Reg(reg)] => match find(&regs[*reg].ty)? {
            own if own == ty || (!exact && own.class() == Class::Bits && own.bits() == ty.bits()) => {
                Some(Expr::reg(*reg))
            }
            own => viewed(Expr::reg(*reg), own, ty),
        },
        [Piece::Int(value)] => literal(*value, ty).map(Expr::Leaf),
        [Piece::Text(text)] if is_number(text, ty) => Some(Expr::Leaf(Piece::Text(text.clone()))),
        _ => None,
    }
}

/// A number as a literal of this type. A negative one of an unsigned type is the number with the same bits.
fn literal(value: i64, ty: Type) -> Option<Piece> {
    if in_range(value, ty) {
        return Some(Piece::Int(value));
    }
    let unsigned = matches!(ty.class(), Class::Unsigned | Class::Bits);
    if !unsigned || value >= 0 || ty.bits() < 64 && value < -(1 << (ty.bits() - 1)) {
        return None;
    }
    match ty.bits() {
        64 if value == i64::MIN => None,
        64 => Some(Piece::Text(format!("{value:#x}"))),
        bits => Some(Piece::Int(value & ((1 << bits) - 1))),
    }
}

/// Returns true if a text is a decimal number, and the type one of floats that has such literals.
fn is_number(text: &str, ty: Type) -> bool {
    let decimal = text.contains('.') && text.trim_start_matches('-').starts_with(|c: char| c.is_ascii_digit());
    decimal && matches!(ty.name(), "f32" | "f64")
}
