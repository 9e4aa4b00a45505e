//! The same instructions over the real numbers, where `ops` has their bits: see [`crate::reals`].
//!
//! An instruction without a line here runs as `ops` has it, unless it computes with floats.

use super::{Op, op};
use crate::ctx::Flow;
use crate::exec::{Dst, Src};
use crate::field::{Field, Function, Number, is_float};
use crate::site::{Decoded, Refusal, Site};
use crate::soft::mask;
use ptx_core::isa::{Class, Type};

#[rustfmt::skip]
const EXACT: &[Op] = &[
    op("add", "", |s| compute(s, |f, [a, b]| f.add(a, b))),
    op("sub", "", |s| compute(s, |f, [a, b]| f.sub(a, b))),
    op("mul", "", |s| compute(s, |f, [a, b]| f.mul(a, b))),
    op("fma", "", |s| compute(s, |f, [a, b, c]| f.add(f.mul(a, b), c))),
    op("mad", "", |s| compute(s, |f, [a, b, c]| f.add(f.mul(a, b), c))),
    op("neg", "", |s| compute(s, |f, [a]| f.sub(f.integer(0), a))),
    op("div", "", |s| compute(s, |f, [a, b]| f.div(a, b))),
    op("rcp", "", |s| compute(s, |f, [a]| f.div(f.integer(1), a))),
    op("cvt", "", convert),
];
/// Functions of which nothing is known.
#[rustfmt::skip]
const FUNCTIONS: &[Op] = &[
    op("sqrt", "", |s| compute(s, |f, [a]| f.apply(Function::Sqrt, a))),
    op("rsqrt", "", |s| compute(s, |f, [a]| f.div(f.integer(1), f.apply(Function::Sqrt, a)))),
    op("ex2", "", |s| compute(s, |f, [a]| f.apply(Function::Exp2, a))),
    op("lg2", "", |s| compute(s, |f, [a]| f.apply(Function::Log2, a))),
    op("sin", "", |s| compute(s, |f, [a]| f.apply(Function::Sin, a))),
    op("cos", "", |s| compute(s, |f, [a]| f.apply(Function::Cos, a))),
    op("tanh", "", |s| compute(s, |f, [a]| f.apply(Function::Tanh, a))),
];

/// Modifiers of rounding, which real numbers do not have.
const ROUNDING: &[&str] = &["rn", "rna", "rz", "rm", "rp", "ftz", "approx", "full"];
/// Sums of products that `ops` has.
const PRODUCTS: &[&str] = &["mma", "wgmma"];
/// Instructions that move what they are given.
#[rustfmt::skip]
const MOVES: &[&str] = &["mov", "ld", "ldu", "st", "shfl", "selp", "ldmatrix", "stmatrix", "movmatrix", "cp", "wmma"];

/// Returns true for sums, products and quotients.
pub(crate) fn is_exact(opcode: &str) -> bool {
    PRODUCTS.contains(&opcode) || EXACT.iter().any(|op| op.name == opcode)
}

/// Returns true for functions of which nothing is known.
pub(crate) fn is_function(opcode: &str) -> bool {
    FUNCTIONS.iter().any(|op| op.name == opcode)
}

/// Returns true for instructions that move what they are given.
pub(crate) fn moves(opcode: &str) -> bool {
    MOVES.contains(&opcode)
}

/// The line for an instruction, if it computes with floats.
///
/// # Errors
/// It depends on more of a number than sums and products do.
pub(super) fn find(site: &Site) -> Result<Option<&'static Op>, Refusal> {
    let floats = site.types().into_iter().any(is_float);
    let reduces = site.row.name.contains("reduce");
    let opcode = site.row.opcode();
    match EXACT.iter().chain(FUNCTIONS).find(|op| op.name == opcode) {
        Some(op) if floats => Ok(Some(op)),
        _ if !floats || (moves(opcode) || PRODUCTS.contains(&opcode)) && !reduces => Ok(None),
        _ => Err(format!("`{}` is no sum, product or quotient of real numbers", site.row.name)),
    }
}

/// The number of elements of a type, and the bits of each.
fn parts(ty: Type) -> Result<(u32, u32), Refusal> {
    let count =
        if ty.class() == Class::Packed { ty.name().rsplit_once('x').and_then(|(_, n)| n.parse().ok()) } else { None };
    let count = count.unwrap_or(1);
    match ty.bits() / count {
        bits @ (16 | 32 | 64) => Ok((count, bits)),
        bits => Err(format!(".{} has elements of {bits} bits, too few for a number of the field", ty.name())),
    }
}

/// An operation on each element.
fn compute<const N: usize>(site: &Site, f: fn(Field, [Number; N]) -> Number) -> Decoded {
    let field = field(site)?;
    site.accept(ROUNDING);
    let (count, to) = parts(site.ty(0)?)?;
    let mut from = [0; N];
    for (i, bits) in from.iter_mut().enumerate() {
        *bits = parts(site.ty(1 + i)?)?.1;
    }
    site.map(move |x: [u64; N]| {
        (0..count).fold(0, |word, part| {
            let number = |i: usize| field.decode(x[i] >> (part * from[i]) & mask(from[i]), from[i]);
            word | field.encode(f(field, std::array::from_fn(number)), to) << (part * to)
        })
    })
}

pub(super) fn field(site: &Site) -> Result<Field, Refusal> {
    site.field.ok_or_else(|| "arithmetic of real numbers without a field".into())
}

/// Between formats a number stays what it is; an integer becomes a number.
fn convert(site: &Site) -> Decoded {
    let field = field(site)?;
    site.accept(ROUNDING);
    let [to, from] = site.types()[..] else { return Err("`cvt` without its two types".into()) };
    if !is_float(to) {
        return Err(format!("`{}` cuts a real number to an integer", site.row.name));
    }
    let dst = site.destination(site.operand(0), to)?;
    let (count, bits) = parts(to)?;
    let read = reader(field, from)?;
    let own = is_float(from).then(|| parts(from)).transpose()?.map_or((1, 64), |parts| parts);
    // Of several sources the first is the highest element.
    let sources: Vec<Src> = match own.0 == count {
        true => vec![site.src(1)?],
        false => (1..=count as usize).rev().map(|at| site.source(site.operand(at), from)).collect::<Result<_, _>>()?,
    };
    let dst = Dst { mask: mask(to.bits()), ..dst };
    Ok(Box::new(move |ctx, group| {
        let values: Vec<_> = sources.iter().map(|src| ctx.fetch(*src)).collect();
        ctx.store(dst, group, |lane| {
            (0..count).fold(0, |word, part| {
                let value = match values.get(part as usize).filter(|_| values.len() > 1) {
                    Some(own) => own[lane],
                    None => values.first().map_or(0, |all| all[lane] >> (part * own.1 % 64)),
                };
                word | field.encode(read(value), bits) << (part * bits)
            })
        });
        Ok(Flow::Next)
    }))
}

/// The number that the low bits of a register are.
fn reader(field: Field, ty: Type) -> Result<impl Fn(u64) -> Number + Send + Sync + 'static, Refusal> {
    let float = is_float(ty).then(|| parts(ty)).transpose()?;
    let (unused, signed) = (64 - ty.bits().min(64), ty.class() == Class::Signed);
    Ok(move |value: u64| match float {
        Some((_, bits)) => field.decode(value & mask(bits), bits),
        None if signed => field.integer(((value << unused) as i64 >> unused).into()),
        None => field.integer((value << unused >> unused).into()),
    })
}
